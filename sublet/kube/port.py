"""The Kubernetes API as the rest of the project sees it: JSON objects in, JSON objects out.

The adapter is `sublet.kube.client.KubeClient`; it runs the same against a real API server and against
`sublet.demo.apiserver`. Every call has a time limit and raises only members of `sublet.kube.errors`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from sublet.kube.kind import Kind

Json: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Json]
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: operations in order, all or none; `test` operations guard the others."""

    operations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7386: null removes, lists are replaced whole."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StrategicPatch:
    """Kubernetes' own merge: lists such as containers and conditions merge by their key."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of a whole intent, owned by `field_manager`; creates what is missing."""

    body: Mapping[str, Any]
    field_manager: str
    force: bool = False


Patch: TypeAlias = JsonPatch | MergePatch | StrategicPatch | Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind a list or a watch is about; the default is all of them."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""


EVERYTHING = Selection()


class Kube(Protocol):
    """Reads and writes objects of one cluster."""

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json:
        """One object as the API server has it now."""

    async def list(self, kind: Kind, select: Selection = EVERYTHING) -> Objects:
        """All selected objects, fetched page by page."""

    async def create(
        self,
        kind: Kind,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Create an object, or POST to a subresource of `name` (`binding`, `eviction`).

        `namespace` defaults to the one in the body's metadata.
        """

    async def update(
        self, kind: Kind, body: Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> Json:
        """Replace the object that the body's metadata names; a resourceVersion there must be current."""

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Change part of an object or of its subresource."""

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Delete an object, but only the one with this uid and version where they are given."""

    async def raw(self, path: str) -> bytes:
        """GET a path that is no resource, such as `/version` or `/readyz`."""

    async def page(
        self, kind: Kind, select: Selection = EVERYTHING, *, limit: int, continue_token: str = ""
    ) -> bytes:
        """One page of a list, undecoded; for callers that decode into their own types."""

    def watch(
        self, kind: Kind, select: Selection = EVERYTHING, *, resource_version: str, within_s: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; inside are its lines, one JSON event each, until the server ends it.

        A connection that breaks or stays mute raises `Unavailable`; going on from the last version is right.
        """
