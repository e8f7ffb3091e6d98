"""A pass over a long queue lets reviews through, and changes nothing of who is served first."""

from dataclasses import replace

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.state import Rules

from sublet.contract.decision import Decision
from sublet.model.ids import DecisionId, PodUid
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests.builders import ask, cards, container, pod
from tests.unit.scheduler.world import World

NODES = 60
SMALL = Rules(looks_a_slice=50)
"""A slice that looks at fewer nodes than there are."""


def fleet(rules: Rules = SMALL) -> World:
    world = World(rules)
    for at in range(NODES):
        world.node(f"n{at:02}", *cards(f"n{at:02}", 2))
    return world


def waits(world: World, *names: str, mib: int = 6144, priority: int = 0) -> None:
    """Pods that the watch shows before anything was decided of them; no pass is due yet."""
    world.engine.state.passed_s = world.now
    for at, name in enumerate(names):
        asked = ask(pod(name, container(gpu_memory=mib + 8 * (at % 3)), priority=priority))
        facts = PodFacts(
            uid=PodUid(name),
            ref=asked.pod,
            version="1",
            ask=asked,
            gated=True,
            decision=Decision(id=DecisionId(f"of-{name}"), uid=None, placement=None),
            decision_text="{}",
            proposed=True,
            created_s=world.now,
        )
        world.pods[facts.uid] = facts
        world.engine.handle(ev.PodSeen(facts), now=world.now)


def begin(world: World) -> None:
    world.now += 1
    world.send(ev.Tick())


def test_no_slice_looks_at_more_nodes_than_it_may() -> None:
    world = fleet(Rules(looks_a_slice=50))
    waits(world, *(f"p{at:03}" for at in range(300)))
    placer, before, slices = world.engine.state.placer, 0, 0
    before = placer.looks
    begin(world)
    while world.engine.passing:
        assert placer.looks - before <= 2 * 50
        before = placer.looks
        slices += 1
        world.send(ev.Tick())
    assert slices > NODES * 3 / 50


def test_a_pass_is_the_same_in_many_slices_as_in_one() -> None:
    outcomes = []
    for looks in (1, 50, 10**9):
        world = fleet(Rules(looks_a_slice=looks))
        waits(world, *(f"p{at:03}" for at in range(150)))
        waits(world, *(f"high{at}" for at in range(10)), priority=5)
        begin(world)
        while world.engine.passing:
            world.send(ev.Tick())
        told = [(one.ref.name, one.placement) for one in world.effects(ef.Announce) if one.what == "decided"]
        reasons = {uid: record.no_room for uid, record in world.engine.state.records.items()}
        outcomes.append((told, reasons, list(world.engine.holds.kept)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_review_between_slices_goes_behind_who_was_not_tried_yet() -> None:
    world = fleet()
    waits(world, *(f"p{at:03}" for at in range(150)))
    begin(world)
    assert world.engine.passing
    id_ = DecisionId("new")
    [*_, answer] = world.engine.handle(ev.ReviewAsked(id_, ask(pod("new"))), now=world.now)
    assert isinstance(answer, ef.Answer)
    assert isinstance(answer.outcome, NoRoom)
    assert answer.outcome.reasons == {Reason.QUEUED: 1}
    assert world.engine.passing


def test_a_review_of_higher_priority_is_placed_between_slices() -> None:
    world = fleet(Rules(looks_a_slice=NODES))
    waits(world, *(f"p{at:03}" for at in range(150)))
    begin(world)
    urgent = ask(pod("urgent", priority=9))
    [*_, answer] = world.engine.handle(ev.ReviewAsked(DecisionId("u"), urgent), now=world.now)
    assert isinstance(answer, ef.Answer)
    assert isinstance(answer.outcome, Placement)
    assert world.engine.passing


def test_a_review_that_asks_as_none_did_before_is_left_to_the_queue_where_nodes_are_many() -> None:
    world = fleet()
    placer = world.engine.state.placer
    before = placer.looks
    first = pod("first", container(gpu_memory=2048))
    [*_, answer] = world.engine.handle(ev.ReviewAsked(DecisionId("f"), ask(first)), now=world.now)
    assert isinstance(answer, ef.Answer)
    assert isinstance(answer.outcome, NoRoom)
    assert answer.outcome.reasons == {Reason.QUEUED: 1}
    assert placer.looks - before <= 50

    uid = world.create(pod("second", container(gpu_memory=2048)))
    world.wait(1)
    assert uid in world.released


def test_a_review_that_finds_no_room_looks_at_no_more_nodes_than_a_slice() -> None:
    world = fleet()
    placer = world.engine.state.placer
    large = pod("large", container(gpu_memory=10**6))
    seen: list[NoRoom] = []
    while not seen or Reason.QUEUED in seen[-1].reasons:
        before = placer.looks
        review = ev.ReviewAsked(DecisionId(f"l{len(seen)}"), ask(large), dry_run=True)
        [*_, answer] = world.engine.handle(review, now=world.now)
        assert isinstance(answer, ef.Answer)
        assert isinstance(answer.outcome, NoRoom)
        assert placer.looks - before <= 3 * 50
        seen.append(answer.outcome)
    assert len(seen) > 1
    assert Reason.LARGER_THAN_ANY_NODE in seen[-1].reasons


def test_what_may_free_room_ends_the_pass_first() -> None:
    """Otherwise a pod at its end could take what one at its head was refused."""
    world = fleet()
    waits(world, *(f"p{at:03}" for at in range(150)))
    begin(world)
    assert world.engine.passing
    world.send(ev.NodeSeen(replace(world.nodes[world.engine.state.fleet.order[0]], ready=False)))
    assert not world.engine.passing


def test_a_kept_place_is_kept_in_the_midst_of_a_pass() -> None:
    world = World(Rules(looks_a_slice=1))
    world.node("n1", *cards("n1", 1))
    world.node("n2", *cards("n2", 1))
    for name in ("a", "b"):
        world.bind(world.create(pod(name, container(gpu_memory=6144))))
    world.create(pod("whole", container(gpu=1)))
    [kept] = world.engine.holds.kept
    waits(world, "x", "y", "z", mib=9000)
    begin(world)
    assert world.engine.passing
    named = ask(pod("named", container(gpu_memory=2048), nodeName=str(kept)))
    effects = world.engine.handle(ev.ReviewAsked(DecisionId("n"), named), now=world.now)
    [answer] = [one for one in effects if isinstance(one, ef.Answer)]
    assert not isinstance(answer.outcome, Placement)
