"""Kubernetes Events for people who look at a pod or a node; what repeats is counted in one object."""

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import structlog

from sublet.kube.errors import AlreadyExists, KubeError
from sublet.kube.kind import EVENTS
from sublet.kube.port import Json, Kube, MergePatch
from sublet.model.reasons import ReportCode
from sublet_scheduler.core.effects import Report

log = structlog.get_logger()

COMPONENT = "sublet-scheduler"
NORMAL = frozenset({ReportCode.NODE_RELEASED, ReportCode.PREEMPTED, ReportCode.STUCK_PIN_FREED})
"""Codes that tell of something done; all others warn."""
REMEMBERED = 1_000
"""Events whose count is known; an older one begins again at 1."""


class KubeEvents:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def tell(self, report: Report, *, at_ms: int) -> None:
        """Write it on the pod or the node it is about; it is only a hint, so a failure is logged."""
        involved = _involved(report)
        if involved is None:
            return
        name = _name(report, involved)
        key = (involved["namespace"], name)
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changing = {"message": report.message, "count": count, "lastTimestamp": stamp}
        try:
            if count == 1 and await self._create(
                report, involved, name, {**changing, "firstTimestamp": stamp}
            ):
                return
            await self._kube.patch(EVENTS, name, MergePatch(changing), namespace=involved["namespace"])
        except KubeError as error:
            log.warning("kube_event.unwritten", code=report.code, about=involved["name"], error=str(error))

    async def _create(self, report: Report, involved: Json, name: str, changing: Json) -> bool:
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": involved["namespace"]},
            "involvedObject": {k: v for k, v in involved.items() if v and not _is_node(involved, k)},
            "reason": report.code,
            "type": "Normal" if report.code in NORMAL else "Warning",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            **changing,
        }
        try:
            await self._kube.create(EVENTS, body)
        except AlreadyExists:
            return False
        return True


def _involved(report: Report) -> Json | None:
    if report.ref is not None:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": report.ref.namespace,
            "name": report.ref.name,
            "uid": report.uid or "",
        }
    if report.node is not None:
        # the kubelet too names the node as its uid, which is how kubectl finds it
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "namespace": "default",
            "name": report.node,
            "uid": report.node,
        }
    return None


def _is_node(involved: Json, key: str) -> bool:
    """A Node has no namespace; its events live in `default`."""
    return key == "namespace" and involved["kind"] == "Node"


def _name(report: Report, involved: Json) -> str:
    digest = hashlib.sha256(f"{report.code}/{involved['uid']}".encode()).hexdigest()[:16]
    return f"{involved['name'][:200]}.{digest}"
