"""What is kept of the pods that were seen last."""

from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.shell.recentpods import MOST, RecentPods

from sublet.model.ids import PodRef, PodUid

UID = PodUid("u1")


def pod(uid: str = "u1", *, version: str) -> PodFacts:
    return PodFacts(uid=PodUid(uid), ref=PodRef("team", "p"), version=version)


def test_a_gated_pod_is_recalled_only_at_the_version_that_was_shown() -> None:
    recent = RecentPods()
    recent.keep(pod(version="7"), b"{}")

    shown = recent.get(UID, "7")

    assert shown is not None
    assert (shown.raw, shown.facts) == (b"{}", pod(version="7"))
    assert recent.get(UID, "8") is None
    recent.forget(UID)
    assert recent.get(UID, "7") is None


def test_the_pods_shown_longest_ago_are_pushed_out() -> None:
    recent = RecentPods()
    for number in range(MOST + 1):
        recent.keep(pod(f"u{number}", version="1"), b"{}")

    assert recent.get(PodUid("u0"), "1") is None
    assert recent.get(PodUid(f"u{MOST}"), "1") is not None


def test_what_a_patch_answered_is_taken_once_and_only_at_its_version() -> None:
    recent = RecentPods()
    recent.answered(pod(version="8"))

    assert recent.take_answered(UID, "8") == pod(version="8")
    assert recent.take_answered(UID, "8") is None
    recent.answered(pod(version="8"))
    assert recent.take_answered(UID, "9") is None
