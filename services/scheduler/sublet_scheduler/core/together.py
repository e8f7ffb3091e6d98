"""Places for all members of a gang at once, close to each other: one node, else one zone, else anywhere."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sublet.model.ids import NodeName, PodUid
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from sublet_scheduler.core.placing import Kept
from sublet_scheduler.core.records import PodRecord
from sublet_scheduler.core.state import State

ZONE = "topology.kubernetes.io/zone"
NODES_TRIED = 8
"""Single nodes on which all members are tried."""

Nodes = frozenset[NodeName] | None
"""Where members may go; None: anywhere."""


class Together:
    def __init__(self, state: State) -> None:
        self._state = state

    def places(
        self, members: Sequence[PodRecord], near: Sequence[NodeName], kept: Kept, now: float
    ) -> dict[PodUid, Placement] | NoRoom:
        """A place for each of `members`, or why the first that found none did not; `near` is where others of
        the gang are already."""
        hardest = sorted(members, key=_hardest_first)
        outcome: dict[PodUid, Placement] | NoRoom = {}
        for nodes in self._circles(hardest[0], near, kept, now):
            outcome = self._all(hardest, near, nodes, kept, now)
            if not isinstance(outcome, NoRoom):
                break
        return outcome

    def _circles(self, first: PodRecord, near: Sequence[NodeName], kept: Kept, now: float) -> Iterator[Nodes]:
        """Ever wider sets of nodes to try."""
        tried: set[NodeName] = set()
        zones: list[str] = [self._zone(node) for node in near]
        for _ in range(0 if near else NODES_TRIED):
            found = self._find(first, None, tried, kept, now)
            if not isinstance(found, Placement):
                break
            tried.add(found.node)
            zones.append(self._zone(found.node))
            yield frozenset({found.node})
        for zone in dict.fromkeys(zone for zone in zones if zone):
            yield frozenset(name for name in self._state.fleet.nodes if self._zone(name) == zone)
        yield None

    def _zone(self, node: NodeName) -> str:
        state = self._state.fleet.nodes.get(node)
        return state.facts.labels.get(ZONE, "") if state and state.facts else ""

    def _all(
        self, members: Sequence[PodRecord], near: Sequence[NodeName], nodes: Nodes, kept: Kept, now: float
    ) -> dict[PodUid, Placement] | NoRoom:
        """Book one after another, and take everything back in the end."""
        dirty, used = self._state.dirty, list(near)
        found: dict[PodUid, Placement] = {}
        try:
            for record in members:
                outcome = self._one(record, used, nodes, kept, now)
                if isinstance(outcome, NoRoom):
                    text = f"{len(found)} of {len(members)} find a place, the next finds {outcome.message}"
                    return replace(outcome, message=text)
                self._state.try_on(record, outcome)
                found[record.uid] = outcome
                if outcome.node not in used:
                    used.append(outcome.node)
        finally:
            for record in members:
                if record.uid in found:
                    self._state.take_off(record, found[record.uid].node)
            self._state.dirty = dirty
        return found

    def _one(
        self, record: PodRecord, used: Sequence[NodeName], nodes: Nodes, kept: Kept, now: float
    ) -> Placement | NoRoom:
        """On a node of the gang where there is one with room, else on the best of `nodes`."""
        if used:
            others = self._state.fleet.nodes.keys() - set(used)
            found = self._find(record, nodes, others, kept, now)
            if isinstance(found, Placement):
                return found
        return self._find(record, nodes, frozenset(), kept, now)

    def _find(
        self,
        record: PodRecord,
        nodes: Nodes,
        without: set[NodeName] | frozenset[NodeName],
        kept: Kept,
        now: float,
    ) -> Placement | NoRoom:
        state, ask = self._state, record.ask
        if ask is None:
            return NoRoom(reasons={Reason.UNDECIDED: 1})

        avoid = dict(state.avoided(record.ref, record.uid, ask.owner, now))
        outside = () if nodes is None else state.fleet.nodes.keys() - set(nodes)
        avoid |= dict.fromkeys([*without, *outside], Reason.GANG_NO_ROOM)
        return state.placer.place(ask, now=now, avoid=avoid, kept=kept)


def _hardest_first(record: PodRecord) -> tuple[int, int, str]:
    claims = record.ask.claims if record.ask else ()
    cards = sum(claim.cards for claim in claims)
    return (-cards, -sum(claim.cards * (claim.memory_mib or 0) for claim in claims), record.uid)
