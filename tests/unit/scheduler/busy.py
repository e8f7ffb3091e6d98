"""A world in which something of everything has happened: what a flight must hold."""

from sublet_scheduler.core.state import Rules

from sublet.contract import keys
from tests.builders import card, cards, container, pod, verdict
from tests.unit.scheduler.world import World

GIB = 1024


def busy(rules: Rules | None = None, *, stretch: int = 5) -> World:
    """A cluster in which something of everything happened."""
    world = World(rules or Rules(), stretch=stretch)
    world.node("n1", *cards("n1", 4), labels={"topology.kubernetes.io/zone": "a"})
    world.node("n2", card("A", model="T4"), card("B", index=1, gib=None))
    world.quota("small", namespace="poor", cards=1)
    runs = [world.create(pod(f"runs-{at}", container(gpu_memory=3 * GIB, gpu_core=20))) for at in range(4)]
    for uid in runs:
        world.bind(uid)
    world.create(pod("half", container(gpu_memory_percent=50), annotations={keys.NODE_POLICY: "spread"}))
    world.create(pod("class", container(gpu_memory=GIB), annotations={keys.SERVICE_CLASS: "offline"}))
    world.create(pod("group", container(gpu_memory=GIB), annotations={keys.SAME_CARD: "g"}))
    for at in range(3):
        gang = {keys.GANG: "train", keys.GANG_SIZE: "4"}
        world.create(pod(f"train-{at}", container(gpu=1), annotations=gang))
    world.create(pod("large", container(gpu=4)))
    world.create(pod("high", container(gpu=3), priority=7))
    world.create(pod("poor", container(gpu=2), namespace="poor"))
    world.judge(verdict("n1", "n1-3", bad=True))
    world.ask(pod("created", container(gpu_memory=GIB)))
    world.change(runs[0], phase="Succeeded", settled=True)
    world.delete(runs[1], seen=False)
    world.occupancy("n1", alive=runs[2:])
    world.wait(3)
    return world
