"""Who starts with a slot: pod UID and containers from the checkpoint, cross-checked with PodResources."""

from collections.abc import Iterable
from dataclasses import dataclass

from sublet.model.ids import PodRef, PodUid, SlotId
from sublet_agent.core.observation import Holding, Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The pod that was given a slot, and those of its containers which use it one after another.

    `listed` are the containers that PodResources names; empty for a slot that only plain init containers
    have, and None where PodResources could not be read.
    """

    slot: SlotId
    uid: PodUid
    containers: frozenset[str]
    pod: PodRef | None
    listed: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Unclear:
    """The two sources do not name one holder; reading again may help, guessing never does."""

    reason: str


def identify(
    slot: SlotId, holdings: Iterable[Holding], listings: Iterable[Listing] | None
) -> Identity | Unclear:
    """Say to whom the kubelet gave `slot`.

    Plain init containers hand their slot on to their heir, so one slot may have several containers, all of
    one pod; any other sharing is unclear.
    """
    mine = [holding for holding in holdings if holding.slot == slot]
    if not mine:
        return Unclear(f"the kubelet's checkpoint names no holder of {slot} yet")
    uids = sorted({holding.uid for holding in mine})
    if len(uids) > 1:
        return Unclear(f"the kubelet's checkpoint gives {slot} to several pods: {', '.join(uids)}")
    containers = frozenset(holding.container for holding in mine)
    if listings is None:
        return Identity(slot=slot, uid=uids[0], containers=containers, pod=None, listed=None)
    seen = [listing for listing in listings if listing.slot == slot]
    pods = sorted({listing.pod for listing in seen})
    if len(pods) > 1:
        return Unclear(f"PodResources gives {slot} to several pods: {', '.join(map(str, pods))}")
    listed = frozenset(listing.container for listing in seen)
    if not listed <= containers:
        others = ", ".join(sorted(listed - containers))
        return Unclear(f"PodResources gives {slot} to {others}, which the kubelet's checkpoint does not name")
    if len(listed) > 1:
        return Unclear(f"PodResources gives {slot} to several containers: {', '.join(sorted(listed))}")
    return Identity(
        slot=slot, uid=uids[0], containers=containers, pod=pods[0] if pods else None, listed=listed
    )
