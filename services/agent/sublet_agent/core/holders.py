"""Who really holds a slot: the kubelet's checkpoint names ended pods until it allocates again."""

from collections.abc import Collection

from sublet.model.ids import SlotId
from sublet_agent.core.observation import Holding, Observation


def live_holdings(seen: Observation, taken: Collection[SlotId] = ()) -> tuple[Holding, ...] | None:
    """What the checkpoint says, without pods that are proved gone; None where it could not be read.

    A pod is gone when PodResources lists its slot no more and no cgroup of it exists, both readable. A slot
    just `taken` counts: the pod of an init container has neither in its first moments.
    """
    if seen.checkpoint is None:
        return None
    holdings = seen.checkpoint.holdings
    if seen.listings is None or seen.pods_with_cgroups is None:
        return holdings
    listed = {listing.slot for listing in seen.listings}
    return tuple(
        one
        for one in holdings
        if one.slot in listed or one.slot in taken or one.uid in seen.pods_with_cgroups
    )
