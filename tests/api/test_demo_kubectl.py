"""kubectl against the embedded API server: get, describe, apply and delete, as on any other."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sublet.demo.apiserver.server import serve_api
from tests.builders import container, pod
from tests.lab import binaries
from tests.lab.programs import LabError, finish

pytestmark = [pytest.mark.api, pytest.mark.timeout(120)]

Kubectl = Callable[..., Awaitable[str]]
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    binaries.require("kubectl")
    async with serve_api() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield tmp_path / "kubeconfig"


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Kubectl:
    async def run(*words: str, stdin: object = None) -> str:
        program: list[str | Path] = [
            binaries.binary("kubectl"),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={tmp_path}",
        ]
        return await finish(*program, *words, stdin=json.dumps(stdin) if stdin else "")

    return run


async def test_pods_and_nodes_are_applied_shown_and_deleted(kubectl: Kubectl) -> None:
    manifest = pod("p", container(gpu_memory=1024))
    assert await kubectl("apply", "-f", "-", stdin=manifest) == "pod/p created\n"
    assert await kubectl("apply", "-f", "-", stdin=manifest) == "pod/p unchanged\n"
    assert await kubectl("apply", "-f", "-", stdin=NODE) == "node/n1 created\n"
    applied = await kubectl("apply", "--server-side", "--field-manager=a", "-f", "-", stdin=NODE)
    assert applied == "node/n1 serverside-applied\n"
    head, row = (await kubectl("get", "pods")).splitlines()
    assert head.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["p", "0/1", "Pending", "0"]
    assert "NODE" in (await kubectl("get", "pods", "-A", "-o", "wide")).splitlines()[0]
    assert (await kubectl("get", "node", "n1")).splitlines()[0].split() == [
        "NAME",
        "STATUS",
        "ROLES",
        "AGE",
        "VERSION",
    ]
    assert (await kubectl("get", "pod", "p", "-o", "name")) == "pod/p\n"
    assert "sublet.dev/gpu-memory:  1024" in " ".join((await kubectl("describe", "pod", "p")).split("   "))
    assert "Unschedulable:" in await kubectl("describe", "node", "n1")
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert "SchedulingDisabled" in await kubectl("get", "nodes")
    assert "deleted" in await kubectl("delete", "pod", "p")
    assert "deleted" in await kubectl("delete", "node", "n1")


async def test_a_watch_shows_one_table(kubeconfig: Path, kubectl: Kubectl, tmp_path: Path) -> None:
    await kubectl("apply", "-f", "-", stdin=NODE)
    command = [
        str(binaries.binary("kubectl")),
        f"--kubeconfig={kubeconfig}",
        f"--cache-dir={tmp_path}",
        "get",
        "nodes",
        "--watch",
    ]
    watching = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert watching.stdout
    try:
        async with asyncio.timeout(30):
            head, first = [(await watching.stdout.readline()).split() for _ in range(2)]
            await kubectl("cordon", "n1")
            second = (await watching.stdout.readline()).split()
    finally:
        with suppress(ProcessLookupError):
            watching.terminate()
        await watching.wait()
    assert head[0] == b"NAME"
    assert first[:2] == [b"n1", b"Unknown"]
    assert second[:2] == [b"n1", b"Unknown,SchedulingDisabled"]


async def test_what_kubectl_makes_itself_comes_in_protobuf_and_is_read(kubectl: Kubectl) -> None:
    assert await kubectl("create", "namespace", "team") == "namespace/team created\n"
    assert await kubectl("create", "serviceaccount", "a", "-n", "team") == "serviceaccount/a created\n"
    await kubectl("create", "configmap", "c", "-n", "team", "--from-literal=k=v", "--from-literal=empty=")
    data = await kubectl("get", "configmap", "c", "-n", "team", "-o", "jsonpath={.data}")
    assert json.loads(data) == {"k": "v", "empty": ""}
    assert "deleted" in await kubectl("delete", "namespace", "team")


async def test_a_node_is_drained(kubectl: Kubectl) -> None:
    placed = pod("p", container(gpu_memory=1024), nodeName="n1")
    await kubectl("apply", "-f", "-", stdin=NODE)
    await kubectl("apply", "-f", "-", stdin=placed)
    drained = await kubectl("drain", "n1", "--force", "--grace-period=0", "--timeout=30s")
    assert "pod/p evicted" in drained
    assert (await kubectl("get", "pods", "-o", "name")) == ""


async def test_a_kind_that_is_not_read_in_protobuf_is_refused_with_the_way_out(kubectl: Kubectl) -> None:
    with pytest.raises(LabError, match="this server reads JSON, as kubectl apply"):
        await kubectl("create", "secret", "generic", "s")
