"""Signals and verdicts as bytes and back."""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from sublet.model.errors import BadRequest
from sublet.model.health import (
    BREAKER_ACTS,
    CARD_ACTS,
    Action,
    Breaker,
    BreakerState,
    Cure,
    HealthState,
    Hold,
    ManualAct,
    Mode,
    OpenReason,
    Signal,
    SignalKind,
    Taken,
    Verdict,
)
from sublet.model.ids import CardId, NodeName
from sublet.v1 import health_pb2 as pb

RAW_LIMIT = 1024


def signal_out(signal: Signal) -> bytes:
    message = pb.Signal(
        node=signal.node,
        card=signal.card or "",
        kind=signal.kind,
        code=signal.code,
        name=signal.name,
        value=signal.value,
        source=signal.source,
        boot_id=signal.boot_id,
        epoch=signal.epoch,
        seq=signal.seq,
        at_ms=signal.at_ms,
        count=signal.count,
        raw=signal.raw[:RAW_LIMIT],
        pci=signal.pci,
        serial=signal.serial,
        model=signal.model,
        driver=signal.driver,
    )
    if signal.gi is not None:
        message.gi = signal.gi
    if signal.ci is not None:
        message.ci = signal.ci
    return message.SerializeToString()


def signal_in(body: bytes) -> Signal:
    """Raises BadRequest where `body` is not a signal."""
    try:
        message = pb.Signal.FromString(body)
        return Signal(
            node=NodeName(message.node),
            card=CardId(message.card) if message.card else None,
            kind=SignalKind(message.kind),
            code=message.code,
            name=message.name,
            value=message.value,
            source=message.source,
            boot_id=message.boot_id,
            epoch=message.epoch,
            seq=message.seq,
            at_ms=message.at_ms,
            count=message.count,
            gi=message.gi if message.HasField("gi") else None,
            ci=message.ci if message.HasField("ci") else None,
            raw=message.raw,
            pci=message.pci,
            serial=message.serial,
            model=message.model,
            driver=message.driver,
        )
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not a signal: {error}") from error


def verdict_message(verdict: Verdict) -> pb.Verdict:
    message = pb.Verdict(
        node=verdict.node,
        card=verdict.card,
        state=verdict.state,
        schedulable=verdict.schedulable,
        withheld=verdict.withheld,
        action=verdict.action,
        seq=verdict.seq,
        since_ms=verdict.since_ms,
        at_ms=verdict.at_ms,
        policy=verdict.policy,
        rule=verdict.rule,
        not_done=verdict.not_done,
        mode=verdict.mode,
        boot_id=verdict.boot_id,
        probation_until_ms=verdict.probation_until_ms,
        flaps=verdict.flaps,
        pci=verdict.pci,
        serial=verdict.serial,
        model=verdict.model,
        events=verdict.events,
        cures=[pb.Cure(reason=one.reason, how=one.how, at_ms=one.at_ms) for one in verdict.cures],
        breaker=verdict.breaker,
        acked_ms=verdict.acked_ms,
        condemned_ms=verdict.condemned_ms,
        automatic=verdict.automatic,
        boot_ms=verdict.boot_ms,
        reset_ms=verdict.reset_ms,
        term=verdict.term,
        parent=verdict.parent or "",
    )
    if verdict.hold is not None:
        hold = verdict.hold
        message.hold.CopyFrom(pb.Hold(by=hold.by, note=hold.note, until_ms=hold.until_ms))
    for reason in verdict.reasons:
        one = message.reasons.add(
            id=reason.id,
            kind=reason.kind,
            latched=reason.latched,
            leave=reason.leave,
            clears_on=reason.clears_on,
            action=reason.action,
            first_seen_ms=reason.first_seen_ms,
            last_seen_ms=reason.last_seen_ms,
            count=reason.count,
            boot_id=reason.boot_id,
        )
        setattr(one, "class", reason.klass)
        if reason.gi is not None:
            one.gi = reason.gi
        if reason.ci is not None:
            one.ci = reason.ci
    return message


def verdict_of(message: pb.Verdict) -> Verdict:
    """Raises ValueError where a word in `message` is none that we know."""
    return Verdict(
        node=NodeName(message.node),
        card=CardId(message.card),
        state=HealthState(message.state),
        schedulable=message.schedulable,
        withheld=message.withheld,
        reasons=tuple(
            OpenReason(
                id=one.id,
                kind=one.kind,
                klass=getattr(one, "class"),
                latched=one.latched,
                leave=one.leave,
                clears_on=one.clears_on,
                action=Action(one.action),
                first_seen_ms=one.first_seen_ms,
                last_seen_ms=one.last_seen_ms,
                count=one.count,
                boot_id=one.boot_id,
                gi=one.gi if one.HasField("gi") else None,
                ci=one.ci if one.HasField("ci") else None,
            )
            for one in message.reasons
        ),
        action=Action(message.action),
        seq=message.seq,
        since_ms=message.since_ms,
        at_ms=message.at_ms,
        policy=message.policy,
        rule=message.rule,
        not_done=message.not_done,
        mode=Mode(message.mode),
        boot_id=message.boot_id,
        probation_until_ms=message.probation_until_ms,
        flaps=message.flaps,
        pci=message.pci,
        serial=message.serial,
        model=message.model,
        events=tuple(message.events),
        hold=Hold(by=message.hold.by, note=message.hold.note, until_ms=message.hold.until_ms)
        if message.HasField("hold")
        else None,
        cures=tuple(Cure(reason=one.reason, how=one.how, at_ms=one.at_ms) for one in message.cures),
        breaker=message.breaker,
        parent=CardId(message.parent) if message.parent else None,
        acked_ms=message.acked_ms,
        condemned_ms=message.condemned_ms,
        automatic=message.automatic,
        boot_ms=message.boot_ms,
        reset_ms=message.reset_ms,
        term=message.term,
    )


def verdict_out(verdict: Verdict) -> bytes:
    return verdict_message(verdict).SerializeToString()


def verdict_in(body: bytes) -> Verdict:
    """Raises BadRequest where `body` is not a verdict."""
    try:
        return verdict_of(pb.Verdict.FromString(body))
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not a verdict: {error}") from error


def verdicts_out(verdicts: Iterable[Verdict]) -> bytes:
    return pb.Verdicts(verdicts=[verdict_message(one) for one in verdicts]).SerializeToString()


def verdicts_in(body: bytes) -> tuple[Verdict, ...]:
    """Raises BadRequest where `body` does not hold verdicts."""
    try:
        return tuple(verdict_of(one) for one in pb.Verdicts.FromString(body).verdicts)
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not verdicts: {error}") from error


def manual_out(act: ManualAct) -> bytes:
    return pb.Manual(
        id=act.id,
        node=act.node or "",
        card=act.card or "",
        what=act.what,
        by=act.by,
        note=act.note,
        until_ms=act.until_ms,
        at_ms=act.at_ms,
    ).SerializeToString()


def manual_in(body: bytes) -> ManualAct:
    """Raises BadRequest where `body` asks nothing that can be done."""
    try:
        message = pb.Manual.FromString(body)
    except DecodeError as error:
        raise BadRequest(f"not a person's act: {error}") from error
    named = bool(message.node and message.card)
    if not message.id or not message.by or message.what not in (CARD_ACTS if named else BREAKER_ACTS):
        raise BadRequest(f"what={message.what!r} by {message.by!r} is no act that healthd knows")
    return ManualAct(
        id=message.id,
        node=NodeName(message.node) if named else None,
        card=CardId(message.card) if named else None,
        what=message.what,
        by=message.by,
        note=message.note,
        until_ms=message.until_ms,
        at_ms=message.at_ms,
    )


def breaker_out(breaker: Breaker) -> bytes:
    return pb.Breaker(
        state=breaker.state,
        why=breaker.why,
        by=breaker.by,
        since_ms=breaker.since_ms,
        taken=[
            pb.Taken(node=one.node, card=one.card, reason=one.reason, model=one.model, at_ms=one.at_ms)
            for one in breaker.taken
        ],
    ).SerializeToString()


def healthd_heartbeat_out(at_ms: int) -> bytes:
    return pb.HealthdHeartbeat(at_ms=at_ms).SerializeToString()


def healthd_heartbeat_in(body: bytes) -> int:
    """Unix milliseconds; raises BadRequest where `body` is no heartbeat of healthd."""
    try:
        return pb.HealthdHeartbeat.FromString(body).at_ms
    except DecodeError as error:
        raise BadRequest(f"not a heartbeat of healthd: {error}") from error


def breaker_in(body: bytes) -> Breaker:
    """Raises BadRequest where `body` is not the breaker."""
    try:
        message = pb.Breaker.FromString(body)
        state = BreakerState(message.state)
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not a breaker: {error}") from error
    return Breaker(
        state=state,
        why=message.why,
        by=message.by,
        since_ms=message.since_ms,
        taken=tuple(
            Taken(
                node=NodeName(one.node),
                card=CardId(one.card),
                reason=one.reason,
                model=one.model,
                at_ms=one.at_ms,
            )
            for one in message.taken
        ),
    )
