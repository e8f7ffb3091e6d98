"""The embedded API server as a program and over TLS, and the client's own limits."""

import asyncio
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sublet.demo.apiserver.faults import Answer, Cut, Hang, WatchEnd
from sublet.demo.apiserver.server import ServerTls, serve_api
from sublet.demo.apiserver.store import Key
from sublet.kube.access import find_access
from sublet.kube.client import connect, open_client
from sublet.kube.errors import Expired, Invalid, Throttled, Unavailable
from sublet.kube.kind import CONFIGMAPS, MUTATING_WEBHOOKS, PODS
from sublet.kube.port import Selection
from sublet.model.errors import BadRequest
from tests.contract.kubeservers import webhook
from tests.contract.kubewords import config, pod
from tests.lab.pki import Pki

NAMESPACE = "default"


@asynccontextmanager
async def as_process(kubeconfig: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "sublet.demo.apiserver", "--port", "0", "--kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        async with asyncio.timeout(8):
            assert (await process.stdout.readline()).startswith(b"http://127.0.0.1:")
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def test_it_runs_as_a_program_and_ends_on_sigterm_with_a_watch_open(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with (
        as_process(kubeconfig) as process,
        connect(env={"KUBECONFIG": str(kubeconfig)}) as client,
        client.watch(PODS, resource_version="", within_s=60) as lines,
    ):
        await client.create(PODS, pod("a"), namespace=NAMESPACE)
        assert b'"ADDED"' in await anext(lines)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await process.wait() == 0


async def test_it_serves_tls_with_its_own_authority(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pki.server("apiserver", hosts=("127.0.0.1",)))
    async with serve_api(tls=ServerTls(context=context, ca_pem=pki.ca.read_bytes())) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig", user="jane")
        async with connect(tmp_path / "kubeconfig") as client:
            assert await client.raw("/readyz") == b"ok"
        async with open_client(server.access) as client:
            assert await client.raw("/readyz") == b"ok"


async def test_a_webhook_behind_a_service_is_found_by_its_address(tmp_path: Path) -> None:
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    where: dict[tuple[str, str], str] = {}
    asks = {"claims": lambda request: request["object"]["metadata"]["name"] == "claiming"}
    async with (
        webhook(tmp_path, lambda _: {"allowed": True}, host="sublet.system.svc") as hook,
        serve_api(service_urls=where, predicates=asks) as server,
        open_client(server.access) as client,
    ):
        where["system", "sublet"] = hook.url.removesuffix("/mutate")
        service = {"namespace": "system", "name": "sublet", "path": "/mutate"}
        entry = {
            "name": "claims.example.dev",
            "clientConfig": {"service": service, "caBundle": hook.ca_bundle},
            "rules": rules,
            "matchConditions": [{"name": "claims", "expression": "not evaluated here"}],
        }
        await client.create(MUTATING_WEBHOOKS, {"metadata": {"name": "sublet"}, "webhooks": [entry]})
        await client.create(PODS, pod("claiming"), namespace=NAMESPACE)
        await client.create(PODS, pod("other"), namespace=NAMESPACE)
        assert [each["object"]["metadata"]["name"] for each in hook.asked] == ["claiming"]
        assert hook.asked[0]["userInfo"]["username"] == "system:admin"


async def test_history_that_is_forgotten_is_expired_for_watches_and_pages() -> None:
    async with serve_api() as server, open_client(server.access) as client:
        for name in "abc":
            await client.create(CONFIGMAPS, config(name), namespace=NAMESPACE)
        page = await client.page(CONFIGMAPS, limit=2)
        token = page.split(b'"continue":"')[1].split(b'"')[0].decode()
        await client.create(CONFIGMAPS, config("d"), namespace=NAMESPACE)
        server.store.forget_history()
        with pytest.raises(Expired):
            await client.page(CONFIGMAPS, limit=2, continue_token=token)
        async with client.watch(CONFIGMAPS, resource_version="2", within_s=5) as lines:
            event = await anext(lines)
        assert b'"type":"ERROR"' in event
        assert b'"code":410' in event


async def test_the_history_is_bounded() -> None:
    async with serve_api(history_events=3) as server, open_client(server.access) as client:
        start = server.store.version
        for name in "abcd":
            await client.create(CONFIGMAPS, config(name), namespace=NAMESPACE)
        async with client.watch(CONFIGMAPS, resource_version=str(start), within_s=5) as lines:
            assert b'"code":410' in await anext(lines)
        async with client.watch(CONFIGMAPS, resource_version=str(start + 1), within_s=5) as lines:
            assert b'"name":"b"' in await anext(lines)


async def test_bookmarks_tell_the_version_while_nothing_happens() -> None:
    async with serve_api(bookmark_every_s=0.05) as server, open_client(server.access) as client:
        await client.create(CONFIGMAPS, config("a"), namespace=NAMESPACE)
        version = str(server.store.version)
        async with client.watch(PODS, resource_version=version, within_s=5) as lines:
            bookmark = await anext(lines)
    assert b'"type":"BOOKMARK"' in bookmark
    assert f'"resourceVersion":"{version}"'.encode() in bookmark


async def test_every_request_has_a_time_limit() -> None:
    async with serve_api() as server, open_client(server.access, timeout_s=0.2) as client:
        never = asyncio.Event()
        server.faults.plan(Hang(never), method="GET")
        with pytest.raises(Unavailable, match=r"no answer within 0\.2 s"):
            await client.list(PODS)
        never.set()


async def test_requests_wait_for_one_of_few_places() -> None:
    async with serve_api() as server, open_client(server.access, timeout_s=3, max_in_flight=1) as client:
        held = asyncio.Event()
        server.faults.plan(Hang(held), method="GET", path="/configmaps")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(client.list(CONFIGMAPS))
            second = group.create_task(client.list(PODS))
            done, _ = await asyncio.wait((first, second), timeout=0.2)
            assert not done
            held.set()


async def test_a_mute_watch_counts_as_broken() -> None:
    async with serve_api() as server, open_client(server.access, mute_after_s=0.2) as client:
        async with client.watch(PODS, resource_version="", within_s=60) as lines:
            with pytest.raises(Unavailable, match="broke"):
                await anext(lines)
        server.faults.end_watches(WatchEnd.CLOSE)


async def test_a_line_of_a_few_mib_is_one_line() -> None:
    big = config("big", k="x" * 5_000_000)
    async with (
        serve_api() as server,
        open_client(server.access) as client,
        client.watch(CONFIGMAPS, resource_version="", within_s=60) as lines,
    ):
        server.store.create(Key(CONFIGMAPS, NAMESPACE, "big"), big)
        assert len(await anext(lines)) > 5_000_000


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Answer(code=503, body=b"<html>", content_type="text/html"), Unavailable),
        (Answer(code=200, body=b"<html>", content_type="text/html"), Unavailable),
        (Answer(code=302, headers={"Location": "http://127.0.0.1:1/"}), Unavailable),
        (Answer(code=410), Expired),
        (Answer(code=413), Invalid),
        (Cut(), Unavailable),
        (Cut(after=True), Unavailable),
    ],
    ids=repr,
)
async def test_an_answer_becomes_the_error_that_says_what_to_do(
    fault: Answer | Cut, expected: type[Exception]
) -> None:
    async with serve_api() as server, open_client(server.access) as client:
        server.faults.plan(fault, method="POST")
        with pytest.raises(expected):
            await client.create(CONFIGMAPS, config("a"), namespace=NAMESPACE)


async def test_a_throttled_request_says_when_to_come_back() -> None:
    async with serve_api() as server, open_client(server.access) as client:
        server.faults.plan(Answer(code=429, headers={"Retry-After": "7"}))
        with pytest.raises(Throttled) as caught:
            await client.list(PODS, Selection(namespace=NAMESPACE))
    assert caught.value.retry_after_s == 7


async def test_a_namespaced_kind_needs_a_namespace() -> None:
    async with serve_api() as server, open_client(server.access) as client:
        with pytest.raises(Invalid, match="a Pod needs a namespace"):
            await client.get(PODS, "a")


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"no kubeconfig: the file .*absent does not exist"):
        async with connect(tmp_path / "absent"):
            pass


async def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    (tmp_path / "ca.crt").write_bytes(Pki(tmp_path / "pki").ca.read_bytes())
    token = tmp_path / "token"
    token.write_text("first\n")
    access = await find_access(env=env, account=tmp_path)
    assert access.url == "https://127.0.0.1:6443"
    assert access.tls
    assert access.authorization
    assert await access.authorization() == "Bearer first"


async def test_a_pod_without_its_token_hears_what_is_missing(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    with pytest.raises(BadRequest, match="Service token file does not exist"):
        await find_access(env=env, account=tmp_path)
