"""Objects in Kubernetes' protobuf, as kubectl's commands send those that they make themselves.

Known are the fields that such commands fill in: of namespaces, ConfigMaps, service accounts, evictions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sublet.demo.apiserver.answers import bad_request, unsupported
from sublet.kube.port import Json

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: str = "text"
    """`text`, `number`, `flag`, `texts` (repeated), `map` of text to text, or `object`."""
    of: Mapping[int, "_Field"] | None = None


_META = {
    1: _Field("name"),
    2: _Field("generateName"),
    3: _Field("namespace"),
    5: _Field("uid"),
    6: _Field("resourceVersion"),
    11: _Field("labels", "map"),
    12: _Field("annotations", "map"),
}
_PRECONDITIONS = {1: _Field("uid"), 2: _Field("resourceVersion")}
_DELETE_OPTIONS = {
    1: _Field("gracePeriodSeconds", "number"),
    2: _Field("preconditions", "object", _PRECONDITIONS),
    3: _Field("orphanDependents", "flag"),
    4: _Field("propagationPolicy"),
    5: _Field("dryRun", "texts"),
}
_METADATA = {1: _Field("metadata", "object", _META)}
_KINDS: Mapping[tuple[str, str], Mapping[int, _Field]] = {
    ("v1", "Namespace"): _METADATA,
    ("v1", "ServiceAccount"): _METADATA,
    ("v1", "ConfigMap"): {**_METADATA, 2: _Field("data", "map")},
    ("policy/v1", "Eviction"): {**_METADATA, 2: _Field("deleteOptions", "object", _DELETE_OPTIONS)},
    ("v1", "DeleteOptions"): _DELETE_OPTIONS,
}
_TYPE = {1: _Field("apiVersion"), 2: _Field("kind")}


def decoded(body: bytes) -> Json:
    """The object in an envelope. Raises Refused: 415 for a kind that is not known, 400 for what is broken."""
    if not body.startswith(_MAGIC):
        raise bad_request("the object is not in Kubernetes' protobuf")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        about = _object(_bytes(envelope.get(1, b"")), _TYPE)
        raw = _bytes(envelope.get(2, b""))
        known = _KINDS.get((about.get("apiVersion", ""), about.get("kind", "")))
        if known is None:
            raise unsupported(f"{CONTENT_TYPE} of {about.get('kind')}")
        return {**_object(raw, known), **about}
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _object(raw: bytes, known: Mapping[int, _Field]) -> Json:
    found: Json = {}
    for number, value in _fields(raw):
        field = known.get(number)
        if field is None or value == b"":  # empty texts are written too
            continue
        match field.kind:
            case "number":
                found[field.name] = value
            case "flag":
                found[field.name] = bool(value)
            case "texts":
                found.setdefault(field.name, []).append(_bytes(value).decode())
            case "map":
                entry = dict(_fields(_bytes(value)))
                text = {part: _bytes(entry.get(part, b"")).decode() for part in (1, 2)}
                found.setdefault(field.name, {})[text[1]] = text[2]
            case "object":
                found[field.name] = _object(_bytes(value), field.of or {})
            case _:
                found[field.name] = _bytes(value).decode()
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value: a number, or the bytes of a text or an object."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        if tag & 7 == _VARINT:
            value: int | bytes
            value, at = _varint(raw, at)
        elif tag & 7 == _BYTES:
            size, at = _varint(raw, at)
            if at + size > len(raw):
                raise ValueError("a field is longer than its object")
            value, at = raw[at : at + size], at + size
        else:
            raise ValueError(f"wire type {tag & 7}")
        yield tag >> 3, value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"{value!r} is a number")
    return value
