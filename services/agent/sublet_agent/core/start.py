"""May a container start, and with what: the ledger's grants decide, never an annotation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sublet.contract import keys
from sublet.model.card import Card, Vendor
from sublet.model.claim import ContainerKind
from sublet.model.ids import CardId
from sublet.model.placement import GrantState, LedgerGrant, LedgerMeta, NodeLedger
from sublet_agent.core.edits import Edits, Node, Runtime
from sublet_agent.core.identity import Identity
from sublet_agent.core.record import Record


@dataclass(frozen=True, slots=True)
class Give:
    record: Record


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is known yet that would decide it; the reason is what the kubelet hears when time is up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Not now; the kubelet asks again by itself."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that a start is decided by; None means that it was not read yet."""

    meta: LedgerMeta | None = None
    entry: NodeLedger | None = None
    cards: Mapping[CardId, Card] | None = None
    nodes: Mapping[CardId, tuple[Node, ...]] = field(default_factory=dict)
    runtime: Runtime = Runtime.PLAIN
    boot_id: str = ""


def decide(who: Identity, record: Record | None, known: Known, *, now: float) -> Give | Wait | Refuse:
    """Decide the start of a container of `who`.

    A container that ran on these cards before starts again from its record: without the bus, and on a card
    that was closed since. A first start needs a grant of the ledger for every container of the slot.
    """
    if record is not None and record.uid == who.uid and who.containers <= record.containers:
        return _again(record, known)
    if who.listed is None:
        return Refuse("PodResources could not be read, so nothing confirms who holds the slot")
    if known.meta is None or not known.meta.complete:
        return Wait("the ledger is not complete yet, so a missing grant means nothing")
    if known.entry is None:
        return Wait("the ledger's entry of this node was not read yet")
    grants = [grant for grant in known.entry.grants if grant.uid == who.uid]
    missing = who.containers - {grant.container for grant in grants}
    if missing:
        return Wait(f"the ledger has no grant for pod {who.uid}, container {', '.join(sorted(missing))}")
    if known.cards is None:
        return Wait("the cards of this node were not read yet")
    mine = [grant for grant in grants if grant.container in who.containers]
    if objection := _objection(who, mine, known.entry, known.cards):
        return objection
    return Give(_record(who, mine, known, known.cards, now))


def _again(record: Record, known: Known) -> Give | Wait | Refuse:
    """The same cards as before; their device nodes are read anew, since a reboot may renumber them.

    A partition must still be there: the nodes of one that was destroyed may open another's.
    """
    if record.parents and known.cards is None:
        return Wait("the partitions of this node were not read yet")
    if gone := record.parents.keys() - (known.cards or {}).keys():
        return Refuse(f"partition {', '.join(sorted(gone))} is there no more; delete the pod")
    if all(card in known.nodes for card in record.cards):
        nodes = _nodes(record.cards, known)
        return Give(replace(record, boot_id=known.boot_id, edits=replace(record.edits, nodes=nodes)))
    if record.boot_id != known.boot_id:
        unseen = ", ".join(card for card in record.cards if card not in known.nodes)
        return Refuse(f"card {unseen} was not seen since the node booted")
    return Give(record)


def _objection(
    who: Identity, grants: Sequence[LedgerGrant], entry: NodeLedger, seen: Mapping[CardId, Card]
) -> Refuse | None:
    heirs = {grant.container for grant in grants if grant.kind is not ContainerKind.INIT}
    if len(heirs) > 1:
        return Refuse(f"slot {who.slot} is shared by {', '.join(sorted(heirs))}, which run side by side")
    listed = who.listed or frozenset()
    if heirs != listed:
        return Refuse(
            f"PodResources gives {who.slot} to {', '.join(sorted(listed)) or 'nobody'}, "
            f"the ledger to {', '.join(sorted(heirs)) or 'init containers only'}"
        )
    if strangers := {grant.heir for grant in grants if grant.heir} - who.containers:
        return Refuse(
            f"the ledger lets {', '.join(sorted(strangers))} inherit {who.slot}, the kubelet does not"
        )
    if who.pod is not None and any(grant.pod != who.pod for grant in grants):
        return Refuse(f"PodResources gives {who.slot} to {who.pod}, the ledger to {grants[0].pod}")
    if any(grant.state is GrantState.ENDING for grant in grants):
        return Refuse(f"the grant of pod {grants[0].pod} is ending")
    cards = {grant.grant.card for grant in grants}
    closed_now = set(entry.closed)
    if closed := {card for card in cards if closed_now & {card, seen[card].parent if card in seen else None}}:
        return Refuse(f"card {', '.join(sorted(closed))} is closed and this container never ran on it")
    if absent := cards - seen.keys():
        return Refuse(f"card {', '.join(sorted(absent))} is granted and not seen on this node")
    if divided := {card for card in cards if seen[card].mig and not seen[card].profile}:
        return Refuse(f"card {', '.join(sorted(divided))} is granted whole and in MIG mode")
    return None


def _record(
    who: Identity, grants: Sequence[LedgerGrant], known: Known, seen: Mapping[CardId, Card], now: float
) -> Record:
    heir = _heir(grants)
    mine = sorted((grant for grant in grants if grant.container == heir), key=lambda grant: grant.grant.index)
    cards = tuple(grant.grant.card for grant in mine)
    env: dict[str, str] = {}
    for grant in sorted(grants, key=lambda grant: (grant.container == heir, grant.container)):
        env |= grant.env
    env |= _vendor_env([seen[card] for card in cards], known.runtime)
    return Record(
        slot=who.slot,
        uid=who.uid,
        pod=grants[0].pod,
        containers=who.containers,
        decision=grants[0].decision,
        cards=cards,
        edits=Edits(env=env, nodes=_nodes(cards, known)),
        boot_id=known.boot_id,
        parents={card: parent for card in cards if (parent := seen[card].parent)},
        prepared_s=now,
    )


def _nodes(cards: Sequence[CardId], known: Known) -> tuple[Node, ...]:
    """Every device node once; cards share control nodes."""
    nodes = {node.container_path: node for card in cards for node in known.nodes.get(card, ())}
    return tuple(nodes.values())


def _heir(grants: Sequence[LedgerGrant]) -> str:
    """The container whose cards all of the slot get; among plain init containers the one with most."""
    count = {grant.container: 0 for grant in grants}
    for grant in grants:
        count[grant.container] += 1
    return max(
        grants,
        key=lambda grant: (grant.kind is not ContainerKind.INIT, count[grant.container], grant.container),
    ).container


def _vendor_env(cards: Sequence[Card], runtime: Runtime) -> dict[str, str]:
    """The same as in env mode, but for a runtime that would inject the cards a second time."""
    nvidia = ",".join(card.id for card in cards if card.vendor is Vendor.NVIDIA)
    if not nvidia:
        return {}
    if runtime is Runtime.NVIDIA:
        return {keys.ENV_NVIDIA_VISIBLE: "void", keys.ENV_CARDS: nvidia}
    return {keys.ENV_NVIDIA_VISIBLE: nvidia}
