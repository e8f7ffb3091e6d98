"""Reads a request's path and query: which kind, which object, which options."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from sublet.demo.apiserver.answers import bad_request, no_such_path
from sublet.demo.apiserver.registry import KINDS
from sublet.demo.apiserver.store import Key
from sublet.kube.kind import Kind

_BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path points at; no name means the collection, no namespace all of them."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return Key(self.kind, self.namespace or "", self.name)


def target(path: str) -> Target:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", version, *rest]:
            return _target("", version, rest)
        case ["apis", group, version, *rest]:
            return _target(group, version, rest)
        case _:
            raise no_such_path()


def _target(group: str, version: str, rest: list[str]) -> Target:
    match rest:
        case ["namespaces", namespace, plural, *more] if (group, version, plural) in _BY_PATH:
            kind = _BY_PATH[group, version, plural]
        case [plural, *more] if (group, version, plural) in _BY_PATH:
            kind, namespace = _BY_PATH[group, version, plural], ""
        case _:
            raise no_such_path()
    # only a collection may span namespaces
    if len(more) > 2 or (kind.namespaced and more and not namespace) or (namespace and not kind.namespaced):
        raise no_such_path()
    name, subresource = (*more, "", "")[:2]
    where = namespace if namespace or not kind.namespaced else None
    return Target(kind=kind, namespace=where, name=name, subresource=subresource)


def is_dry_run(query: Mapping[str, str]) -> bool:
    return query.get("dryRun") == "All"


def is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")


def whole_number(query: Mapping[str, str], name: str, *, default: int) -> int:
    text = query.get(name) or str(default)
    if not text.isascii() or not text.isdigit():
        raise bad_request(f"invalid {name}: {text!r} is not a number")
    return int(text)
