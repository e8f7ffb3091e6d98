"""Reads all objects of a live cluster that tell of workloads with cards, or of what serves cards."""

from collections.abc import Iterator, Mapping
from typing import Any

from sublet.cli.manifest import has_pod_templates
from sublet.kube import kind as kinds
from sublet.kube.errors import NotFound
from sublet.kube.kind import Kind
from sublet.kube.port import Json, Kube, Selection

KINDS = (
    kinds.NAMESPACES,
    kinds.NODES,
    kinds.DEPLOYMENTS,
    kinds.REPLICASETS,
    kinds.STATEFULSETS,
    kinds.DAEMONSETS,
    kinds.JOBS,
    kinds.CRON_JOBS,
    kinds.PODS,
    kinds.MUTATING_WEBHOOKS,
)
SYSTEM_NAMESPACE = "kube-system"
"""Where the configuration of a kube-scheduler lies if it lies in the cluster."""
DEEPEST = 8
"""Levels of a schema at which a pod template is looked for."""


async def read_cluster(kube: Kube) -> list[Json]:
    """Raises KubeError where something cannot be read, other than kinds that this cluster does not know."""
    found = [one for kind in KINDS for one in await _all(kube, kind)]
    found += await _all(kube, kinds.RESOURCE_SLICES)
    found += await _all(kube, kinds.CONFIGMAPS, Selection(namespace=SYSTEM_NAMESPACE))
    for definition in await _all(kube, kinds.CUSTOM_RESOURCES):
        for kind in with_templates(definition):
            found += [one for one in await _all(kube, kind) if has_pod_templates(one)]
    return found


async def _all(kube: Kube, kind: Kind, select: Selection | None = None) -> list[Json]:
    """Items of a list do not say their kind."""
    try:
        items = await kube.list(kind, select or Selection())
    except NotFound:
        return []
    return [{**one, "apiVersion": kind.api_version, "kind": kind.kind} for one in items]


def with_templates(definition: Json) -> Iterator[Kind]:
    """The stored version of a custom resource whose schema has a pod template below its spec."""
    spec = definition["spec"]
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        if version.get("storage") and _has_template(_properties(schema).get("spec") or {}, DEEPEST):
            yield Kind(
                group=spec["group"],
                version=version["name"],
                plural=spec["names"]["plural"],
                kind=spec["names"]["kind"],
                namespaced=spec.get("scope") == "Namespaced",
            )


def _has_template(schema: Mapping[str, Any], deeper: int) -> bool:
    """Whether `template` stands there; schemas that keep what they do not know rarely say more."""
    if not deeper:
        return False
    properties = _properties(schema)
    below = [*properties.values(), schema.get("items"), schema.get("additionalProperties")]
    return "template" in properties or any(
        _has_template(one, deeper - 1) for one in below if isinstance(one, Mapping)
    )


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return schema.get("properties") or {}
