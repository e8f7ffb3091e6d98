"""NVIDIA's device plugin: ``nvidia.com/gpu`` whole cards, ``gpu.shared`` shares without a promise, ``mig-*``.

Where HAMi's resources stand beside ``nvidia.com/gpu``, the container speaks HAMi.
"""

from collections.abc import Iterable, Mapping

from sublet.contract import keys
from sublet.contract.dialects import hami
from sublet.contract.dialects.amounts import CARDS, conflict, read_amounts, whole, whole_cards, written
from sublet.contract.dialects.interface import HAMI_NAME, Dialect, Options
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal, RefusalCode


class Nvidia(Dialect):
    def speaks(self, container: ContainerSpec, pod: Json, options: Options) -> bool:
        named = {key for key in container.limits if self.names(key)}
        theirs = HAMI_NAME in options.enabled and hami.HAMI.speaks(container, pod, options)
        return bool(named - {keys.NVIDIA_GPU} if theirs else named)

    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        named = sorted(key for key in container.limits if self.names(key))
        amounts = read_amounts(container, dict.fromkeys(named, CARDS), options)
        if isinstance(amounts, Refusal):
            return amounts
        if len(named) > 1:
            return conflict(container, named, "Keep one of them; other containers may have another")
        if unread := sorted(hami.OWN & container.limits.keys()):
            return Refusal(
                code=RefusalCode.UNKNOWN_RESOURCE,
                message=f"container {container.name!r} has {written(container, unread)}, "
                "which no dialect that is on reads",
                hint="Leave it away, or switch the dialect hami on",
            )
        [(key, count)] = amounts.items()
        if key == keys.NVIDIA_GPU_SHARED:
            return Claim(
                container=container.name,
                kind=container.kind,
                dialect=self.name,
                cards=count,
                vendor=Vendor.NVIDIA,
            )
        profile = key.removeprefix(keys.NVIDIA_MIG_PREFIX) if key != keys.NVIDIA_GPU else None
        return whole_cards(container, self.name, count, profile=profile)

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        known = list(cards)
        counted = len(whole(known))
        totals = {keys.NVIDIA_GPU: counted, keys.NVIDIA_GPU_SHARED: counted * shares_per_card}
        for card in known:
            if card.profile and card.vendor is Vendor.NVIDIA:
                name = keys.NVIDIA_MIG_PREFIX + card.profile
                totals[name] = totals.get(name, 0) + 1
        return totals


NVIDIA = Nvidia(
    name="nvidia",
    resources=frozenset({keys.NVIDIA_GPU, keys.NVIDIA_GPU_SHARED}),
    resource_prefixes=(keys.NVIDIA_MIG_PREFIX,),
)
