"""What the server says about itself, so that kubectl finds its way."""

from collections.abc import Mapping
from typing import Any

from sublet.demo.apiserver.openapi import described
from sublet.demo.apiserver.registry import KINDS
from sublet.kube.kind import PODS, Kind
from sublet.kube.port import Json

VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+sublet-demo",
    "platform": "demo",
}
_SHORT = {
    "configmaps": "cm",
    "daemonsets": "ds",
    "deployments": "deploy",
    "events": "ev",
    "namespaces": "ns",
    "nodes": "no",
    "poddisruptionbudgets": "pdb",
    "pods": "po",
    "replicasets": "rs",
    "serviceaccounts": "sa",
    "services": "svc",
    "statefulsets": "sts",
}
_OF_PODS: list[Json] = [
    {"name": "pods/binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]},
    {
        "name": "pods/eviction",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    },
]
"""Subresources that kubectl looks for before it uses them: without eviction a drain would delete."""
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovered(path: str) -> Json | str | None:
    """The answer to a discovery or health path; None for any other path."""
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(VERSION)
        case ["readyz" | "healthz" | "livez"]:
            return "ok"
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()}
        case ["openapi", "v3", *parts]:
            return described(parts)
        case ["api", version]:
            return _resources("", version)
        case ["apis", group, version]:
            return _resources(group, version)
        case _:
            return None


def _groups() -> list[Json]:
    named: dict[str, Json] = {}
    for kind in KINDS:
        if kind.group:
            version = {"groupVersion": kind.api_version, "version": kind.version}
            named[kind.group] = {"name": kind.group, "versions": [version], "preferredVersion": version}
    return list(named.values())


def _resources(group: str, version: str) -> Json | None:
    found = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": [
            *(_resource(kind) for kind in found),
            *(part for kind in found if kind == PODS for part in _OF_PODS),
        ],
    }


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
        "shortNames": [_SHORT[kind.plural]] if kind.plural in _SHORT else [],
    }
