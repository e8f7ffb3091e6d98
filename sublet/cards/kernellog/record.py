"""Records of the kernel log, ``priority,number,microseconds,flags;text``, from bytes as they come. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 16 * 1024
"""The kernel's own records have at most 8 KiB; a longer line is none."""
_HEADER = re.compile(r"(\d+),(\d+),(\d+),([^;,]*)(?:,[^;]*)?;")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`number` and `at_us` are None where the line is text without a header."""

    text: str
    number: int | None = None
    at_us: int | None = None
    part: bool = False
    """More of the same line follows in the next record."""
    follows: bool = False
    """This is more of the line before."""


def read_record(line: str) -> Record | None:
    """None for what belongs to the record before: the kernel writes its properties on lines of their own."""
    if not line.strip() or line[0].isspace():
        return None
    found = _HEADER.match(line)
    if found is None:
        return Record(text=_plain(line))
    return Record(
        text=_plain(line[found.end() :]),
        number=int(found[2]),
        at_us=int(found[3]),
        part="c" in found[4],
        follows="+" in found[4],
    )


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


class Lines:
    """Cuts bytes into lines; a line too long to be a record is left out and counted."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self.too_long = 0

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            skipped, self._skipping = self._skipping, False
            if not skipped and len(line) <= LONGEST:
                yield line.decode(errors="replace")
            elif not skipped:
                self.too_long += 1
        if len(self._rest) > LONGEST:
            self.too_long += not self._skipping
            self._rest, self._skipping = b"", True

    def begin_anew(self) -> None:
        """What was read last goes on nowhere."""
        self._rest, self._skipping = b"", False


class Joiner:
    """Puts lines together that the kernel wrote in parts, and counts records that never came."""

    def __init__(self) -> None:
        self._open: Record | None = None
        self._last: int | None = None
        self.missing = 0

    def feed(self, record: Record) -> Iterator[Record]:
        """The whole lines that are complete now."""
        if record.number is not None:
            if self._last is not None and record.number > self._last + 1:
                self.missing += record.number - self._last - 1
            self._last = record.number
        before, self._open = self._open, None
        if before is not None and (record.follows or record.part):
            joined = (before.text + record.text)[:LONGEST]
            record = Record(text=joined, number=before.number, at_us=before.at_us, part=record.part)
        elif before is not None:
            yield before
        if record.part:
            self._open = record
        else:
            yield record

    def begin_anew(self) -> None:
        """Another log, which counts by itself."""
        self._open, self._last = None, None

    def flush(self) -> Iterator[Record]:
        """A line whose other part did not come."""
        if self._open is not None:
            yield self._open
            self._open = None
