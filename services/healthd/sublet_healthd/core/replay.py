"""`sublet health replay`: a file of observations through the judge that healthd runs, without a cluster."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sublet.model.errors import BadRequest
from sublet.model.health import HealthState, Signal, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import Acted, BreakerActed, Effect, Event, Told
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.judge import Tick, Transition
from sublet_healthd.core.policy import Policy

ORIGIN_MS = 1_000_000
"""Where the file's second 0 lies; 0 itself means "never" to the judge."""
PEOPLE = ("hold", "release", "ack")
PROBES = ("ok", "lost", "error", "hang")
BREAKER = {"open": "breaker_open", "half_open": "breaker_half_open", "close": "breaker_close"}
KINDS = ("card", "occupancy", *PEOPLE, "xid", "sxid", "recovery_action", "level", "probe", "reset")
NODE_KINDS = ("boot", "kmsg")
FLEET_KINDS = ("breaker", "tick")


class Replay:
    """Takes in one line after another; `engine` is the judge as it stands."""

    def __init__(self, policy: Policy) -> None:
        self.engine = Engine(policy)
        self._last_ms = ORIGIN_MS

    def line(self, text: str, number: int) -> Iterator[dict[str, Any]]:
        """Raises BadRequest where the line cannot be read; the message names it by number."""
        record = _record(text, number)
        now_ms = _time(record, number, self._last_ms)
        while (due_ms := self.engine.due_ms()) is not None and due_ms <= now_ms:
            yield from _changes(self.engine.handle(Tick(), now_ms=due_ms), due_ms)
        yield from _changes(self.engine.handle(_event(record, number, now_ms), now_ms=now_ms), now_ms)
        self._last_ms = now_ms


def replay(policy: Policy, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Judge JSON lines in order and yield one object for each change of state or of the set of reasons.

    Raises:
        BadRequest: a line that cannot be read; the message names it by number.
    """
    judge = Replay(policy)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield from judge.line(line, number)


def _changes(effects: Iterable[Effect], now_ms: int) -> Iterator[dict[str, Any]]:
    for effect in effects:
        if isinstance(effect, Transition):
            yield _line(effect.previous, effect.verdict, now_ms)


def _line(previous: HealthState, verdict: Verdict, now_ms: int) -> dict[str, Any]:
    t = (now_ms - ORIGIN_MS) / 1000
    return {
        "t": int(t) if t.is_integer() else t,
        "node": verdict.node,
        "card": verdict.card,
        "from": previous.value,
        "to": verdict.state.value,
        "schedulable": verdict.schedulable,
        "kubelet": "Unhealthy" if verdict.withheld else "Healthy",
        "reasons": [reason.id for reason in verdict.reasons],
        "action": verdict.action.value,
        "notDone": verdict.not_done,
        "rule": verdict.rule,
    }


def _record(line: str, number: int) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadRequest(f"line {number} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise BadRequest(f"line {number} is not an object")
    return record


def _time(record: Mapping[str, Any], number: int, last_ms: int) -> int:
    t = record.get("t")
    if not isinstance(t, int | float) or isinstance(t, bool) or t < 0:
        raise BadRequest(f"line {number}: t={t!r} is not a number of seconds")
    now_ms = ORIGIN_MS + round(t * 1000)
    if now_ms < last_ms:
        raise BadRequest(f"line {number}: t={t} is before the line above", hint="Sort the lines by t")
    return now_ms


def _event(record: Mapping[str, Any], number: int, now_ms: int) -> Event:
    kind = record.get("kind")
    if kind == "tick":
        return Tick()
    if kind == "breaker":
        do, by = _text(record, "do", number), str(record.get("by", ""))
        if do not in BREAKER:
            raise BadRequest(f"line {number}: do={do!r} is not one of {', '.join(BREAKER)}")
        return BreakerActed(what=BREAKER[do], by=by, note=str(record.get("note", "")))
    if kind not in KINDS + NODE_KINDS:
        known = ", ".join((*KINDS, *NODE_KINDS, *FLEET_KINDS))
        raise BadRequest(f"line {number}: kind={kind!r} is unknown", hint=f"Known: {known}")
    node = NodeName(_text(record, "node", number))
    if kind in NODE_KINDS:
        return Signal(
            node=node,
            card=None,
            kind=SignalKind(kind),
            at_ms=now_ms,
            boot_id=_text(record, "bootId", number) if kind == "boot" else "",
            raw=_text(record, "text", number) if kind == "kmsg" else "",
        )
    card = CardId(_text(record, "card", number))
    if kind == "occupancy":
        pods = record.get("pods")
        if not isinstance(pods, list) or not all(isinstance(pod, str) for pod in pods):
            raise BadRequest(f"line {number}: pods={pods!r} is not a list of ns/name")
        return Told(node=node, card=card, pods=tuple(pods))
    if kind in PEOPLE:
        return Acted(node=node, card=card, manual=_manual(record, number, kind, now_ms))
    return _signal(record, number, node, card, SignalKind(kind), now_ms)


def _manual(record: Mapping[str, Any], number: int, kind: str, now_ms: int) -> Manual:
    until = record.get("until")
    if until is not None and (not isinstance(until, int | float) or isinstance(until, bool) or until <= 0):
        raise BadRequest(f"line {number}: until={until!r} is not a number of seconds")
    return Manual(
        what=kind,
        by=str(record.get("by", "")),
        note=str(record.get("note", "")),
        at_ms=now_ms,
        until_ms=0 if until is None else ORIGIN_MS + round(until * 1000),
    )


def _signal(
    record: Mapping[str, Any], number: int, node: NodeName, card: CardId, kind: SignalKind, now_ms: int
) -> Signal:
    code, name, value = 0, "", ""
    match kind:
        case SignalKind.XID | SignalKind.SXID:
            code = _integer(record, "code", number)
        case SignalKind.LEVEL:
            name, value = _text(record, "name", number), _plain(record, "value", number)
        case SignalKind.RECOVERY_ACTION:
            value = _text(record, "value", number)
        case SignalKind.PROBE:
            value = _text(record, "result", number)
            if value not in PROBES:
                raise BadRequest(f"line {number}: result={value!r} is not one of {', '.join(PROBES)}")
        case _:
            pass
    return Signal(
        node=node,
        card=card,
        kind=kind,
        at_ms=now_ms,
        seq=number,  # the same line twice is two observations
        epoch="file",
        code=code,
        name=name,
        value=value,
        source=str(record.get("source", "file")),
        boot_id=str(record.get("bootId", "")),
        gi=_integer(record, "gi", number) if record.get("gi") is not None else None,
        ci=_integer(record, "ci", number) if record.get("ci") is not None else None,
        pci=str(record.get("pci") or ""),
        serial=str(record.get("serial") or ""),
        model=str(record.get("model") or ""),
        driver=str(record.get("driver") or ""),
        raw=str(record.get("raw") or ""),
    )


def _text(record: Mapping[str, Any], key: str, number: int) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"line {number}: {key}={value!r} is not a text", hint=f"{key} is required here")
    return value


def _integer(record: Mapping[str, Any], key: str, number: int) -> int:
    value = record.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(f"line {number}: {key}={value!r} is not a whole number")
    return value


def _plain(record: Mapping[str, Any], key: str, number: int) -> str:
    value = record.get(key)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise BadRequest(f"line {number}: {key}={value!r} is neither true or false nor a number")
