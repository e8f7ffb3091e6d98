"""What would have to leave a node before a pod fits there, and how the node looks to the pods behind it.

A plan costs nobody anything by itself: it names who is waited for (or evicted), and how much of the node the
pods behind may take without making the wait longer.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sublet.model.claim import PodAsk, ServiceClass
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant
from sublet.model.reasons import Reason
from sublet_scheduler.core.assigning import Asked, Assigned, Patience, assign, grants_of
from sublet_scheduler.core.matching import node_objection
from sublet_scheduler.core.node import CardState, HostUse, NodeState, counted_grants

NODES_LOOKED_AT = 32
"""Of all nodes that would do when empty, those on which the fewest shares are in the way."""
NODES_COMPARED = 4
"""A plan is sought on so many of them at once, and on more only where none has one."""

TOO_SMALL = 1_000
"""Counts as so many shares: more than any card carries."""

PASSING = frozenset({Reason.INSUFFICIENT_CPU, Reason.INSUFFICIENT_HOST_MEMORY, Reason.TOO_MANY_PODS})
"""Objections to a node that end when pods leave it."""

Worth = tuple[int, int, float]
"""Of a booking: 0 where it leaves anyhow, its rank, and minus its creation; the least leaves first."""
Leavers = Mapping[str, Worth]
"""Booking key -> worth of those that may be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The pod gets `grants` on `node` once `leaving` (booking keys) have left."""

    node: NodeName
    leaving: frozenset[str]
    containers: Mapping[str, tuple[CardGrant, ...]]
    grants: tuple[CardGrant, ...]
    """Those that count: an init container's are its heir's."""
    host: HostUse


def after(
    node: NodeState,
    *,
    leaving: Iterable[str] = (),
    grants: Iterable[CardGrant] = (),
    host: HostUse | None = None,
) -> NodeState:
    """A copy of `node` as it is once `leaving` have left and `grants` are given."""
    view = replace(
        node,
        cards={id_: replace(card) for id_, card in node.cards.items()},
        hosts=dict(node.hosts),
        resources=dict(node.resources),
    )
    view.by_index = tuple(view.cards.values())
    for key in leaving:
        _move(view, key, -1)
    for grant in grants:
        _count(view.cards.get(grant.card), grant, 1)
    if host:
        _use(view, "", host, 1)
    return view


def beside(node: NodeState, plan: Plan) -> NodeState:
    """`node` as the pods behind the plan's pod may use it: what is free now and also when that has come."""
    then = after(node, leaving=plan.leaving, grants=plan.grants, host=plan.host)
    cards = {id_: _fuller(now, then.cards[id_]) for id_, now in node.cards.items()}
    return replace(
        then,
        cards=cards,
        by_index=tuple(cards.values()),
        hosts=max(node.hosts, then.hosts, key=len),
        resources={
            name: max(node.resources.get(name, 0), then.resources.get(name, 0))
            for name in node.resources.keys() | then.resources.keys()
        },
        cpu_milli=max(node.cpu_milli, then.cpu_milli),
        memory_mib=max(node.memory_mib, then.memory_mib),
    )


def seen_past(node: NodeState, kept: Mapping[NodeName, Sequence[Plan]]) -> NodeState:
    """The node as a pod may use it that comes after those for whom something is kept there."""
    for plan in kept.get(node.name, ()):
        node = beside(node, plan)
    return node


def apart(node: NodeState, mine: ServiceClass) -> NodeState:
    """`node` as if the cards that carry pods of the other service class took no more."""
    taken = {
        grant.card
        for booking in node.bookings.values()
        if booking.service_class not in (None, mine)
        for grant in counted_grants(booking.held)
    }
    return without(node, taken)


def without(node: NodeState, taken: Collection[CardId]) -> NodeState:
    """`node` as if the cards `taken` took no more."""
    if not taken:
        return node
    cards = {id_: replace(card, open=False) if id_ in taken else card for id_, card in node.cards.items()}
    return replace(node, cards=cards, by_index=tuple(cards.values()))


def seats(
    node: NodeState, ask: PodAsk, asked: Asked, *, now: float, fresh_s: float, patience: Patience
) -> Mapping[str, tuple[CardGrant, ...]] | None:
    """The grants that `ask` would get on `node` (mostly a view), if any; its totals are not asked."""
    if node_objection(node, ask, now=now, fresh_s=fresh_s):
        return None
    assigned = assign(node.by_index, asked, shares_per_card=node.shares_per_card, patience=patience)
    return grants_of(assigned, asked) if isinstance(assigned, Assigned) else None


def plan_on(
    node: NodeState,
    ask: PodAsk,
    asked: Asked,
    leavers: Leavers,
    *,
    now: float,
    fresh_s: float,
    patience: Patience,
) -> Plan | None:
    """The plan with the fewest leavers that are worth the least, as far as three ways of trying find it."""
    found = []
    for order in (_by_worth, _by_card, _by_size):
        view = after(node, leaving=leavers)
        if seats(view, ask, asked, now=now, fresh_s=fresh_s, patience=patience) is None:
            return None
        leaving = set(leavers)
        for key in order(node, asked, leavers):
            _move(view, key, 1, of=node)
            if seats(view, ask, asked, now=now, fresh_s=fresh_s, patience=patience) is None:
                _move(view, key, -1, of=node)
            else:
                leaving.discard(key)
        containers = seats(view, ask, asked, now=now, fresh_s=fresh_s, patience=patience)
        if containers is not None:
            found.append(plan_of(node.name, ask, leaving, containers))
    return min(found, key=lambda plan: cost(plan, leavers), default=None)


def plan_of(
    node: NodeName, ask: PodAsk, leaving: Iterable[str], containers: Mapping[str, tuple[CardGrant, ...]]
) -> Plan:
    return Plan(
        node=node,
        leaving=frozenset(leaving),
        containers=containers,
        grants=counted(ask, containers),
        host=HostUse(cpu_milli=ask.cpu_milli, memory_mib=ask.memory_mib, resources=ask.resources),
    )


def counted(ask: PodAsk, containers: Mapping[str, tuple[CardGrant, ...]]) -> tuple[CardGrant, ...]:
    """All grants but those of init containers whose heir is counted instead."""
    return tuple(grant for one in ask.claims if not one.heir for grant in containers[one.container])


def cost(plan: Plan, leavers: Leavers) -> tuple[int, int, tuple[int, ...], float, NodeName]:
    """Fewest first that would not leave anyhow; then those of the lowest priority and the youngest."""
    worths = [leavers[key] for key in plan.leaving]
    kept = [worth for worth in worths if worth[0]]
    priorities = tuple(sorted((worth[1] for worth in kept), reverse=True))
    return (len(kept), len(worths), priorities, sum(worth[2] for worth in kept), plan.node)


Ranking = Sequence[tuple[int, NodeName]]
"""Shares in the way and node, the fewest first."""


def ranking(nodes: Iterable[NodeState], asked: Asked) -> Ranking:
    """A guess at where a pod will fit soonest, by the cards alone."""
    found = ((_shares_in_the_way(node, asked), node.name) for node in nodes if node.facts)
    return sorted((shares, name) for shares, name in found if shares is not None)


def nearest(
    nodes: Mapping[NodeName, NodeState],
    ranked: Ranking,
    ask: PodAsk,
    avoid: Container[NodeName],
    *,
    now: float,
    fresh_s: float,
) -> Iterator[NodeState]:
    """The nodes that would do when empty, in the order of `ranked`; no more than are worth a look."""
    left = NODES_LOOKED_AT
    for _, name in ranked:
        node = nodes.get(name)
        if node is None or name in avoid:
            continue
        against = node_objection(node, ask, now=now, fresh_s=fresh_s)
        if against is None or against in PASSING:
            yield node
            left -= 1
            if not left:
                return


def _shares_in_the_way(node: NodeState, asked: Asked) -> int | None:
    """A guess, for the order alone: the shares on the emptiest cards; those that are too small come last."""
    total = 0
    for load in asked.loads:
        shares = sorted(
            card.shares
            if load.exclusive or (load.of_card(card.card) <= card.total_mib and load.each_within(card.card))
            else TOO_SMALL
            for card in node.by_index
            if card.open
        )
        if len(shares) < load.cards:
            return None
        total += sum(shares[: load.cards])
    return total


def _by_worth(node: NodeState, asked: Asked, leavers: Leavers) -> Sequence[str]:  # noqa: ARG001 - as the others
    """Whom to keep first: who is worth most."""
    return sorted(leavers, key=lambda key: (tuple(-part for part in leavers[key]), key))


def _by_card(node: NodeState, asked: Asked, leavers: Leavers) -> Sequence[str]:
    """Whom to keep first: who is elsewhere than on the emptiest cards, then who is worth most."""
    spare = _emptiest(node, asked)
    return sorted(
        leavers, key=lambda key: (_on(node, key, spare), tuple(-part for part in leavers[key]), key)
    )


def _by_size(node: NodeState, asked: Asked, leavers: Leavers) -> Sequence[str]:
    """Whom to keep first: as above, but the small ones, so that one large one leaves for many."""
    spare = _emptiest(node, asked)

    def last(key: str) -> tuple[bool, int, int, int, float, str]:
        leaves, priority, age = leavers[key]
        return (_on(node, key, spare), -leaves, -priority, _mib(node, key), -age, key)

    return sorted(leavers, key=last)


def _emptiest(node: NodeState, asked: Asked) -> frozenset[CardId]:
    wanted = sum(load.cards for load in asked.loads)
    able = [card for card in node.by_index if card.open]
    by_shares = sorted(able, key=lambda card: (card.shares, -card.free_mib, card.card.index))
    return frozenset(card.card.id for card in by_shares[:wanted])


def _on(node: NodeState, key: str, cards: frozenset[CardId]) -> bool:
    booking = node.bookings.get(key)
    return booking is not None and any(grant.card in cards for grant in counted_grants(booking.held))


def _mib(node: NodeState, key: str) -> int:
    booking = node.bookings.get(key)
    return sum(grant.memory_mib or 0 for grant in counted_grants(booking.held)) if booking else 0


def _move(view: NodeState, key: str, sign: int, *, of: NodeState | None = None) -> None:
    """Take a booking out of the view, or bring it back from the node the view was made of."""
    booking, use = view.bookings.get(key), (of or view).hosts.get(key)
    for grant in counted_grants(booking.held) if booking else ():
        _count(view.cards.get(grant.card), grant, sign)
    if use:
        _use(view, key, use, sign)


def _count(card: CardState | None, grant: CardGrant, sign: int) -> None:
    if card is None:
        return
    card.shares += sign
    card.used_mib += sign * (grant.memory_mib or 0)
    card.used_core += sign * grant.core_percent
    if grant.exclusive:
        card.exclusive = sign > 0


def _use(view: NodeState, key: str, use: HostUse, sign: int) -> None:
    view.cpu_milli += sign * use.cpu_milli
    view.memory_mib += sign * use.memory_mib
    for name, amount in use.resources.items():
        view.resources[name] = view.resources.get(name, 0) + sign * amount
    if sign > 0:
        view.hosts[key] = use
    else:
        view.hosts.pop(key, None)


def _fuller(now: CardState, then: CardState) -> CardState:
    return replace(
        now,
        shares=max(now.shares, then.shares),
        used_mib=max(now.used_mib, then.used_mib),
        used_core=max(now.used_core, then.used_core),
        exclusive=now.exclusive or then.exclusive,
    )
