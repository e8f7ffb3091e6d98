"""Label and field selectors: text of a query, or the object form that webhooks use, to a yes or no."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sublet.demo.apiserver.answers import bad_request
from sublet.kube.kind import EVENTS, NODES, PODS, Kind
from sublet.kube.port import Json

Predicate: TypeAlias = Callable[[Json], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>\S*)$")
_VALUE = re.compile(r"[\w.-]*")
_FIELDS = {"metadata.name", "metadata.namespace"}
_OWN_FIELDS: Mapping[Kind, frozenset[str]] = {
    PODS: frozenset(
        {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase", "status.podIP"}
    ),
    NODES: frozenset({"spec.unschedulable"}),
    EVENTS: frozenset(
        {"involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid"}
        | {"reason", "type", "source"}
    ),
}


def selecting(kind: Kind, *, labels: str, fields: str) -> Predicate:
    """The test for both selectors of a list or watch; empty ones match everything."""
    by_label = _label_tests(labels)
    by_field = _field_tests(kind, fields)

    def matches(obj: Json) -> bool:
        own = obj["metadata"].get("labels") or {}
        return all(test(own) for test in by_label) and all(test(obj) for test in by_field)

    return matches


def matches_object(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector (`matchLabels`, `matchExpressions`); nothing in it matches everything."""
    if not selector:
        return True
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        holds(each["operator"], labels.get(each["key"]), each.get("values") or [])
        for each in selector.get("matchExpressions") or []
    )


def holds(operator: str, value: str | None, wanted: list[str]) -> bool:
    """One requirement of a selector or of node affinity; `value` is None where the key is absent."""
    match operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and int(value) < int(wanted[0])
        case _:
            raise bad_request(f"{operator!r} is not a valid selector operator")


def _label_tests(text: str) -> list[Callable[[Mapping[str, str]], bool]]:
    return [_label_test(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], [value.strip() for value in found["values"].split(",")]
        operator = "In" if found["op"] == "in" else "NotIn"
    elif (found := _EQUAL.match(part)) and _VALUE.fullmatch(found["value"]):
        key, values = found["key"], [found["value"]]
        operator = "NotIn" if found["op"] == "!=" else "In"
    elif re.fullmatch(r"!?[A-Za-z0-9][\w./-]*", part):
        key, values = part.lstrip("!"), []
        operator = "DoesNotExist" if part.startswith("!") else "Exists"
    else:
        raise bad_request(f"unable to parse requirement: {part!r}")
    return lambda labels: holds(operator, labels.get(key), values)


def _field_tests(kind: Kind, text: str) -> list[Predicate]:
    return [_field_test(kind, part.strip()) for part in text.split(",") if part.strip()]


def _field_test(kind: Kind, part: str) -> Predicate:
    found = _EQUAL.match(part)
    if not found:
        raise bad_request(f"invalid field selector: {part!r}")
    path, value, negated = found["key"], found["value"], found["op"] == "!="
    if path not in _FIELDS | _OWN_FIELDS.get(kind, frozenset()):
        raise bad_request(f"field label not supported: {path}")
    return lambda obj: (_field(obj, path) == value) is not negated


def _field(obj: Json, path: str) -> str:
    at: Any = obj
    for step in path.split("."):
        at = (at or {}).get(step)
    if isinstance(at, bool):
        return str(at).lower()
    return "" if at is None else str(at)
