"""The deployment itself, as `kubectl apply -k` brings it: images, rights, security contexts, mounts."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.cluster.deployed import deploy, story
from tests.lab.controlplane import LabError
from tests.lab.fixtures import Cluster, real_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def deployed() -> Iterator[Cluster]:
    """A cluster of its own with Sublet on it, as pods."""
    with real_cluster() as cluster:
        asyncio.run(deploy(cluster))
        yield cluster


async def test_a_pod_gets_its_card_from_services_that_run_as_pods(deployed: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "share"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "lab.local/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "3600"],
                    "resources": {"limits": {"sublet.dev/gpu-memory": "50000"}},
                }
            ],
        },
    }
    await deployed.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        await deployed.plane.kubectl(
            "wait", "--for=condition=Ready", "pod/share", "--timeout=60s", within_s=70
        )
    except LabError:
        pytest.fail(await story(deployed, "share"))
    said = await deployed.plane.kubectl("get", "pod", "share", "-o", "json")
    annotated = json.loads(said)["metadata"]["annotations"]["cards.sublet.dev/main"]
    environment = await deployed.plane.kubectl("exec", "share", "--", "cat", "/proc/1/environ")
    assert annotated in ("GPU-1001", "GPU-1002"), "the other node's card is too small"
    assert f"NVIDIA_VISIBLE_DEVICES={annotated}" in environment.split("\0")


@pytest.mark.parametrize("service", ["scheduler", "healthd"])
async def test_a_service_has_every_right_that_it_uses(deployed: Cluster, service: str) -> None:
    logs = await deployed.plane.kubectl("-n", "sublet-system", "logs", f"deployment/sublet-{service}")
    assert "service.started" in logs
    assert "forbidden" not in logs.lower()
