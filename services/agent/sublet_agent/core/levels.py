"""What polled levels last said, so that each is told when it changes, and all are told again on demand."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from sublet.model.ids import CardId
from sublet.model.level import LEFTOVER

T = TypeVar("T")


class Levels(Generic[T]):
    """`busy` says whether a pod has the card: what lies in the memory of a busy card is no leftover."""

    def __init__(self, busy: Callable[[CardId], bool]) -> None:
        self._busy = busy
        self._told: dict[CardId, dict[str, tuple[str, T]]] = {}

    def value(self, card: CardId, name: str, value: str) -> str:
        """The value as it is to be told."""
        return "0" if name == LEFTOVER and self._busy(card) else value

    def is_news(self, card: CardId, name: str, value: str, told: T) -> bool:
        """`told` is what tells it, for `again`."""
        levels = self._told.setdefault(card, {})
        if name in levels and levels[name][0] == value:
            return False
        levels[name] = (value, told)
        return True

    def again(self) -> Iterator[T]:
        for levels in self._told.values():
            yield from (told for _, told in levels.values())
