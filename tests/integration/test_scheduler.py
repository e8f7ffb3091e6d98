"""The scheduler whole, from a pod's creation to its end, on the embedded API server and a bus in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sublet_scheduler.core.flight.file import read_flight
from sublet_scheduler.core.flight.replay import replay

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.cli.cards import card_views
from sublet.cli.cluster import read_cluster
from sublet.contract import decision, keys
from sublet.kube.errors import Forbidden
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import MergePatch
from tests.builders import card, cards, container, pod, verdict
from tests.eventually import eventually
from tests.integration.schedulerstage import Stage, cards_of, pinned_to, seen_again, stage, uid_of, until


@pytest.fixture
async def memory_bus() -> MemoryBus:
    return MemoryBus(LAYOUT)


@pytest.fixture
async def on(memory_bus: MemoryBus) -> AsyncIterator[Stage]:
    async with stage(memory_bus) as built:
        yield built


async def test_a_pod_is_gated_committed_and_released_to_the_node_of_its_cards(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        created = await on.create(pod("p", container(gpu_memory=4096)))
        assert {"name": keys.GATE} in created["spec"]["schedulingGates"]
        [main] = created["spec"]["containers"]
        assert main["resources"]["limits"][keys.SLOT] == "1"
        assert created["metadata"]["labels"][keys.CLAIMED_LABEL] == "true"

        released = await on.released("p")
        assert pinned_to(released) == ["n1"]
        [granted] = cards_of(released)["main"]
        annotations = released["metadata"]["annotations"]
        assert annotations[keys.cards_annotation("main")] == granted
        assert decision.read(annotations[keys.DECISION]).uid == uid_of(released)
        [grant] = (await on.ledger("n1")).grants
        assert (grant.uid, grant.grant.card, grant.grant.memory_mib) == (uid_of(released), granted, 4096)


async def test_sixteen_halves_created_at_once_fill_eight_cards_with_two_each(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 4))
    await on.add_node("n2", *cards("n2", 4))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.until_totals("n2")
        names = [f"p{number}" for number in range(16)]
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(on.create(pod(name, container(gpu_memory=5120))))
        used = [cards_of(await on.released(name))["main"][0] for name in names]
        assert {one: used.count(one) for one in used} == dict.fromkeys(used, 2)
        assert len(set(used)) == 8
        granted = [one.uid for node in ("n1", "n2") for one in (await on.ledger(node)).grants]
        assert sorted(granted) == sorted(uid_of(on.pod(name)) for name in names)


async def test_a_pod_without_room_is_held_with_the_reason_and_placed_when_there_is_room(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler() as running:
        await on.until_totals("n1")
        await on.create(pod("first", container(gpu=1)))
        await on.released("first")
        held = await on.create(pod("second", container(gpu=1)))
        assert "1 InUse" in held["metadata"]["annotations"][keys.WAITING]

        async def counted() -> bool:
            return 'sublet_waiting_pods{reason="InUse"} 1.0' in await running.metrics()

        await until(counted)

        await on.delete("first")
        placed = await on.released("second")
        assert keys.WAITING not in placed["metadata"]["annotations"]
        [grant] = (await on.ledger("n1")).grants
        assert grant.uid == uid_of(placed)


async def test_a_restart_doubles_nothing_and_places_what_waits(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        for name in ("a", "b"):
            await on.create(pod(name, container(gpu=1)))
            await on.released(name)
        await on.create(pod("waits", container(gpu=1)))
        before = await on.ledger("n1")
    async with on.scheduler():
        after = await on.until_ledger("n1", lambda entry: entry.term > before.term)
        assert after.grants == before.grants
        await on.delete("a")
        await on.released("waits")
        after = await on.until_ledger("n1", lambda entry: len(entry.grants) == 2)
        assert before.term + 1 == after.term
        assert {one.uid for one in after.grants} == {uid_of(on.pod("b")), uid_of(on.pod("waits"))}
        assert cards_of(on.pod("waits")) != cards_of(on.pod("b"))


async def test_a_pod_that_ended_unseen_keeps_its_card_until_the_agent_has_looked(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("big", container(gpu=1)))
        await on.released("big")
        await on.create(pod("next", container(gpu=1)))
    await on.delete("big")
    async with on.scheduler():
        await on.until_ledger("n1", lambda found: [str(one.state) for one in found.grants] == ["ending"])
        assert on.is_gated("next")
        await on.say_occupied("n1")
        assert pinned_to(await on.released("next")) == ["n1"]


async def test_without_the_bus_pods_are_held_and_placed_when_it_is_back(
    on: Stage, memory_bus: MemoryBus
) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler() as running:
        await on.until_totals("n1")
        memory_bus.go_down()
        held = await on.create(pod("p", container(gpu=1)))
        assert {"name": keys.GATE} in held["spec"]["schedulingGates"]
        assert keys.WAITING in held["metadata"]["annotations"]
        assert await running.is_ready()
        memory_bus.come_back()
        await on.released("p")


async def test_a_scheduler_that_starts_without_the_bus_is_ready_and_holds_pods(
    on: Stage, memory_bus: MemoryBus
) -> None:
    await on.add_node("n1", *cards("n1", 1))
    memory_bus.go_down()
    async with on.scheduler():
        held = await on.create(pod("p", container(gpu=1)))
        assert "no decision was made in time" in held["metadata"]["annotations"][keys.WAITING]
        memory_bus.come_back()
        await on.released("p")


async def test_a_ledger_that_was_lost_is_rebuilt_from_signed_pods_and_declared_complete(
    on: Stage, memory_bus: MemoryBus
) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu=1)))
        await on.released("p")
        before, meta = await on.ledger("n1"), await on.until_complete()
        memory_bus.go_down()
        memory_bus.come_back(data_lost=True)
        await on.say_inventory("n1", *cards("n1", 2), seq=2)
        after = await on.until_ledger("n1", lambda entry: bool(entry.grants))
        assert after.grants == before.grants
        rebuilt = await on.until_complete()
        assert rebuilt.epoch != meta.epoch
        assert rebuilt.term > meta.term


async def test_what_runs_counts_though_its_dialect_was_switched_off_and_the_ledger_is_lost(
    on: Stage, memory_bus: MemoryBus
) -> None:
    await on.add_node("n1", *cards("n1", 1))
    await on.add_namespace("team", manage="true")
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu_mem=4), namespace="team"))
        await on.released("p", "team")
        before = await on.ledger("n1")
    memory_bus.go_down()
    memory_bus.come_back(data_lost=True)
    await on.say_inventory("n1", *cards("n1", 1), seq=2)
    async with on.scheduler(dialects=("sublet",)):
        after = await on.until_ledger("n1", lambda entry: bool(entry.grants))
        assert after.grants == before.grants
        await on.until_complete()


async def test_ten_equal_replicas_are_ten_decisions(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        manifest = pod("", container(gpu_memory=512), owner=("ReplicaSet", "rs-1"))
        manifest["metadata"] = {**manifest["metadata"], "generateName": "rs-", "name": ""}
        created = [await on.create(manifest) for _ in range(10)]
        for one in created:
            await on.released(one["metadata"]["name"])
        entry = await on.ledger("n1")
        assert len({grant.decision for grant in entry.grants}) == 10


async def test_a_dry_run_reserves_nothing(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        for name in ("one", "two"):
            seen = await on.create(pod(name, container(gpu=1)), dry_run=True)
            assert cards_of(seen)["main"] == ("n1-0",)
        await on.create(pod("real", container(gpu=1)))
        await on.released("real")


async def test_keys_that_only_the_scheduler_writes_are_refused_from_others(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        forged = pod("forged", container(), annotations={keys.cards_annotation("main"): "n1-0"})
        with pytest.raises(Forbidden, match="written by the scheduler only"):
            await on.create(forged)
        await on.create(pod("real", container(gpu=1)))
        with pytest.raises(Forbidden, match="ReservedKey"):
            await on.create(seen_again(await on.released("real")))


async def test_an_unreadable_claim_is_refused_with_its_value_and_the_way_out(on: Stage) -> None:
    async with on.scheduler():
        with pytest.raises(Forbidden, match=r"BadQuantity.*sublet.dev/gpu-memory='16384Mi'.*plain number"):
            await on.create(pod("p", container(gpu_memory="16384Mi")))


async def test_a_pod_with_a_node_name_is_decided_there_or_refused(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    await on.add_node("n2", *cards("n2", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.until_totals("n2")
        created = await on.create(pod("bound", container(gpu=1), nodeName="n2"))
        assert not created["spec"].get("schedulingGates")
        assert cards_of(created)["main"] == ("n2-0",)
        entry = await on.until_ledger("n2", lambda found: bool(found.grants))
        assert [one.uid for one in entry.grants] == [uid_of(created)]
        with pytest.raises(Forbidden, match="NodeCannotTakeIt"):
            await on.create(pod("late", container(gpu=1), nodeName="n2"))


async def test_foreign_names_count_in_managed_namespaces_and_are_kept_off_our_nodes_elsewhere(
    on: Stage,
) -> None:
    await on.add_node("n1", *cards("n1", 2))
    await on.add_namespace("team", manage="true")
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("ours", container(nvidia=1), namespace="team"))
        await on.released("ours", "team")
        theirs = await on.create(pod("theirs", container(nvidia=1)))
        assert not theirs["spec"].get("schedulingGates")
        affinity = theirs["spec"]["affinity"]["nodeAffinity"]
        [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": keys.CARDS_LABEL, "operator": "DoesNotExist"}]


async def test_gpushare_results_are_written_at_release(on: Stage) -> None:
    await on.add_node("n1", card("n1-0", gib=40))
    await on.add_namespace("team", manage="true")
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu_mem=8), namespace="team"))
        released = await on.released("p", "team")
        annotations = released["metadata"]["annotations"]
        assert annotations["ALIYUN_COM_GPU_MEM_IDX"] == "0"
        assert annotations["ALIYUN_COM_GPU_MEM_DEV"] == "40"
        assert annotations["ALIYUN_COM_GPU_MEM_POD"] == "8"


async def test_totals_appear_with_the_agent_and_are_put_right_when_somebody_removes_them(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        shown = on.node("n1")
        assert shown["metadata"]["labels"][keys.CARDS_LABEL] == "2"
        assert shown["status"]["capacity"][keys.GPU_MEMORY] == str(20 * 1024)
        gone = {"status": {part: {keys.GPU_MEMORY: None} for part in ("capacity", "allocatable")}}
        await on.kube.patch(NODES, "n1", MergePatch(gone), subresource="status")
        await eventually(lambda: keys.GPU_MEMORY in on.node("n1")["status"]["allocatable"])


async def test_a_card_with_a_bad_verdict_is_closed_in_the_ledger_and_takes_no_new_pod(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.judge(verdict("n1", "n1-0", bad=True))
        await on.until_ledger("n1", lambda entry: entry.closed == ("n1-0",))
        await on.create(pod("p", container(gpu=1)))
        assert cards_of(await on.released("p"))["main"] == ("n1-1",)
        await on.judge(verdict("n1", "n1-0", bad=False, seq=2))
        await on.until_ledger("n1", lambda entry: not entry.closed)


async def test_a_force_deleted_pod_counts_until_its_node_proves_that_nothing_is_left(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        created = await on.create(pod("p", container(gpu=1), nodeName="n1"))
        await on.until_ledger("n1", lambda entry: bool(entry.grants))
        await on.delete("p")
        entry = await on.until_ledger(
            "n1", lambda found: [str(one.state) for one in found.grants] == ["ending"]
        )
        await on.say_occupied("n1", uid_of(created))
        await on.create(pod("next", container(gpu=1)))
        assert on.is_gated("next")
        assert (await on.ledger("n1")).grants == entry.grants
        await on.say_occupied("n1")
        await on.released("next")


async def test_an_operators_word_frees_what_still_ends_on_a_node(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu=1), nodeName="n1"))
        await on.until_ledger("n1", lambda entry: bool(entry.grants))
        await on.delete("p")
        await on.until_ledger("n1", lambda found: [str(one.state) for one in found.grants] == ["ending"])
        asked = {"metadata": {"annotations": {"sublet.dev/release-requested": "jane"}}}
        await on.kube.patch(NODES, "n1", MergePatch(asked))
        await on.until_ledger("n1", lambda found: not found.grants)
        await eventually(
            lambda: "sublet.dev/release-requested" not in on.node("n1")["metadata"]["annotations"]
        )


async def test_our_gate_is_lifted_only_when_no_other_one_is_left(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        gated = pod("p", container(gpu=1), schedulingGates=[{"name": "example.com/other"}])
        created = await on.create(gated)
        assert [gate["name"] for gate in created["spec"]["schedulingGates"]] == [
            "example.com/other",
            keys.GATE,
        ]
        assert not (await on.ledger("n1")).grants
        without = {"spec": {"schedulingGates": [{"name": keys.GATE}]}}
        await on.kube.patch(PODS, "p", MergePatch(without), namespace="default")
        await on.released("p")


async def test_what_may_be_promised_beyond_a_card_is_shown_wherever_capacity_is(on: Stage) -> None:
    await on.add_node("n1", card("A"), card("B", index=1, model="NVIDIA L4"))
    async with on.scheduler(overcommit_memory=("A100:1.5",), overcommit_core=("A100:2",)) as running:
        await on.until_totals("n1")
        shown = on.node("n1")["status"]["allocatable"]
        assert (shown[keys.GPU_MEMORY], shown[keys.GPU_CORE]) == (str(15360 + 10240), "300")
        for name, asked_mib in (("p", 8192), ("q", 7168)):
            wish = {keys.CARD_MODELS: "A100"}
            await on.create(pod(name, container(gpu_memory=asked_mib), annotations=wish))
        granted = [cards_of(await on.released(name))["main"] for name in ("p", "q")]
        assert granted == [("A",), ("A",)]
        await on.until_ledger("n1", lambda entry: len(entry.grants) == 2)
        first, second = card_views(await read_cluster(on.bus))
        assert (first["usedMiB"], first["memoryMiB"], first["shareableMiB"]) == (15360, 10240, 15360)
        assert (first["shareableCorePercent"], second["shareableMiB"]) == (200, 10240)
        metrics = await running.metrics()
        assert 'sublet_card_shareable_mib{Hostname="n1",UUID="A"' in metrics
        assert 'sublet_card_shareable_core_percent{Hostname="n1",UUID="A"' in metrics


async def test_the_flight_of_a_running_scheduler_leads_to_the_same_decisions_again(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler() as running:
        await on.until_totals("n1")
        await on.create(pod("fits", container(gpu_memory=6 * 1024)))
        await on.released("fits")
        await on.create(pod("waits", container(gpu_memory=6 * 1024)))
        flight = read_flight(await running.flight())
    decided = [one for step in replay(flight) for one in step.decided]
    assert [step for step in replay(flight) if step.differs] == []
    assert {one["what"] for one in decided} >= {"placed", "held", "pod.committed", "pod.released"}
