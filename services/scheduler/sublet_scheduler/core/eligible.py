"""Which nodes a pod may use at all, whatever room they have: one mask for all pods that wish alike.

Labels, taints, cordons, and the kinds and names of cards change seldom; so the answer for every node is
kept, and only nodes that were described anew are asked again.
"""

from collections import OrderedDict
from collections.abc import Hashable

from sublet.model.claim import PodAsk
from sublet_scheduler.core.assigning import Asked, wish_objection
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.matching import place_objection
from sublet_scheduler.core.node import NodeState

MOST_CLASSES = 256


class _Mask:
    __slots__ = ("barred", "layout", "out", "seen")

    def __init__(self) -> None:
        self.layout = -1
        self.seen = -1
        self.out = bytearray()
        self.barred = 0


class Eligible:
    """The masks of the live classes of wishes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._masks: OrderedDict[Hashable, _Mask] = OrderedDict()

    def barred(self, ask: PodAsk, asked: Asked) -> int:
        """A number with all bits set in the byte of every node, by position, that the pod may not use."""
        key = class_of(ask, asked)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = _Mask()
            if len(self._masks) > MOST_CLASSES:
                self._masks.popitem(last=False)
        self._masks.move_to_end(key)
        fleet = self._fleet
        places = fleet.places
        dirty = mask.layout != fleet.layout
        if dirty:
            mask.layout, mask.seen = fleet.layout, -1
            mask.out = bytearray(len(fleet.order))
        for name in fleet.described.since(mask.seen):
            at = places.get(name)
            if at is not None:
                out = 0xFF if _out(fleet.nodes[name], ask, asked) else 0
                dirty |= mask.out[at] != out
                mask.out[at] = out
        mask.seen = fleet.described.now
        if dirty:
            mask.barred = int.from_bytes(mask.out, "little")
        return mask.barred


def class_of(ask: PodAsk, asked: Asked) -> Hashable:
    """Equal for pods that may use the same nodes."""
    wishes = ask.wishes
    return (
        tuple(sorted(wishes.node_selector.items())),
        wishes.affinity,
        wishes.tolerations,
        ask.node_name,
        wishes.card_models,
        wishes.exclude_card_models,
        wishes.card_uuids,
        wishes.exclude_card_uuids,
        wishes.one_numa,
        tuple((load.vendors, load.profiles) for load in asked.loads),
    )


def _out(node: NodeState, ask: PodAsk, asked: Asked) -> bool:
    return place_objection(node, ask) is not None or any(
        all(wish_objection(state.card, load, ask.wishes) for state in node.by_index) for load in asked.loads
    )
