"""NVIDIA's device plugin: ``nvidia.com/gpu: n`` is n whole cards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sublet.contract import keys
from sublet.contract.dialects.interface import Options, Placed, Results
from sublet.contract.dialects.native import MOST_CARDS
from sublet.contract.podspec import ContainerSpec
from sublet.contract.quantity import whole_number
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.ids import CardId
from sublet.model.reasons import Refusal


@dataclass(frozen=True, slots=True)
class Nvidia:
    name: str = "nvidia"
    resources: frozenset[str] = frozenset({keys.NVIDIA_GPU})
    result_keys: frozenset[str] = frozenset()

    def claim(self, container: ContainerSpec, options: Options) -> Claim | Refusal:
        value = container.limits[keys.NVIDIA_GPU]
        count = whole_number(value, key=keys.NVIDIA_GPU, unit="cards", most=MOST_CARDS, stored=options.stored)
        if isinstance(count, Refusal):
            return count
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            cards=count,
            core_percent=100,
            exclusive=True,
            vendor=Vendor.NVIDIA,
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
        return {keys.NVIDIA_GPU: sum(card.vendor is Vendor.NVIDIA for card in cards)}


NVIDIA = Nvidia()
