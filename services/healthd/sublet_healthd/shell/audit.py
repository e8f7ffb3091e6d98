"""Tells the public what people did and what the breaker became, once for each id."""

from collections.abc import Callable
from datetime import UTC, datetime

from sublet.bus.events import publish_event
from sublet.bus.port import Bus
from sublet.contract import cloudevents, subjects
from sublet.model.ids import CardId, NodeName
from sublet.wire.public import audit_event_out
from sublet_healthd.shell.retry import BUS_AWAY, Pauses, keep_trying
from sublet_healthd.shell.store import WITHIN_S

KIND = "audit"
ABOUT = "healthd"
"""Of what concerns no single card."""


class Audit:
    def __init__(self, bus: Bus, *, cluster: Callable[[], str], pauses: Pauses) -> None:
        self._bus = bus
        self._cluster = cluster
        self._pauses = pauses

    async def tell(
        self,
        what: str,
        *,
        event_id: str,
        by: str,
        note: str,
        at_ms: int,
        message: str = "",
        node: NodeName | None = None,
        card: CardId | None = None,
    ) -> None:
        """Returns when the bus has it; telling it again stores nothing for ten minutes."""
        attributes = cloudevents.describe(
            KIND,
            what,
            event_id=event_id,
            node=node,
            about=card or ABOUT,
            time=datetime.fromtimestamp(at_ms / 1000, UTC),
            sequence=at_ms,
            cluster=self._cluster(),
        )
        body = audit_event_out(what, by=by, note=note, message=message, seq=at_ms)
        subject = subjects.subject(KIND, node, card)
        await keep_trying(
            "audit.publish",
            lambda: publish_event(self._bus, subject, attributes, body, within_s=WITHIN_S),
            pauses=self._pauses,
            on=BUS_AWAY,
        )
