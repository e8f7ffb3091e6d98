"""What people ask of healthd: done in the order in which it was asked, and told with who asked."""

from collections.abc import Callable

import structlog

from sublet.bus.port import Bus, Message, Outcome
from sublet.contract import subjects
from sublet.model.errors import BadRequest
from sublet.model.health import ManualAct
from sublet.model.ids import CardId, NodeName
from sublet.wire.health import manual_in
from sublet_healthd.core.event import Acted, BreakerActed
from sublet_healthd.core.fold import Manual
from sublet_healthd.shell.audit import Audit
from sublet_healthd.shell.driver import Driver

log = structlog.get_logger()

CONSUMER = "healthd-manual"
DONE = {"hold": "held", "release": "released", "ack": "acknowledged"}
REFUSED = "manual_refused"

Knows = Callable[[NodeName, CardId], bool]


class People:
    """`knows` says whether there is such a card; `ignored` hears of messages that nobody should have sent."""

    def __init__(
        self,
        bus: Bus,
        driver: Driver,
        audit: Audit,
        *,
        knows: Knows,
        ignored: Callable[[str], None],
        unix_ms: Callable[[], int],
    ) -> None:
        self._bus = bus
        self._driver = driver
        self._audit = audit
        self._knows = knows
        self._ignored = ignored
        self._unix_ms = unix_ms

    async def run(self) -> None:
        everything = [subjects.pattern(subjects.MANUAL)]
        await self._bus.consume(subjects.MANUAL_STREAM, everything, name=CONSUMER, handler=self._on_act)

    async def _on_act(self, message: Message) -> Outcome:
        try:
            act = manual_in(message.body)
            subject = subjects.parse_subject(message.subject)
        except BadRequest as error:
            self._ignored(subjects.MANUAL_STREAM)
            log.warning("manual.unreadable", subject=message.subject, error=str(error))
            return Outcome.POISON
        if (act.node, act.card) != (subject.node, subject.card):
            self._ignored(subjects.MANUAL_STREAM)
            return Outcome.POISON
        await self._do(act)
        return Outcome.DONE

    async def _do(self, act: ManualAct) -> None:
        now_ms = self._unix_ms()
        what, why = DONE.get(act.what, act.what), ""
        if act.node is None or act.card is None:
            await self._driver.settle(BreakerActed(what=act.what, by=act.by, note=act.note))
            what = f"asked_{act.what}"
        elif not self._knows(act.node, act.card):
            what, why = REFUSED, f"node {act.node} has no card {act.card}"
        else:
            manual = Manual(what=act.what, by=act.by, note=act.note, at_ms=now_ms, until_ms=act.until_ms)
            await self._driver.settle(Acted(node=act.node, card=act.card, manual=manual))
        log.info("manual.done", what=what, node=act.node, card=act.card, by=act.by, refused=why)
        await self._audit.tell(
            what,
            event_id=f"manual/{act.id}",
            by=act.by,
            note=act.note,
            at_ms=now_ms,
            message=why,
            node=act.node,
            card=act.card,
        )
