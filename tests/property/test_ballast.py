"""In any history the ballast keeps what idle cards need, and never what is not free."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sublet_scheduler.core.ratio import LEAST, ballast_size, free_of, idle_cards
from sublet_scheduler.core.records import Stage

from sublet.model.ids import PodUid
from tests.builders import container, pod
from tests.unit.scheduler.test_ballast import FOUR, N1, Kept, four_cards

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("card"), st.integers(0, 8)),
        st.tuples(st.just("share"), st.integers(0, 4)),
        st.tuples(st.just("other"), st.integers(0, 12)),
        st.tuples(st.just("end"), st.integers(0, 30)),
        st.tuples(st.just("time"), st.integers(1, 20)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("slow"), st.integers(0, 1)),
        st.tuples(st.just("fails"), st.integers(0, 1)),
    ),
    max_size=14,
)


def check(world: Kept) -> None:
    """What holds once all writes are done."""
    node = world.engine.state.fleet.nodes[N1]
    free = free_of(node)
    wanted = ballast_size(FOUR, idle_cards=idle_cards(node), free=free)
    assert world.count <= 1
    if world.count:
        assert world.kept == wanted
        assert world.kept.cpu_milli <= max(free.cpu_milli, LEAST.cpu_milli)
    for record in world.engine.state.records.values():
        assert record.stage is not Stage.RELEASING, "nobody waits for a ballast that made room"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(STEPS)
def test_the_ballast_settles_at_what_the_ratio_says(steps: list[tuple[str, int]]) -> None:
    world = four_cards(cpu_milli=24_000)
    mine: list[PodUid] = []
    for at, (what, amount) in enumerate(steps):
        match what:
            case "card":
                mine.append(world.create(pod(f"c{at}", container(gpu=1, cpu=amount))))
            case "share":
                mine.append(world.create(pod(f"s{at}", container(gpu_memory=1024, cpu=amount))))
            case "other":
                mine.append(world.other_pod(f"o{at}", amount * 1000))
            case "end" if mine:
                uid = mine.pop(amount % len(mine))
                if uid in world.released and world.pods[uid].node is None:
                    world.bind(uid)
                world.change(uid, phase="Succeeded", settled=True)
                world.delete(uid)
            case "time":
                world.wait(amount)
            case "restart":
                world.restart()
            case "slow":
                world.kubelet_resizes = not amount
            case "fails":
                world.fails = bool(amount)
            case _:
                pass
    world.fails, world.kubelet_resizes = False, True
    world.wait(130)
    if world.count:
        world.kubelet_has_resized()
    check(world)
