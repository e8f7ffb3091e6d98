"""Public health events, each exactly once: its id stands in the verdict until it is known to be published."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import structlog

from sublet.bus.events import publish_event
from sublet.bus.port import Bus
from sublet.contract import cloudevents, subjects
from sublet.model.errors import BadRequest
from sublet.model.health import HealthState, Verdict
from sublet.wire.judged import health_event_out
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.judge import Transition, state_before
from sublet_healthd.shell.retry import BUS_AWAY, Pauses, keep_trying
from sublet_healthd.shell.store import WITHIN_S, VerdictStore

log = structlog.get_logger()

KIND = "health"
DECIDED_BY = "healthd"


class Announcer:
    def __init__(
        self,
        bus: Bus,
        store: VerdictStore,
        engine: Engine,
        *,
        cluster: Callable[[], str],
        name_pods: bool,
        pauses: Pauses,
    ) -> None:
        self._bus = bus
        self._store = store
        self._engine = engine
        self._cluster = cluster
        self._name_pods = name_pods
        self._pauses = pauses

    async def announce(self, transition: Transition) -> None:
        """Store the verdict with the event's id, publish the event, store that it is published."""
        previous, verdict = transition.previous, transition.verdict
        await self._store.write(replace(verdict, events=(transition.event_id,)))
        await self._publish(transition.event_id, previous, verdict, transition.causes)
        await self._store.write(verdict)
        log.info(
            "health.announced",
            node=verdict.node,
            card=verdict.card,
            previous=previous,
            state=verdict.state,
            reasons=[reason.id for reason in verdict.reasons],
            seq=verdict.seq,
        )

    async def finish(self, verdict: Verdict) -> None:
        """Do what an earlier life left undone: publish what its verdict says is not known to be published."""
        for identity in verdict.events:
            look = partial(self._published, identity, verdict)
            if not await keep_trying("event.look", look, pauses=self._pauses, on=BUS_AWAY):
                await self._publish(identity, state_before(identity), verdict)
        await self._store.write(replace(verdict, events=()))

    async def _publish(
        self, identity: str, previous: HealthState, verdict: Verdict, causes: tuple[str, ...] = ()
    ) -> None:
        subject = subjects.subject(KIND, verdict.node, verdict.card)
        attributes = cloudevents.describe(
            KIND,
            "transition",
            event_id=identity,
            node=verdict.node,
            about=verdict.card,
            time=datetime.fromtimestamp(verdict.at_ms / 1000, UTC),
            sequence=verdict.seq,
            cluster=self._cluster(),
            trace=causes[0] if causes else "",
        )
        node, engine = verdict.node, self._engine
        body = health_event_out(
            previous,
            verdict,
            engine.known.listed(node, verdict.card),
            decided_by=DECIDED_BY,
            epoch=engine.known.epoch(node),
            in_use_by=engine.known.users(node, verdict.card) if self._name_pods else (),
            caused_by=causes,
        )
        await keep_trying(
            "event.publish",
            lambda: publish_event(self._bus, subject, attributes, body, within_s=WITHIN_S),
            pauses=self._pauses,
            on=BUS_AWAY,
        )

    async def _published(self, identity: str, verdict: Verdict) -> bool:
        """The server forgets ids after minutes; the stream itself remembers for days."""
        subject = subjects.subject(KIND, verdict.node, verdict.card)
        stored = self._bus.subscribe(subjects.EVENTS_STREAM, [subject], since=0, follow=False)
        async with aclosing(stored) as messages:
            async for message in messages:
                try:
                    if cloudevents.from_headers(message.headers).id == identity:
                        return True
                except BadRequest:
                    continue
        return False
