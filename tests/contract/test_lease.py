"""One leader at a time, whatever fails; a term that only grows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from sublet.demo.apiserver.faults import Answer, Cut, Fault, Hang
from sublet.demo.apiserver.server import serve_api
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import LEASES
from sublet.kube.lease import Elector, LeaseTimes
from sublet.kube.port import Json, Kube, MergePatch
from sublet.runtime.clock import unix_ms

TIMES = LeaseTimes(lease_s=1.0, renew_s=0.05, give_up_s=0.4)


class Candidate:
    """One replica: its terms, and events to wait for."""

    def __init__(self, kube: Kube, namespace: str, identity: str) -> None:
        self.identity = identity
        self.terms: list[int] = []
        self.leads = asyncio.Event()
        self.lost = asyncio.Event()
        self._elector = Elector(
            kube, name="leader", namespace=namespace, identity=identity, unix_ms=unix_ms, times=TIMES
        )

    async def run(self) -> None:
        while True:
            await self._elector.lead(self._work)

    async def _work(self, term: int) -> None:
        self.terms.append(term)
        self.lost.clear()
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()
            self.lost.set()


@asynccontextmanager
async def running(candidate: Candidate) -> AsyncIterator[None]:
    task = asyncio.create_task(candidate.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(6):
        await event.wait()


async def lease(kube: Kube, namespace: str) -> Json:
    spec: Json = (await kube.get(LEASES, "leader", namespace=namespace))["spec"]
    return spec


async def test_the_first_one_leads_and_writes_its_name(kube: KubeClient, namespace: str) -> None:
    one = Candidate(kube, namespace, "one")
    async with running(one):
        await soon(one.leads)
        spec = await lease(kube, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("one", 1, 1)
    assert spec["renewTime"].endswith("Z")


async def test_a_leader_that_stops_frees_the_lease_for_the_next_term(
    kube: KubeClient, namespace: str
) -> None:
    one, two = Candidate(kube, namespace, "one"), Candidate(kube, namespace, "two")
    async with running(two):
        await soon(two.leads)
        async with running(one):
            pass
    assert one.terms == []
    assert (await lease(kube, namespace))["holderIdentity"] == ""
    async with running(one):
        await soon(one.leads)
    assert (two.terms, one.terms) == ([1], [2])


async def test_nobody_leads_while_another_one_renews(kube: KubeClient, namespace: str) -> None:
    one, two = Candidate(kube, namespace, "one"), Candidate(kube, namespace, "two")
    async with running(one):
        await soon(one.leads)
        async with running(two):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2 * TIMES.lease_s):
                    await two.leads.wait()
            assert one.leads.is_set()


async def test_a_leader_gives_way_to_a_usurper(kube: KubeClient, namespace: str) -> None:
    one = Candidate(kube, namespace, "one")
    async with running(one):
        await soon(one.leads)
        taken = MergePatch({"spec": {"holderIdentity": "two", "leaseTransitions": 7}})
        await kube.patch(LEASES, "leader", taken, namespace=namespace)
        await soon(one.lost)
        await soon(one.leads)
    assert one.terms == [1, 8]


async def test_a_restarted_holder_of_the_same_name_waits_like_any_other(
    kube: KubeClient, namespace: str
) -> None:
    one = Candidate(kube, namespace, "same")
    async with running(one):
        await soon(one.leads)
        twin = Candidate(kube, namespace, "same")
        async with running(twin):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5 * TIMES.lease_s):
                    await twin.leads.wait()


@pytest.mark.parametrize(
    "fault",
    [
        Answer(code=500),
        Answer(code=502, body=b"<html></html>", content_type="text/html"),
        Answer(code=200, body=b"<html></html>", content_type="text/html"),
        Cut(),
        Cut(after=True),
        Hang(asyncio.Event()),
    ],
    ids=["500", "502 page", "200 page", "cut before", "cut after", "mute"],
)
async def test_a_leader_that_cannot_renew_stops_in_time_and_comes_back_later(fault: Fault) -> None:
    async with serve_api() as server, open_client(server.access) as client:
        one = Candidate(client, "default", "one")
        async with running(one):
            await soon(one.leads)
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            server.faults.plan(fault, path="/leases", times=1_000)
            await soon(one.lost)
            assert loop.time() - began_s < TIMES.lease_s
            server.faults.heal()
            await soon(one.leads)
        assert one.terms == sorted(set(one.terms))


async def test_work_that_fails_releases_and_is_told() -> None:
    async def work(_: int) -> None:
        raise ValueError("broken")

    async with serve_api() as server, open_client(server.access) as client:
        elector = Elector(
            client, name="leader", namespace="default", identity="one", unix_ms=unix_ms, times=TIMES
        )
        with pytest.raises(ExceptionGroup):
            await elector.lead(work)
        assert (await lease(client, "default"))["holderIdentity"] == ""
