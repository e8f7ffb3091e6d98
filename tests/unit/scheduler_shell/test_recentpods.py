"""A release patch is made from the pod that the watch showed, as long as it is that very version."""

from sublet_scheduler.shell.recentpods import MOST, RecentPods

from sublet.model.ids import PodUid


def test_a_pod_is_recalled_only_at_the_version_that_was_seen() -> None:
    recent = RecentPods()
    recent.keep(PodUid("u"), "7", b"pod")
    assert recent.get(PodUid("u"), "7") == b"pod"
    assert recent.get(PodUid("u"), "8") is None
    recent.forget(PodUid("u"))
    assert recent.get(PodUid("u"), "7") is None


def test_the_oldest_pods_are_pushed_out() -> None:
    recent = RecentPods()
    for number in range(MOST + 1):
        recent.keep(PodUid(str(number)), "1", b"pod")
    assert recent.get(PodUid("0"), "1") is None
    assert recent.get(PodUid("1"), "1") == b"pod"
