"""A stand-in for kube-scheduler: binds each pod without gates to a node where it fits, or says why none does.

It stands in for the default scheduler in the demo and the tests. It never preempts.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial

import structlog

from sublet.demo.nodefit import Amounts, added, objection, requests
from sublet.kube.errors import KubeError
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import Json, Kube, StrategicPatch
from sublet.kube.reflector import Change, Gone, Key, Reflector, Synced, Upserted, as_json

log = structlog.get_logger()

NAME = "default-scheduler"
RETRY_S = 0.2


class KubeScheduler:
    """Follows nodes and pods and decides one pod at a time."""

    def __init__(self, kube: Kube, *, unix_ms: Callable[[], int]) -> None:
        self._kube = kube
        self._unix_ms = unix_ms
        self._nodes: dict[Key, Json] = {}
        self._pods: dict[Key, Json] = {}
        self._synced = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, known in ((NODES, self._nodes), (PODS, self._pods)):
                following = Reflector(self._kube, kind, decode=as_json).run(partial(self._take, known))
                group.create_task(following, name=f"follow-{kind.plural}")
            group.create_task(self._decide_for_ever(), name="decide")

    async def _take(self, known: dict[Key, Json], change: Change[Json]) -> None:
        match change:
            case Upserted(key, obj):
                known[key] = obj
            case Gone(key, _):
                known.pop(key, None)
            case Synced():
                self._synced += 1
            case _:
                pass
        if self._synced == 2:
            self._changed.set()

    async def _decide_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            used = self._used()
            for key in [key for key, pod in self._pods.items() if _is_waiting(pod)]:
                try:
                    await self._decide(key, used)
                except KubeError as error:
                    log.warning("pod.not_scheduled", pod=key, error=str(error))
                    await asyncio.sleep(RETRY_S)
                    self._changed.set()

    async def _decide(self, key: Key, used: dict[str, Amounts]) -> None:
        pod = self._pods.get(key)
        if pod is None or not _is_waiting(pod):  # it changed while another one was decided
            return
        reasons: Counter[str] = Counter()
        fitting: list[tuple[Fraction, str]] = []
        for node in list(self._nodes.values()):
            name = node["metadata"]["name"]
            taken = used.get(name, {})
            against = objection(pod, node, used=taken)
            if against is None:
                fitting.append((taken.get("pods", Fraction(0)), name))
            else:
                reasons[against] += 1
        if fitting:
            _, name = min(fitting)
            await self._bind(key, pod, name)
            used[name] = added((used.get(name, {}), requests(pod)))
        else:
            await self._explain(key, pod, reasons)

    def _used(self) -> dict[str, Amounts]:
        """What the pods of each node take, those included whose binding we have just written."""
        placed: defaultdict[str, list[Amounts]] = defaultdict(list)
        for pod in self._pods.values():
            node = pod["spec"].get("nodeName")
            if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                placed[node].append(requests(pod))
        return {node: added(taken) for node, taken in placed.items()}

    async def _bind(self, key: Key, pod: Json, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._kube.create(PODS, body, name=key.name, subresource="binding")
        # counts at once; the watch will tell the same a little later
        self._pods[key] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        log.info("pod.bound", pod=key, node=node)

    async def _explain(self, key: Key, pod: Json, reasons: Counter[str]) -> None:
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        message = f"0/{len(self._nodes)} nodes are available: {listed or 'no nodes'}."
        said = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        conditions = pod["status"].get("conditions") or []
        if any(said.items() <= each.items() for each in conditions):
            return
        since = datetime.fromtimestamp(self._unix_ms() // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = StrategicPatch({"status": {"conditions": [said | {"lastTransitionTime": since}]}})
        await self._kube.patch(PODS, key.name, patch, namespace=key.namespace, subresource="status")
        log.info("pod.unschedulable", pod=key, message=message)


def _is_waiting(pod: Json) -> bool:
    spec = pod["spec"]
    return not (
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or spec.get("schedulerName", NAME) != NAME
        or pod["metadata"].get("deletionTimestamp")
        or pod["status"].get("phase") in ("Succeeded", "Failed")
    )
