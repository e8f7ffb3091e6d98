"""The verdicts on the bus: one writer, each write fenced by the revision that was read or written before."""

from dataclasses import replace
from functools import partial

import structlog

from sublet.bus.port import Bus
from sublet.contract import subjects
from sublet.model.errors import BadRequest, Conflict, SubletError
from sublet.model.health import Verdict
from sublet.wire.health import verdict_in, verdict_out
from sublet_healthd.shell.retry import BUS_AWAY, Pauses, keep_trying

log = structlog.get_logger()

BUCKET = subjects.VERDICTS_BUCKET
WITHIN_S = 5.0


class Superseded(SubletError):
    """Somebody else writes verdicts: this process no longer is the only judge and must end."""


class VerdictStore:
    def __init__(self, bus: Bus, *, pauses: Pauses) -> None:
        self._bus = bus
        self._pauses = pauses
        self._written: dict[str, tuple[int, bytes]] = {}
        self._term = 0

    async def take_over(self) -> list[Verdict]:
        """Make every verdict ours before anything is judged: whoever wrote before can write none of them
        again, for it does not know the revisions. Returns them all; waits for the bus.

        Raises:
            Superseded: somebody with a higher term is here already.
        """
        found = await self.load()
        self._term += 1
        return [await self._take(verdict) for verdict in found]

    async def _take(self, verdict: Verdict) -> Verdict:
        take = partial(self._take_once, subjects.verdict_key(verdict.node, verdict.card))
        while True:
            try:
                return await keep_trying("verdict.take", take, pauses=self._pauses, on=BUS_AWAY)
            except Conflict:
                continue  # the one before us was quicker: take what it wrote

    async def _take_once(self, key: str) -> Verdict:
        entry = await self._bus.get(BUCKET, key, within_s=WITHIN_S)
        if entry is None:
            raise Superseded(f"the verdict {key} is gone", hint="Only healthd may write verdicts")
        verdict = verdict_in(entry.value)
        if verdict.term > self._term:
            raise _superseded(key, entry.revision)
        mine = replace(verdict, term=self._term)
        value = verdict_out(mine)
        revision = await self._bus.update(BUCKET, key, value, entry.revision, within_s=WITHIN_S)
        self._written[key] = (revision, value)
        return mine

    async def load(self) -> list[Verdict]:
        """All verdicts of an earlier life; waits for the bus. What cannot be read will be overwritten."""
        entries = await keep_trying(
            "verdicts.load",
            lambda: self._bus.entries(BUCKET, within_s=WITHIN_S),
            pauses=self._pauses,
            on=BUS_AWAY,
        )
        verdicts = []
        for key, entry in entries.items():
            self._written[key] = (entry.revision, entry.value)
            try:
                verdict = verdict_in(entry.value)
                verdicts.append(verdict)
                self._term = max(self._term, verdict.term)
            except BadRequest as error:
                log.error("verdict.unreadable", key=key, error=str(error))
        return verdicts

    def forget(self) -> None:
        """The bucket was created anew: no revision counts any more, and every verdict is written again."""
        self._written = {key: (0, value) for key, (_, value) in self._written.items()}

    async def write(self, verdict: Verdict) -> None:
        """Store a verdict; returns when the bus has it.

        Raises:
            Superseded: the key holds what this process did not write.
        """
        key, value = (
            subjects.verdict_key(verdict.node, verdict.card),
            verdict_out(replace(verdict, term=self._term)),
        )
        revision, written = self._written.get(key, (0, b""))
        if revision and written == value:
            return
        await keep_trying("verdict.write", lambda: self._write(key, value), pauses=self._pauses, on=BUS_AWAY)

    async def drop(self, verdict: Verdict) -> None:
        """Take a verdict off the bus; returns when it is gone.

        Raises:
            Superseded: the key holds what this process did not write.
        """
        key = subjects.verdict_key(verdict.node, verdict.card)
        revision, _ = self._written.pop(key, (0, b""))
        if revision:
            await keep_trying(
                "verdict.drop", lambda: self._drop(key, revision), pauses=self._pauses, on=BUS_AWAY
            )

    async def _drop(self, key: str, revision: int) -> None:
        try:
            await self._bus.delete(BUCKET, key, revision=revision, within_s=WITHIN_S)
        except Conflict:
            found = await self._bus.get(BUCKET, key, within_s=WITHIN_S)
            if found is not None:
                raise _superseded(key, found.revision) from None

    async def _write(self, key: str, value: bytes) -> None:
        known = self._written.get(key)
        try:
            if known is None or known[0] == 0:
                revision = await self._bus.create(BUCKET, key, value, within_s=WITHIN_S)
            else:
                revision = await self._bus.update(BUCKET, key, value, known[0], within_s=WITHIN_S)
        except Conflict:
            revision = await self._settle(key, value, known)
        self._written[key] = (revision, value)

    async def _settle(self, key: str, value: bytes, known: tuple[int, bytes] | None) -> int:
        """After an unclear write the key may hold the new value already; in a new bucket it holds nothing."""
        found = await self._bus.get(BUCKET, key, within_s=WITHIN_S)
        if found is None:
            return await self._bus.create(BUCKET, key, value, within_s=WITHIN_S)
        if found.value == value:
            return found.revision
        if known is not None and found.value == known[1]:
            return await self._bus.update(BUCKET, key, value, found.revision, within_s=WITHIN_S)
        if (
            _term_of(found.value) < self._term
        ):  # a last word of the one before us, on a card that is new to us
            return await self._bus.update(BUCKET, key, value, found.revision, within_s=WITHIN_S)
        raise _superseded(key, found.revision)


def _superseded(key: str, revision: int) -> Superseded:
    return Superseded(
        f"the verdict {key} is at revision {revision}, which another process wrote",
        hint="Only one healthd may judge; this one ends and starts anew",
    )


def _term_of(value: bytes) -> int:
    try:
        return verdict_in(value).term
    except BadRequest:
        return 0
