"""The nodes of a fleet ranked for one shape, by position: small, and cheap to change in one place.

Both rankings answer positions with the smallest score first, of equal scores the lower position.
"""

import heapq
from array import array
from collections.abc import Iterator
from typing import Protocol

_BLOCK = 64
NOWHERE = (1 << 63) - 1


class Ranking(Protocol):
    def put(self, at: int, score: int | None) -> None:
        """Set the score of a position; None: no room there."""

    def score(self, at: int) -> int:
        """Of a position with room."""

    def in_order(self, barred: int) -> Iterator[int]:
        """Positions with room; `barred` has all bits set in the bytes of positions that are out."""

    def copied(self) -> "bytes | array[int]":
        """The scores of all positions."""

    def moved(self, places: list[int]) -> "Ranking":
        """The same for another order: what was at `places[i]` is at i, -1 where nothing was."""


class Levels:
    """Scores from 0 to 254, one byte a node."""

    def __init__(self, size: int) -> None:
        self._levels = bytearray(b"\xff") * size
        self._counts = [0] * 255 + [size]

    @classmethod
    def of(cls, levels: bytes) -> "Levels":
        new = cls(len(levels))
        new._levels[:] = levels
        new._counts = [levels.count(level) for level in range(256)]
        return new

    def copied(self) -> bytes:
        return bytes(self._levels)

    def put(self, at: int, score: int | None) -> None:
        level = 255 if score is None else score
        before = self._levels[at]
        if before != level:
            self._levels[at] = level
            self._counts[before] -= 1
            self._counts[level] += 1

    def score(self, at: int) -> int:
        return self._levels[at]

    def in_order(self, barred: int) -> Iterator[int]:
        levels: bytes | bytearray = self._levels
        if barred:
            levels = (int.from_bytes(levels, "little") | barred).to_bytes(len(levels), "little")
        for level in range(255):
            if self._counts[level]:
                at = levels.find(level)
                while at >= 0:
                    yield at
                    at = levels.find(level, at + 1)

    def moved(self, places: list[int]) -> "Levels":
        new = Levels(len(places))
        for at, place in enumerate(places):
            if place >= 0:
                new.put(at, self._levels[place] if self._levels[place] != 255 else None)
        return new


class Ranks:
    """Scores up to 63 bits, with the least of each block of nodes kept."""

    def __init__(self, size: int) -> None:
        self._scores = array("q", [NOWHERE]) * size
        self._least = [NOWHERE] * -(-size // _BLOCK)

    @classmethod
    def of(cls, scores: "array[int]") -> "Ranks":
        new = cls(len(scores))
        for at, score in enumerate(scores):
            new._scores[at] = score
        for block in range(len(new._least)):
            new._least[block] = min(scores[block * _BLOCK : (block + 1) * _BLOCK])
        return new

    def copied(self) -> "array[int]":
        return self._scores[:]

    def put(self, at: int, score: int | None) -> None:
        self._scores[at] = NOWHERE if score is None else score
        block = at // _BLOCK
        self._least[block] = min(self._scores[block * _BLOCK : (block + 1) * _BLOCK])

    def score(self, at: int) -> int:
        return self._scores[at]

    def in_order(self, barred: int) -> Iterator[int]:
        out = barred.to_bytes(len(self._scores), "little") if barred else None
        heads = [(least, block, -1) for block, least in enumerate(self._least) if least != NOWHERE]
        heapq.heapify(heads)
        blocks: dict[int, list[int]] = {}
        while heads:
            _, block, at = heapq.heappop(heads)
            if at < 0:
                first = block * _BLOCK
                places = range(first, min(first + _BLOCK, len(self._scores)))
                blocks[block] = sorted(places, key=self._scores.__getitem__)[::-1]
            elif not (out and out[at]):
                yield at
            rest = blocks[block]
            if rest and self._scores[rest[-1]] != NOWHERE:
                at = rest.pop()
                heapq.heappush(heads, (self._scores[at], block, at))

    def moved(self, places: list[int]) -> "Ranks":
        new = Ranks(len(places))
        for at, place in enumerate(places):
            if place >= 0 and self._scores[place] != NOWHERE:
                new.put(at, self._scores[place])
        return new
