"""A scheduler that takes over makes every entry of the ledger its own, and nobody waits for that."""

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.ledgers import CHECKS_AT_ONCE, FENCES_AT_ONCE
from sublet_scheduler.core.records import Stage

from sublet.model.ids import NodeName
from sublet.model.placement import NodeLedger
from tests.builders import card, container, pod
from tests.unit.scheduler.world import World

N1 = NodeName("n1")


def writes(world: World) -> list[NodeName]:
    return [one.entry.node for one in world.held if isinstance(one, ef.WriteLedger)]


def of_many_nodes(count: int) -> World:
    """No entry of any node exists, and nobody has taken the ledger over yet."""
    world = World(term=0)
    world.send(ev.LedgerLost())
    for number in range(count):
        world.node(f"n{number:04d}", card(f"card-{number}", gib=10))
    world.hold_writes = True
    return world


def listed(world: World, *, term: int = 1, complete: bool = True) -> None:
    for entry in world.ledger.values():
        world.send(ev.LedgerSeen(entry))
    world.term = term
    world.send(ev.LedgerListed(term, complete=complete))


def rebuilt(world: World) -> bool:
    return world.engine.rebuilt


def test_a_node_without_an_entry_gets_one_of_the_new_term() -> None:
    world = World()
    world.node("n1", card("A", gib=10))
    world.node("n2", card("B", gib=10))
    world.restart()
    assert {name: entry.term for name, entry in world.ledger.items()} == {"n1": 2, "n2": 2}


def test_a_node_whose_agent_speaks_later_gets_an_entry_too() -> None:
    world = World()
    world.node("n1", card("A", gib=10))
    assert world.entry("n1") == NodeLedger(node=N1, term=1, revision=1)


def test_a_node_without_cards_needs_no_entry() -> None:
    world = World()
    world.node("n1")
    world.inventories.clear()
    world.ledger.clear()
    world.restart()
    assert world.ledger == {}


def test_an_older_scheduler_cannot_begin_on_a_node_that_it_never_wrote() -> None:
    """It runs on with the picture of before; the compare-and-set of the bus stops it."""
    older, younger = of_many_nodes(1), of_many_nodes(1)
    listed(older, term=1)
    uid = older.create(pod("pod", container(gpu_memory=2048)))
    assert older.stage(uid) is Stage.COMMITTING
    younger.hold_writes = False
    listed(younger, term=2)
    younger.settle()
    older.ledger = younger.ledger
    older.hold_writes = False
    older.settle()
    assert older.effects(ef.StepDown)
    assert not older.effects(ef.ReleasePod)
    assert younger.entry("n0000").term == 2


def test_entries_that_nobody_waits_for_are_written_a_few_at_a_time() -> None:
    world = of_many_nodes(FENCES_AT_ONCE + 10)
    listed(world)
    assert len(writes(world)) == FENCES_AT_ONCE
    world.hold_writes = False
    world.settle()
    assert len(world.ledger) == FENCES_AT_ONCE + 10


def test_a_pod_is_not_kept_waiting_by_the_entries_of_other_nodes() -> None:
    world = of_many_nodes(FENCES_AT_ONCE + 10)
    listed(world)
    uid = world.create(pod("pod", container(gpu_memory=2048)))
    node = world.engine.state.records[uid].node
    while world.stage(uid) is Stage.COMMITTING:
        [mine] = [one for one in world.held if isinstance(one, ef.WriteLedger) and one.entry.node == node]
        world.held.remove(mine)
        world.store(mine.entry)
    world.settle()
    assert world.stage(uid) is Stage.RELEASED
    assert len(writes(world)) >= FENCES_AT_ONCE


def test_entries_are_looked_at_in_portions_so_that_other_events_come_between() -> None:
    world = of_many_nodes(2 * CHECKS_AT_ONCE)
    world.ledger = {
        name: NodeLedger(node=name, term=1, revision=number + 1) for number, name in enumerate(world.nodes)
    }
    listed(world)
    assert writes(world) == []
    assert not rebuilt(world)
    assert world.engine.due(world.now) == world.now
    world.send(ev.Tick())
    assert rebuilt(world)
    assert not world.engine.state.ledgers.more_to_check


def test_the_ledger_is_rebuilt_once_every_entry_is_stored_whatever_is_written_after() -> None:
    world = of_many_nodes(2)
    listed(world, complete=False)
    assert not rebuilt(world)
    world.hold_writes = False
    world.settle()
    assert rebuilt(world)
    world.hold_writes = True
    world.create(pod("pod", container(gpu_memory=2048)))
    assert writes(world)
    assert rebuilt(world)


def test_the_outcome_of_a_write_from_before_the_ledger_was_lost_changes_nothing() -> None:
    world = of_many_nodes(1)
    listed(world)
    world.send(ev.LedgerLost())
    world.send(ev.LedgerWriteFailed(NodeName("n0000")))
    world.held.clear()
    listed(world)
    assert writes(world) == ["n0000"]
