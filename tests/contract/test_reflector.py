"""A reader that follows a kind ends up with the truth, whatever happens to its connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from sublet.demo.apiserver.faults import Answer, Cut, Fault, Hang, WatchEnd
from sublet.demo.apiserver.server import ApiServer, serve_api
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import CONFIGMAPS, PODS
from sublet.kube.port import Json, Kube, MergePatch, Selection
from sublet.kube.reflector import Change, Gone, Key, Reflector, Relisted, Synced, Upserted, as_json
from tests.contract.kubewords import config, pod

NAMESPACE = "default"


class Reader:
    """Keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.data: dict[str, str] = {}
        self._news = asyncio.Condition()

    async def take(self, change: Change[Json]) -> None:
        async with self._news:
            match change:
                case Upserted(key, obj):
                    self.told.append(f"+{key.name}")
                    self.data[key.name] = (obj.get("data") or {}).get("k", "")
                case Gone(key, _):
                    self.told.append(f"-{key.name}")
                    del self.data[key.name]
                case Synced():
                    self.told.append("synced")
                case Relisted():
                    self.told.append("relisted")
            self._news.notify_all()

    async def until(self, holds: Callable[["Reader"], bool]) -> None:
        async with asyncio.timeout(8), self._news:
            await self._news.wait_for(lambda: holds(self))


@asynccontextmanager
async def following(
    kube: Kube, namespace: str = NAMESPACE, *, labels: str = "", decode: Callable[[bytes], Json] = as_json
) -> AsyncIterator[Reader]:
    reader = Reader()
    reflector = Reflector(
        kube,
        CONFIGMAPS,
        decode=decode,
        select=Selection(namespace=namespace, labels=labels, fields="metadata.name!=kube-root-ca.crt"),
        pause_s=(0.01, 0.05),
    )
    running = asyncio.create_task(reflector.run(reader.take))
    try:
        yield reader
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def put(kube: Kube, namespace: str, name: str, value: str) -> None:
    await kube.patch(CONFIGMAPS, name, MergePatch({"data": {"k": value}}), namespace=namespace)


async def test_what_exists_is_told_before_synced_and_the_rest_as_it_happens(
    kube: KubeClient, namespace: str
) -> None:
    for name in ("a", "b"):
        await kube.create(CONFIGMAPS, config(name, k="1"), namespace=namespace)
    async with following(kube, namespace) as reader:
        await reader.until(lambda it: "synced" in it.told)
        assert reader.told == ["+a", "+b", "synced"]
        await put(kube, namespace, "a", "2")
        await kube.delete(CONFIGMAPS, "b", namespace=namespace)
        await kube.create(CONFIGMAPS, config("c", k="3"), namespace=namespace)
        await reader.until(lambda it: "+c" in it.told)
        assert reader.told[3:] == ["+a", "-b", "+c"]
        assert reader.data == {"a": "2", "c": "3"}


async def test_what_leaves_the_selection_is_gone(kube: KubeClient, namespace: str) -> None:
    body = config("a", k="1")
    body["metadata"]["labels"] = {"app": "x"}
    await kube.create(CONFIGMAPS, body, namespace=namespace)
    async with following(kube, namespace, labels="app=x") as reader:
        await reader.until(lambda it: "synced" in it.told)
        unlabel = MergePatch({"metadata": {"labels": None}})
        await kube.patch(CONFIGMAPS, "a", unlabel, namespace=namespace)
        await reader.until(lambda it: "-a" in it.told)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serve_api(bookmark_every_s=0.2) as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with open_client(server.access, mute_after_s=1.0) as opened:
        yield opened


HTML = Answer(code=502, body=b"<html>bad gateway</html>", content_type="text/html")
BLANK = Answer(code=200, body=b"<html>please log in</html>", content_type="text/html")
GONE = Answer(code=410, body=b'{"kind":"Status","code":410,"reason":"Expired"}')
BUSY = Answer(code=429, headers={"Retry-After": "1"})


@pytest.mark.parametrize("fault", [HTML, BLANK, GONE, BUSY, Cut()], ids=repr)
@pytest.mark.parametrize("end", list(WatchEnd))
async def test_no_broken_connection_costs_a_change(
    server: ApiServer, client: KubeClient, fault: Fault, end: WatchEnd
) -> None:
    await client.create(CONFIGMAPS, config("a", k="1"), namespace=NAMESPACE)
    await client.create(CONFIGMAPS, config("b", k="1"), namespace=NAMESPACE)
    async with following(client) as reader:
        await reader.until(lambda it: "synced" in it.told)
        server.faults.plan(fault, method="GET", path="/configmaps", times=2)
        server.faults.end_watches(end)
        await put(client, NAMESPACE, "a", "2")
        await client.delete(CONFIGMAPS, "b", namespace=NAMESPACE)
        await client.create(CONFIGMAPS, config("c", k="1"), namespace=NAMESPACE)
        await reader.until(lambda it: it.data == {"a": "2", "c": "1"})
        assert reader.told.count("synced") == 1


async def test_lost_history_ends_in_a_relist_that_tells_what_is_gone(
    server: ApiServer, client: KubeClient
) -> None:
    await client.create(CONFIGMAPS, config("a", k="1"), namespace=NAMESPACE)
    async with following(client) as reader:
        await reader.until(lambda it: "synced" in it.told)
        until = asyncio.Event()
        server.faults.plan(Hang(until), method="GET", path="/configmaps")
        server.faults.end_watches(WatchEnd.CLOSE)
        await client.delete(CONFIGMAPS, "a", namespace=NAMESPACE)
        server.store.forget_history()
        until.set()
        await reader.until(lambda it: "relisted" in it.told)
        assert reader.told == ["+a", "synced", "-a", "relisted"]


async def test_an_object_made_anew_under_its_name_is_gone_first(
    server: ApiServer, client: KubeClient
) -> None:
    await client.create(CONFIGMAPS, config("a", k="old"), namespace=NAMESPACE)
    async with following(client) as reader:
        await reader.until(lambda it: "synced" in it.told)
        until = asyncio.Event()
        server.faults.plan(Hang(until), method="GET", path="/configmaps")
        server.faults.end_watches(WatchEnd.CLOSE)
        await client.delete(CONFIGMAPS, "a", namespace=NAMESPACE)
        await client.create(CONFIGMAPS, config("a", k="new"), namespace=NAMESPACE)
        server.store.forget_history()
        until.set()
        await reader.until(lambda it: "relisted" in it.told)
        assert reader.told == ["+a", "synced", "-a", "+a", "relisted"]


async def test_a_relist_does_not_repeat_what_is_known(server: ApiServer, client: KubeClient) -> None:
    await client.create(CONFIGMAPS, config("a", k="1"), namespace=NAMESPACE)
    async with following(client) as reader:
        await reader.until(lambda it: "synced" in it.told)
        await put(client, NAMESPACE, "a", "2")
        await reader.until(lambda it: it.told == ["+a", "synced", "+a"])
        server.faults.end_watches(WatchEnd.EXPIRE)
        await reader.until(lambda it: "relisted" in it.told)
        assert reader.told == ["+a", "synced", "+a", "relisted"]


async def test_an_object_that_cannot_be_read_counts_as_absent(client: KubeClient) -> None:
    def strict(raw: bytes) -> Json:
        obj = as_json(raw)
        if obj["data"]["k"] == "broken":
            raise ValueError("no such state")
        return obj

    await client.create(CONFIGMAPS, config("a", k="1"), namespace=NAMESPACE)
    async with following(client, decode=strict) as reader:
        await reader.until(lambda it: "synced" in it.told)
        await put(client, NAMESPACE, "a", "broken")
        await put(client, NAMESPACE, "a", "2")
        await reader.until(lambda it: it.data == {"a": "2"})
        assert reader.told == ["+a", "synced", "-a", "+a"]


class Slim(msgspec.Struct):
    """A caller's own view of a pod."""

    spec: dict[str, object]


async def test_many_pages_are_one_list_in_the_callers_type(server: ApiServer, client: KubeClient) -> None:
    for number in range(1_100):
        await client.create(PODS, pod(f"p{number}"), namespace=NAMESPACE)
    pods: dict[Key, Slim] = {}
    done = asyncio.Event()

    async def take(change: Change[Slim]) -> None:
        match change:
            case Upserted(key, obj):
                pods[key] = obj
            case Synced():
                done.set()
            case _:
                pytest.fail(f"unexpected {change}")

    reflector = Reflector(client, PODS, decode=msgspec.json.Decoder(Slim).decode)
    running = asyncio.create_task(reflector.run(take))
    async with asyncio.timeout(8):
        await done.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert len(pods) == 1_100
    assert all("containers" in each.spec for each in pods.values())
