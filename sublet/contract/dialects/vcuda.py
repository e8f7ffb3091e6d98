"""Tencent gpu-manager: ``vcuda-core`` (100 = a card) and ``vcuda-memory`` in blocks of 256 MiB."""

from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec
from sublet.contract.dialects.amounts import (
    MOST_CARDS,
    MOST_MEMORY,
    Unit,
    bad_amount,
    bad_annotation,
    core_of,
    missing,
    read_amounts,
    units_of,
    whole,
    whole_cards,
)
from sublet.contract.dialects.interface import Decided, Dialect, Options
from sublet.contract.podspec import ContainerSpec, Json
from sublet.contract.quantity import whole_number
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal

BLOCK_MIB = 256
CORE_LIMIT = "tencent.com/vcuda-core-limit"
PREDICATE_TIME = "tencent.com/predicate-time"
PREDICATE_NODE = "tencent.com/predicate-node"
PREDICATE_INDEX = "tencent.com/predicate-gpu-idx-"
ASSIGNED = "tencent.com/gpu-assigned"
LIBRARY_PATH = "LD_LIBRARY_PATH"

_UNITS = {
    keys.VCUDA_CORE: Unit("percent of a card's compute (100 = a card)", 100 * MOST_CARDS),
    keys.VCUDA_MEMORY: Unit(f"blocks of {BLOCK_MIB} MiB", MOST_MEMORY // BLOCK_MIB),
}
_TOGETHER = f"Write {keys.VCUDA_CORE} and {keys.VCUDA_MEMORY}, or {keys.VCUDA_CORE}: 100 for a whole card"


class Vcuda(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:
        limit = _core_limit(pod)
        if isinstance(limit, Refusal):
            return limit
        amounts = read_amounts(container, _UNITS, options)
        if isinstance(amounts, Refusal):
            return amounts
        if keys.VCUDA_CORE not in amounts:
            return missing(container, list(amounts), "memory alone is given to nobody", _TOGETHER)
        core = amounts[keys.VCUDA_CORE]
        constants = _library_path(container)
        if core >= 100 and core % 100 == 0:
            return whole_cards(container, self.name, core // 100, constants=constants)
        if core > 100:
            return bad_amount(
                container,
                keys.VCUDA_CORE,
                "more than one card is asked for in whole cards only",
                f"Write {core // 100 * 100} or {-(-core // 100) * 100}",
            )
        if keys.VCUDA_MEMORY not in amounts:
            return missing(container, list(amounts), "a part of a card needs memory as well", _TOGETHER)
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            memory_mib=amounts[keys.VCUDA_MEMORY] * BLOCK_MIB,
            core_percent=core,
            core_limit_percent=limit,
            vendor=Vendor.NVIDIA,
            constants=tuple(constants.items()),
        )

    def annotations(self, decided: Decided) -> Mapping[str, str]:
        indices = {
            f"{PREDICATE_INDEX}{one.claim.position}": ",".join(str(grant.index) for grant in one.grants)
            for one in decided.counted
        }
        return {
            PREDICATE_TIME: str(decided.at_ns),
            PREDICATE_NODE: decided.node,
            ASSIGNED: "true",
            **indices,
        }

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = whole(cards)
        return {keys.VCUDA_CORE: core_of(counted), keys.VCUDA_MEMORY: units_of(counted, BLOCK_MIB)}


def _core_limit(pod: Json) -> int | Refusal | None:
    """The most compute that shares of the pod may use: at most a card."""
    value = podspec.annotations(pod).get(CORE_LIMIT)
    if value is None:
        return None
    found = whole_number(value, key=CORE_LIMIT, unit="percent")
    if isinstance(found, Refusal):
        return bad_annotation(CORE_LIMIT, value, "a whole number of percent such as '50'")
    return min(100, found)


def _library_path(container: ContainerSpec) -> dict[str, str]:
    """Where gpu-manager's images look for the driver; a path of the user's own stays."""
    env = {one.get("name"): one.get("value") for one in container.raw.get("env") or ()}
    ours = "/usr/local/nvidia/lib" if env.get("compat32") == "true" else "/usr/local/nvidia/lib64"
    return {LIBRARY_PATH: ours} if env.get(LIBRARY_PATH, ours) == ours else {}


VCUDA = Vcuda(
    name="vcuda",
    resources=frozenset(_UNITS),
    result_keys=frozenset({PREDICATE_TIME, PREDICATE_NODE, ASSIGNED}),
    result_prefixes=(PREDICATE_INDEX,),
)
