"""The verdicts on the bus: one writer, each write fenced by the revision that was read or written before."""

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
                verdicts.append(verdict_in(entry.value))
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
        key, value = subjects.verdict_key(verdict.node, verdict.card), verdict_out(verdict)
        revision, written = self._written.get(key, (0, b""))
        if revision and written == value:
            return
        await keep_trying("verdict.write", lambda: self._write(key, value), pauses=self._pauses, on=BUS_AWAY)

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
        raise Superseded(
            f"the verdict {key} is at revision {found.revision}, which another process wrote",
            hint="Only one healthd may run; this one ends and starts anew",
        )
