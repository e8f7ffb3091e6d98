"""What the judge of the fleet knows: every card with its judge's state, every node, and what is due when."""

import heapq
from collections.abc import Iterator

from sublet.contract.kernelline import place
from sublet.model.card import Card
from sublet.model.health import Verdict
from sublet.model.ids import CardId, NodeName, PodRef, PodUid
from sublet_healthd.core.breaker import Key
from sublet_healthd.core.card import CardState
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.nodeview import NodeView


class Known:
    def __init__(self) -> None:
        self.cards: dict[Key, CardState] = {}
        self._nodes: dict[NodeName, NodeView] = {}
        self.homes: dict[CardId, NodeName] = {}
        """Where each card was seen first."""
        self.waiting: set[Key] = set()
        """Cards that the breaker keeps in scheduling."""
        self._due: list[tuple[int, Key]] = []

    def views(self) -> Iterator[tuple[NodeName, NodeView]]:
        yield from self._nodes.items()

    def take_due(self, now_ms: int) -> Key | None:
        """The next card that is to be looked at by now; each once."""
        due_ms = self.due_ms()
        return heapq.heappop(self._due)[1] if due_ms is not None and due_ms <= now_ms else None

    def due_ms(self) -> int | None:
        """When the next card is to be looked at, Unix ms."""
        while self._due:
            due_ms, key = self._due[0]
            if key in self.cards and self.cards[key].due_ms == due_ms:
                return due_ms
            heapq.heappop(self._due)
        return None

    def of_node(self, node: NodeName) -> list[CardState]:
        view = self._nodes.get(node)
        return [self.cards[node, card] for card in sorted(view.cards)] if view else []

    def listed(self, node: NodeName, card: CardId) -> Card | None:
        """The card or partition as its agent describes it."""
        view = self._nodes.get(node)
        return (view.listed.get(card) or view.part(card)) if view else None

    def present(self, node: NodeName) -> list[Card]:
        """The cards that its agent lists and that were not replaced."""
        view = self._nodes.get(node)
        return [card for id_, card in view.listed.items() if id_ not in view.gone] if view else []

    def shares_per_card(self, node: NodeName) -> int:
        view = self._nodes.get(node)
        return view.shares_per_card if view else 0

    def nodes(self) -> list[NodeName]:
        return sorted(self._nodes)

    def epoch(self, node: NodeName) -> str:
        """Which life of the agent speaks for the node."""
        view = self._nodes.get(node)
        return view.beat_epoch if view else ""

    def users(self, node: NodeName, card: CardId) -> list[tuple[PodRef, PodUid]]:
        """The pods that the ledger has on the card or its partitions."""
        view = self._nodes.get(node)
        if view is None or view.ledger is None:
            return []
        units = view.units(card)
        return sorted({(one.pod, one.uid) for one in view.ledger.grants if one.grant.card in units})

    def at_place(self, node: NodeName, pci: str) -> CardId | None:
        """Who sits, or last sat, at that PCI address."""
        wanted = place(pci)
        if not wanted:
            return None
        there = [
            state for state in self.of_node(node) if place(state.facts.pci) == wanted and not state.parent
        ]
        there.sort(key=lambda state: state.facts.reason("probe:lost") is not None)
        return there[0].card if there else None

    def node(self, node: NodeName) -> NodeView:
        return self._nodes.setdefault(node, NodeView())

    def meet(self, node: NodeName, card: CardId) -> Key:
        """The card, which may be seen for the first time."""
        if (node, card) not in self.cards:
            view = self.node(node)
            self.homes[card] = node
            view.cards[card] = None
            boot_id = next(reversed(view.boots), "")
            parent = view.parents.get(card)
            self.cards[node, card] = CardState(
                node=node, card=card, parent=parent, origin=Facts(boot_id=boot_id)
            )
        return node, card

    def keep(self, key: Key, state: CardState) -> None:
        known = self.cards.get(key)
        self.cards[key] = state
        if state.held_back:
            self.waiting.add(key)
        else:
            self.waiting.discard(key)
        if state.due_ms is not None and (known is None or known.due_ms != state.due_ms):
            heapq.heappush(self._due, (state.due_ms, key))

    def forget(self, key: Key, last: Verdict) -> None:
        """Drop a card that nobody can hold any more; `last` is kept in case it comes back."""
        view = self.node(key[0])
        view.forgotten[key[1]] = last
        view.cards.pop(key[1], None)
        view.gone.discard(key[1])
        self.homes.pop(key[1], None)
        self.waiting.discard(key)
        del self.cards[key]
