"""Public events about claims, cards and people's acts, as canonical protobuf JSON."""

from collections.abc import Mapping

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, Placement
from sublet.v1 import event_pb2 as pb


def share_event_out(
    what: str,
    *,
    pod: PodRef,
    uid: PodUid | None,
    decision: DecisionId,
    placement: Placement | None,
    reasons: Mapping[str, int],
    message: str,
    seq: int,
) -> bytes:
    """What became of a pod's claim; `placement` may be narrowed to the grants that matter."""
    return _json(
        pb.ShareEvent(
            what=what,
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=uid or "",
            decision=decision,
            node=placement.node if placement else "",
            grants=[
                _grant_out(container, grant)
                for container, grants in (placement.containers.items() if placement else ())
                for grant in grants
            ],
            reasons={str(reason): count for reason, count in reasons.items()},
            message=message,
            seq=seq,
        )
    )


def card_event_out(what: str, *, node: NodeName, card: CardId, seq: int) -> bytes:
    """What happened to a card as such."""
    return _json(pb.CardEvent(what=what, card=pb.CardInfo(uuid=card), node=pb.NodeInfo(name=node), seq=seq))


def audit_event_out(what: str, *, by: str, message: str, seq: int, note: str = "") -> bytes:
    """What a person did, or what was refused or found out for safety."""
    return _json(pb.AuditEvent(what=what, by=by, note=note, message=message, seq=seq))


def _grant_out(container: str, grant: CardGrant) -> pb.EventGrant:
    message = pb.EventGrant(
        container=container,
        card=grant.card,
        index=grant.index,
        core_percent=grant.core_percent,
        exclusive=grant.exclusive,
    )
    if grant.memory_mib is not None:
        message.memory_mib = grant.memory_mib
    return message


def _json(message: Message) -> bytes:
    return MessageToJson(message, indent=None).encode()
