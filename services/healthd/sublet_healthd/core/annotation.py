"""A node's annotation: its cards that are not or were not healthy, to know them again from the node alone."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sublet.model.errors import BadRequest
from sublet.model.health import Action, Cure, HealthState, Hold, OpenReason, Verdict
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.card import CardState
from sublet_healthd.core.event import Restored

VERSION = 1


def write_annotation(cards: Iterable[CardState]) -> str | None:
    """Compact JSON of the cards that are not healthy or have open reasons, and the number of the last verdict
    of each that is well again, so that nothing older brings its reasons back; None where there is neither."""
    judged = [(state, state.verdict) for state in cards if state.verdict]
    told = {state.card: _card(state, verdict) for state, verdict in judged if _ill(verdict)}
    well = {state.card: verdict.seq for state, verdict in judged if verdict.seq and not _ill(verdict)}
    if not told and not well:
        return None
    document = {"v": VERSION, "cards": told} | ({"well": well} if well else {})
    kept = {state.card: _counters(verdict) for state, verdict in judged if verdict.seq and _counters(verdict)}
    document |= {"kept": kept} if kept else {}
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def read_annotation(node: NodeName, text: str) -> list[Restored]:
    """What an earlier healthd knew of the node's cards.

    Raises:
        BadRequest: it is not such an annotation.
    """
    try:
        data = json.loads(text)
        ill = [_restored(node, CardId(card), told) for card, told in sorted(data["cards"].items())]
        well = [_well(node, CardId(card), seq) for card, seq in sorted(data.get("well", {}).items())]
        return [
            replace(one, verdict=_with_counters(one.verdict, data.get("kept", {}).get(one.verdict.card, {})))
            for one in (*ill, *well)
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"the health annotation of node {node} cannot be read: {error!r}") from None


def _ill(verdict: Verdict) -> bool:
    return verdict.state is not HealthState.HEALTHY or bool(verdict.reasons)


def _card(state: CardState, verdict: Verdict) -> dict[str, Any]:
    hold = verdict.hold
    told = {
        "state": verdict.state.value,
        "schedulable": verdict.schedulable,
        "withheld": verdict.withheld,
        "reasons": [_reason(reason) for reason in verdict.reasons],
        "hold": {"by": hold.by, "note": hold.note, "untilMs": hold.until_ms} if hold else None,
        "breaker": verdict.breaker,
        "automatic": verdict.automatic,
        "rule": verdict.rule,
        "seq": verdict.seq,
        "event": state.event_id,
        "sinceMs": verdict.since_ms,
        "atMs": verdict.at_ms,
        "probationUntilMs": verdict.probation_until_ms,
        "policy": verdict.policy,
        "bootId": verdict.boot_id,
        "bootMs": verdict.boot_ms,
        "pci": verdict.pci,
        "serial": verdict.serial,
        "model": verdict.model,
        "parent": verdict.parent,
    }
    return {key: value for key, value in told.items() if value not in (None, "", 0, [], False)}


def _reason(reason: OpenReason) -> dict[str, Any]:
    told = {
        "id": reason.id,
        "class": reason.klass,
        "latched": reason.latched,
        "leave": reason.leave,
        "clearsOn": reason.clears_on,
        "action": reason.action.value,
        "firstMs": reason.first_seen_ms,
        "lastMs": reason.last_seen_ms,
        "count": reason.count,
        "bootId": reason.boot_id,
    }
    return {key: value for key, value in told.items() if value not in ("", False)}


def _restored(node: NodeName, card: CardId, told: dict[str, Any]) -> Restored:
    hold = told.get("hold")
    verdict = Verdict(
        node=node,
        card=card,
        state=HealthState(told["state"]),
        schedulable=told.get("schedulable", False),
        withheld=told.get("withheld", False),
        reasons=tuple(_open(reason) for reason in told.get("reasons", [])),
        seq=told.get("seq", 0),
        events=(told["event"],) if "event" in told else (),
        since_ms=told.get("sinceMs", 0),
        at_ms=told.get("atMs", 0),
        probation_until_ms=told.get("probationUntilMs", 0),
        policy=told.get("policy", ""),
        boot_id=told.get("bootId", ""),
        boot_ms=told.get("bootMs", 0),
        pci=told.get("pci", ""),
        serial=told.get("serial", ""),
        model=told.get("model", ""),
        parent=told.get("parent"),
        breaker=told.get("breaker", ""),
        automatic=told.get("automatic", False),
        rule=told.get("rule", ""),
        hold=Hold(by=hold["by"], note=hold.get("note", ""), until_ms=hold.get("untilMs", 0))
        if hold
        else None,
    )
    return Restored(verdict=verdict)


def _counters(verdict: Verdict) -> dict[str, Any]:
    """What is kept of a card whether it is ill or not."""
    kept = {
        "cures": [_cure(one) for one in verdict.cures],
        "flaps": verdict.flaps,
        "condemnedMs": verdict.condemned_ms,
        "ackedMs": verdict.acked_ms,
        "resetMs": verdict.reset_ms,
    }
    return {key: value for key, value in kept.items() if value}


def _with_counters(verdict: Verdict, kept: dict[str, Any]) -> Verdict:
    return replace(
        verdict,
        cures=_cures(kept.get("cures", [])),
        flaps=int(kept.get("flaps", 0)),
        condemned_ms=int(kept.get("condemnedMs", 0)),
        acked_ms=int(kept.get("ackedMs", 0)),
        reset_ms=int(kept.get("resetMs", 0)),
    )


def _cure(cure: Cure) -> list[str | int]:
    return [cure.reason, cure.how, cure.at_ms]


def _cures(told: list[list[Any]]) -> tuple[Cure, ...]:
    return tuple(Cure(reason=str(one[0]), how=str(one[1]), at_ms=int(one[2])) for one in told)


def _well(node: NodeName, card: CardId, seq: int) -> Restored:
    return Restored(
        verdict=Verdict(
            node=node, card=card, state=HealthState.HEALTHY, schedulable=True, withheld=False, seq=int(seq)
        )
    )


def _open(told: dict[str, Any]) -> OpenReason:
    return OpenReason(
        id=told["id"],
        kind=told["id"].partition(":")[0],
        klass=told["class"],
        latched=told.get("latched", False),
        leave=told.get("leave", False),
        clears_on=told["clearsOn"],
        action=Action(told["action"]),
        first_seen_ms=told["firstMs"],
        last_seen_ms=told["lastMs"],
        count=told.get("count", 1),
        boot_id=told.get("bootId", ""),
    )
