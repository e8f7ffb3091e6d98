"""The ledger on the bus: this scheduler's term, what the entries say, and compare-and-set writes.

The bus may be away or come back empty at any time: then the engine is told that nothing is known, and told
all of it again once the term is ours.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from uuid import uuid4

import structlog

from sublet.bus.layout import LAYOUT
from sublet.bus.port import BucketMissing, Bus, Deleted, Entry, Reset, Synced, Upserted
from sublet.contract import subjects
from sublet.contract.subjects import LEDGER_BUCKET, LEDGER_META_KEY
from sublet.model.errors import BadRequest, Conflict, Unavailable
from sublet.model.ids import NodeName
from sublet.model.placement import LedgerMeta, NodeLedger
from sublet.wire.ledger import ledger_meta_in, ledger_meta_out, node_ledger_in, node_ledger_out
from sublet_scheduler.core.effects import WriteLedger
from sublet_scheduler.core.events import (
    Event,
    LedgerListed,
    LedgerLost,
    LedgerSeen,
    LedgerWriteFailed,
    LedgerWritten,
)
from sublet_scheduler.shell.driver import SteppedDown

log = structlog.get_logger()

Submit = Callable[[Event], Awaitable[None]]
PAUSE_S = 0.5
"""Between tries to take the ledger over while the bus answers badly."""
WITHIN_S = 5.0


class Ledger:
    """`entries` are the entries as last seen, for metrics; the engine has its own."""

    def __init__(
        self,
        bus: Bus,
        submit: Submit,
        report: Callable[[Event], None],
        *,
        rebuilt: asyncio.Event,
        rebuilt_under: Callable[[int], bool],
        is_awaited: Callable[[WriteLedger], bool],
        conflicted: Callable[[], None],
    ) -> None:
        """`rebuilt_under` says whether the engine rebuilt the ledger under a term, not under an earlier one
        from which it was not called back yet. `is_awaited` says whether a write is the last that the engine
        asked for on its node."""
        self._bus = bus
        self._submit = submit
        self._report = report
        self._rebuilt = rebuilt
        self._rebuilt_under = rebuilt_under
        self._is_awaited = is_awaited
        self._conflicted = conflicted
        self._taking_over = asyncio.Lock()
        self._meta: LedgerMeta | None = None
        self._incomplete = asyncio.Event()
        self.entries: dict[NodeName, NodeLedger] = {}

    @property
    def term(self) -> int:
        """Our term; 0 until the ledger was taken over."""
        return self._meta.term if self._meta else 0

    async def follow(self) -> None:
        """Tell the engine of every entry, whoever wrote it."""
        async with aclosing(self._bus.follow(LEDGER_BUCKET)) as changes:
            async for change in changes:
                match change:
                    case Upserted(entry=entry) if entry.key == LEDGER_META_KEY:
                        self._check_fence(entry)
                    case Upserted(entry=entry):
                        for seen in _readable([entry]):
                            self.entries[seen.node] = seen
                            await self._submit(LedgerSeen(seen))
                    case Reset():
                        log.warning("ledger.created_anew")
                        await self._take_over()
                    case Deleted(key=key):
                        log.error("ledger.entry_deleted", key=key)
                        await self._take_over()
                    case Synced():
                        pass

    async def hold(self) -> None:
        """Take the ledger over whenever the bus comes up, and tell the engine when it goes."""
        async with aclosing(self._bus.connections()) as states:
            async for up in states:
                if up:
                    await self._take_over()
                else:
                    await self._submit(LedgerLost())

    async def complete(self) -> None:
        """Declare the ledger complete once the engine has rebuilt it."""
        while True:
            await self._incomplete.wait()
            await self._rebuilt.wait()
            if not await self._declare_complete():
                await asyncio.sleep(PAUSE_S)

    async def write(self, effect: WriteLedger) -> None:
        """Store an entry if nobody was faster, and report what came of it.

        An outcome that the engine no longer waits for, since it lost the ledger meanwhile and asked anew, is
        not reported: it would be taken for that of the newer write.
        """
        wanted = effect.entry
        key, value = subjects.ledger_key(wanted.node), node_ledger_out(wanted)
        if not self._is_awaited(effect):
            return
        try:
            if wanted.revision:
                revision = await self._bus.update(LEDGER_BUCKET, key, value, wanted.revision)
            else:
                revision = await self._bus.create(LEDGER_BUCKET, key, value)
            outcome: Event | None = LedgerWritten(wanted.node, revision)
        except (Conflict, Unavailable, BucketMissing) as error:
            if isinstance(error, Conflict):
                self._conflicted()
            log.info("ledger.write_failed", node=wanted.node, error=str(error))
            outcome = await self._look(effect, key, value)
        if outcome is not None and self._is_awaited(effect):
            self._report(outcome)

    async def _look(self, effect: WriteLedger, key: str, value: bytes) -> Event | None:
        """What an unclear or lost write came to; asks until the bus says it or nobody waits for it."""
        node = effect.entry.node
        while self._is_awaited(effect):
            try:
                entry = await self._bus.get(LEDGER_BUCKET, key)
            except (Unavailable, BucketMissing) as error:
                if isinstance(error, BucketMissing):
                    await self._lay_out()
                await asyncio.sleep(PAUSE_S)
                continue
            if entry is None and effect.entry.revision:
                await asyncio.sleep(PAUSE_S)  # its bucket was made anew, of which the watch will tell
            if entry is None:
                return LedgerWriteFailed(node, NodeLedger(node=node, term=0))
            if entry.value == value:
                return LedgerWritten(node, entry.revision)
            for found in _readable([entry]):
                self._refuse_younger(found.term)
                return LedgerWriteFailed(node, found)
            return LedgerWriteFailed(node)
        return None

    async def _lay_out(self) -> None:
        """Make the bucket again; who follows it then notices that it is another."""
        try:
            await self._bus.ensure_layout(LAYOUT, within_s=WITHIN_S)
        except Unavailable as error:
            log.warning("ledger.layout_failed", error=str(error))

    async def _take_over(self) -> None:
        """List the entries, make the term ours, and tell the engine; again until the bus lets us."""
        async with self._taking_over:
            await self._submit(LedgerLost())
            while True:
                try:
                    await self._bus.ensure_layout(LAYOUT, within_s=WITHIN_S)
                    await self._take_over_once()
                except (Unavailable, Conflict, BucketMissing) as error:
                    log.warning("ledger.take_over_failed", error=str(error))
                    await asyncio.sleep(PAUSE_S)
                else:
                    return

    async def _take_over_once(self) -> None:
        meta, entries = await self._own_term(), await self._list()
        while (newest := max((entry.term for entry in entries), default=0)) > meta.term:
            # of one who took over since, or of one who still writes after the bucket was made anew
            meta, entries = await self._own_term(above=newest), await self._list()
        self.entries = {entry.node: entry for entry in entries}
        for entry in self.entries.values():
            await self._submit(LedgerSeen(entry))
        self._meta = meta
        if meta.complete:
            self._incomplete.clear()
        else:
            self._incomplete.set()
        log.info("ledger.taken_over", term=meta.term, complete=meta.complete, entries=len(entries))
        await self._submit(LedgerListed(term=meta.term, complete=meta.complete))

    async def _list(self) -> list[NodeLedger]:
        entries = await self._bus.entries(LEDGER_BUCKET, "node.*", within_s=WITHIN_S)
        return list(_readable(entries.values()))

    async def _own_term(self, *, above: int = 0) -> LedgerMeta:
        """Write a term of our own into the meta entry; an unclear write only burns its number."""
        entry = await self._bus.get(LEDGER_BUCKET, LEDGER_META_KEY, within_s=WITHIN_S)
        if entry is None:
            meta = LedgerMeta(epoch=uuid4().hex, complete=False, term=max(self.term, above) + 1)
            await self._bus.create(LEDGER_BUCKET, LEDGER_META_KEY, ledger_meta_out(meta), within_s=WITHIN_S)
            return meta
        found = ledger_meta_in(entry.value)
        if self._meta and found.epoch == self._meta.epoch:
            self._refuse_younger(found.term)
            if found.term == self.term > above:
                return found
        term = max(found.term, self.term, above) + 1
        meta = LedgerMeta(epoch=found.epoch, complete=found.complete, term=term)
        value = ledger_meta_out(meta)
        await self._bus.update(LEDGER_BUCKET, LEDGER_META_KEY, value, entry.revision, within_s=WITHIN_S)
        return meta

    async def _declare_complete(self) -> bool:
        """False where it must be tried again."""
        async with self._taking_over:
            meta = self._meta
            if meta is None or meta.complete or not self._rebuilt_under(meta.term):
                return False
            done = LedgerMeta(epoch=meta.epoch, complete=True, term=meta.term)
            try:
                entry = await self._bus.get(LEDGER_BUCKET, LEDGER_META_KEY)
                if entry is None or ledger_meta_in(entry.value) not in (meta, done):
                    return False
                await self._bus.update(LEDGER_BUCKET, LEDGER_META_KEY, ledger_meta_out(done), entry.revision)
            except (Unavailable, Conflict, BucketMissing) as error:
                log.warning("ledger.completion_failed", error=str(error))
                return False
            self._meta = done
            self._incomplete.clear()
            log.info("ledger.completed", term=done.term, epoch=done.epoch)
            return True

    def _check_fence(self, entry: Entry) -> None:
        try:
            found = ledger_meta_in(entry.value)
        except BadRequest as error:
            log.error("ledger.meta_unreadable", error=str(error))
            return
        if self._meta and found.epoch == self._meta.epoch:
            self._refuse_younger(found.term)

    def _refuse_younger(self, term: int) -> None:
        if self._meta and term > self.term:
            raise SteppedDown(
                f"a scheduler of term {term} writes the ledger, ours is {self.term}",
                hint="Only one may; this one ends and starts anew",
            )


def _readable(entries: Iterable[Entry]) -> Iterator[NodeLedger]:
    """Entries that are what their keys say; the engine must not act on others."""
    for entry in entries:
        try:
            node = subjects.parse_ledger_key(entry.key)
            found = node_ledger_in(entry.value, revision=entry.revision)
            if found.node != node:
                raise BadRequest(f"{entry.key} holds the entry of {found.node}")
        except BadRequest as error:
            log.error("ledger.entry_unreadable", key=entry.key, error=str(error))
            continue
        yield found
