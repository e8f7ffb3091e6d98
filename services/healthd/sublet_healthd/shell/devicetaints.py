"""Optional: a DeviceTaintRule for each card that takes no new shares, where a DRA driver lists that card.

Looks at what is and at what should be, and writes the difference; only rules with our label are touched.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import DEVICE_TAINT_RULES, RESOURCE_SLICES
from sublet.kube.port import Json, Kube, Selection
from sublet.model.ids import CardId
from sublet.runtime.serve import every
from sublet_healthd.core.engine import Engine

log = structlog.get_logger()

EVERY_S = 15.0
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "sublet-healthd"
TAINT = "sublet.dev/health"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """How a DRA driver calls a card."""

    driver: str
    pool: str
    device: str


class DeviceTaints:
    """`effect` is None (told only) or NoSchedule."""

    def __init__(self, kube: Kube, engine: Engine, *, effect: str) -> None:
        self._kube = kube
        self._engine = engine
        self._effect = effect

    async def run(self) -> None:
        await every(EVERY_S, self.once)

    async def once(self) -> None:
        try:
            await self._once()
        except KubeError as error:
            log.warning("taints.unwritten", error=str(error))

    async def _once(self) -> None:
        ours = Selection(labels=f"{MANAGED_BY}={MANAGER}")
        there = {rule["metadata"]["name"] for rule in await self._kube.list(DEVICE_TAINT_RULES, ours)}
        closed = dict(self._closed())
        wanted = await self._wanted(closed) if closed else {}
        for name in sorted(there - wanted.keys()):
            try:
                await self._kube.delete(DEVICE_TAINT_RULES, name)
            except NotFound:
                continue
        for name in sorted(wanted.keys() - there):
            await self._kube.create(DEVICE_TAINT_RULES, wanted[name])

    def _closed(self) -> Iterator[tuple[CardId, str]]:
        """Cards that take no new shares, and their state."""
        for (_, card), state in self._engine.cards.items():
            if state.verdict and not state.verdict.schedulable and not state.facts.gone:
                yield card, state.verdict.state.value

    async def _wanted(self, closed: dict[CardId, str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for slice_ in await self._kube.list(RESOURCE_SLICES):
            for card, device in _devices(slice_):
                if card in closed:
                    body = self._rule(card, device, closed[card])
                    found[body["metadata"]["name"]] = body
        return found

    def _rule(self, card: CardId, device: Device, state: str) -> Json:
        """The name carries what it says: another state is another rule."""
        said = f"{card}/{device}/{state}/{self._effect}"
        name = f"sublet-{hashlib.sha256(said.encode()).hexdigest()[:20]}"
        return {
            "apiVersion": DEVICE_TAINT_RULES.api_version,
            "kind": DEVICE_TAINT_RULES.kind,
            "metadata": {"name": name, "labels": {MANAGED_BY: MANAGER}},
            "spec": {
                "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
                "taint": {"key": TAINT, "value": state, "effect": self._effect},
            },
        }


def _devices(slice_: Json) -> Iterator[tuple[CardId, Device]]:
    spec = slice_.get("spec") or {}
    for one in spec.get("devices") or ():
        attributes = one.get("attributes") or (one.get("basic") or {}).get("attributes") or {}
        uuid = (attributes.get("uuid") or {}).get("string")
        if uuid:
            pool = (spec.get("pool") or {}).get("name", "")
            yield CardId(uuid), Device(driver=spec.get("driver", ""), pool=pool, device=one["name"])
