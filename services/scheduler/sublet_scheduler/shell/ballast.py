"""Writes the ballast pods: makes one for a node, resizes it in place, deletes it.

Its name follows from the node, so that there are never two, whoever asked; every other write names the very
pod, and a resize the very version, that the engine saw.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from sublet.contract import keys
from sublet.kube.errors import AlreadyExists, KubeError, NotFound
from sublet.kube.kind import PODS
from sublet.kube.port import Json, JsonPatch, Kube
from sublet.model.ids import NodeName
from sublet_scheduler.core.effects import BallastEffect, MakeBallast, RemoveBallast, ResizeBallast
from sublet_scheduler.core.events import BallastWritten
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.size import Size
from sublet_scheduler.shell.ballastfacts import read_ballast
from sublet_scheduler.shell.ownpods import idle_spec, own_labels

log = structlog.get_logger()

LONGEST_NAME = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class BallastWrites:
    kube: Kube
    image: str

    async def perform(self, effect: BallastEffect) -> BallastWritten:
        """What came of it; never raises KubeError."""
        try:
            pod = await self._perform(effect)
        except KubeError as error:
            pod = await self._look(effect.node)
            if isinstance(error, NotFound) and pod is None and not isinstance(effect, MakeBallast):
                return BallastWritten(effect.node, done=True)
            if isinstance(effect, ResizeBallast) and pod and pod.version != effect.version:
                return BallastWritten(effect.node, done=True, pod=pod)  # it changed meanwhile: as it is now
            return self._failed(effect, error, pod)
        log.info("ballast.written", node=effect.node, write=type(effect).__name__, asks=_asks(pod))
        return BallastWritten(effect.node, done=True, pod=pod)

    async def _perform(self, effect: BallastEffect) -> PodFacts | None:
        match effect:
            case MakeBallast():
                return read_ballast(await self._make(effect))
            case ResizeBallast(_, uid, ref, version, size):
                operations: list[dict[str, Any]] = [
                    {"op": "test", "path": "/metadata/uid", "value": uid},
                    {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                    {
                        "op": "replace",
                        "path": "/spec/containers/0/resources/requests",
                        "value": _requests(size),
                    },
                ]
                patch = JsonPatch(operations)
                after = await self.kube.patch(
                    PODS, ref.name, patch, namespace=ref.namespace, subresource="resize"
                )
                return read_ballast(after)
            case RemoveBallast(_, uid, ref):
                await self.kube.delete(PODS, ref.name, namespace=ref.namespace, uid=uid, grace_period_s=0)
                return None
            case _:
                assert_never(effect)

    async def _make(self, effect: MakeBallast) -> Json:
        body = ballast_pod(effect, self.image)
        try:
            return await self.kube.create(PODS, body)
        except AlreadyExists:
            return await self.kube.get(PODS, ballast_name(effect.node), namespace=keys.BALLAST_NAMESPACE)

    async def _look(self, node: NodeName) -> PodFacts | None:
        try:
            return read_ballast(
                await self.kube.get(PODS, ballast_name(node), namespace=keys.BALLAST_NAMESPACE)
            )
        except KubeError:
            return None

    def _failed(self, effect: BallastEffect, error: KubeError, pod: PodFacts | None) -> BallastWritten:
        log.warning("ballast.unwritten", node=effect.node, write=type(effect).__name__, error=str(error))
        return BallastWritten(effect.node, done=False, pod=pod)


def ballast_name(node: NodeName) -> str:
    name = f"ballast-{node}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:200].rstrip('-.')}-{hashlib.sha256(node.encode()).hexdigest()[:16]}"


def ballast_pod(effect: MakeBallast, image: str) -> dict[str, Any]:
    """It belongs to its node, as static pods do: it goes with the node, and neither `kubectl drain` nor an
    autoscaler looks for another place for it."""
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": effect.node,
        "uid": effect.owner,
        "controller": True,
    }
    only_there = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [effect.node]}]}
        ]
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": ballast_name(effect.node),
            "namespace": keys.BALLAST_NAMESPACE,
            "labels": own_labels(keys.BALLAST),
            "annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "priorityClassName": keys.BALLAST_CLASS,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only_there}},
            "tolerations": [{"operator": "Exists"}],
            **idle_spec(keys.BALLAST, image, {"requests": _requests(effect.size)}),
        },
    }


def _requests(size: Size) -> dict[str, str]:
    return {"cpu": f"{size.cpu_milli}m", "memory": str(size.memory_bytes)}


def _asks(pod: PodFacts | None) -> dict[str, str] | None:
    return _requests(pod.ballast.asked) if pod and pod.ballast else None
