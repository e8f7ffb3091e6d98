"""The most telling reports about card health, from NVIDIA's library to the kubelet and back."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sublet.contract import keys
from sublet.demo.natsserver import NatsServer
from sublet.model.health import HealthState
from tests.integration.agentstage import CARDS, grant, pod, uid_of
from tests.integration.chainstage import ALL, SHARES, Chain, chain, ids

pytest_plugins = ["tests.natsserver"]
pytestmark = pytest.mark.timeout(30)  # six programs, on a machine that may be busy

A, B, C, D = CARDS
LOST, UNKNOWN = 15, 999


@pytest_asyncio.fixture
async def stage(nats_server: NatsServer) -> AsyncIterator[Chain]:
    async with chain(nats_server) as made:
        yield made


async def test_all_shares_of_an_idle_card_that_fell_off_the_bus_leave_at_once(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        before = len(stage.kubelet.lists)
        stage.xid(A, 79)
        verdict = await stage.until_state(A, HealthState.QUARANTINED)
        await stage.until_allocatable(ALL - SHARES)
    assert (ids(verdict), verdict.schedulable, verdict.withheld) == (["xid:79"], False, True)
    healthy = [sum(one.values()) for one in stage.kubelet.lists[before:] if one]
    assert set(healthy) == {ALL - SHARES}


async def test_a_card_comes_back_after_a_reset_and_one_whose_application_failed_never_leaves(
    stage: Chain,
) -> None:
    async with stage.agent():
        stage.xid(B, 94)
        stage.driver.change(A, ecc=2)
        stage.xid(A, 48)
        await stage.until_allocatable(ALL - SHARES)
        stage.driver.change(A, ecc=0)
        await stage.until_state(A, HealthState.RECOVERING)
        await stage.until_state(A, HealthState.HEALTHY)
        await stage.until_allocatable(ALL)
        await stage.until_reason(B, "xid:94")
    assert all(verdict.schedulable for verdict in stage.verdicts[B])


async def test_probes_that_go_well_heal_nothing_until_the_driver_asks_for_no_reset(stage: Chain) -> None:
    async with stage.agent():
        stage.driver.change(A, recovery=1)
        stage.xid(A, 119)
        await stage.until(A, lambda one: {"xid:119", "recovery_action:gpu_reset"} <= set(ids(one)))
        await stage.until_state(A, HealthState.QUARANTINED)
        seen = len(stage.verdicts[A])
        stage.xid(A, 43)  # a later fault of no weight changes nothing
        await stage.until_reason(A, "xid:43")
        assert {verdict.state for verdict in stage.verdicts[A][seen:]} == {HealthState.QUARANTINED}
        stage.driver.change(A, recovery=0)
        await stage.until_state(A, HealthState.HEALTHY)
        await stage.until_allocatable(ALL)


async def test_the_catalogue_decides_which_code_takes_a_card_out(stage: Chain) -> None:
    async with stage.agent():
        stage.xid(A, 94)
        stage.xid(B, 109)
        out = await stage.until_state(B, HealthState.QUARANTINED)
        stays = await stage.until_reason(A, "xid:94")
    assert (out.schedulable, stays.schedulable, stays.state) == (False, True, HealthState.HEALTHY)


async def test_one_lost_card_leaves_the_others_usable(stage: Chain) -> None:
    async with stage.agent():
        stage.driver.change(D, error=LOST)
        await stage.until_state(D, HealthState.LOST)
        await stage.until_allocatable(ALL - SHARES)
        await stage.grant(*grant("p", A))
        await stage.kubelet.run(pod("p"))
    assert stage.kubelet.containers[uid_of("p"), "main"].env[keys.ENV_NVIDIA_VISIBLE] == A
    assert not {A, B, C} & {card for card in stage.verdicts if stage.states(card) != [HealthState.HEALTHY]}


async def test_a_busy_card_stays_in_the_kubelets_view_until_its_pod_ends(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        await stage.grant(*grant("p0", A))
        await stage.kubelet.run(pod("p0"))
        before = len(stage.kubelet.lists)
        stage.xid(A, 95)
        await stage.until_state(A, HealthState.CONDEMNED)
        await stage.grant(*grant("p0", A), *grant("p1", B))
        await stage.kubelet.run(pod("p1"))
        assert all(all(one.values()) for one in stage.kubelet.lists[before:])
        await stage.until_seen(uid_of("p0"))
        await stage.kubelet.end(uid_of("p0"))
        await stage.grant(*grant("p1", B))
        await stage.until_state(A, HealthState.QUARANTINED)
        await stage.until_allocatable(ALL - SHARES)
    assert stage.kubelet.containers[uid_of("p1"), "main"].env[keys.ENV_NVIDIA_VISIBLE] == B


async def test_a_driver_that_goes_away_makes_cards_unknown_and_takes_none_out(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        stage.driver.set(init_error=9)
        for card in CARDS:
            verdict = await stage.until_state(card, HealthState.UNKNOWN)
            assert verdict.schedulable
        assert stage.allocatable == ALL
        stage.driver.set()
        for card in CARDS:
            await stage.until_state(card, HealthState.HEALTHY)


async def test_a_fall_that_the_kernel_tells_in_three_lines_is_the_same_as_the_drivers(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        stage.kernel_says(
            "NVRM: The NVIDIA GPU 0000:b2:00.0",
            "NVRM: (PCI ID: 10de:2330) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        )
        await stage.until_reason(C, "xid:79")
        stage.xid(C, 79)
        stage.xid(C, 31)
        verdict = await stage.until_reason(C, "xid:31")
    assert {reason.id: reason.count for reason in verdict.reasons} == {"xid:79": 1, "xid:31": 1}


async def test_cards_that_all_fail_alike_are_the_nodes_trouble(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        for card in CARDS:
            stage.driver.change(card, error=UNKNOWN)
        for card in CARDS:
            await stage.until_state(card, HealthState.UNKNOWN)
        assert stage.allocatable == ALL
    assert not any(HealthState.QUARANTINED in stage.states(card) for card in CARDS)


async def test_an_agent_that_starts_anew_first_shows_every_slot_healthy(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_allocatable(ALL)
        await stage.grant(*grant("p", A))
        await stage.kubelet.run(pod("p"))
        stage.xid(A, 95)
        stage.xid(B, 79)
        await stage.until_state(A, HealthState.CONDEMNED)
        await stage.until_allocatable(ALL - SHARES)
    before = len(stage.kubelet.lists)
    async with stage.agent():
        await stage.until_allocatable(ALL - SHARES)
    lists = [one for one in stage.kubelet.lists[before:] if one]
    assert all(lists[0].values())
    assert stage.states(A)[-1] is HealthState.CONDEMNED


async def test_a_wedged_card_is_unknown_and_lost_only_when_the_bus_agrees(stage: Chain) -> None:
    devices = stage.root / "sys/bus/pci/devices"
    for number in range(len(CARDS)):
        (devices / f"0000:b{number}:00.0").mkdir(parents=True)
        (devices / f"0000:b{number}:00.0" / "config").write_bytes(b"\xde\x10\x00\x20")
    async with stage.agent():
        await stage.until_state(A, HealthState.HEALTHY)
        stage.driver.change(A, hang=True)
        unknown = await stage.until_state(A, HealthState.UNKNOWN)
        stage.xid(B, 79)  # the others are watched on
        await stage.until_state(B, HealthState.QUARANTINED)
        (devices / "0000:b0:00.0" / "config").write_bytes(b"\xff" * 64)
        lost = await stage.until_state(A, HealthState.LOST)
        stage.driver.change(A, hang=False)
    assert (unknown.schedulable, lost.schedulable) == (True, False)


async def test_the_kernels_line_decides_where_the_drivers_code_alone_does_not(stage: Chain) -> None:
    async with stage.agent():
        stage.xid(A, 149)
        suspect = await stage.until_state(A, HealthState.SUSPECT)
        stage.kernel_says(
            "NVRM: Xid (PCI:0000:b0:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 "
            "(0x004505c6 0x00000000 0x00000000 0x00000000)"
        )
        out = await stage.until_state(A, HealthState.QUARANTINED)
    assert (suspect.schedulable, ids(out), out.reasons[0].count) == (True, ["xid:149"], 1)


async def test_a_flood_about_one_card_is_counted_to_the_last_and_hides_no_other_card(stage: Chain) -> None:
    async with stage.agent():
        await stage.until_state(A, HealthState.HEALTHY)
        flood = ["NVRM: Xid (PCI:0000:b0:00): 31, pid=7, name=x, MMU fault"] * 20_000
        grave = "NVRM: Xid (PCI:0000:b1:00): 79, GPU has fallen off the bus."
        stage.kernel_says(*flood[:10_000], grave, *flood[10_000:])
        await stage.until_state(B, HealthState.QUARANTINED)
        verdict = await stage.until(A, lambda one: any(reason.count == 20_000 for reason in one.reasons))
    assert (ids(verdict), verdict.schedulable) == (["xid:31"], True)
