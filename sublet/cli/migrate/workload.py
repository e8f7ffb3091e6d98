"""What workloads ask for: each pod template, read as the webhook would read its pods."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sublet.cli import asking
from sublet.cli.migrate.change import Change, changes
from sublet.cli.podtemplate import spelled, templates
from sublet.contract import dialects, keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.contract.pluginless import CAPABILITIES, VISIBLE, names_cards
from sublet.contract.podspec import Json
from sublet.contract.reading import enabled_dialects
from sublet.model.claim import PodAsk
from sublet.model.reasons import Refusal, RefusalCode

UNASKED_NAMESPACES = ("kube-system", "kube-node-lease", "sublet-system", "sublet-node")
"""The webhook is never asked about pods there."""
MIRROR = "kubernetes.io/config.mirror"
WATCHING = "utility"
"""The capability of tools that look at cards and compute nothing."""
ENDED = ("Succeeded", "Failed")
JOB_ENDED = ("Complete", "Failed")


class Outcome(StrEnum):
    PLACED = "placed"  # Sublet holds its cards already
    HELD = "held"  # Sublet has read it, and it waits
    READY = "ready"
    CHANGES = "changes"
    REFUSED = "refused"
    OUTSIDE = "outside"  # it uses cards, and Sublet would not know
    UNCLAIMED = "unclaimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One pod template, or one pod that no listed object owns."""

    kind: str
    api_version: str
    namespace: str
    name: str
    at: str
    """Where the template stands in its object; empty for a pod."""
    pod: Json
    stored: bool
    """It comes from an API server, which writes an amount of 50000 as 50k."""

    @property
    def title(self) -> str:
        title = f"{self.kind} {self.namespace}/{self.name}"
        usual = self.at in ("", "spec.template", "spec.jobTemplate.spec.template")
        return title if usual else f"{title} {self.at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    workload: Workload
    outcome: Outcome
    managed: bool | None
    """Whether foreign names count in its namespace; None where that is not known."""
    spoken: tuple[str, ...] = ()
    ask: PodAsk | None = None
    changes: tuple[Change, ...] = ()
    refusal: Refusal | None = None
    outside: tuple[str, str] | None = None
    """What happens, and the way out."""

    @property
    def waits_for_label(self) -> bool:
        """Whether it is read only once its namespace is labelled."""
        return self.managed is False and bool(set(self.spoken) - {"sublet"})


def workloads(objects: Iterable[Json]) -> Iterator[Workload]:
    """Every pod template among `objects`, in order; what a listed object controls is told by that one."""
    listed = list(objects)
    known = {_meta(one).get("uid") for one in listed} - {None}
    for one in listed:
        owner, _ = podspec.controller(one)
        if owner in known or _has_ended(one):
            continue
        for path, template in templates(one):
            yield _workload(one, spelled(path), template)


def _has_ended(obj: Json) -> bool:
    """Whether it is a pod or a job that makes no new pods."""
    status = obj.get("status") or {}
    if obj.get("kind") == "Job":
        conditions = status.get("conditions") or ()
        return any(one.get("type") in JOB_ENDED and one.get("status") == "True" for one in conditions)
    return obj.get("kind") == "Pod" and status.get("phase") in ENDED


def _workload(obj: Json, at: str, template: Json) -> Workload:
    meta = _meta(obj)
    name = meta.get("name") or f"{meta.get('generateName', '')}0"
    namespace = meta.get("namespace") or "default"
    own = template.get("metadata") or {}
    pod = {**template, "kind": "Pod", "metadata": {**own, "name": name, "namespace": namespace}}
    return Workload(
        kind=obj["kind"],
        api_version=obj.get("apiVersion") or "",
        namespace=namespace,
        name=name,
        at=at,
        pod=pod,
        stored=bool(meta.get("uid")),
    )


def read(workload: Workload, options: Options, *, managed: bool | None) -> Reading:
    """What would become of it where foreign names count in its namespace."""
    options = replace(options, stored=workload.stored)
    pod = workload.pod
    reading = Reading(workload=workload, outcome=Outcome.UNCLAIMED, managed=managed)
    if keys.CLAIMED_LABEL in podspec.labels(pod) and workload.stored and not workload.at:
        gated = keys.GATE in podspec.gates(pod)
        return replace(reading, outcome=Outcome.HELD if gated else Outcome.PLACED)
    kept, dropped = _without_results(pod, options) if workload.stored and not workload.at else (pod, ())
    spoken = tuple(asking.spoken(kept, options))
    ask = asking.read_ask(kept, options) or _unread(kept, options)
    if isinstance(ask, Refusal):
        return replace(reading, outcome=Outcome.REFUSED, spoken=spoken, refusal=ask)
    if ask is None:
        outside = _outside(kept, workload.kind)
        return replace(reading, outcome=Outcome.OUTSIDE, outside=outside) if outside else reading
    if unseen := _unseen(workload):
        return replace(reading, outcome=Outcome.OUTSIDE, spoken=spoken, ask=ask, outside=unseen)
    found = changes(kept, ask, options, api_version=workload.api_version, kind=workload.kind, dropped=dropped)
    outcome = Outcome.CHANGES if found else Outcome.READY
    return replace(reading, outcome=outcome, spoken=spoken, ask=ask, changes=found)


def _without_results(pod: Json, options: Options) -> tuple[Json, tuple[str, ...]]:
    """A running pod without what the scheduler of another system wrote into it, and the names of that."""
    known = dialects.enabled(options)
    annotations, labels = podspec.annotations(pod), podspec.labels(pod)
    results = [key for key in annotations if any(one.is_result(key) for one in known)]
    marks = [key for key in labels if any(key.startswith(one.result_labels) for one in known)]
    meta = {
        **pod["metadata"],
        "annotations": {key: value for key, value in annotations.items() if key not in results},
        "labels": {key: value for key, value in labels.items() if key not in marks},
    }
    return {**pod, "metadata": meta}, tuple(sorted({*results, *marks}))


def _unread(pod: Json, options: Options) -> Refusal | None:
    """Resources of a dialect that is off: no node would ever show them, and the pod would wait for ever."""
    for container in podspec.containers(pod):
        for key in container.limits:
            of = [one.name for one in dialects.ALL if one.names(key) and one.name not in options.enabled]
            if of and not any(one.names(key) for one in enabled_dialects(options, managed=True)):
                return Refusal(
                    code=RefusalCode.UNKNOWN_RESOURCE,
                    message=f"container {container.name!r} has {key}={str(container.limits[key])[:80]!r}, "
                    "which no dialect that is on reads",
                    hint=f"Leave it away, or switch the dialect {' or '.join(of)} on",
                )
    return None


def _outside(pod: Json, kind: str) -> tuple[str, str] | None:
    """Whether a pod without a claim sees cards by its variables alone."""
    for container in podspec.containers(pod):
        env = {one.get("name"): one.get("value") for one in container.raw.get("env") or ()}
        if names_cards(container) and env.get(CAPABILITIES) != WATCHING:
            name = VISIBLE if VISIBLE in env else CAPABILITIES
            alone = ", or, on nodes with one card, use the component daemonset-cards"
            return (
                f"container {container.name!r} sees cards by {name}={str(env[name])[:80]!r} without a claim",
                f"Write a claim{alone if kind == 'DaemonSet' else ''}, or keep Sublet's agent off its nodes",
            )
    return None


def _unseen(workload: Workload) -> tuple[str, str] | None:
    """Whether the webhook would never be asked about it: then it runs, and has no card."""
    if MIRROR in podspec.annotations(workload.pod):
        return "a static pod is never shown to the webhook: it would get no card", "Run it as a DaemonSet"
    if workload.namespace in UNASKED_NAMESPACES:
        return (
            f"the webhook is never asked in namespace {workload.namespace}: the pod would get no card",
            "Move it to another namespace",
        )
    return None


def _meta(obj: Json) -> Mapping[str, Any]:
    return obj.get("metadata") or {}
