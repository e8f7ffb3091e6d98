"""`sublet migrate` reads a live cluster, the embedded one and a real one alike."""

from typing import Any

from sublet.cli.migrate.live import read_cluster
from sublet.cli.migrate.report import document, report
from sublet.contract.dialects.interface import Options
from sublet.kube.client import KubeClient
from sublet.kube.kind import DEPLOYMENTS, NODES, PODS
from sublet.kube.port import MergePatch
from tests.builders import container, pod


async def told(kube: KubeClient, namespace: str) -> dict[str, Any]:
    """What is said of one namespace, and of all components."""
    found = document(report(await read_cluster(kube), Options()))
    found["workloads"] = [one for one in found["workloads"] if one["namespace"] == namespace]
    return found


def running(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    manifest = pod(name, *containers)
    del manifest["metadata"]["namespace"]
    return manifest


async def test_workloads_and_totals_of_a_live_cluster(kube: KubeClient, namespace: str) -> None:
    labels = {"app": "old"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"schedulerName": "volcano", **running("x", container(gpu_mem=50000))["spec"]},
        },
    }
    body = {"metadata": {"name": "old", "namespace": namespace}, "spec": spec}
    await kube.create(DEPLOYMENTS, body, namespace=namespace)
    await kube.create(PODS, running("plain", container(cpu="1")), namespace=namespace)
    node = f"node-{namespace}"
    await kube.create(NODES, {"metadata": {"name": node}})
    try:
        shown = {"nvidia.com/gpu": "8"}
        status = {"status": {"capacity": shown, "allocatable": shown}}
        await kube.patch(NODES, node, MergePatch(status), subresource="status")
        found = await told(kube, namespace)
    finally:
        await kube.delete(NODES, node)
    [old] = found["workloads"]
    assert (old["kind"], old["name"], old["outcome"]) == ("Deployment", "old", "changes")
    assert old["containers"]["main"]["memoryMiB"] == 50_000 * 1024
    assert old["changes"][0]["what"] == "schedulerName"
    assert namespace in found["namespacesToLabel"]
    [total] = [one for one in found["components"] if one["nodes"] == [node]]
    assert (total["role"], total["system"]) == ("node total", "nvidia.com/gpu=8")
