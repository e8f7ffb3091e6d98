"""Puts the deployment itself on the lab's nodes, with an overlay for a place without a service network."""

import asyncio
import shutil
from pathlib import Path
from string import Template

from tests.lab.fixtures import Cluster
from tests.lab.programs import free_port
from tests.lab.serviceimage import write_service_image
from tests.manifests.rendering import KUSTOMIZE

_OVERLAY = Path(__file__).parent / "overlay"
_WORKLOADS = (
    ("sublet-system", "statefulset/nats"),
    ("sublet-node", "daemonset/sublet-agent"),
    ("sublet-system", "deployment/sublet-scheduler"),
    ("sublet-system", "deployment/sublet-healthd"),
)


async def deploy(cluster: Cluster) -> None:
    """Apply the overlay with the three services as pods, and wait until all of them are ready."""
    image = cluster.plane.run.folder / "sublet.tar"
    await asyncio.to_thread(write_service_image, image)
    for node in (cluster.node, cluster.older_node):
        await node.import_image(image)
    await cluster.plane.kubectl("apply", "--server-side", "-k", _fill_in(cluster), within_s=60)
    for namespace, workload in _WORKLOADS:
        await cluster.plane.kubectl(
            "-n", namespace, "rollout", "status", workload, "--timeout=90s", within_s=100
        )


async def story(cluster: Cluster, pod: str) -> str:
    """What a person would look at when this pod does not run."""
    plane = cluster.plane
    return "\n".join(
        [
            await plane.kubectl("describe", "pod", pod),
            await plane.kubectl("get", "pods", "--all-namespaces", "-o", "wide"),
            await plane.kubectl("-n", "sublet-system", "logs", "deployment/sublet-scheduler", "--tail=30"),
        ]
    )


def _fill_in(cluster: Cluster) -> Path:
    """A copy of the Kustomize tree in the run's folder, with the overlay and this run's ports."""
    tree = shutil.copytree(KUSTOMIZE, cluster.plane.run.folder / "kustomize")
    overlay = shutil.copytree(_OVERLAY, tree / "overlays" / "lab")
    names = ("nats", "monitor", "webhook", "scheduler_probes", "healthd_probes", "agent_probes")
    words = {name: str(free_port()) for name in names} | {"apiserver": str(cluster.plane.port)}
    place = overlay / "kustomization.yaml"
    place.write_text(Template(place.read_text()).substitute(words))
    return overlay
