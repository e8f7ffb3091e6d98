"""The lab's nodes are real: pods run on both kubelets, and a node outlives its kubelet and a reboot."""

import json
import uuid

import pytest

from tests.lab.controlplane import ControlPlane, LabError
from tests.lab.fixtures import Cluster
from tests.lab.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


async def _run_pod(plane: ControlPlane, node: Node) -> str:
    """A pod that runs on this node; returns its name."""
    name = f"sleeper-{uuid.uuid4().hex[:8]}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node.name},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "lab.local/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "3600"],
                }
            ],
        },
    }
    await plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    await plane.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", within_s=70)
    return name


async def _restarts(plane: ControlPlane, pod: str) -> int:
    count = "jsonpath={.status.containerStatuses[0].restartCount}"
    return int(await plane.kubectl("get", "pod", pod, "-o", count))


@pytest.mark.parametrize("which", ["node", "older_node"])
async def test_a_pod_runs_on_either_kubelet(cluster: Cluster, which: str) -> None:
    name = await _run_pod(cluster.plane, getattr(cluster, which))
    assert "sleep" in await cluster.plane.kubectl("exec", name, "--", "ps")


async def test_a_pod_outlives_its_kubelet(cluster: Cluster) -> None:
    name = await _run_pod(cluster.plane, cluster.node)
    await cluster.node.stop_kubelet()
    await cluster.node.start_kubelet()

    async def known_again() -> bool:
        try:
            return "sleep" in await cluster.plane.kubectl("exec", name, "--", "ps")
        except LabError:
            return False

    await cluster.plane.run.until(f"{name} known to the new kubelet", known_again, within_s=30)
    assert await _restarts(cluster.plane, name) == 0


async def test_a_reboot_ends_every_container_and_changes_the_boot_id(cluster: Cluster) -> None:
    name = await _run_pod(cluster.plane, cluster.node)
    before = cluster.node.boot_id_file.read_text()
    await cluster.node.reboot()

    async def started_again() -> bool:
        return await _restarts(cluster.plane, name) == 1

    await cluster.plane.run.until(f"{name} started again", started_again, within_s=60)
    assert cluster.node.boot_id_file.read_text() != before
