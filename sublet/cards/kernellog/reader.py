"""Reads the kernel log from its end on, and tells what it says of cards."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import structlog

from sublet.cards.arrivals import suppressed
from sublet.cards.kernellog.record import LONGEST, Joiner, Lines, Record, read_record
from sublet.cards.port import Observation
from sublet.contract.kernelline import Named, concerns_cards, read_line

SOURCE = "kmsg"
TURN_BYTES = 32 * 1024
"""Then others have their turn, however much there is to read."""
AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK)

log = structlog.get_logger()


class KernelLog:
    """Looks every `poll_s`. What was in the log before is over; a log that is not there may come later.

    A FIFO is kept open for writing too, so that it outlives its writers; a file that was replaced or became
    shorter is read from its start.
    """

    def __init__(self, path: Path, *, poll_s: float = 0.2) -> None:
        self._path = path
        self._poll_s = poll_s
        self._file: int | None = None
        self._inode = 0
        self._lines, self._joiner = Lines(), Joiner()
        self._named: Named | None = None
        self._trouble = ""
        self._told_missing = 0
        self._ended = asyncio.Event()

    async def signals(self) -> AsyncGenerator[Observation, None]:
        """Yield what is said of cards, in order; their PCI addresses stand for them. Ends after `close`."""
        self._open(at_end=True)
        read = 0
        try:
            while not self._ended.is_set():
                if (data := self._read()) is None:
                    for observation in self._at_rest():
                        yield observation
                    await self._pause()
                    continue
                for observation in self._observations(self._records(data)):
                    yield observation
                read += len(data)
                if read >= TURN_BYTES:
                    read = 0
                    await asyncio.sleep(0)
        finally:
            self._close_file()

    def close(self) -> None:
        self._ended.set()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._ended.wait()
        except TimeoutError:
            self._follow()

    def _open(self, *, at_end: bool) -> None:
        try:
            mode = os.stat(self._path).st_mode  # noqa: PTH116  # one call less than Path for each poll
            flags = os.O_RDWR if stat.S_ISFIFO(mode) else os.O_RDONLY
            self._file = os.open(self._path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISCHR(mode) or (at_end and stat.S_ISREG(mode)):
                os.lseek(self._file, 0, os.SEEK_END)
            self._inode = os.fstat(self._file).st_ino
        except OSError as error:
            self._close_file()
            self._tell(error.strerror or str(error))
            return
        self._lines.begin_anew()
        self._joiner.begin_anew()
        self._tell("")

    def _follow(self) -> None:
        """Open what is not open, and again what is another file or a shorter one."""
        if self._file is None:
            self._open(at_end=False)
            return
        try:
            now = os.stat(self._path)  # noqa: PTH116
        except OSError:
            return
        if now.st_ino != self._inode:
            self._close_file()
            self._open(at_end=False)
        elif stat.S_ISREG(now.st_mode) and now.st_size < os.lseek(self._file, 0, os.SEEK_CUR):
            os.lseek(self._file, 0, os.SEEK_SET)
            self._lines.begin_anew()

    def _read(self) -> bytes | None:
        """The next bytes, of /dev/kmsg one record; None when there are none now."""
        if self._file is None:
            return None
        try:
            return os.read(self._file, LONGEST) or None
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten before it was read: the numbers say how many
                return b""
            if error.errno not in AGAIN:
                self._close_file()
                self._tell(error.strerror or str(error))
            return None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _records(self, data: bytes) -> Iterator[Record]:
        for line in self._lines.feed(data):
            if (record := read_record(line)) is not None:
                yield from self._joiner.feed(record)

    def _observations(self, records: Iterator[Record]) -> Iterator[Observation]:
        for record in records:
            if not concerns_cards(record.text):
                continue
            line, self._named = read_line(record.text, at_ms=(record.at_us or 0) // 1000, named=self._named)
            if line is not None:
                yield Observation(
                    card=None,
                    kind=line.kind,
                    code=line.code,
                    pci=line.pci,
                    source=SOURCE,
                    gi=line.gi,
                    ci=line.ci,
                    raw=record.text,
                )

    def _at_rest(self) -> Iterator[Observation]:
        """What is to be said when nothing more can be read now."""
        yield from self._observations(self._joiner.flush())
        yield from self._missing()

    def _missing(self) -> Iterator[Observation]:
        """Records that were overwritten or too long may have been about a card: say how many."""
        missing = self._joiner.missing + self._lines.too_long
        if missing > self._told_missing:
            lost, self._told_missing = missing - self._told_missing, missing
            log.warning("kernel_log.records_lost", path=str(self._path), lost=lost)
            yield suppressed(None, lost)

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.warning("kernel_log.became_unreadable", path=str(self._path), reason=trouble)
            else:
                log.info("kernel_log.became_readable", path=str(self._path))
