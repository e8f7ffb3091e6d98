"""Nodes that are not to be counted on: which agents were not heard of lately, without asking every node."""

import heapq
from collections.abc import Mapping
from typing import Protocol

from sublet.model.ids import NodeName


class Beating(Protocol):
    """A node of which the last heartbeat is known, monotonic seconds."""

    @property
    def beat_s(self) -> float | None: ...


class Silence:
    """Each node is looked at again only when a beat of it, once noted, has become too old."""

    def __init__(self) -> None:
        self._beats: list[tuple[float, NodeName]] = []
        """A heap; a beat of it may be older than the node's last."""
        self._noted: dict[NodeName, float] = {}
        """The beat of each node that counts in the heap."""
        self._silent: set[NodeName] = set()

    def add(self, name: NodeName) -> None:
        """A node that was never heard of."""
        self._silent.add(name)

    def heard(self, name: NodeName, at_s: float) -> None:
        self._silent.discard(name)
        self._note(name, at_s)

    def since(self, oldest_s: float, nodes: Mapping[NodeName, Beating]) -> set[NodeName]:
        """The nodes of `nodes` without a beat since `oldest_s`, which must never fall from call to call."""
        while self._beats and self._beats[0][0] < oldest_s:
            at_s, name = heapq.heappop(self._beats)
            if self._noted.get(name) != at_s:
                continue
            del self._noted[name]
            node = nodes.get(name)
            if node is None:
                continue
            if node.beat_s is None or node.beat_s < oldest_s:
                self._silent.add(name)
            else:
                self._note(name, node.beat_s)
        self._silent &= nodes.keys()
        return self._silent

    def _note(self, name: NodeName, at_s: float) -> None:
        if at_s < self._noted.get(name, float("inf")):
            self._noted[name] = at_s
            heapq.heappush(self._beats, (at_s, name))
