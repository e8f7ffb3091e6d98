"""Knows in which namespaces foreign names count."""

from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from sublet.contract import keys
from sublet.kube.errors import KubeError
from sublet.kube.kind import NAMESPACES
from sublet.kube.port import Kube
from sublet.kube.reflector import Change, Gone, Reflector, Synced, Upserted

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Namespace:
    name: str
    managed: bool


class Namespaces:
    """`listed` is set once every namespace was told."""

    def __init__(self, kube: Kube, *, manage_all: bool) -> None:
        self._kube = kube
        self._manage_all = manage_all
        self._reflector = Reflector(kube, NAMESPACES, decode=_decode)
        self._managed: set[str] = set()
        self.listed = False

    async def run(self) -> None:
        await self._reflector.run(self._take)

    async def managed(self, name: str) -> bool:
        """Whether foreign names count there; a no is looked up again, since the watch may lag."""
        if self._manage_all or name in self._managed:
            return True
        try:
            return _is_managed(await self._kube.get(NAMESPACES, name))
        except KubeError as error:
            log.warning("namespace.unread", namespace=name, error=str(error))
            return False

    async def _take(self, change: Change[_Namespace]) -> None:
        match change:
            case Upserted(_, namespace) if namespace.managed:
                self._managed.add(namespace.name)
            case Upserted(_, namespace) | Gone(_, namespace):
                self._managed.discard(namespace.name)
            case Synced():
                self.listed = True
            case _:
                pass


def _decode(raw: bytes) -> _Namespace:
    namespace = msgspec.json.decode(raw, type=dict[str, Any])
    return _Namespace(name=namespace["metadata"]["name"], managed=_is_managed(namespace))


def _is_managed(namespace: dict[str, Any]) -> bool:
    return bool((namespace["metadata"].get("labels") or {}).get(keys.MANAGE_LABEL) == "true")
