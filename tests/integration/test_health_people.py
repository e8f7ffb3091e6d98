"""What people ask of healthd, and what two of them do together: over deaths, and from the command line."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing

import pytest
import pytest_asyncio

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import cloudevents, subjects
from sublet.demo.apiserver.server import serve_api
from sublet.demo.natsserver import NatsServer
from sublet.kube.client import open_client
from sublet.kube.kind import EVENTS, NAMESPACES, NODES
from sublet.kube.port import MergePatch
from sublet.model.health import HealthState, ManualAct, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.runtime.clock import unix_ms
from sublet.wire.health import healthd_heartbeat_out, manual_out, verdict_out
from tests.eventually import eventually
from tests.integration.healthdstage import NODE, A, B, Stage

pytest_plugins = ["tests.natsserver"]

XID = SignalKind.XID


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
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sublet-system"}}
        await kube.create(NAMESPACES, namespace)
        yield stage


async def ask(stage: Stage, what: str, card: CardId | None = A, node: NodeName | None = NODE) -> str:
    """A person's request; returns its id."""
    stage.numbers += 1
    act = ManualAct(
        id=f"a{stage.numbers}",
        node=node if card else None,
        card=card,
        what=what,
        by="ada",
        note="fan",
        at_ms=unix_ms(),
    )
    subject = subjects.subject(subjects.MANUAL, act.node, act.card)
    await stage.bus.publish(subject, manual_out(act), once_id=act.id, within_s=5)
    return act.id


async def told(stage: Stage, card: CardId | None = A, node: NodeName | None = NODE) -> list[tuple[str, str]]:
    """What audit events say was done, and by whom."""
    subject = subjects.subject("audit", node if card else None, card)
    stored = stage.bus.subscribe(subjects.EVENTS_STREAM, [subject], since=0, follow=False)
    bodies = [json.loads(message.body) async for message in stored]
    return [(body["what"], body["by"]) for body in bodies]


async def until_told(stage: Stage, what: str, card: CardId | None = A, node: NodeName | None = NODE) -> None:
    subject = subjects.subject("audit", node if card else None, card)
    async with (
        asyncio.timeout(5),
        aclosing(stage.bus.subscribe(subjects.EVENTS_STREAM, [subject], since=0)) as messages,
    ):
        async for message in messages:
            if json.loads(message.body)["what"] == what:
                return


async def until_closed(stage: Stage, card: CardId) -> None:
    async with asyncio.timeout(5), aclosing(stage.bus.follow(subjects.VERDICTS_BUCKET)) as changes:
        async for _ in changes:
            verdict = await stage.verdict(card)
            if verdict is not None and not verdict.schedulable:
                return


async def test_a_hold_survives_a_restart_and_its_release_brings_the_card_back(stage: Stage) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await ask(stage, "hold")
        held = await stage.until_state(HealthState.HELD)
        assert held.hold is not None
        assert (held.schedulable, held.hold.by, held.hold.note) == (False, "ada", "fan")
        assert stage.annotation()[A]["hold"]["by"] == "ada"
        await until_told(stage, "held")
    async with stage.healthd():
        await stage.until_state(HealthState.HELD)
        await ask(stage, "release")
        await stage.until_state(HealthState.HEALTHY)
        await until_told(stage, "released")
    assert await told(stage) == [("held", "ada"), ("released", "ada")]


async def test_what_others_do_to_a_node_stays_whatever_becomes_of_its_cards(stage: Stage) -> None:
    theirs = {"unschedulable": True, "taints": [{"key": "theirs", "effect": "NoSchedule"}]}
    marks = {"theirs.example/cordon": "fan"}
    body = {"spec": theirs, "metadata": {"annotations": marks, "labels": marks}}
    await stage.kube.patch(NODES, NODE, MergePatch(body))
    async with stage.healthd():
        await stage.agent_says()
        for code in (48, 54):
            await stage.observe(SignalKind.XID, code=code)
        await stage.until_state(HealthState.CONDEMNED)
        await ask(stage, "hold")
        await stage.until_state(HealthState.HELD)
        await stage.observe(SignalKind.RESET)
        await ask(stage, "ack")
        await ask(stage, "release")
        await stage.until_state(HealthState.HEALTHY)
        await until_told(stage, "released")
    node = stage.node()
    assert node["spec"] == theirs
    assert marks.items() <= node["metadata"]["annotations"].items()
    assert node["metadata"]["labels"] == marks


async def test_a_hold_that_is_asked_while_nobody_judges_is_done_by_the_next_life(stage: Stage) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
    await ask(stage, "hold")
    async with stage.healthd():
        await stage.until_state(HealthState.HELD)


async def test_an_acknowledgement_clears_what_only_a_person_clears_and_says_who(stage: Stage) -> None:
    async with stage.healthd():
        await stage.agent_says()
        await stage.observe(XID, code=54)
        await stage.until_state(HealthState.CONDEMNED)
        await ask(stage, "ack")
        await stage.until_state(HealthState.HEALTHY)
        await until_told(stage, "acknowledged")


async def test_a_request_about_a_card_that_nobody_knows_is_refused_aloud(stage: Stage) -> None:
    ghost = CardId("GPU-GHOST")
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await ask(stage, "hold", ghost)
        await until_told(stage, "manual_refused", ghost)
        assert await stage.verdict(ghost) is None
        assert not healthd.life.done()


async def test_a_breaker_opened_by_hand_holds_back_survives_a_restart_and_looks_again_when_closed(
    stage: Stage,
) -> None:
    opened = 'sublet_healthd_breaker_state{scope="fleet",state="open"}'
    async with stage.healthd() as healthd:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        await ask(stage, "breaker_open", card=None)
        await until_told(stage, "breaker_open", card=None)
        assert await healthd.metric(opened) == 1
        await stage.observe(XID, code=48)
        verdict = await stage.until_state(HealthState.CONDEMNED)
        assert (verdict.schedulable, verdict.not_done, verdict.breaker) == (True, "close", "open")
        [event] = await stage.messages()
        system = await stage.kube.get(NAMESPACES, "kube-system")
        told_by = cloudevents.from_headers(event.headers)
        assert told_by.source == f"/cluster/{system['metadata']['uid']}/node/{NODE}"
        assert told_by.traceparent
        assert json.loads(event.body)["breaker"] == {"state": "open"}
        assert stage.annotation()[A]["breaker"] == "open"
    async with stage.healthd() as healthd:
        await stage.observe(XID, B, code=48)
        verdict = await stage.until_state(HealthState.CONDEMNED, B)
        assert verdict.schedulable
        assert await healthd.metric(opened) == 1
        await ask(stage, "breaker_close", card=None)
        await until_told(stage, "breaker_closed", card=None)
        await until_closed(stage, A)


async def test_every_turn_of_the_breaker_is_a_kubernetes_event_and_what_repeats_is_counted(
    stage: Stage,
) -> None:
    turns = ("breaker_open", "breaker_half_open", "breaker_close")
    async with stage.healthd():
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        for what in (*turns, *turns):
            await ask(stage, what, card=None)
        counts = {"BreakerOpened": 2, "BreakerHalfOpen": 2, "BreakerClosed": 2}
        await eventually(lambda: stage.told("sublet-system") == counts)
    events = {one["reason"]: one for one in await stage.kube.list(EVENTS)}
    opened = events["BreakerOpened"]
    assert (opened["type"], events["BreakerClosed"]["type"]) == ("Warning", "Normal")
    assert (opened["involvedObject"]["kind"], opened["involvedObject"]["name"]) == (
        "Deployment",
        "sublet-healthd",
    )
    assert opened["message"] == "the breaker is open, by ada: fan"


async def test_of_two_the_other_takes_over_and_announces_the_recovery_once(stage: Stage) -> None:
    async with stage.healthd(elect=True) as first:
        await stage.agent_says()
        await stage.until_state(HealthState.HEALTHY)
        async with stage.healthd(elect=True) as second:
            assert (await second.probe("readyz"))[0] == 200
            await stage.observe(XID, code=48)
            before = await stage.until_state(HealthState.CONDEMNED)
            first.life.cancel()
            await asyncio.wait([first.life])
            await stage.observe(SignalKind.RESET)
            after = await stage.until_state(HealthState.HEALTHY)
            assert after.term == before.term + 1
            assert not second.life.done()
    assert [to for _, to, _ in await stage.events()] == ["condemned", "recovering", "healthy"]


async def sublet_health(server: NatsServer, *arguments: str) -> tuple[str, str]:
    return await sublet(server, "health", *arguments)


async def sublet(server: NatsServer, *arguments: str) -> tuple[str, str]:
    """What it prints, and what it says beside that."""
    program = "import sys; from sublet.cli.main import main; sys.exit(main())"
    command = (sys.executable, "-c", program, *arguments, "--nats", server.url)
    ran = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await ran.communicate()
    assert ran.returncode == 0, err.decode()
    return out.decode(), err.decode()


@pytest.mark.timeout(40)  # six processes start
async def test_people_reach_healthd_from_the_command_line(nats_server: NatsServer) -> None:
    async with AsyncExitStack() as held:
        api = await held.enter_async_context(serve_api())
        kube = await held.enter_async_context(open_client(api.access))
        bus = await held.enter_async_context(open_bus(nats_server.url, name="test", layout=LAYOUT))
        await bus.ensure_layout(LAYOUT, within_s=5)
        stage = Stage(bus=bus, api=api, kube=kube)
        await stage.make_node()
        async with stage.healthd():
            await stage.agent_says()
            await stage.until_state(HealthState.HEALTHY)
            held_so = ("--note", "fan", "--until", "8h", "--by", "ada")
            out, _ = await sublet_health(nats_server, "hold", A, *held_so)
            assert out == f"{A}: held by ada\n"
            await eventually(lambda: A in stage.annotation())
            out, said = await sublet_health(nats_server, "-o", "json")
            [first, *_] = json.loads(out)
            assert (first["card"], first["state"], first["hold"]["by"]) == (A, "held", "ada")
            assert first["hold"]["until"] is not None
            assert (first["verdictAgeSeconds"] < 30, said) == (True, "")
            history, _ = await sublet_health(nats_server, "history", A)
            assert "held by ada: fan" in history
            assert "healthy -> held" in history
            told, _ = await sublet(nats_server, "events", "--kind", "audit")
            assert told.rstrip().endswith("by ada: fan")
            assert await sublet(nats_server, "events", "--card", "NOPE") == (
                "",
                "no stored event is like that; `sublet health` lists the cards and their nodes\n",
            )
            out, _ = await sublet_health(nats_server, "breaker", "half-open", "--by", "ada")
            assert out.startswith("healthd was asked by ada to set the breaker half-open")


async def test_while_nobody_judges_the_table_says_so_and_shows_the_age_of_what_was_judged(
    nats_server: NatsServer,
) -> None:
    ill = Verdict(
        node=NODE,
        card=A,
        state=HealthState.CONDEMNED,
        schedulable=False,
        withheld=False,
        at_ms=unix_ms() - 7_200_000,
    )
    async with open_bus(nats_server.url, name="test", layout=LAYOUT) as bus:
        await bus.ensure_layout(LAYOUT, within_s=5)
        await bus.put(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, A), verdict_out(ill), within_s=5)
        hour_ago = healthd_heartbeat_out(unix_ms() - 3_600_000)
        await bus.put(subjects.HEALTHD_BUCKET, subjects.HEALTHD_HEARTBEAT_KEY, hour_ago, within_s=5)
        out, said = await sublet_health(nats_server, "-o", "json")
    [shown] = json.loads(out)
    assert shown["state"] == "condemned"
    assert 3_600 <= shown["verdictAgeSeconds"] < 3_660
    assert said == "healthd has not been heard of for 1h: cards are shown as they were then\n"
