"""Subjects, streams, buckets and keys on the bus, as every other program sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, NodeName

PREFIX: Final = "sublet.v1"
SIGNAL: Final = "signal"
MANUAL: Final = "manual"
EVENT_KINDS: Final = ("card", "health", "share", "pod", "audit")
KINDS: Final = (SIGNAL, MANUAL, *EVENT_KINDS)

SIGNALS_STREAM: Final = "SUBLET_SIGNALS"
MANUAL_STREAM: Final = "SUBLET_MANUAL"
EVENTS_STREAM: Final = "SUBLET_EVENTS"

INVENTORY_BUCKET: Final = "sublet-inventory"
VERDICTS_BUCKET: Final = "sublet-verdicts"
LEDGER_BUCKET: Final = "sublet-ledger"
HEALTHD_BUCKET: Final = "sublet-healthd"

LEDGER_META_KEY: Final = "_meta"
BREAKER_KEY: Final = "breaker"
HEALTHD_HEARTBEAT_KEY: Final = "heartbeat"

INVENTORY: Final = "inventory"
HEARTBEAT: Final = "heartbeat"
OCCUPANCY: Final = "occupancy"

MISSING: Final = "-"
_UNSAFE = re.compile(rb"[^A-Za-z0-9_\-]")
_ESCAPED = re.compile(r"=([0-9A-F]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a subject says; `node` or `card` is `None` where it does not apply."""

    kind: str
    node: NodeName | None
    card: CardId | None


def signal_subject(node: str, card: str | None) -> str:
    return subject(SIGNAL, node, card)


def subject(kind: str, node: str | None, card: str | None) -> str:
    """Build ``sublet.v1.<kind>.<node>.<card>``: one subject a card, so that one consumer sees it in order."""
    if kind not in KINDS:
        raise BadRequest(f"unknown kind of subject {kind!r}", hint=f"Known: {', '.join(KINDS)}")
    return f"{PREFIX}.{kind}.{_node_token(node)}.{_card_token(card)}"


def pattern(kind: str | None = None, node: str | None = None, card: str | None = None) -> str:
    """The subscription that matches a kind, node and card; `None` matches any."""
    return ".".join(
        (
            PREFIX,
            kind or "*",
            "*" if node is None else _node_token(node),
            "*" if card is None else _card_token(card),
        )
    )


def parse_subject(text: str) -> Subject:
    """Read a subject back.

    Raises:
        BadRequest: `text` is not ``sublet.v1.<kind>.<node>.<card>`` of a known kind.
    """
    parts = text.split(".")
    if len(parts) != 5 or ".".join(parts[:2]) != PREFIX or parts[2] not in KINDS or not all(parts):
        raise BadRequest(f"subject {text!r} is not {PREFIX}.<kind>.<node>.<card>")
    node, card = parts[3], parts[4]
    return Subject(
        kind=parts[2],
        node=None if node == MISSING else _node_name(node),
        card=None if card == MISSING else _card_id(card),
    )


def inventory_key(node: str) -> str:
    return f"{INVENTORY}.{_node_token(node)}"


def heartbeat_key(node: str) -> str:
    return f"{HEARTBEAT}.{_node_token(node)}"


def occupancy_key(node: str) -> str:
    return f"{OCCUPANCY}.{_node_token(node)}"


def parse_node_key(key: str) -> tuple[str, NodeName]:
    """Read a key of the inventory bucket: (`INVENTORY` | `HEARTBEAT` | `OCCUPANCY`, node)."""
    kind, _, node = key.partition(".")
    if kind not in (INVENTORY, HEARTBEAT, OCCUPANCY) or not node or "." in node:
        raise BadRequest(f"key {key!r} is not <{INVENTORY}|{HEARTBEAT}|{OCCUPANCY}>.<node>")
    return kind, _node_name(node)


def verdict_key(node: str, card: str) -> str:
    return f"{_node_token(node)}.{_card_token(card)}"


def verdict_keys(node: str) -> str:
    """The pattern that matches the verdicts of one node."""
    return f"{_node_token(node)}.*"


def parse_verdict_key(key: str) -> tuple[NodeName, CardId]:
    node, _, card = key.partition(".")
    if not node or not card or "." in card:
        raise BadRequest(f"key {key!r} is not <node>.<card>")
    return _node_name(node), _card_id(card)


def ledger_key(node: str) -> str:
    return f"node.{_node_token(node)}"


def parse_ledger_key(key: str) -> NodeName | None:
    """The node of a ledger entry; `None` for `LEDGER_META_KEY`."""
    if key == LEDGER_META_KEY:
        return None
    word, _, node = key.partition(".")
    if word != "node" or not node or "." in node:
        raise BadRequest(f"key {key!r} is neither node.<node> nor {LEDGER_META_KEY}")
    return _node_name(node)


def _node_token(node: str | None) -> str:
    """A node name is a DNS subdomain: it has no `_`, so that `.` <-> `_` can be undone."""
    if node is None:
        return MISSING
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", node):
        raise BadRequest(f"node name {node!r} is not a lower-case DNS name")
    return node.replace(".", "_")


def _node_name(token: str) -> NodeName:
    return NodeName(token.replace("_", "."))


def _card_token(card: str | None) -> str:
    """Vendor UUIDs pass as they are; any other byte becomes ``=XX``."""
    if card is None:
        return MISSING
    if not card:
        raise BadRequest("a card has an empty id")
    if card == MISSING:
        return "=2D"
    return _UNSAFE.sub(lambda found: b"=%02X" % found[0][0], card.encode()).decode()


def _card_id(token: str) -> CardId:
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), token)
    try:
        return CardId(plain.encode("latin-1").decode())
    except UnicodeError:
        raise BadRequest(f"card {token!r} is not written as a card id") from None
