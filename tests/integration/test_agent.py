"""The agent on a kubelet: who gets which card, and what may start."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from sublet_agent.core.edits import Injection, Runtime

from sublet.contract import keys, subjects
from sublet.demo.kubelet.spec import ContainerSpec, StartRefused
from sublet.model.claim import ContainerKind
from sublet.model.health import HealthState
from sublet.model.ids import NodeName, PodUid
from sublet.model.placement import GrantState
from sublet.wire.ledger import node_ledger_out
from tests.integration.agentstage import CARDS, NODE, Stage, agent_stage, claiming, grant, pod, uid_of

A, B, C, D = CARDS


@pytest_asyncio.fixture(autouse=True)
async def no_task_is_left_over() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with agent_stage() as made:
        yield made


async def test_each_container_sees_the_cards_of_its_own_grant(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(
            *grant("p", A, memory_mib=4096, core_percent=30, container="one"),
            *grant("p", B, D, container="two", GPU_MEM_IDX="1"),
        )
        await stage.kubelet.run(pod("p", claiming("one"), claiming("two")))

    assert stage.sees("p", "one") == {keys.ENV_NVIDIA_VISIBLE: A}
    assert stage.nodes("p", "one") == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert stage.sees("p", "two")[keys.ENV_NVIDIA_VISIBLE] == f"{B},{D}"
    assert stage.sees("p", "two")["GPU_MEM_IDX"] == "1"
    assert stage.nodes("p", "two") == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia3"]


async def test_twenty_pods_at_once_each_get_their_own(stage: Stage) -> None:
    async with stage.agent():
        for number in range(20):
            await stage.ledger.add(*grant(f"p{number}", CARDS[number % 4], memory_mib=number))
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(stage.kubelet.run(pod(f"p{number}")))

    for number in range(20):
        assert stage.sees(f"p{number}")[keys.ENV_NVIDIA_VISIBLE] == CARDS[number % 4]


async def test_a_users_own_visible_devices_do_not_count(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p", claiming("main", env={keys.ENV_NVIDIA_VISIBLE: "all"})))

    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == A


async def test_an_init_container_and_its_heir_get_the_heirs_cards_and_the_largest_amounts(
    stage: Stage,
) -> None:
    async with stage.agent():
        await stage.ledger.write(
            *grant("p", A, container="first", kind=ContainerKind.INIT, memory_mib=9000, core_percent=5),
            *grant("p", A, B, container="main", memory_mib=2000, core_percent=50),
        )
        await stage.kubelet.run(pod("p", claiming("main"), init=(claiming("first"),)))

    assert stage.sees("p", "first") == stage.sees("p", "main")
    assert stage.sees("p", "main")[keys.ENV_NVIDIA_VISIBLE] == f"{A},{B}"


async def test_a_sidecar_inherits_from_the_init_container_and_the_main_one_has_its_own(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(
            *grant("p", A, container="first", kind=ContainerKind.INIT),
            *grant("p", A, container="side", kind=ContainerKind.SIDECAR),
            *grant("p", B, container="main"),
        )
        init = (claiming("first"), claiming("side", restartable=True))
        await stage.kubelet.run(pod("p", claiming("main"), init=init))

    cards = [stage.sees("p", name)[keys.ENV_NVIDIA_VISIBLE] for name in ("first", "side", "main")]
    assert cards == [A, A, B]


async def test_a_claim_of_an_init_container_alone_is_prepared(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", C, container="first", kind=ContainerKind.INIT))
        await stage.kubelet.run(pod("p", ContainerSpec(name="main"), init=(claiming("first"),)))

    assert stage.sees("p", "first")[keys.ENV_NVIDIA_VISIBLE] == C


async def test_a_start_waits_until_the_ledger_is_complete(stage: Stage) -> None:
    await stage.ledger.complete(complete=False)
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.admit(pod("p"))
        async with asyncio.TaskGroup() as group:
            start = group.create_task(stage.kubelet.try_start(uid_of("p"), "main"))
            await stage.occupancy(lambda seen: len(seen.slots) == 1)
            assert not start.done()
            await stage.ledger.complete()

    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == A


async def test_a_start_waits_for_a_grant_that_comes_late(stage: Stage) -> None:
    async with stage.agent():
        await stage.kubelet.admit(pod("p"))
        async with asyncio.TaskGroup() as group:
            start = group.create_task(stage.kubelet.try_start(uid_of("p"), "main"))
            await stage.occupancy(lambda seen: len(seen.slots) == 1)
            assert not start.done()
            await stage.ledger.write(*grant("other", B), *grant("p", A))

    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == A


async def test_a_container_without_a_grant_is_held_with_the_reason(stage: Stage) -> None:
    async with stage.agent(grant_wait_s=0.2):
        await stage.kubelet.admit(pod("p"))
        with pytest.raises(StartRefused, match=f"no grant for pod {uid_of('p')}, container main"):
            await stage.kubelet.try_start(uid_of("p"), "main")


async def test_a_new_pod_of_the_same_name_never_starts_on_the_old_ones_grant(stage: Stage) -> None:
    async with stage.agent(grant_wait_s=0.2):
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        await stage.kubelet.end(uid_of("p"))
        young = pod("p", uid="young-0000-1111")
        await stage.kubelet.admit(young)
        with pytest.raises(StartRefused, match="no grant for pod young"):
            await stage.kubelet.try_start(young.uid, "main")


async def test_a_first_start_on_a_closed_card_is_refused_and_a_restart_is_not(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("old", A), *grant("new", A))
        await stage.kubelet.run(pod("old"))
        revision = await stage.ledger.close(A)
        await stage.occupancy(lambda seen: seen.ledger_revision == revision)

        await stage.kubelet.admit(pod("new"))
        with pytest.raises(StartRefused, match=f"card {A} is closed"):
            await stage.kubelet.try_start(uid_of("new"), "main")
        assert (await stage.kubelet.try_start(uid_of("old"), "main")).starts == 2


async def test_a_start_that_could_not_be_written_down_is_a_first_start_again(stage: Stage) -> None:
    prepared = stage.root / "state" / "prepared"
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        prepared.rmdir()
        prepared.touch()  # no file can be made below it, whoever tries
        await stage.kubelet.admit(pod("p"))
        with pytest.raises(StartRefused, match=f"could not write what it needs.*{prepared}"):
            await stage.kubelet.try_start(uid_of("p"), "main")
        revision = await stage.ledger.close(A)
        await stage.occupancy(lambda seen: seen.ledger_revision == revision)
        prepared.unlink()
        prepared.mkdir()
        with pytest.raises(StartRefused, match=f"card {A} is closed"):
            await stage.kubelet.try_start(uid_of("p"), "main")
        revision = await stage.ledger.close()
        await stage.occupancy(lambda seen: seen.ledger_revision == revision)
        await stage.kubelet.try_start(uid_of("p"), "main")
    assert [path.name for path in prepared.iterdir()] == ["slot-000.json"]


async def test_an_entry_of_another_node_under_our_key_grants_nothing(stage: Stage) -> None:
    async with stage.agent(grant_wait_s=0.2):
        entry = replace(stage.ledger.entry, node=NodeName("n2"), grants=grant("p", A))
        await stage.bus.put(subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), node_ledger_out(entry))
        await stage.kubelet.admit(pod("p"))
        with pytest.raises(StartRefused, match="no grant for pod"):
            await stage.kubelet.try_start(uid_of("p"), "main")


async def test_slots_are_shown_as_soon_as_their_specs_can_be_written(stage: Stage) -> None:
    away = stage.folders.cdi.with_name("away")
    stage.list_cards(A)
    async with stage.agent(shares_per_card=40):
        stage.folders.cdi.rename(away)
        stage.folders.cdi.touch()  # no file can be made below it, whoever tries
        stage.list_cards(A, B)
        await stage.inventory(lambda told: told.slots == 80)
        assert stage.capacity == 64
        stage.folders.cdi.unlink()
        away.rename(stage.folders.cdi)
        await stage.kubelet.until(lambda _: stage.capacity == 80)


async def test_a_pod_whose_grant_is_ending_starts_nothing_new(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A, state=GrantState.ENDING))
        await stage.kubelet.admit(pod("p"))
        with pytest.raises(StartRefused, match="is ending"):
            await stage.kubelet.try_start(uid_of("p"), "main")


async def test_what_ran_once_starts_again_without_the_bus_even_after_the_agent_restarted(
    stage: Stage,
) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        stage.bus.go_down()
        again = await stage.kubelet.start_container(uid_of("p"), "main")
        assert again.starts == 2
    for spec in stage.folders.cdi.iterdir():
        spec.unlink()  # as after a reboot
    async with stage.agent():
        await stage.kubelet.start_container(uid_of("p"), "main")

    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == A
    assert stage.nodes("p") == ["/dev/nvidia0", "/dev/nvidiactl"]


async def test_what_healthd_judged_is_told_again_to_a_bus_that_has_lost_it(stage: Stage) -> None:
    async with stage.agent():
        await stage.judge(A, HealthState.QUARANTINED, withheld=True, seq=2)
        await stage.kubelet.until(lambda _: stage.allocatable == 64 - 16)
    stage.bus.come_back(data_lost=True)
    async with stage.agent():
        told = await stage.inventory(lambda inventory: inventory.registered)
        assert [(one.card, one.state) for one in told.verdicts] == [(A, HealthState.QUARANTINED)]
        await stage.kubelet.until(lambda _: stage.allocatable == 64 - 16)


async def test_a_first_start_without_the_bus_is_held_and_succeeds_when_it_is_back(stage: Stage) -> None:
    async with stage.agent(grant_wait_s=0.2):
        await stage.ledger.write(*grant("p", A))
        stage.bus.go_down()
        await stage.kubelet.admit(pod("q"))
        with pytest.raises(StartRefused):
            await stage.kubelet.try_start(uid_of("q"), "main")
        stage.bus.come_back()
        await stage.ledger.add(*grant("q", B))
        await stage.kubelet.start_container(uid_of("q"), "main")

    assert stage.sees("q")[keys.ENV_NVIDIA_VISIBLE] == B


async def test_a_ledger_that_was_lost_is_unknown_until_it_is_complete_again(stage: Stage) -> None:
    async with stage.agent(grant_wait_s=0.3):
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        stage.bus.go_down()
        stage.bus.come_back(data_lost=True)
        await stage.kubelet.admit(pod("q"))
        with pytest.raises(StartRefused, match="not complete yet"):
            await stage.kubelet.try_start(uid_of("q"), "main")
        await stage.ledger.complete(epoch="e2")
        await stage.ledger.add(*grant("q", B))
        await stage.kubelet.start_container(uid_of("q"), "main")

    assert stage.sees("q")[keys.ENV_NVIDIA_VISIBLE] == B


async def test_a_granted_card_which_the_node_does_not_have_is_refused(stage: Stage) -> None:
    stage.list_cards(A, B)
    async with stage.agent():
        await stage.inventory(lambda inventory: len(inventory.cards) == 2)
        await stage.ledger.write(*grant("p", D))
        await stage.kubelet.admit(pod("p"))
        with pytest.raises(StartRefused, match=f"card {D} is granted and not seen"):
            await stage.kubelet.try_start(uid_of("p"), "main")


async def test_for_the_nvidia_runtime_nothing_is_injected_twice(stage: Stage) -> None:
    async with stage.agent(runtime=Runtime.NVIDIA):
        await stage.ledger.write(*grant("p", A, B))
        await stage.kubelet.run(pod("p"))

    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == "void"
    assert stage.sees("p")[keys.ENV_CARDS] == f"{A},{B}"


async def test_in_env_mode_the_pods_own_variables_count_and_the_start_still_waits_for_the_grant(
    stage: Stage,
) -> None:
    annotation = keys.cards_annotation("main")
    main = claiming("main", from_annotations={keys.ENV_NVIDIA_VISIBLE: annotation})
    async with stage.agent(injection=Injection.ENV, grant_wait_s=0.2):
        await stage.kubelet.admit(pod("p", main, annotations={annotation: A}))
        with pytest.raises(StartRefused, match="no grant"):
            await stage.kubelet.try_start(uid_of("p"), "main")
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.start_container(uid_of("p"), "main")

    assert stage.sees("p") == {keys.ENV_NVIDIA_VISIBLE: A}
    assert not stage.folders.cdi.exists()


async def test_a_vendors_libraries_come_with_its_device_node(stage: Stage) -> None:
    (stage.root / "vendor").mkdir()
    (stage.root / "vendor" / "nvidia.yaml").write_text(
        """
cdiVersion: 0.6.0
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void, NVIDIA_DRIVER=yes]
devices:
- {name: misleading-0, containerEdits: {deviceNodes: [{path: /dev/nvidia1}], env: [CARD=1]}}
- {name: "1", containerEdits: {deviceNodes: [{path: /dev/nvidia0}], env: [CARD=0]}}
- {name: all, containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}], env: [CARD=all]}}
"""
    )
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))

    assert stage.sees("p")["NVIDIA_DRIVER"] == "yes"
    assert stage.sees("p")["CARD"] == "0"
    assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == A
    assert stage.nodes("p") == ["/dev/nvidia0", "/dev/nvidiactl"]


async def test_a_pod_that_is_made_again_and_again_gets_the_cards_of_its_newest_self(stage: Stage) -> None:
    async with stage.agent():
        for number in range(50):
            card = CARDS[number % 4]
            uid = f"uid-{number}-1111"
            young = [replace(one, uid=PodUid(uid)) for one in grant("p", card)]
            await stage.kubelet.admit(pod("p", uid=uid))
            async with asyncio.TaskGroup() as group:
                start = group.create_task(stage.kubelet.try_start(uid, "main"))
                await stage.ledger.write(*young)  # later than the start, as with a watch that lags
            assert start.result().env[keys.ENV_NVIDIA_VISIBLE] == card
            await stage.kubelet.end(uid)


async def test_a_container_with_two_slots_is_refused(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.admit(pod("p", ContainerSpec(name="main", devices={keys.SLOT: 2})))
        with pytest.raises(StartRefused, match="a container has one slot, this one has 2"):
            await stage.kubelet.try_start(uid_of("p"), "main")


async def test_a_card_that_came_later_can_be_granted(stage: Stage) -> None:
    stage.list_cards(A)
    async with stage.agent():
        await stage.inventory(lambda inventory: len(inventory.cards) == 1)
        stage.list_cards(A, B)
        await stage.inventory(lambda inventory: len(inventory.cards) == 2)
        await stage.ledger.write(*grant("p", B))
        await stage.kubelet.run(pod("p"))

    assert stage.nodes("p") == ["/dev/nvidia1", "/dev/nvidiactl"]
