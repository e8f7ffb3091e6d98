"""Who changed last: names in order of their last change, so that a reader learns what it missed.

It holds one entry for each name, however often that changed.
"""

from collections import OrderedDict
from collections.abc import Iterator

from sublet.model.ids import NodeName


class Changes:
    def __init__(self) -> None:
        self._when: OrderedDict[NodeName, int] = OrderedDict()
        self.now = 0

    def note(self, name: NodeName) -> None:
        self.now += 1
        self._when[name] = self.now
        self._when.move_to_end(name)

    def since(self, then: int) -> Iterator[NodeName]:
        """Every name that changed after `then` was `now`, the latest first."""
        for name in reversed(self._when):
            if self._when[name] <= then:
                return
            yield name

    def drop(self, name: NodeName) -> None:
        self._when.pop(name, None)
