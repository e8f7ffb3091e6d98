"""What kubectl asks of OpenAPI v3 before it writes: that unknown fields are the server's matter.

It looks for the query parameter `fieldValidation` at the PATCH of a kind, and then sends objects unchecked.
"""

from sublet.demo.apiserver.registry import KINDS
from sublet.kube.kind import Kind
from sublet.kube.port import Json

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
]


def described(parts: list[str]) -> Json | None:
    """The answer below ``/openapi/v3``: the list of documents, or the one of a group and version."""
    if not parts:
        roots = {_root(kind) for kind in KINDS}
        return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in sorted(roots)}}
    found = [kind for kind in KINDS if _root(kind) == "/".join(parts)]
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "sublet demo", "version": "v1"},
        "paths": {_path(kind): {"patch": _patch(kind)} for kind in found},
    }


def _root(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _path(kind: Kind) -> str:
    within = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{_root(kind)}{within}/{kind.plural}/{{name}}"


def _patch(kind: Kind) -> Json:
    return {
        "operationId": f"patch{kind.group.title()}{kind.kind}",
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
        },
    }
