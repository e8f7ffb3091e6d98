"""Tells subscribers what became of pods and their shares of cards, and what a person should know."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

import structlog

from sublet.bus.events import publish_event
from sublet.bus.port import Bus
from sublet.contract import cloudevents, subjects
from sublet.contract.cloudevents import Attributes
from sublet.model.errors import BadRequest, Unavailable
from sublet.model.ids import CardId
from sublet.model.placement import Placement
from sublet.wire.public import audit_event_out, card_event_out, share_event_out
from sublet_scheduler.core.effects import Announce, AnnounceCard, Report
from sublet_scheduler.shell.outbox import Fact

log = structlog.get_logger()

SHARED = frozenset({"committed", "released", "revoked", "ending", "ended"})
"""What concerns each card of a placement, not the pod alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Public:
    kind: str
    node: str | None
    card: CardId | None
    attributes: Attributes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    bus: Bus
    cluster: str = ""
    """What the events call this cluster."""
    again_s: float = 2.0
    """Between tries while the bus is away."""

    async def tell(self, fact: Fact) -> None:
        """Publish one fact; waits for the bus as long as it takes."""
        effect, words = fact.effect, _Words(fact, self.cluster)
        match effect:
            case Announce():
                messages = list(words.of_pod(effect))
            case AnnounceCard():
                messages = [words.of_card(effect)]
            case Report():
                messages = [words.of_report(effect)]
            case _:
                assert_never(effect)
        for message in messages:
            await self._publish(message)

    async def _publish(self, message: _Public) -> None:
        subject = subjects.subject(message.kind, message.node, message.card)
        while True:
            try:
                await publish_event(self.bus, subject, message.attributes, message.body)
            except Unavailable as error:
                log.debug("fact.postponed", subject=subject, error=str(error))
                await asyncio.sleep(self.again_s)
            except BadRequest as error:  # the bus will never take it
                log.error("fact.unpublishable", subject=subject, error=str(error))
                return
            else:
                return


@dataclass(frozen=True, slots=True)
class _Words:
    """How one fact is told."""

    fact: Fact
    cluster: str

    def of_pod(self, effect: Announce) -> Iterator[_Public]:
        """One event on the pod, and one on each card that it concerns."""
        placement = effect.placement
        yield self._share(effect, placement, "pod", None)
        if placement is None or effect.what not in SHARED:
            return
        cards = {grant.card for grants in placement.containers.values() for grant in grants}
        for card in sorted(cards):
            on_card = {
                container: tuple(grant for grant in grants if grant.card == card)
                for container, grants in placement.containers.items()
            }
            yield self._share(effect, replace(placement, containers=on_card), "share", card)

    def _share(
        self, effect: Announce, placement: Placement | None, kind: str, card: CardId | None
    ) -> _Public:
        body = share_event_out(
            effect.what,
            pod=effect.ref,
            uid=effect.uid,
            decision=effect.decision,
            placement=placement,
            reasons={str(reason): count for reason, count in effect.reasons.items()},
            message=effect.message,
            seq=self.fact.seq,
        )
        about = card or f"{effect.ref.namespace}/{effect.ref.name or effect.decision}"
        node = placement.node if placement else None
        id_ = f"{effect.decision}.{effect.what}"
        return self._public(kind, effect.what, node, card, about, id_, body, trace=effect.decision)

    def of_card(self, effect: AnnounceCard) -> _Public:
        body = card_event_out(effect.what, node=effect.node, card=effect.card, seq=self.fact.seq)
        return self._public("card", effect.what, effect.node, effect.card, effect.card, effect.what, body)

    def of_report(self, effect: Report) -> _Public:
        what = re.sub(r"(?<!^)(?=[A-Z])", "_", effect.code).lower()
        body = audit_event_out(effect.code, by="scheduler", message=effect.message, seq=self.fact.seq)
        about = str(effect.ref or effect.node or "scheduler")
        return self._public("audit", what, effect.node, None, about, what, body)

    def _public(
        self,
        kind: str,
        what: str,
        node: str | None,
        card: CardId | None,
        about: str,
        id_: str,
        body: bytes,
        *,
        trace: str = "",
    ) -> _Public:
        attributes = cloudevents.describe(
            kind,
            what,
            event_id=f"{kind}.{about}.{id_}.{self.fact.seq}",
            node=node,
            about=about,
            time=datetime.fromtimestamp(self.fact.at_ms / 1000, UTC),
            sequence=self.fact.seq,
            cluster=self.cluster,
            trace=trace,
        )
        return _Public(kind=kind, node=node, card=card, attributes=attributes, body=body)
