"""Reads Pod objects into what the engine decides on: pods that claim whole, a few fields of all others."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from sublet.contract import decision, dialects, keys, podspec
from sublet.contract.decision import Decision
from sublet.contract.dialects.interface import Options
from sublet.contract.gangs import read_gang
from sublet.contract.podspec import Json
from sublet.contract.quantity import whole_number
from sublet.contract.reading import enabled_dialects, read_pod
from sublet.model.claim import Gang, PodAsk
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, NodeName, PodRef, PodUid
from sublet.model.placement import Placement
from sublet.model.reasons import Refusal, RefusalCode
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.shell.ballastfacts import read_ballast
from sublet_scheduler.shell.placeholderfacts import read_placeholder
from sublet_scheduler.shell.recentpods import RecentPods


class _Resources(msgspec.Struct):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(msgspec.Struct):
    name: str = ""
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")
    resources: _Resources | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _Meta(msgspec.Struct):
    uid: str
    name: str
    namespace: str
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    created: str | None = msgspec.field(default=None, name="creationTimestamp")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    node_name: str | None = msgspec.field(default=None, name="nodeName")
    gates: list[_Named] | None = msgspec.field(default=None, name="schedulingGates")
    containers: list[_Container] = msgspec.field(default_factory=list)
    init_containers: list[_Container] | None = msgspec.field(default=None, name="initContainers")
    overhead: dict[str, Any] | None = None
    resources: _Resources | None = None


class _Status(msgspec.Struct):
    phase: str | None = None


class _Slim(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status | None = None


_slim = msgspec.json.Decoder(_Slim).decode
_whole = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReader:
    """`key` checks the MAC of decisions; `recent` keeps the pods that are still gated."""

    options: Options
    key: bytes
    recent: RecentPods = field(default_factory=RecentPods)

    def read(self, raw: bytes) -> PodFacts:
        """Raises msgspec.DecodeError and ValueError where it is no pod."""
        slim = _slim(raw)
        own = _OWN.get(slim.metadata.namespace)
        ours = own(_whole(raw)) if own else None
        if ours:
            return ours
        if not _may_claim(slim):
            return self._unclaimed(slim)
        known = self.recent.take_answered(PodUid(slim.metadata.uid), slim.metadata.resource_version)
        pod = known or self.read_whole(_whole(raw))
        if pod.gated:
            self.recent.keep(pod, bytes(raw))
        else:
            self.recent.forget(pod.uid)
        return pod

    def recall(self, uid: PodUid, version: str) -> tuple[dict[str, Any], PodFacts] | None:
        """The pod as the watch showed it at `version`, and what it says, if it is still kept."""
        shown = self.recent.get(uid, version)
        return (_whole(shown.raw), shown.facts) if shown else None

    def read_answer(self, pod: Json) -> PodFacts:
        """What a patch of ours made of a pod; the watch shows the same once more."""
        facts = self.read_whole(pod)
        self.recent.answered(facts)
        return facts

    def read_whole(self, pod: Json) -> PodFacts:
        """The same for an object that is decoded already."""
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        annotations = podspec.annotations(pod)
        uid = PodUid(meta["uid"])
        text = annotations.get(keys.DECISION, "")
        written = _decision(text)
        ours = decision.is_signed(text, self.key)
        decided = written.placement if ours and written and written.uid == uid else None
        asked = self._asked(pod, decided)
        if asked is None:
            return self._unclaimed(msgspec.convert(pod, _Slim))
        cpu_milli, memory_mib = _host_requests(pod)
        gates = podspec.gates(pod)
        node = spec.get("nodeName")
        return PodFacts(
            uid=uid,
            ref=PodRef(meta["namespace"], meta["name"]),
            version=meta.get("resourceVersion", ""),
            node=NodeName(node) if node else None,
            phase=status.get("phase") or "Pending",
            deleting=bool(meta.get("deletionTimestamp")),
            settled=is_settled(pod),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            created_s=_unix_s(meta.get("creationTimestamp")),
            ask=asked if isinstance(asked, PodAsk) else None,
            unreadable=asked if isinstance(asked, Refusal) else None,
            gated=keys.GATE in gates,
            foreign_gates=any(gate != keys.GATE for gate in gates),
            decision=written,
            decision_text=text,
            signed=ours and written is not None and written.uid == uid,
            proposed=ours and written is not None and written.uid is None,
            waiting=annotations.get(keys.WAITING, ""),
            unschedulable=_is_unschedulable(status),
            cards=tuple(_cards(annotations, written)),
        )

    def _asked(self, pod: Json, decided: Placement | None) -> PodAsk | Refusal | None:
        """What the pod asks for. One that was admitted counts whichever dialects are on now, and what was
        decided for it counts whatever its spelling says."""
        asked = self._read(pod, self.options)
        if asked is None or not _is_of(asked, decided):
            asked = self._read(pod, replace(self.options, enabled=tuple(dialects.BY_NAME)))
        if decided is None or _is_of(asked, decided) or isinstance(asked, Refusal):
            return asked
        return Refusal(
            code=RefusalCode.UNREADABLE,
            message="its containers do not ask for what was decided",
            hint="It keeps the cards of its decision until it ends",
        )

    def _read(self, pod: Json, options: Options) -> PodAsk | Refusal | None:
        managed = _was_managed(pod, self.options)
        return read_pod(pod, namespace=pod["metadata"]["namespace"], options=options, managed=managed)

    def _unclaimed(self, pod: _Slim) -> PodFacts:
        view = _as_json(pod.spec)
        cpu_milli, memory_mib = _host_requests(view)
        node = pod.spec.node_name
        return PodFacts(
            uid=PodUid(pod.metadata.uid),
            ref=PodRef(pod.metadata.namespace, pod.metadata.name),
            version=pod.metadata.resource_version,
            node=NodeName(node) if node else None,
            phase=(pod.status.phase if pod.status else None) or "Pending",
            deleting=bool(pod.metadata.deleted),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            resources=self._served(view),
            gang=_gang(pod.metadata),
            created_s=_unix_s(pod.metadata.created),
        )

    def _served(self, view: Json) -> dict[str, int]:
        """Served resources that the pod takes of its node without a claim."""
        found = list(podspec.containers(view))
        named = {
            name
            for one in found
            for name in one.limits
            if name == keys.SLOT or dialects.serves(name, self.options)
        }
        return {
            name: podspec.effective(found, lambda one, name=name: _units(one.limits.get(name)))  # type: ignore[misc]
            for name in sorted(named)
        }


def _is_of(asked: PodAsk | Refusal | None, decided: Placement | None) -> bool:
    """Whether the claims are those for which the decision was made."""
    if decided is None or not isinstance(asked, PodAsk):
        return decided is None
    return {claim.container for claim in asked.claims} == decided.containers.keys()


_OWN = {keys.BALLAST_NAMESPACE: read_ballast, keys.PLACEHOLDER_NAMESPACE: read_placeholder}


def _gang(meta: _Meta) -> Gang | None:
    """The gang of an unclaimed pod, where a controller counts it."""
    read = read_gang({"metadata": {"labels": meta.labels or {}, "annotations": meta.annotations or {}}})
    return read if isinstance(read, Gang) and read.derived else None


def _may_claim(pod: _Slim) -> bool:
    """Whether the webhook, or somebody in its name, has had this pod in hand."""
    meta, spec = pod.metadata, pod.spec
    return (
        keys.CLAIMED_LABEL in (meta.labels or {})
        or keys.DECISION in (meta.annotations or {})
        or any(gate.name == keys.GATE for gate in spec.gates or ())
    )


def _was_managed(pod: Json, options: Options) -> bool:
    """Whether foreign names counted when the pod was admitted: then a container without a native name has
    a slot. The namespace's label may have changed since."""
    native = next(iter(enabled_dialects(options, managed=False)), None)
    resources = native.resources if native else frozenset()
    return any(
        keys.SLOT in container.limits and not resources & container.limits.keys()
        for container in podspec.containers(pod)
    )


def is_settled(pod: Json) -> bool:
    """Whether every container has terminated or never started, as far as the kubelet itself told.

    A container that the kubelet could not find, and one that somebody else than the kubelet declared ended
    before it reported, are not settled: only the node can tell.
    """
    status = pod.get("status") or {}
    if not status.get("startTime"):
        return not (pod.get("spec") or {}).get("nodeName")
    collected = any(
        one.get("type") == "DisruptionTarget" and one.get("reason") == "DeletionByPodGC"
        for one in status.get("conditions") or ()
    )
    told = {
        one["name"]: one
        for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for one in status.get(part) or ()
    }
    named = {one.name for one in podspec.containers(pod)} | told.keys()
    return all(_is_over(told.get(name) or {}, never_counts=not collected) for name in named)


def _is_over(status: Json, *, never_counts: bool) -> bool:
    state = status.get("state") or {}
    if "terminated" in state:
        return bool(state["terminated"].get("reason") != "ContainerStatusUnknown")
    if "running" in state:
        return False
    return never_counts and not status.get("containerID")


def _is_unschedulable(status: Json) -> bool:
    return not status.get("nominatedNodeName") and any(
        one.get("type") == "PodScheduled"
        and one.get("status") == "False"
        and one.get("reason") == "Unschedulable"
        for one in status.get("conditions") or ()
    )


def _decision(text: str) -> Decision | None:
    try:
        return decision.read(text) if text else None
    except BadRequest:
        return None


def _cards(annotations: Json, written: Decision | None) -> Iterable[CardId]:
    """Every card that the annotations name, once."""
    listed = [
        card.strip()
        for key, value in annotations.items()
        if key.startswith(keys.CARDS_PREFIX)
        for card in value.split(",")
    ]
    if written and written.placement:
        listed += [grant.card for grants in written.placement.containers.values() for grant in grants]
    return (CardId(card) for card in sorted(set(listed)) if card)


def _as_json(spec: _Spec) -> Json:
    def amounts(these: _Resources | None) -> Json:
        return {"limits": these.limits, "requests": these.requests} if these else {}

    def containers(these: list[_Container] | None) -> list[Json]:
        return [
            {"name": one.name, "restartPolicy": one.restart_policy, "resources": amounts(one.resources)}
            for one in these or ()
        ]

    return {
        "spec": {
            "initContainers": containers(spec.init_containers),
            "containers": containers(spec.containers),
            "overhead": spec.overhead,
            "resources": amounts(spec.resources),
        }
    }


def _host_requests(pod: Json) -> tuple[int, int]:
    """Nothing where a quantity cannot be read: the pod must be known all the same."""
    try:
        return podspec.host_requests(pod)
    except ValueError:
        return 0, 0


def _units(value: object) -> int:
    amount = whole_number(value, key="", unit="units", stored=True) if value is not None else 0
    return amount if isinstance(amount, int) else 0


def _unix_s(stamp: str | None) -> float:
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
