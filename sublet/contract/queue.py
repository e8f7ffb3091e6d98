"""The order in which waiting pods get what becomes free: by priority, then by age."""

from sublet.model.ids import PodRef

Order = tuple[int, float, str, str, str]


def order(*, priority: int, created_s: float, pod: PodRef, uid: str) -> Order:
    """The smaller is ahead. `created_s` is the creation in Unix seconds; names break ties."""
    return (-priority, created_s, pod.namespace, pod.name, uid)
