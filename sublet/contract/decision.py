"""The annotation ``sublet.dev/decision``: who got which cards, signed, the durable record of a release.

Compact JSON: ``v`` format, ``id`` decision, ``uid`` pod UID once known, ``node``, ``containers`` name ->
list of ``{card, index, memoryMiB, corePercent}`` (``exclusive`` where true), ``mac`` over all the rest
with a key from the scheduler's Secret (empty where there is no key: offline).
"""

import hmac
import json
from dataclasses import dataclass
from typing import Any

from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import CardGrant, Placement

VERSION = 1
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading any text at all may raise: anybody may have written it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision as a pod carries it. `placement` is None while the pod waits undecided."""

    id: DecisionId
    uid: PodUid | None
    placement: Placement | None
    mac: str = ""
    after: str = ""
    """The resourceVersion that it replaced, where a pod was put back to waiting."""


def write(
    id_: DecisionId, placement: Placement | None, *, uid: PodUid | None, key: bytes, after: str = ""
) -> str:
    """The annotation's value, signed with `key` (no MAC for an empty key).

    `after` is the resourceVersion that the value replaces, where it must differ from every earlier one.
    """
    document: dict[str, Any] = {"v": VERSION, "id": id_}
    if after:
        document["after"] = after
    if uid:
        document["uid"] = uid
    if placement:
        document["node"] = placement.node
        document["containers"] = {
            name: [_grant_out(grant) for grant in grants] for name, grants in placement.containers.items()
        }
    text = _compact(document)
    return f'{text[:-1]},"mac":"{_mac(text, key) if key else ""}"}}'


def read(text: str) -> Decision:
    """Read the annotation without judging its MAC.

    Raises:
        BadRequest: `text` is not a decision of a known version.
    """
    try:
        document = json.loads(text)
        if document["v"] != VERSION:
            raise BadRequest(f"decision of version {document['v']!r}", hint=f"Known: {VERSION}")
        placement = None
        if "node" in document:
            placement = Placement(
                node=NodeName(_text(document["node"])),
                containers={
                    name: tuple(_grant_in(grant) for grant in grants)
                    for name, grants in document["containers"].items()
                },
            )
        return Decision(
            id=DecisionId(_text(document["id"])),
            uid=PodUid(_text(document["uid"])) if document.get("uid") else None,
            placement=placement,
            mac=_text(document["mac"]),
            after=_text(document.get("after", "")),
        )
    except UNREADABLE as error:
        raise BadRequest(f"not a decision: {text[:80]!r}: {error!r}") from error


def is_signed(text: str, key: bytes) -> bool:
    """Whether the annotation's MAC was made with `key`, which must not be empty."""
    try:
        document = json.loads(text)
        mac = document.pop("mac")
        return bool(key) and hmac.compare_digest(str(mac), _mac(_compact(document), key))
    except UNREADABLE:
        return False


def _mac(text: str, key: bytes) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()[:32]


_compact = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def grant_document(grant: CardGrant) -> dict[str, Any]:
    """A grant as every document of ours writes it."""
    return {
        "card": grant.card,
        "index": grant.index,
        "memoryMiB": grant.memory_mib,
        "corePercent": grant.core_percent,
    }


def _grant_out(grant: CardGrant) -> dict[str, Any]:
    written = grant_document(grant)
    return {**written, "exclusive": True} if grant.exclusive else written


def _grant_in(raw: dict[str, Any]) -> CardGrant:
    memory = raw["memoryMiB"]
    return CardGrant(
        card=CardId(_text(raw["card"])),
        index=int(raw["index"]),
        memory_mib=None if memory is None else int(memory),
        core_percent=int(raw["corePercent"]),
        exclusive=bool(raw.get("exclusive")),
    )
