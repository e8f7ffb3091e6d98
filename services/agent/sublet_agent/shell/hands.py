"""Carries out the engine's effects: files at once, the rest handed to the loop that does it."""

import asyncio

import structlog

from sublet.model.ids import SlotId
from sublet_agent.core import event as ev
from sublet_agent.core.edits import Edits
from sublet_agent.shell.board import Board
from sublet_agent.shell.cdi import SpecFiles
from sublet_agent.shell.mailbox import Mailbox
from sublet_agent.shell.publisher import Publisher
from sublet_agent.shell.signals import Announcer
from sublet_agent.shell.state import State

log = structlog.get_logger()


class Hands:
    def __init__(
        self,
        *,
        state: State,
        specs: SpecFiles | None,
        board: Board,
        publisher: Publisher,
        announcer: Announcer,
        look: Mailbox[None],
        read_ledger: Mailbox[int],
    ) -> None:
        """`specs` is None where containers get their cards without CDI."""
        self._state = state
        self._specs = specs
        self._board = board
        self._publisher = publisher
        self._announcer = announcer
        self._look = look
        self._read_ledger = read_ledger

    async def perform(self, effect: ev.Effect) -> None:
        """Raises OSError where a file that a start depends on cannot be written."""
        match effect:
            case ev.KeepSlotCount(count):
                await asyncio.to_thread(self._keep, count)
            case ev.ShowSlots(count, withheld):
                self._board.show(count, withheld)
            case ev.Restore(slot, edits):
                await asyncio.to_thread(self._write_spec, slot, edits)
            case ev.Started(_, record, again):
                # the record last: what is on disk alone is no reason to start
                await asyncio.to_thread(self._write_spec, record.slot, record.edits)
                await asyncio.to_thread(self._state.write_record, record)
                log.info(
                    "container.prepared",
                    slot=record.slot,
                    pod=str(record.pod),
                    pod_uid=record.uid,
                    containers=sorted(record.containers),
                    cards=record.cards,
                    decision=record.decision,
                    again=again,
                )
            case ev.Refused(_, reason):
                log.info("container.held", reason=reason)
            case ev.Forget(slot):
                await asyncio.to_thread(self._forget, slot)
            case ev.KeepVerdicts(verdicts):
                await asyncio.to_thread(self._state.write_verdicts, verdicts)
            case ev.Look():
                self._look.put(None)
            case ev.ReadLedger(generation):
                self._read_ledger.put(generation)
            case ev.PublishInventory(inventory):
                self._publisher.inventory(inventory)
            case ev.PublishOccupancy(occupancy):
                self._publisher.occupancy(occupancy)
            case ev.Announce(cards):
                self._announcer.announce(cards)

    def _keep(self, count: int) -> None:
        if self._specs is not None:
            self._specs.ensure(count)
        self._state.write_count(count)

    def _write_spec(self, slot: SlotId, edits: Edits) -> None:
        if self._specs is not None:
            self._specs.write(slot, edits)

    def _forget(self, slot: SlotId) -> None:
        if self._specs is not None:
            self._specs.clear(slot)
        self._state.drop_record(slot)
        log.info("record.dropped", slot=slot)
