"""What was prepared for a slot, kept on disk so that its containers start again without the bus."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, PodRef, PodUid, SlotId
from sublet_agent.core.edits import Edits, Node

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One slot's holder and what its containers get.

    `prepared_s` is monotonic time of this process; minus infinity for a record read from disk.
    """

    slot: SlotId
    uid: PodUid
    pod: PodRef
    containers: frozenset[str]
    decision: DecisionId
    cards: tuple[CardId, ...]
    edits: Edits
    boot_id: str
    parents: Mapping[CardId, CardId] = field(default_factory=dict)
    """Of those `cards` that are partitions, the card that each is part of."""
    prepared_s: float = field(default=float("-inf"), compare=False)


def record_out(record: Record) -> str:
    document = {
        "version": VERSION,
        "slot": record.slot,
        "uid": record.uid,
        "namespace": record.pod.namespace,
        "pod": record.pod.name,
        "containers": sorted(record.containers),
        "decision": record.decision,
        "cards": list(record.cards),
        "bootId": record.boot_id,
        "parents": dict(record.parents),
        "env": dict(record.edits.env),
        "nodes": [
            {"host": node.host_path, "container": node.container_path, "permissions": node.permissions}
            for node in record.edits.nodes
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def record_in(text: str | bytes) -> Record:
    """Raises BadRequest where `text` is not a record of a version that this code knows."""
    try:
        document: Mapping[str, object] = json.loads(text)
        if document["version"] != VERSION:
            raise BadRequest(f"a record of version {document['version']!r}", hint=f"Known: {VERSION}")
        return Record(
            slot=SlotId(_text(document, "slot")),
            uid=PodUid(_text(document, "uid")),
            pod=PodRef(_text(document, "namespace"), _text(document, "pod")),
            containers=frozenset(str(name) for name in _list(document, "containers")),
            decision=DecisionId(_text(document, "decision")),
            cards=tuple(CardId(str(card)) for card in _list(document, "cards")),
            boot_id=_text(document, "bootId"),
            parents={
                CardId(str(one)): CardId(str(card))
                for one, card in _mapping(document.get("parents", {})).items()
            },
            edits=Edits(
                env={str(name): str(value) for name, value in _mapping(document["env"]).items()},
                nodes=tuple(
                    Node(
                        host_path=_text(node, "host"),
                        container_path=_text(node, "container"),
                        permissions=_text(node, "permissions"),
                    )
                    for node in map(_mapping, _list(document, "nodes"))
                ),
            ),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRequest(f"not a record of what was prepared: {error!r}") from error


def _text(document: Mapping[str, object], key: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {type(value).__name__}")
    return value


def _list(document: Mapping[str, object], key: str) -> list[object]:
    value = document[key]
    if not isinstance(value, list):
        raise TypeError(f"{key} is {type(value).__name__}")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"a {type(value).__name__} where a mapping belongs")
    return value
