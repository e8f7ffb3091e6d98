"""Aliyun gpushare: ``aliyun.com/gpu-mem`` in GiB or MiB on one card, ``aliyun.com/gpu-count`` whole cards.

All ``gpu-mem`` containers of a pod go on one card, as with the original; its annotations and
variables are written in the unit of the cluster's setting.
"""

import json
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
from sublet.model.reasons import Refusal, RefusalCode

INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD_MEMORY = "ALIYUN_COM_GPU_MEM_DEV"
POD_MEMORY = "ALIYUN_COM_GPU_MEM_POD"
CONTAINER_MEMORY = "ALIYUN_COM_GPU_MEM_CONTAINER"
ASSIGNED = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUME_TIME = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
ALLOCATION = "scheduler.framework.gpushare.allocation"


@dataclass(frozen=True, slots=True)
class Gpushare:
    name: str = "gpushare"
    resources: frozenset[str] = frozenset({keys.ALIYUN_GPU_MEM, keys.ALIYUN_GPU_COUNT})
    result_keys: frozenset[str] = frozenset(
        {INDEX, CARD_MEMORY, POD_MEMORY, ASSIGNED, ASSUME_TIME, ALLOCATION}
    )

    def claim(self, container: ContainerSpec, options: Options) -> Claim | Refusal:
        limits = container.limits
        if keys.ALIYUN_GPU_MEM in limits and keys.ALIYUN_GPU_COUNT in limits:
            return Refusal(
                code=RefusalCode.CONFLICTING_KEYS,
                message=f"container {container.name!r} has both {keys.ALIYUN_GPU_MEM}="
                f"{str(limits[keys.ALIYUN_GPU_MEM])!r} and {keys.ALIYUN_GPU_COUNT}="
                f"{str(limits[keys.ALIYUN_GPU_COUNT])!r}",
                hint="Keep gpu-mem for a share of one card, or gpu-count for whole cards",
            )
        if keys.ALIYUN_GPU_COUNT in limits:
            value = limits[keys.ALIYUN_GPU_COUNT]
            count = whole_number(
                value, key=keys.ALIYUN_GPU_COUNT, unit="cards", most=MOST_CARDS, stored=options.stored
            )
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
        unit = "GiB" if options.gpu_mem_unit_mib == 1024 else "MiB"
        amount = whole_number(
            limits[keys.ALIYUN_GPU_MEM], key=keys.ALIYUN_GPU_MEM, unit=unit, most=2**40, stored=options.stored
        )
        if isinstance(amount, Refusal):
            return amount
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            memory_mib=amount * options.gpu_mem_unit_mib,
            vendor=Vendor.NVIDIA,
            one_card_group=keys.ALIYUN_GPU_MEM,
        )

    def results(
        self, placed: Sequence[Placed], cards: Mapping[CardId, Card], options: Options, *, at_ns: int
    ) -> Results:
        unit_mib = options.gpu_mem_unit_mib
        counted = [one for one in placed if not one.claim.heir] or placed
        # where a pod asks in both ways, the annotations that hold one number tell of its shares
        main = [one for one in counted if not one.claim.exclusive] or counted
        annotations = {
            INDEX: ",".join(str(index) for index in sorted({g.index for one in main for g in one.grants})),
            CARD_MEMORY: str((cards[main[0].grants[0].card].memory_mib or 0) // unit_mib),
            POD_MEMORY: str(sum(sum(_units(one, unit_mib).values()) for one in main)),
            ASSIGNED: "true",
            ASSUME_TIME: str(at_ns),
        }
        if len(counted) > 1 or len(main[0].grants) > 1:
            allocation = {str(one.claim.position): _units(one, unit_mib) for one in counted}
            annotations[ALLOCATION] = json.dumps(allocation, separators=(",", ":"))
        env = {
            one.claim.container: {key: annotations[key] for key in (INDEX, POD_MEMORY, CARD_MEMORY)}
            | self.env_constants(one.claim, options)
            for one in placed
            if not one.claim.exclusive
        }
        return Results(annotations=annotations, env=env)

    def env_sources(self, claim: Claim) -> Mapping[str, str]:
        return {} if claim.exclusive else {INDEX: INDEX, POD_MEMORY: POD_MEMORY, CARD_MEMORY: CARD_MEMORY}

    def env_constants(self, claim: Claim, options: Options) -> dict[str, str]:
        if claim.memory_mib is None:
            return {}
        return {CONTAINER_MEMORY: str(claim.memory_mib // options.gpu_mem_unit_mib)}

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = [card for card in cards if card.vendor is Vendor.NVIDIA]
        return {
            keys.ALIYUN_GPU_MEM: sum((card.memory_mib or 0) // options.gpu_mem_unit_mib for card in counted),
            keys.ALIYUN_GPU_COUNT: len(counted),
        }


def _units(placed: Placed, unit_mib: int) -> dict[str, int]:
    """Card index -> what the container asked of it, in the dialect's unit; a whole card is all its memory."""
    asked = placed.claim.memory_mib
    return {
        str(grant.index): (grant.memory_mib or 0 if asked is None else asked) // unit_mib
        for grant in placed.grants
    }


GPUSHARE = Gpushare()
