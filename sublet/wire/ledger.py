"""The ledger's entries as bytes and back."""

from google.protobuf.message import DecodeError

from sublet.model.claim import ContainerKind
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, GrantState, LedgerGrant, LedgerMeta, NodeLedger, Shareable
from sublet.v1 import ledger_pb2 as pb


def _grant_out(grant: LedgerGrant) -> pb.Grant:
    message = pb.Grant(
        namespace=grant.pod.namespace,
        pod=grant.pod.name,
        pod_uid=grant.uid,
        decision=grant.decision,
        container=grant.container,
        kind=grant.kind,
        dialect=grant.dialect,
        card=grant.grant.card,
        index=grant.grant.index,
        core_percent=grant.grant.core_percent,
        exclusive=grant.grant.exclusive,
        state=grant.state,
        env=dict(grant.env),
        heir=grant.heir,
    )
    if grant.grant.memory_mib is not None:
        message.memory_mib = grant.grant.memory_mib
    return message


def _grant_in(message: pb.Grant) -> LedgerGrant:
    return LedgerGrant(
        pod=PodRef(message.namespace, message.pod),
        uid=PodUid(message.pod_uid),
        decision=DecisionId(message.decision),
        container=message.container,
        kind=ContainerKind(message.kind),
        dialect=message.dialect,
        grant=CardGrant(
            card=CardId(message.card),
            index=message.index,
            memory_mib=message.memory_mib if message.HasField("memory_mib") else None,
            core_percent=message.core_percent,
            exclusive=message.exclusive,
        ),
        state=GrantState(message.state),
        env=dict(message.env),
        heir=message.heir,
    )


def node_ledger_out(entry: NodeLedger) -> bytes:
    return pb.NodeLedger(
        node=entry.node,
        term=entry.term,
        grants=[_grant_out(grant) for grant in entry.grants],
        closed=entry.closed,
        shareable=[
            pb.Shareable(card=one.card, memory_mib=one.memory_mib, core_percent=one.core_percent)
            for one in entry.shareable
        ],
    ).SerializeToString(deterministic=True)


def node_ledger_in(body: bytes, *, revision: int) -> NodeLedger:
    """Raises BadRequest where `body` is not a ledger entry."""
    try:
        message = pb.NodeLedger.FromString(body)
        return NodeLedger(
            node=NodeName(message.node),
            term=message.term,
            grants=tuple(_grant_in(grant) for grant in message.grants),
            closed=tuple(CardId(card) for card in message.closed),
            shareable=tuple(
                Shareable(card=CardId(one.card), memory_mib=one.memory_mib, core_percent=one.core_percent)
                for one in message.shareable
            ),
            revision=revision,
        )
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not a ledger entry: {error}") from error


def ledger_meta_out(meta: LedgerMeta) -> bytes:
    return pb.LedgerMeta(epoch=meta.epoch, complete=meta.complete, term=meta.term).SerializeToString()


def ledger_meta_in(body: bytes) -> LedgerMeta:
    """Raises BadRequest where `body` is not the ledger's meta entry."""
    try:
        message = pb.LedgerMeta.FromString(body)
    except DecodeError as error:
        raise BadRequest(f"not the ledger's meta entry: {error}") from error
    return LedgerMeta(epoch=message.epoch, complete=message.complete, term=message.term)
