"""Our own spelling: ``sublet.dev/gpu``, ``gpu-memory``, ``gpu-memory-percent``, ``gpu-core``."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from sublet.contract import keys
from sublet.contract.dialects.amounts import (
    CARDS,
    MIB,
    Unit,
    conflict,
    core_of,
    memory_percent_of,
    read_amounts,
    units_of,
)
from sublet.contract.dialects.interface import NATIVE_NAME, Dialect, Options
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal

_UNITS = {
    keys.GPU: CARDS,
    keys.GPU_MEMORY: MIB,
    keys.GPU_MEMORY_PERCENT: Unit("percent of the card's memory", 100),
    keys.GPU_CORE: Unit("percent of the card's compute", 100),
}


class Native(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        amounts = read_amounts(container, _UNITS, options)
        if isinstance(amounts, Refusal):
            return amounts
        if keys.GPU_MEMORY in amounts and keys.GPU_MEMORY_PERCENT in amounts:
            return conflict(container, (keys.GPU_MEMORY, keys.GPU_MEMORY_PERCENT), "Keep one of the two")
        core = amounts.get(keys.GPU_CORE, 0)
        percent = amounts.get(keys.GPU_MEMORY_PERCENT)
        exclusive = amounts.keys() <= {keys.GPU}
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            cards=amounts.get(keys.GPU, 1),
            memory_mib=amounts.get(keys.GPU_MEMORY),
            memory_percent=None if percent is None else Fraction(percent),
            core_percent=100 if exclusive else core,
            exclusive=exclusive,
        )

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = [card for card in cards if not card.profile]
        return {
            keys.GPU: len(counted) * shares_per_card,
            keys.GPU_MEMORY: units_of(counted, 1),
            keys.GPU_MEMORY_PERCENT: memory_percent_of(counted),
            keys.GPU_CORE: core_of(counted),
        }


NATIVE = Native(name=NATIVE_NAME, resources=frozenset(keys.NATIVE_RESOURCES))
