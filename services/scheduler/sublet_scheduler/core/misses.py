"""What comes nearest to taking a pod that finds no room, and what it lacks: "n7 card 2: 512 MiB short".

Worked out only when a pod is told why it waits, never for a decision: a glance at every node says on which
few the cards are looked at, and both stand for some time for all pods that ask alike.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from sublet.model.claim import LinkWish, PodAsk
from sublet.model.ids import CardId, NodeName
from sublet.model.reasons import Reason
from sublet_scheduler.core.assigning import Asked, taken, wish_objection
from sublet_scheduler.core.clearing import PASSING, Plan, seen_past
from sublet_scheduler.core.eligible import Eligible, class_of
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.matching import node_objection, unprepared
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.shapes import Shape

NODES_LOOKED_AT = 16
"""Of those that a glance finds nearest."""
STANDS_S = 1.0
"""So long what was found is told to others that ask alike."""
NEAR_S = 10.0
"""So long the same few nodes are looked at for them."""
MOST_KEPT = 64
WHOLE = 1_000
"""Everything that was asked for; a lack is counted in thousandths of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """`lack` adds up what is lacking, each in thousandths of what was asked: the least is the nearest."""

    lack: int
    text: str


@dataclass(slots=True)
class _Known:
    """Times in monotonic seconds."""

    near: Sequence[NodeName]
    glanced_s: float
    text: str = ""
    told_s: float = float("-inf")


class Misses:
    def __init__(self, fleet: Fleet, eligible: Eligible, fresh_s: float) -> None:
        self._fleet = fleet
        self._eligible = eligible
        self._fresh_s = fresh_s
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self.glances = 0
        """How often all nodes were glanced at."""

    def nearest(
        self,
        ask: PodAsk,
        shape: Shape,
        named: NodeName | None,
        *,
        now: float,
        avoid: Mapping[NodeName, Reason],
        kept: Mapping[NodeName, Sequence[Plan]],
    ) -> str:
        """Node, card and what they lack; empty where no node is one that the pod may ever use.

        `named` is the only node that may be it, where there is one.
        """
        key = (shape.full_key, class_of(ask, shape.asked), ask.cpu_milli, ask.memory_mib, named)
        known = self._known.get(key)
        if known is None or now - known.glanced_s >= NEAR_S:
            known = self._known[key] = _Known(self._near(ask, shape.asked, named), now)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        if now - known.told_s >= STANDS_S:
            nodes = [self._fleet.nodes[name] for name in known.near if name in self._fleet.nodes]
            known.text = self._sought(nodes, ask, shape.asked, now=now, avoid=avoid, kept=kept)
            known.told_s = now
        return known.text

    def _sought(
        self,
        nodes: Sequence[NodeState],
        ask: PodAsk,
        asked: Asked,
        *,
        now: float,
        avoid: Mapping[NodeName, Reason],
        kept: Mapping[NodeName, Sequence[Plan]],
    ) -> str:
        found: Miss | None = None
        for node in nodes:
            if node.name in avoid or not self._usable(node, ask, now):
                continue
            miss = miss_on(seen_past(node, kept), ask, asked)
            if node.name in kept and miss_on(node, ask, asked) is None:
                lack = miss.lack if miss else WHOLE
                miss = Miss(lack=lack, text=f"{node.name}: room, kept for a pod ahead in the queue")
            if miss and (found is None or miss.lack < found.lack):
                found = miss
        return found.text if found else ""

    def _usable(self, node: NodeState, ask: PodAsk, now: float) -> bool:
        against = node_objection(node, ask, now=now, fresh_s=self._fresh_s)
        if against in PASSING:
            against = unprepared(node, now=now, fresh_s=self._fresh_s)
        return against is None and bool(node.cards)

    def _near(self, ask: PodAsk, asked: Asked, named: NodeName | None) -> Sequence[NodeName]:
        fleet = self._fleet
        if named is not None:
            return [named]
        self.glances += 1
        order = fleet.order
        barred = self._eligible.barred(ask, asked).to_bytes(len(order), "little")
        able = (at for at, out in enumerate(barred) if not out)
        near = nsmallest(NODES_LOOKED_AT, ((_glance(fleet.nodes[order[at]], ask, asked), at) for at in able))
        return [order[at] for at in sorted(at for _, at in near)]  # of equals the smaller name is told


def _glance(node: NodeState, ask: PodAsk, asked: Asked) -> int:
    """About how much is lacking, by what is known of the node as a whole."""
    facts = node.facts
    if facts is None or not node.by_index:
        return 100 * WHOLE
    lack = _part(ask.cpu_milli + node.cpu_milli - facts.cpu_milli, ask.cpu_milli)
    lack += _part(ask.memory_mib + node.memory_mib - facts.memory_mib, ask.memory_mib)
    for load in asked.loads:
        if load.exclusive:
            lack += WHOLE * max(0, load.cards - node.unused)
            continue
        has_mib = node.free_mib if load.grows else node.most_free_mib
        lack += _part(load.memory_mib - has_mib, load.memory_mib)
        lack += _part(load.core_percent - node.most_free_core, load.core_percent)
    return lack


def miss_on(node: NodeState, ask: PodAsk, asked: Asked) -> Miss | None:
    """What `node` lacks for the pod; None where it lacks nothing, or could never take it."""
    host = list(_host(node, ask))
    lack, told = sum(part for part, _ in host), []
    cards: Sequence[CardState] = node.by_index
    for load in asked.loads:
        able = [state for state in cards if _may_take(state, load, asked)]
        if len(able) < load.cards:
            few = f"{node.name}: {len(able)} of its cards may be used and {load.cards} are asked for"
            return Miss(lack=lack + WHOLE * (load.cards - len(able)), text=few)
        of_load, chosen = _spread_over(able, load) if load.grows else _on_cards(able, load, node)
        lack += of_load.lack
        if of_load.text:
            told.append(f"{node.name} {of_load.text}")
        cards = taken(cards, chosen, load)
    if host:
        told.append(f"{node.name}: {' and '.join(text for _, text in host)}")
    if told:
        return Miss(lack=lack, text=", ".join(told))
    if asked.wishes.one_numa:
        most = sum(load.cards for load in asked.loads)
        return Miss(lack=WHOLE, text=f"{node.name}: room on {most} cards, but not on those of one NUMA node")
    if asked.wishes.link is LinkWish.REQUIRED and any(load.cards > 1 for load in asked.loads):
        most = max(load.cards for load in asked.loads)
        return Miss(lack=WHOLE, text=f"{node.name}: room on {most} cards, but none joined by nvlink have it")
    return None


def _host(node: NodeState, ask: PodAsk) -> Iterator[tuple[int, str]]:
    if node.facts is None:
        return
    cpu = ask.cpu_milli and node.cpu_milli + ask.cpu_milli - node.facts.cpu_milli
    memory = ask.memory_mib and node.memory_mib + ask.memory_mib - node.facts.memory_mib
    if cpu > 0:
        yield _part(cpu, ask.cpu_milli), f"{cpu}m CPU short"
    if memory > 0:
        yield _part(memory, ask.memory_mib), f"{memory} MiB of host memory short"
    if len(node.hosts) + 1 > node.facts.pods:
        yield WHOLE, "1 pod too many"


def _may_take(state: CardState, load: Load, asked: Asked) -> bool:
    """Whether the card could take the load if nothing else were on it."""
    if not state.open or asked.only_card not in (None, state.card.id):
        return False
    known = load.exclusive or state.card.memory_mib is not None
    return known and wish_objection(state.card, load, asked.wishes) is None


def _on_cards(able: Sequence[CardState], load: Load, node: NodeState) -> tuple[Miss, Sequence[CardState]]:
    """What the cards lack that lack least, and which they are."""
    shares = node.shares_per_card
    lacks: dict[CardId, Sequence[tuple[int, str]]] = {
        state.card.id: list(_card(state, load, shares)) for state in able
    }
    parts = {id_: sum(part for part, _ in some) for id_, some in lacks.items()}
    nearest = sorted(able, key=lambda one: (parts[one.card.id], one.card.index, one.card.id))[: load.cards]
    short = [state for state in nearest if lacks[state.card.id]]
    lack = sum(parts[state.card.id] for state in short)
    if not short:
        return Miss(lack=0, text=""), nearest
    first = short[0]
    part = f" partition {first.card.profile}" if first.card.profile else ""
    text = f"card {first.card.index}{part}: {' and '.join(text for _, text in lacks[first.card.id])}"
    if load.cards > 1:
        text += f" (room on {load.cards - len(short)} of {load.cards} cards)"
    return Miss(lack=lack, text=text), nearest


def _card(state: CardState, load: Load, shares_per_card: int) -> Iterator[tuple[int, str]]:
    if load.exclusive:
        if not state.unused:
            yield WHOLE + state.shares, _in_use(state)
        return
    if state.exclusive:
        yield WHOLE, "a whole-card claim is on it"
        return
    asked_mib = load.of_card(state.card)
    short = asked_mib - state.free_mib
    if short > 0:
        of = _promised(state.total_mib, state.card.memory_mib or 0, "MiB")
        yield _part(short, asked_mib), f"{short} MiB short{of}"
    elif not load.each_within(state.card):
        yield WHOLE, f"one share is larger than its {state.card.memory_mib} MiB"
    core = load.core_percent - state.free_core
    if core > 0:
        of = _promised(state.total_core, 100, "%")
        yield _part(core, load.core_percent), f"{core} % of compute short{of}"
    too_many = state.shares + len(load.needs) - shares_per_card
    if too_many > 0:
        yield WHOLE, f"{too_many} share(s) too many"


def _promised(most: int, has: int, unit: str) -> str:
    return "" if most == has else f" of {most} {unit} that may be promised of its {has} {unit}"


def _in_use(state: CardState) -> str:
    if state.exclusive:
        return "a whole-card claim is on it"
    if state.shares:
        return f"{state.shares} share(s) on it, a whole card is asked for"
    return f"{state.card.used_outside_mib} MiB are used by others, a whole card is asked for"


def _spread_over(able: Sequence[CardState], load: Load) -> tuple[Miss, Sequence[CardState]]:
    """A load whose memory may be spread: over how many cards the least is lacking."""
    free = sorted((one for one in able if not one.exclusive), key=lambda one: (-one.free_mib, one.card.index))
    if not free:
        return Miss(lack=WHOLE, text="cards: whole-card claims are on all of them"), able[:1]

    def short_mib(count: int) -> int:
        each = -(-load.memory_mib // count)
        return sum(max(0, each - one.free_mib) for one in free[:count])

    count = min(range(1, len(free) + 1), key=short_mib)
    short = short_mib(count)
    text = f"cards: {short} MiB short over {count} of them" if short else ""
    return Miss(lack=_part(short, load.memory_mib), text=text), free[:count]


def _part(lacking: int, asked: int) -> int:
    """In thousandths of what was asked, rounded up."""
    return -(-max(0, lacking) * WHOLE // asked) if asked and lacking > 0 else 0
