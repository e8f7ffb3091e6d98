"""Our own spelling: ``sublet.dev/gpu``, ``gpu-memory``, ``gpu-memory-percent``, ``gpu-core``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sublet.contract import keys
from sublet.contract.dialects.interface import NATIVE_NAME, Options, Placed, Results
from sublet.contract.podspec import ContainerSpec
from sublet.contract.quantity import whole_number
from sublet.model.card import Card
from sublet.model.claim import Claim
from sublet.model.ids import CardId
from sublet.model.reasons import Refusal, RefusalCode

MOST_CARDS = 1024
_UNITS = {
    keys.GPU: ("cards", MOST_CARDS),
    keys.GPU_MEMORY: ("MiB", 2**40),
    keys.GPU_MEMORY_PERCENT: ("percent of the card's memory", 100),
    keys.GPU_CORE: ("percent of the card's compute", 100),
}


@dataclass(frozen=True, slots=True)
class Native:
    name: str = NATIVE_NAME
    resources: frozenset[str] = frozenset(keys.NATIVE_RESOURCES)
    result_keys: frozenset[str] = frozenset()

    def claim(self, container: ContainerSpec, options: Options) -> Claim | Refusal:
        amounts: dict[str, int] = {}
        for key, (unit, most) in _UNITS.items():
            if key in container.limits:
                amount = whole_number(
                    container.limits[key], key=key, unit=unit, most=most, stored=options.stored
                )
                if isinstance(amount, Refusal):
                    return amount
                amounts[key] = amount
        if keys.GPU_MEMORY in amounts and keys.GPU_MEMORY_PERCENT in amounts:
            return Refusal(
                code=RefusalCode.CONFLICTING_KEYS,
                message=f"container {container.name!r} has both {keys.GPU_MEMORY}="
                f"{str(container.limits[keys.GPU_MEMORY])!r} and {keys.GPU_MEMORY_PERCENT}="
                f"{str(container.limits[keys.GPU_MEMORY_PERCENT])!r}",
                hint="Keep one of the two",
            )
        core = amounts.get(keys.GPU_CORE, 0)
        memory = amounts.get(keys.GPU_MEMORY)
        percent = amounts.get(keys.GPU_MEMORY_PERCENT)
        exclusive = amounts.keys() <= {keys.GPU}
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            cards=amounts.get(keys.GPU, 1),
            memory_mib=memory,
            memory_percent=None if percent is None else Fraction(percent),
            core_percent=100 if exclusive else core,
            exclusive=exclusive,
        )

    def results(
        self,
        placed: Sequence[Placed],  # noqa: ARG002
        cards: Mapping[CardId, Card],  # noqa: ARG002
        options: Options,  # noqa: ARG002
        *,
        at_ns: int,  # noqa: ARG002
    ) -> Results:
        return Results()

    def env_sources(self, claim: Claim) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def env_constants(self, claim: Claim, options: Options) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = list(cards)
        return {
            keys.GPU: len(counted) * shares_per_card,
            keys.GPU_MEMORY: sum(card.memory_mib or 0 for card in counted),
            keys.GPU_MEMORY_PERCENT: 100 * len(counted),
            keys.GPU_CORE: 100 * len(counted),
        }


NATIVE = Native()
