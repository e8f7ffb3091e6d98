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
from sublet.model.errors import Unavailable
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
    again_s: float = 2.0
    """Between tries while the bus is away."""

    async def tell(self, fact: Fact) -> None:
        """Publish one fact; waits for the bus as long as it takes."""
        effect = fact.effect
        match effect:
            case Announce():
                messages = list(_of_pod(fact, effect))
            case AnnounceCard():
                messages = [_of_card(fact, effect)]
            case Report():
                messages = [_of_report(fact, effect)]
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
            else:
                return


def _of_pod(fact: Fact, effect: Announce) -> Iterator[_Public]:
    """One event on the pod, and one on each card that it concerns."""
    placement = effect.placement
    yield _share(fact, effect, placement, "pod", None)
    if placement is None or effect.what not in SHARED:
        return
    cards = {grant.card for grants in placement.containers.values() for grant in grants}
    for card in sorted(cards):
        on_card = {
            container: tuple(grant for grant in grants if grant.card == card)
            for container, grants in placement.containers.items()
        }
        yield _share(fact, effect, replace(placement, containers=on_card), "share", card)


def _share(
    fact: Fact, effect: Announce, placement: Placement | None, kind: str, card: CardId | None
) -> _Public:
    body = share_event_out(
        effect.what,
        pod=effect.ref,
        uid=effect.uid,
        decision=effect.decision,
        placement=placement,
        reasons={str(reason): count for reason, count in effect.reasons.items()},
        message=effect.message,
        seq=fact.seq,
    )
    about = card or f"{effect.ref.namespace}/{effect.ref.name or effect.decision}"
    node = placement.node if placement else None
    return _public(fact, kind, effect.what, node, card, about, f"{effect.decision}.{effect.what}", body)


def _of_card(fact: Fact, effect: AnnounceCard) -> _Public:
    body = card_event_out(effect.what, node=effect.node, card=effect.card, seq=fact.seq)
    return _public(fact, "card", effect.what, effect.node, effect.card, effect.card, effect.what, body)


def _of_report(fact: Fact, effect: Report) -> _Public:
    what = re.sub(r"(?<!^)(?=[A-Z])", "_", effect.code).lower()
    body = audit_event_out(effect.code, by="scheduler", message=effect.message, seq=fact.seq)
    about = str(effect.ref or effect.node or "scheduler")
    return _public(fact, "audit", what, effect.node, None, about, what, body)


def _public(
    fact: Fact,
    kind: str,
    what: str,
    node: str | None,
    card: CardId | None,
    about: str,
    id_: str,
    body: bytes,
) -> _Public:
    attributes = cloudevents.describe(
        kind,
        what,
        event_id=f"{kind}.{about}.{id_}.{fact.seq}",
        node=node,
        about=about,
        time=datetime.fromtimestamp(fact.at_ms / 1000, UTC),
        sequence=fact.seq,
    )
    return _Public(kind=kind, node=node, card=card, attributes=attributes, body=body)
