"""healthd as a whole: signals in, verdicts, public events and node status out, over deaths and outages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from sublet_healthd.shell.store import Superseded

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import keys, subjects
from sublet.contract import metrics as names
from sublet.demo.apiserver.faults import Answer
from sublet.demo.apiserver.server import serve_api
from sublet.demo.natsserver import NatsServer
from sublet.kube.client import open_client
from sublet.kube.kind import NODES
from sublet.kube.port import MergePatch
from sublet.model.health import HealthState, Signal, SignalKind
from sublet.model.ids import NodeName
from sublet.runtime.clock import unix_ms
from sublet.wire.health import signal_out, verdict_out
from tests.eventually import eventually
from tests.integration.healthdstage import NODE, A, B, Stage, identity, pending

pytest_plugins = ["tests.natsserver"]

XID, RESET, BOOT = SignalKind.XID, SignalKind.RESET, SignalKind.BOOT


@pytest_asyncio.fixture
async def memory() -> MemoryBus:
    return MemoryBus(LAYOUT)


@pytest_asyncio.fixture
async def stage(memory: MemoryBus) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as held:
        api = await held.enter_async_context(serve_api())
        kube = await held.enter_async_context(open_client(api.access))
        stage = Stage(bus=memory, api=api, kube=kube)
        await stage.make_node()
        yield stage


async def take_out_and_bring_back(stage: Stage) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await stage.observe(XID, code=48)
        condemned = await stage.until_state(HealthState.CONDEMNED)
        assert (condemned.schedulable, condemned.withheld) == (False, False)
        assert list(stage.annotation()) == [A]
        await stage.close_and_empty(A)
        quarantined = await stage.until_state(HealthState.QUARANTINED)
        assert quarantined.withheld
        await stage.until_condition("False")
        await stage.observe(RESET)
        healthy = await stage.until_state(HealthState.HEALTHY)
        assert (healthy.schedulable, healthy.reasons) == (True, ())
        await stage.until_condition("True")
        assert stage.annotation() == {}
        assert await stage.events() == [
            ("healthy", "condemned", 1),
            ("condemned", "quarantined", 2),
            ("quarantined", "recovering", 3),
            ("recovering", "healthy", 4),
        ]
        assert (await stage.verdict(B)) is not None
        assert await stage.events(B) == []
        assert not healthd.life.done()


async def test_an_idle_card_is_taken_out_and_brought_back_and_everybody_is_told(stage: Stage) -> None:
    await take_out_and_bring_back(stage)
    told = {"CardCondemned": 1, "CardQuarantined": 1, "CardRecovering": 1, "CardHealthy": 1}
    assert stage.told().keys() <= told.keys()


async def test_the_same_works_over_a_real_server(nats_server: NatsServer) -> None:
    async with AsyncExitStack() as held:
        api = await held.enter_async_context(serve_api())
        kube = await held.enter_async_context(open_client(api.access))
        bus = await held.enter_async_context(open_bus(nats_server.url, name="test", layout=LAYOUT))
        await bus.ensure_layout(LAYOUT, within_s=5)
        stage = Stage(bus=bus, api=api, kube=kube)
        await stage.make_node()
        await take_out_and_bring_back(stage)


async def test_without_the_closing_in_the_ledger_a_card_stays_condemned(stage: Stage) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.node_is_empty(await stage.ledger_says())
        await stage.observe(XID, code=79)
        await stage.until_state(HealthState.CONDEMNED)
        await stage.observe(XID, B, code=79)  # the grace period of A has begun earlier, if it had
        await stage.close_and_empty(B)
        await stage.until_state(HealthState.QUARANTINED, B)
        verdict = await stage.verdict()
        assert verdict is not None
        assert (verdict.state, verdict.withheld) == (HealthState.CONDEMNED, False)
        assert not healthd.life.done()


async def test_another_boot_in_a_heartbeat_alone_brings_back_what_waits_for_a_reboot(stage: Stage) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=79)
        await stage.until_state(HealthState.CONDEMNED)
        await stage.beat(boot_id="b2")
        await stage.until_state(HealthState.HEALTHY)


async def test_a_public_event_says_why_and_what_to_do(stage: Stage) -> None:
    async with stage.healthd(mode="guard"):
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await stage.observe(XID, code=79)
        await stage.until_state(HealthState.CONDEMNED)
        [message] = await stage.messages()
        event = json.loads(message.body)
        assert event["card"]["uuid"] == A
        assert (event["card"]["index"], event["card"]["vendor"], event["card"]["pci"]) == (
            0,
            "nvidia",
            "0000:01:00.0",
        )
        assert event["node"] == {"name": NODE, "bootId": "b1"}
        assert (event["action"], event["schedulable"], event["kubelet"]) == ("reboot_node", False, "Healthy")
        assert event["policy"] == {"name": "xid-policy", "version": "1", "rule": "xid:79"}
        [reason] = event["reasons"]
        assert (reason["code"], reason["class"], reason["latched"], reason["clearsOn"]) == (
            "xid:79",
            "bus",
            True,
            "reboot",
        )
        assert message.headers["ce-type"] == "dev.sublet.health.transition.v1"


async def test_a_judge_that_is_killed_returns_no_latched_card_and_announces_the_recovery_once(
    stage: Stage,
) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
    async with stage.healthd():
        await stage.until_state(HealthState.CONDEMNED)
    await stage.observe(RESET)
    async with stage.healthd():
        await stage.until_state(HealthState.HEALTHY)
    async with stage.healthd():
        await stage.observe(XID, B, code=48)
        await stage.until_state(HealthState.CONDEMNED, B)
    assert [to for _, to, _ in await stage.events()] == ["condemned", "recovering", "healthy"]


@pytest.mark.parametrize("published", [True, False])
async def test_an_event_whose_publishing_is_not_known_is_published_exactly_once(
    stage: Stage, published: bool
) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await stage.observe(XID, code=48)
        verdict = await stage.until_state(HealthState.CONDEMNED)
    [message] = await stage.messages()
    if published:
        event_id = identity(message)
        expected = [("healthy", "condemned", 1)]
    else:
        event_id = f"{NODE}/{A}/1/suspect/{unix_ms()}"
        expected = [("healthy", "condemned", 1), ("suspect", "condemned", 1)]
    key = subjects.verdict_key(NODE, A)
    await stage.bus.put(subjects.VERDICTS_BUCKET, key, verdict_out(pending(verdict, event_id)))
    for _ in range(2):
        async with stage.healthd():
            await stage.until_state(HealthState.CONDEMNED)
    assert await stage.events() == expected


async def test_the_annotation_brings_back_what_the_bus_has_lost(stage: Stage, memory: MemoryBus) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
    memory.come_back(data_lost=True)
    async with stage.healthd():
        verdict = await stage.until_state(HealthState.CONDEMNED)
        assert [reason.id for reason in verdict.reasons] == ["xid:48"]


async def test_an_agent_brings_back_what_both_bus_and_node_have_lost(stage: Stage, memory: MemoryBus) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
        await stage.close_and_empty(A)
        known = await stage.until_state(HealthState.QUARANTINED)
    memory.come_back(data_lost=True)
    await stage.kube.delete(NODES, NODE)
    await stage.make_node()
    async with stage.healthd():
        await stage.observe(SignalKind.CARD)
        await stage.until_state(HealthState.HEALTHY)
        await stage.agent_says(verdicts=(known,))
        verdict = await stage.until_state(HealthState.QUARANTINED)
        assert (verdict.seq, verdict.reasons) == (known.seq, known.reasons)
        assert verdict.withheld
        await eventually(lambda: list(stage.annotation()) == [A])
        await stage.observe(RESET)
        assert (await stage.until_state(HealthState.HEALTHY)).seq > known.seq


async def test_verdicts_are_written_again_when_their_bucket_is_lost(stage: Stage, memory: MemoryBus) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
        memory.come_back(data_lost=True)
        await stage.until_state(HealthState.CONDEMNED)
        await stage.until_state(HealthState.HEALTHY, B)
        assert not healthd.life.done()


async def test_what_is_judged_while_the_bus_is_away_is_stored_when_it_is_back(
    stage: Stage, memory: MemoryBus
) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
        await stage.observe(RESET)
        await stage.until_state(HealthState.RECOVERING)
        memory.go_down()
        await eventually(lambda: stage.annotation() == {})  # probation ends meanwhile
        assert not healthd.life.done()
        memory.come_back()
        await stage.until_state(HealthState.HEALTHY)


async def test_nobody_acts_on_a_verdict_before_the_node_carries_it(stage: Stage) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await stage.until_condition("True")
        stage.api.faults.plan(Answer(code=503), method="PATCH", path="/nodes/", times=10_000)
        await stage.observe(XID, code=48)
        _, text = await healthd.probe("metrics")
        for _ in range(20):
            verdict = await stage.verdict()
            assert verdict is not None
            assert verdict.state is HealthState.HEALTHY
        stage.api.faults.heal()
        await stage.until_state(HealthState.CONDEMNED)
        assert list(stage.annotation()) == [A]
        assert names.CARD_HEALTH_STATE in text


async def test_a_node_object_that_is_not_there_holds_nothing_up(stage: Stage) -> None:
    await stage.kube.delete(NODES, NODE)
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)


async def test_an_annotation_that_somebody_removed_is_written_again(stage: Stage) -> None:
    async with stage.healthd(reconcile_s=0.05):
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_condition("False")
        body = {"metadata": {"annotations": {keys.HEALTH_ANNOTATION: None}}}
        await stage.kube.patch(NODES, NODE, MergePatch(body))
        await eventually(lambda: list(stage.annotation()) == [A])


async def test_a_node_that_was_created_anew_gets_annotation_and_condition_again(stage: Stage) -> None:
    async with stage.healthd(reconcile_s=0.05):
        await stage.agent_says()
        await stage.observe(XID, code=48)
        await stage.until_condition("False")
        await stage.kube.delete(NODES, NODE)
        await stage.make_node()
        await eventually(lambda: list(stage.annotation()) == [A])
        await stage.until_condition("False")


async def test_a_signal_for_another_node_than_its_subject_and_an_unreadable_one_are_dropped_and_counted(
    stage: Stage,
) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        lie = Signal(node=NodeName("n2"), card=A, kind=XID, code=79, at_ms=unix_ms())
        await stage.send(subjects.signal_subject(NODE, A), signal_out(lie))
        await stage.send(subjects.signal_subject(NODE, A), b"\xff\xff")
        await stage.observe(XID, B, code=48)
        await stage.until_state(HealthState.CONDEMNED, B)
        verdict = await stage.verdict()
        assert verdict is None or verdict.state is HealthState.HEALTHY
        ignored = f'{names.BUS_IGNORED_MESSAGES}_total{{source="{subjects.SIGNALS_STREAM}"}}'
        assert await healthd.metric(ignored) == 2
        assert await healthd.metric(f'{names.BUS_POISONED_MESSAGES}_total{{consumer="healthd"}}') == 1


async def test_a_judge_that_meets_another_writer_of_verdicts_ends(stage: Stage) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        verdict = await stage.until_state(HealthState.HEALTHY)
        other = verdict_out(pending(verdict, "somebody/else/1/healthy/1"))
        await stage.bus.put(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, A), other)
        await stage.observe(XID, code=48)
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.timeout(5):
                await healthd.life
        assert ended.value.subgroup(Superseded)


async def test_the_active_reason_metric_goes_back_to_zero_and_the_counter_counts_repeats(
    stage: Stage,
) -> None:
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await stage.observe(XID, code=48)
        await stage.observe(XID, code=48)
        await stage.until_state(HealthState.CONDEMNED)
        card = f'Hostname="{NODE}",UUID="{A}",code="48",gpu="0",kind="xid"'
        place = 'modelName="NVIDIA A100",pci_bus_id="00000000:01:00.0"'
        active = f"{names.CARD_REASON_ACTIVE}{{{card},{place}}}"
        assert await healthd.metric(active) == 1
        await stage.observe(RESET)
        await stage.until_state(HealthState.HEALTHY)
        assert await healthd.metric(active) == 0
        signals = f'{names.CARD_SIGNALS}_total{{{card},{place},source="file"}}'
        assert await healthd.metric(signals) == 2


async def test_healthd_is_ready_when_it_knows_what_was_known_before(stage: Stage, memory: MemoryBus) -> None:
    memory.go_down()
    async with stage.healthd() as healthd:
        assert (await healthd.probe("readyz"))[0] == 503
        assert (await healthd.probe("healthz"))[0] == 200
        memory.come_back()
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        assert (await healthd.probe("readyz"))[0] == 200


async def test_an_event_that_repeats_is_counted_in_one_kubernetes_event(stage: Stage) -> None:
    async with stage.healthd():
        await stage.agent_says()
        for _ in range(2):
            await stage.observe(XID, code=48)
            await stage.until_state(HealthState.CONDEMNED)
            await stage.observe(RESET)
            await stage.until_state(HealthState.HEALTHY)
        await eventually(lambda: stage.told().get("CardCondemned") == 2)


HISTORY: list[tuple[SignalKind, dict[str, Any]]] = [
    (XID, {"code": 48}),
    (XID, {"code": 43}),
    (RESET, {}),
    (XID, {"code": 95}),
    (SignalKind.RECOVERY_ACTION, {"value": "gpu_reset"}),
    (SignalKind.PROBE, {"value": "ok"}),
    (SignalKind.RECOVERY_ACTION, {"value": "none"}),
    (XID, {"code": 79}),
    (SignalKind.PROBE, {"value": "lost"}),
    (SignalKind.CARD, {"pci": "0000:01:00.0"}),
    (XID, {"code": 119}),
    (RESET, {}),
]


@pytest.mark.parametrize("seed", range(3))
async def test_a_judge_killed_over_and_over_comes_to_the_verdict_of_one_that_lived(
    stage: Stage, seed: int
) -> None:
    dice = Random(seed)
    for kind, more in HISTORY:
        await stage.observe(kind, **more)
        async with stage.healthd(probation_s=600) as healthd:
            await asyncio.wait([healthd.life], timeout=dice.uniform(0, 0.06))
    await stage.observe(XID, B, code=48)
    async with stage.healthd(probation_s=600):
        await stage.until_state(HealthState.CONDEMNED, B)
        verdict = await stage.until_state(HealthState.CONDEMNED)
    assert {reason.id for reason in verdict.reasons} == {"xid:43", "xid:79"}
    told = await stage.events()
    assert len(set(map(identity, await stage.messages()))) == len(told)
    assert [seq for _, _, seq in told] == list(range(1, len(told) + 1))
    assert [before for before, _, _ in told[1:]] == [after for _, after, _ in told[:-1]]
