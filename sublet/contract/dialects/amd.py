"""AMD's device plugin: ``amd.com/gpu: n`` is n whole cards; the containers get devices and no variables."""

from collections.abc import Iterable, Mapping

from sublet.contract import keys
from sublet.contract.dialects.amounts import CARDS, read_amounts, whole, whole_cards
from sublet.contract.dialects.interface import Dialect, Options
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal


class Amd(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        amounts = read_amounts(container, {keys.AMD_GPU: CARDS}, options)
        if isinstance(amounts, Refusal):
            return amounts
        return whole_cards(container, self.name, amounts[keys.AMD_GPU], vendor=Vendor.AMD)

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        return {keys.AMD_GPU: len(whole(cards, Vendor.AMD))}


AMD = Amd(name="amd", resources=frozenset({keys.AMD_GPU}))
