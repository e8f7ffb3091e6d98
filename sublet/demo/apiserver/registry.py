"""The way of every write: checks, defaults, webhooks, the rules of its kind, then the store."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sublet.demo.apiserver import podrules
from sublet.demo.apiserver.admission import Admission, Request
from sublet.demo.apiserver.answers import (
    bad_request,
    conflict,
    invalid,
    no_such_path,
    not_found,
    stale,
    success,
)
from sublet.demo.apiserver.poddefaults import defaulted, first_status
from sublet.demo.apiserver.store import Key, Store
from sublet.kube import kind as kinds
from sublet.kube.kind import MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS, Kind
from sublet.kube.port import Json

KINDS = tuple(value for value in vars(kinds).values() if isinstance(value, Kind))
_WITH_STATUS = {
    PODS,
    NODES,
    NAMESPACES,
    kinds.DEPLOYMENTS,
    kinds.REPLICASETS,
    kinds.STATEFULSETS,
    kinds.DAEMONSETS,
    kinds.JOBS,
    kinds.SERVICES,
    kinds.POD_DISRUPTION_BUDGETS,
}
_WITH_GENERATION = _WITH_STATUS - {NODES, NAMESPACES, kinds.SERVICES}
_KEEP_SENT_STATUS = {NODES, kinds.POD_DISRUPTION_BUDGETS}
_SYSTEM_META = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
)
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RETRIES = 5


@dataclass(slots=True)
class Registry:
    """Creates, changes and deletes objects as the API server would."""

    store: Store
    admission: Admission
    unix_ms: Callable[[], int]
    chance: random.Random = field(default_factory=random.Random)

    async def create(self, kind: Kind, namespace: str, body: Json, *, dry_run: bool, user: str) -> Json:
        obj = self._prepared(kind, namespace, body)
        admitted = await self._admit("CREATE", kind, namespace, obj=obj, old=None, dry_run=dry_run, user=user)
        obj = admitted or obj
        meta = obj["metadata"]
        if not meta.get("name"):
            meta = {**meta, "name": meta["generateName"] + self._suffix()}
        meta = {**meta, "uid": str(uuid4()), "creationTimestamp": self.now()}
        obj = {**obj, "metadata": meta}
        if kind == PODS:
            _complain(kind, meta["name"], podrules.creation_complaints(obj))
            obj["status"] = first_status(obj["spec"])
        key = Key(kind, namespace, meta["name"])
        if dry_run and self.store.find(key) is None:
            return obj
        return self.store.create(key, obj)

    async def change(
        self,
        key: Key,
        make: Callable[[Json], Json],
        *,
        subresource: str = "",
        dry_run: bool,
        user: str,
    ) -> Json:
        """Write what `make` turns the current object into; tried again when another write came between."""
        for _ in range(_RETRIES):
            old = self.store.get(key)
            new = self._carried(key, old, make(old), subresource)
            admitted = await self._admit(
                "UPDATE",
                key.kind,
                key.namespace,
                name=key.name,
                subresource=subresource,
                obj=new,
                old=old,
                dry_run=dry_run,
                user=user,
            )
            new = admitted or new
            if key.kind == PODS and not subresource:
                _complain(key.kind, key.name, podrules.update_complaints(old, new))
            if self.store.find(key) is not old:
                continue
            if dry_run:
                return new
            return self._written(key, new)
        raise stale(key.kind, key.name)

    async def delete(self, key: Key, options: Json, *, dry_run: bool, user: str) -> Json:
        obj = self.store.get(key)
        _check_preconditions(key, obj, options.get("preconditions") or {})
        await self._admit(
            "DELETE",
            key.kind,
            key.namespace,
            name=key.name,
            obj=None,
            old=obj,
            dry_run=dry_run,
            user=user,
        )
        obj = self.store.get(key)
        grace_s = _grace_s(key.kind, obj, options.get("gracePeriodSeconds"))
        meta = obj["metadata"]
        if dry_run:
            return obj
        waits = grace_s > 0 or bool(meta.get("finalizers"))
        if waits or key.kind == PODS:  # a pod is marked even when it goes at once
            obj = self._marked(key, obj, grace_s)
        return obj if waits else self._removed(key)

    def _marked(self, key: Key, obj: Json, grace_s: int) -> Json:
        """Say that the object is ending; a later word can only shorten its time."""
        meta = obj["metadata"]
        before_s = meta.get("deletionGracePeriodSeconds")
        if before_s is not None and before_s <= grace_s:
            return obj
        ends = {
            "deletionTimestamp": self.now(later_s=grace_s),
            "deletionGracePeriodSeconds": grace_s,
            **({"generation": meta["generation"] + 1} if "generation" in meta else {}),
        }
        return self.store.replace(key, {**obj, "metadata": {**meta, **ends}})

    def now(self, *, later_s: int = 0) -> str:
        moment = datetime.fromtimestamp(self.unix_ms() // 1000 + later_s, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _prepared(self, kind: Kind, namespace: str, body: Json) -> Json:
        meta = dict(body.get("metadata") or {})
        if namespace and meta.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if namespace and self.store.find(Key(NAMESPACES, "", namespace)) is None:
            raise not_found(NAMESPACES, namespace)
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        name = meta.get("name") or meta.get("generateName")
        if not name:
            raise invalid(kind, "", ["metadata.name: Required value: name or generateName is required"])
        if kind.namespaced and not _NAME.match(name.rstrip("-") if not meta.get("name") else name):
            raise invalid(
                kind,
                name,
                [f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain is needed'],
            )
        for field_name in _SYSTEM_META:
            if field_name not in ("name", "namespace"):
                meta.pop(field_name, None)
        if kind in _WITH_GENERATION:
            meta["generation"] = 1
        obj = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        if kind in _WITH_STATUS - _KEEP_SENT_STATUS:
            obj["status"] = {}
        if kind == NAMESPACES:
            meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
            obj["status"] = {"phase": "Active"}
        return _default(kind)(obj)

    def _carried(self, key: Key, old: Json, new: Json, subresource: str) -> Json:
        """What the writer may not change stays as it was."""
        meta, was = dict(new.get("metadata") or {}), old["metadata"]
        if meta.get("resourceVersion", was["resourceVersion"]) not in ("", was["resourceVersion"]):
            raise stale(key.kind, key.name)
        if meta.get("uid", was["uid"]) != was["uid"]:
            raise conflict(
                key.kind,
                key.name,
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {was['uid']}",
            )
        if meta.get("name", key.name) != key.name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({key.name})"
            )
        for name in _SYSTEM_META:
            if name in was:
                meta[name] = was[name]
            else:
                meta.pop(name, None)
        meta["resourceVersion"] = was["resourceVersion"]
        new = {**new, "apiVersion": key.kind.api_version, "kind": key.kind.kind, "metadata": meta}
        if key.kind not in _WITH_STATUS:
            if subresource == "status":
                raise no_such_path()
            return new
        if subresource == "status":
            return {**old, "metadata": meta, "status": new.get("status", {})}
        if subresource == "resize":
            new = {**new, "spec": podrules.resized(old["spec"], new["spec"])}
        new = _default(key.kind)({**new, "status": old.get("status", {})})
        if "generation" in meta and new.get("spec") != old.get("spec"):
            meta["generation"] += 1
        return new

    def _written(self, key: Key, new: Json) -> Json:
        meta = new["metadata"]
        over = meta.get("deletionTimestamp") and not meta.get("finalizers")
        if over and not meta.get("deletionGracePeriodSeconds"):
            self.store.replace(key, new)
            return self.store.remove(key)
        return self.store.replace(key, new)

    def _removed(self, key: Key) -> Json:
        if key.kind == NAMESPACES:
            for kind in KINDS:
                for stored in list(self.store.select(kind, key.name, _anything)):
                    self.store.remove(Key(kind, key.name, stored.obj["metadata"]["name"]))
        last = self.store.remove(key)
        if key.kind in (PODS, NAMESPACES):
            return last
        return success(key.kind, key.name, last["metadata"]["uid"])

    async def _admit(
        self,
        operation: str,
        kind: Kind,
        namespace: str,
        *,
        name: str = "",
        subresource: str = "",
        obj: Json | None,
        old: Json | None,
        dry_run: bool,
        user: str,
    ) -> Json | None:
        if kind.group == "admissionregistration.k8s.io":  # or a broken webhook could never be deleted
            return obj
        of = self.store.find(Key(NAMESPACES, "", namespace)) or {"metadata": {}}
        request = Request(
            kind=kind,
            operation=operation,
            namespace=namespace,
            name=name or (obj or {}).get("metadata", {}).get("name", ""),
            subresource=subresource,
            obj=obj,
            old=old,
            dry_run=dry_run,
            user=user,
            namespace_labels=of["metadata"].get("labels") or {},
        )
        configurations = [each.obj for each in self.store.select(MUTATING_WEBHOOKS, None, _anything)]
        default = _default(kind) if not subresource else _as_is
        return await self.admission.admit(request, configurations, default=default)

    async def admit_subresource(
        self, key: Key, subresource: str, body: Json, *, dry_run: bool, user: str
    ) -> Json:
        """A POST to a subresource is a CREATE of the small object in its body."""
        admitted = await self._admit(
            "CREATE",
            key.kind,
            key.namespace,
            name=key.name,
            subresource=subresource,
            obj=body,
            old=None,
            dry_run=dry_run,
            user=user,
        )
        return admitted or body

    def _suffix(self) -> str:
        return "".join(self.chance.choices(_SUFFIX_LETTERS, k=5))


def _default(kind: Kind) -> Callable[[Json], Json]:
    return defaulted if kind == PODS else _as_is


def _anything(_: Json) -> bool:
    return True


def _as_is(obj: Json) -> Json:
    return obj


def _complain(kind: Kind, name: str, complaints: list[str]) -> None:
    if complaints:
        raise invalid(kind, name, complaints)


def _check_preconditions(key: Key, obj: Json, wanted: Mapping[str, Any]) -> None:
    for field_name, what in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        has = obj["metadata"][field_name]
        if (want := wanted.get(field_name)) and want != has:
            why = f"Precondition failed: {what} in precondition: {want}, {what} in object meta: {has}"
            raise conflict(
                key.kind, key.name, f"the {what} in the precondition ({want}) does not match: {why}"
            )


def _grace_s(kind: Kind, obj: Json, asked_s: int | None) -> int:
    """Only a pod that is on a node and not over has something to wait for."""
    if kind != PODS:
        return 0
    spec, phase = obj["spec"], obj.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return int(spec["terminationGracePeriodSeconds"] if asked_s is None else asked_s)
