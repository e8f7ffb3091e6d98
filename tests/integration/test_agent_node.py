"""The agent on a kubelet: registration, slots, and what it tells others of its node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import aiohttp
import pytest
import pytest_asyncio

from sublet.contract import keys, subjects
from sublet.demo.kubelet.spec import AdmissionRefused
from sublet.model.health import HealthState, SignalKind
from sublet.model.placement import GrantState
from sublet.wire.health import signal_in
from tests.integration.agentstage import CARDS, NODE, Stage, agent_stage, grant, pod, uid_of

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


async def test_every_slot_has_a_spec_before_the_kubelet_hears_of_it(stage: Stage) -> None:
    async with stage.agent():
        names = {path.name for path in stage.folders.cdi.iterdir()}
        assert stage.capacity == 64
        assert names == {f"{keys.DOMAIN}-slot-{number:03d}.json" for number in range(64)}


async def test_a_withheld_card_takes_its_number_of_slots_out_and_back(stage: Stage) -> None:
    async with stage.agent():
        await stage.judge(A, HealthState.QUARANTINED, withheld=True)
        await stage.kubelet.until(lambda _: stage.allocatable == 48)
        assert stage.capacity == 64
        await stage.judge(A, HealthState.HEALTHY, withheld=False)
        await stage.kubelet.until(lambda _: stage.allocatable == 64)


async def test_the_first_list_after_a_start_is_all_healthy(stage: Stage) -> None:
    await stage.judge(A, HealthState.QUARANTINED, withheld=True)
    async with stage.agent():
        await stage.kubelet.until(lambda _: stage.allocatable == 48)
        assert all(stage.kubelet.lists[0].values())
        await stage.kubelet.drop_streams()
        await stage.kubelet.until(lambda kubelet: len(kubelet.registrations) == 2)
        await stage.kubelet.until(lambda _: stage.allocatable == 64)
        await stage.kubelet.until(lambda _: stage.allocatable == 48)


async def test_slots_that_are_held_are_never_withheld(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        for card in CARDS:
            await stage.judge(card, HealthState.CONDEMNED, withheld=True)
        await stage.kubelet.until(lambda _: stage.allocatable == 1)
        held = stage.kubelet.table.held(keys.SLOT)
        assert stage.kubelet.table.healthy[keys.SLOT] == held


async def test_more_shares_a_card_bring_more_slots(stage: Stage) -> None:
    async with stage.agent(shares_per_card=32):
        await stage.kubelet.until(lambda _: stage.capacity == 128)
        assert len(list(stage.folders.cdi.iterdir())) == 128


async def test_a_stream_that_the_kubelet_ended_is_registered_anew_under_another_name(stage: Stage) -> None:
    async with stage.agent():
        await stage.kubelet.drop_streams()
        await stage.kubelet.until(lambda _: stage.allocatable == 64 and len(set(_.registrations)) == 2)


async def test_a_socket_that_vanished_is_registered_anew(stage: Stage) -> None:
    async with stage.agent():
        (stage.folders.plugins / stage.kubelet.registrations[-1]).unlink()
        await stage.kubelet.until(lambda _: stage.allocatable == 64 and len(set(_.registrations)) == 2)


async def test_a_restarted_kubelet_sees_the_slots_again_and_containers_run_on(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        await stage.kubelet.restart()
        await stage.kubelet.until(lambda _: stage.allocatable == 64)
        assert (await stage.kubelet.start_container(uid_of("p"), "main")).starts == 2


async def test_a_kubelet_that_restarts_again_and_again_sees_the_slots_at_once_each_time(stage: Stage) -> None:
    """However often it failed before: what a kubelet finds without slots when it starts, it gives up."""
    async with stage.agent():
        for _ in range(12):
            await stage.kubelet.restart()
            await stage.kubelet.until(lambda _: stage.allocatable == 64, within_s=1)
        assert len(set(stage.kubelet.registrations)) == len(stage.kubelet.registrations) >= 13


async def test_an_allocation_of_a_slot_that_does_not_exist_is_refused(stage: Stage) -> None:
    async with stage.agent():
        stage.kubelet.table.healthy[keys.SLOT].add("slot-!")
        with pytest.raises(AdmissionRefused, match="NOT_FOUND desc = no such slot: slot-!"):
            await stage.kubelet.admit(pod("p"))


async def test_an_agent_that_stops_leaves_no_allocatable_slot_and_no_socket(stage: Stage) -> None:
    async with stage.agent():
        pass
    await stage.kubelet.until(lambda _: stage.allocatable == 0)
    assert stage.capacity == 64
    assert not list(stage.folders.plugins.glob("sublet-*.sock"))


async def test_an_agent_without_a_bus_serves_the_kubelet(stage: Stage) -> None:
    stage.bus.go_down()
    async with (
        stage.agent() as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        assert answer.status == 200, await answer.text()


async def test_the_inventory_says_what_the_node_has_and_comes_again_when_the_bus_lost_it(
    stage: Stage,
) -> None:
    async with stage.agent():
        first = await stage.inventory(lambda inventory: inventory.registered)
        assert [card.id for card in first.cards] == list(CARDS)
        assert (first.slots, first.shares_per_card, first.boot_id) == (64, 16, "boot-1")
        assert first.problems == ()
        stage.bus.go_down()
        stage.bus.come_back(data_lost=True)
        again = await stage.inventory(lambda inventory: inventory.seq > first.seq)
        assert again.cards == first.cards
        await stage.occupancy(lambda seen: seen.checkpoint_read)


async def test_another_plugin_for_the_same_cards_is_a_problem_of_the_node(stage: Stage) -> None:
    async with stage.agent():
        await stage.kubelet.list_foreign(keys.NVIDIA_GPU, 8)
        found = await stage.inventory(lambda inventory: inventory.problems != ())
        assert found.problems == ("ForeignPlugin",)
        await stage.kubelet.list_foreign(keys.NVIDIA_GPU, 0)
        await stage.inventory(lambda inventory: inventory.problems == ())


async def test_the_heart_beats(stage: Stage) -> None:
    async with stage.agent():
        first = await stage.heartbeat(lambda _: True)
        await stage.heartbeat(lambda beat: beat.seq > first.seq and beat.epoch == first.epoch)


async def test_occupancy_shows_who_holds_what_and_when_nothing_is_left(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        seen = await stage.occupancy(lambda seen: len(seen.prepared) == 1 and len(seen.slots) == 1)
        assert seen.pods_with_cgroups == {uid_of("p")}
        assert (seen.slots[0].uid, str(seen.slots[0].pod)) == (uid_of("p"), "default/p")
        assert seen.prepared[0].cards == (A,)
        assert (seen.checkpoint_read, seen.pod_resources_read, seen.cgroups_read) == (True, True, True)

        revision = await stage.ledger.write(*grant("p", A, state=GrantState.ENDING))
        await stage.kubelet.end(uid_of("p"))
        gone = await stage.occupancy(lambda seen: not seen.pods_with_cgroups and not seen.prepared)
        assert gone.ledger_revision == revision
        assert gone.slots == ()
        assert not list((stage.root / "state" / "prepared").iterdir())


async def test_signals_reach_the_bus_with_who_saw_them(stage: Stage) -> None:
    async with (
        stage.agent(),
        aclosing(
            stage.bus.subscribe(subjects.SIGNALS_STREAM, [subjects.pattern(subjects.SIGNAL)], since=0)
        ) as messages,
    ):
        with (stage.root / "signals.jsonl").open("a") as file:
            file.write(f'{{"t": 1, "kind": "xid", "node": "{NODE}", "card": "{A}", "code": 79}}\n')
        kinds = set()
        async with asyncio.timeout(5):
            async for message in messages:
                signal = signal_in(message.body)
                kinds.add(signal.kind)
                if signal.kind is SignalKind.XID:
                    break
        assert {SignalKind.BOOT, SignalKind.CARD} <= kinds
        assert (signal.card, signal.code, signal.boot_id) == (A, 79, "boot-1")
        assert message.subject == subjects.signal_subject(NODE, A)


async def test_metrics_carry_the_labels_by_which_cards_are_joined(stage: Stage) -> None:
    async with stage.agent() as port, aiohttp.ClientSession() as session:
        await stage.inventory(lambda inventory: inventory.registered)
        await stage.ledger.write(*grant("p", A, memory_mib=4096))
        await stage.kubelet.run(pod("p"))
        async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
    card = f'Hostname="{NODE}",UUID="{A}"'
    assert f'sublet_card_memory_mib{{{card},gpu="0",modelName="A100",pci_bus_id=""}} 81920.0' in text
    assert 'sublet_agent_slots{state="healthy"} 64.0' in text
    assert 'sublet_agent_start_seconds_count{allowed="true"} 1.0' in text
    assert "sublet_bus_connected 1.0" in text
    labels = f'{{{card},container="main",gpu="0",modelName="A100",namespace="default",pci_bus_id="",pod="p"}}'
    assert f"sublet_grant_memory_mib{labels} 4096.0" in text
    assert f"sublet_grant_used_mib{labels} 0.0" in text
