"""Service classes: online pods spread and keep away from offline ones, which pack, fill and give way."""

from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core.records import Stage

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.model.claim import PodAsk, Policy, ServiceClass
from sublet.model.ids import PodUid
from tests.builders import ask, cards, container, pod, reading
from tests.unit.scheduler.world import World


def fleet(*nodes: int) -> World:
    world = World()
    for at, count in enumerate(nodes, 1):
        world.node(f"n{at}", *cards(f"n{at}", count))
    return world


def of(service_class: str, name: str, gib: int = 2, **more: Any) -> dict[str, Any]:
    annotations = {keys.SERVICE_CLASS: service_class} if service_class else {}
    return pod(name, container(gpu_memory=gib * 1024), annotations=annotations, **more)


def runs(world: World, manifest: dict[str, Any]) -> PodUid:
    uid = world.create(manifest)
    world.bind(uid)
    return uid


def evicted(world: World) -> list[PodUid]:
    return [uid for effect in world.effects(ef.EvictPods) for uid, _ in effect.victims]


def test_online_pods_spread_over_cards() -> None:
    world = fleet(3)
    uids = [world.create(of("online", f"o{at}")) for at in range(3)]
    assert len({card for uid in uids for card in world.granted(uid)}) == 3


def test_offline_pods_pack_on_one_card() -> None:
    world = fleet(3)
    uids = [world.create(of("offline", f"o{at}")) for at in range(3)]
    assert len({card for uid in uids for card in world.granted(uid)}) == 1


def test_an_online_pod_prefers_cards_without_offline_pods() -> None:
    world = fleet(2)
    [offline] = world.granted(world.create(of("offline", "off", 1)))
    for at in range(3):  # the other card is the fuller one from the second on
        assert world.granted(world.create(of("online", f"on{at}", 3))) != [offline]


def test_an_offline_pod_prefers_cards_without_online_pods() -> None:
    world = fleet(1, 1)
    [online] = world.granted(world.create(of("online", "on", 8)))
    assert world.granted(world.create(of("offline", "off"))) != [online]


def test_where_nothing_else_is_left_the_classes_share_a_card() -> None:
    world = fleet(1)
    world.create(of("offline", "off"))
    assert world.granted(world.create(of("online", "on")))
    assert world.granted(world.create(of("offline", "off-again")))


def test_pods_without_a_class_go_beside_either() -> None:
    world = fleet(1)
    for name in ("online", "offline", ""):
        assert world.granted(world.create(of(name, f"p-{name}")))


def test_offline_pods_come_last_in_the_queue_whatever_their_priority() -> None:
    world = fleet(1)
    first = runs(world, of("", "first", 10))
    offline = world.create(of("offline", "off", 10, priority=1000), created_s=1.0)
    online = world.create(of("online", "on", 10, priority=-5), created_s=2.0)
    world.change(first, phase="Succeeded", settled=True)
    assert world.stage(online) is Stage.RELEASED
    assert world.stage(offline) is Stage.WAITING


def test_offline_pods_give_way() -> None:
    world = fleet(1)
    offline = runs(world, of("offline", "off", 10, priority=1000))
    online = world.create(of("online", "on", 10))
    assert evicted(world) == [offline]
    world.terminated()
    assert world.granted(online)


def test_offline_pods_evict_nobody_but_lower_offline_ones() -> None:
    world = fleet(2)
    runs(world, of("online", "on", 10))
    lower = runs(world, of("offline", "low", 10))
    world.create(of("offline", "high", 10, priority=5))
    assert evicted(world) == [lower]


def test_a_policy_that_is_written_beats_that_of_the_class() -> None:
    manifest = of("online", "p")
    manifest["metadata"]["annotations"][keys.CARD_POLICY] = "binpack"
    wishes = ask(manifest).wishes
    assert (wishes.card_policy, wishes.node_policy) == (Policy.BINPACK, Policy.SPREAD)


def test_the_class_of_a_qgpu_pod_counts_like_our_own() -> None:
    manifest = pod(
        "p",
        container(**{keys.QGPU_GREEDY: "10", keys.QGPU_MEMORY: "5"}),
        annotations={"tke.cloud.tencent.com/app-class": "offline"},
    )
    found = reading(manifest, options=Options(enabled=("qgpu",)))
    assert isinstance(found, PodAsk)
    assert found.wishes.service_class is ServiceClass.OFFLINE
    assert found.rank < ask(of("online", "p", priority=-(2**31))).rank
