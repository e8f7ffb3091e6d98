"""Follows the ResourceQuotas that limit what a namespace may hold of cards.

Kubernetes itself counts nothing under our keys, nor under those of the dialects that are on and have some; a
value that cannot be read allows nothing.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, assert_never

import msgspec
import structlog

from sublet.contract import keys
from sublet.contract.dialects import enabled
from sublet.contract.dialects.interface import Options
from sublet.contract.quantity import whole_number
from sublet.kube.kind import RESOURCE_QUOTAS
from sublet.kube.port import Kube
from sublet.kube.reflector import Change, Gone, Reflector, Relisted, Synced, Upserted
from sublet_scheduler.core.events import Event, QuotaGone, QuotaSeen, QuotasListed
from sublet_scheduler.core.limits import Quota

log = structlog.get_logger()

DEFAULT = Options()


class Quotas:
    """`listed` is set once every quota was told."""

    def __init__(
        self, kube: Kube, submit: Callable[[Event], Awaitable[None]], *, options: Options = DEFAULT
    ) -> None:
        self._reflector = Reflector(kube, RESOURCE_QUOTAS, decode=partial(read_quota, options=options))
        self._submit = submit
        self._told: set[tuple[str, str]] = set()
        self.listed = False

    async def run(self) -> None:
        await self._reflector.run(self._take)

    async def _take(self, change: Change[QuotaSeen]) -> None:
        match change:
            case Upserted(_, seen) if _limits_something(seen.quota):
                self._told.add((seen.namespace, seen.quota.name))
                await self._submit(seen)
            case Upserted(_, seen) | Gone(_, seen):
                key = (seen.namespace, seen.quota.name)
                if key in self._told:
                    self._told.discard(key)
                    await self._submit(QuotaGone(*key))
            case Synced():
                self.listed = True
                await self._submit(QuotasListed())
            case Relisted():
                pass
            case _:
                assert_never(change)


def read_quota(raw: bytes, *, options: Options = DEFAULT) -> QuotaSeen:
    """Raises msgspec.DecodeError and KeyError where it is no ResourceQuota."""
    quota = msgspec.json.decode(raw, type=dict[str, Any])
    meta, spec = quota["metadata"], quota.get("spec") or {}
    name, namespace = meta["name"], meta["namespace"]
    known = _known(options)
    hard = {key: value for key, value in (spec.get("hard") or {}).items() if key in known}
    if hard and (spec.get("scopes") or spec.get("scopeSelector")):
        log.warning("quota.scope_ignored", namespace=namespace, quota=name)
    amounts: dict[str, int] = {}
    for key, value in hard.items():
        amount = _amount(f"{namespace}/{name}", key, value, unit=_UNITS[known[key]])
        amounts[known[key]] = min(amount, amounts.get(known[key], amount))
    return QuotaSeen(
        namespace,
        Quota(
            name=name,
            cards=amounts.get(keys.LIMIT_CARDS),
            memory_mib=amounts.get(keys.LIMIT_MEMORY),
            core_percent=amounts.get(keys.LIMIT_CORE),
        ),
    )


_UNITS = {keys.LIMIT_CARDS: "cards", keys.LIMIT_MEMORY: "MiB", keys.LIMIT_CORE: "percent"}


def _known(options: Options) -> dict[str, str]:
    """What may stand in a quota, and which of our keys it is."""
    return {key: key for key in _UNITS} | dict(pair for one in enabled(options) for pair in one.quota_keys)


def _amount(quota: str, key: str, value: object, *, unit: str) -> int:
    amount = whole_number(value, key=key, unit=unit, least=0, stored=True)
    if isinstance(amount, int):
        return amount
    log.warning("quota.unreadable", quota=quota, error=str(amount))
    return 0


def _limits_something(quota: Quota) -> bool:
    return (quota.cards, quota.memory_mib, quota.core_percent) != (None, None, None)
