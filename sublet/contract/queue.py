"""The order in which waiting pods get what becomes free: by rank (offline pods last), then by age."""

from sublet.model.ids import PodRef

Order = tuple[int, float, str, str, str]


def order(*, rank: int, created_s: float, pod: PodRef, uid: str) -> Order:
    """The smaller is ahead. `rank` is that of `PodAsk`, `created_s` Unix seconds; names break ties."""
    return (-rank, created_s, pod.namespace, pod.name, uid)
