"""Public events: one on the pod, one on each card it concerns, each stored once however often it is sent."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from sublet_scheduler.core.effects import Announce, AnnounceCard, PublicEffect, Report
from sublet_scheduler.shell.outbox import Fact, Outbox
from sublet_scheduler.shell.publishing import Publishing

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.bus.port import Message
from sublet.contract import cloudevents
from sublet.contract.subjects import EVENTS_STREAM
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, Placement
from sublet.model.reasons import Reason, ReportCode

REF = PodRef("team", "train-0")


def grant(card: str, index: int) -> CardGrant:
    return CardGrant(card=CardId(card), index=index, memory_mib=1024, core_percent=10)


PLACED = Placement(
    node=NodeName("n1.lab"),
    containers={"a": (grant("GPU-0", 0), grant("GPU-1", 1)), "b": (grant("GPU-1", 1),)},
)


@pytest.fixture
async def bus() -> MemoryBus:
    return MemoryBus(LAYOUT)


async def published(bus: MemoryBus) -> list[Message]:
    async with aclosing(bus.subscribe(EVENTS_STREAM, [">"], since=0, follow=False)) as stored:
        return [message async for message in stored]


def announce(what: str, placement: Placement | None = PLACED, **more: object) -> Announce:
    return Announce(what, REF, PodUid("u1"), DecisionId("d1"), placement, **more)  # type: ignore[arg-type]


async def tell(bus: MemoryBus, effect: PublicEffect, *, seq: int = 7) -> None:
    await Publishing(bus=bus).tell(Fact(effect, 1_000, seq))


async def test_a_release_is_told_on_the_pod_and_on_each_of_its_cards(bus: MemoryBus) -> None:
    await tell(bus, announce("released"))
    found = {message.subject: json.loads(message.body) for message in await published(bus)}
    assert sorted(found) == [
        "sublet.v1.pod.n1_lab.-",
        "sublet.v1.share.n1_lab.GPU-0",
        "sublet.v1.share.n1_lab.GPU-1",
    ]
    assert found["sublet.v1.pod.n1_lab.-"]["pod"] == "train-0"
    on_card = found["sublet.v1.share.n1_lab.GPU-1"]
    assert [(one["container"], one["card"]) for one in on_card["grants"]] == [("a", "GPU-1"), ("b", "GPU-1")]


async def test_all_that_is_told_of_a_decision_is_one_trace(bus: MemoryBus) -> None:
    for what in ("committed", "released"):
        await Publishing(bus=bus, cluster="c1").tell(Fact(announce(what), 1_000, 7))
    headers = [cloudevents.from_headers(message.headers) for message in await published(bus)]
    assert {one.source for one in headers} == {"/cluster/c1/node/n1.lab"}
    traces = [one.traceparent.split("-") for one in headers]
    assert len({trace for _, trace, _, _ in traces}) == 1
    assert len({parent for _, _, parent, _ in traces}) == len(headers) == 6


async def test_a_held_pod_is_told_with_its_reasons_and_without_a_node(bus: MemoryBus) -> None:
    await tell(bus, announce("held", None, reasons={Reason.IN_USE: 3}))
    [message] = await published(bus)
    assert message.subject == "sublet.v1.pod.-.-"
    assert json.loads(message.body)["reasons"] == {"InUse": 3}
    attributes = cloudevents.from_headers(message.headers)
    assert (attributes.type, attributes.subject, attributes.sequence) == (
        "dev.sublet.pod.held.v1",
        "team/train-0",
        7,
    )


async def test_the_same_fact_is_stored_once_and_two_alike_are_two(bus: MemoryBus) -> None:
    for seq in (1, 1, 2):
        await tell(bus, AnnounceCard("closed", NodeName("n1"), CardId("GPU-0")), seq=seq)
    assert len(await published(bus)) == 2


async def test_a_report_is_told_as_an_audit_event(bus: MemoryBus) -> None:
    await tell(bus, Report(ReportCode.FORGED_DECISION, "not ours", ref=REF, uid=PodUid("u1")))
    [message] = await published(bus)
    assert message.subject == "sublet.v1.audit.-.-"
    assert cloudevents.from_headers(message.headers).type == "dev.sublet.audit.forged_decision.v1"
    assert json.loads(message.body)["message"] == "not ours"


async def test_facts_wait_for_the_bus_in_their_order(bus: MemoryBus) -> None:
    told: list[PublicEffect] = []
    outbox = Outbox(on_fact=told.append, unix_ms=lambda: 5)
    bus.go_down()
    for what in ("committed", "released"):
        outbox.put(announce(what, None))
    assert [type(one) for one in told] == [Announce, Announce]

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(outbox.public.run(Publishing(bus=bus, again_s=0.01).tell))
            yield
            task.cancel()

    async with running(), aclosing(bus.subscribe(EVENTS_STREAM, [">"], since=0)) as stored:
        bus.come_back()
        words = [json.loads((await anext(stored)).body) for _ in range(2)]
    assert [one["what"] for one in words] == ["committed", "released"]
    assert int(words[0]["seq"]) < int(words[1]["seq"])


class Narrow(MemoryBus):
    """Takes no message about a pod, whatever is tried."""

    async def publish(self, subject: str, body: bytes, **more: Any) -> None:
        if ".pod." in subject:
            raise BadRequest("too large")
        await super().publish(subject, body, **more)


async def test_a_fact_that_the_bus_never_takes_holds_up_no_other() -> None:
    bus = Narrow(LAYOUT)
    await tell(bus, announce("released"))
    assert len(await published(bus)) == 2
