"""Aliyun gpushare: ``aliyun.com/gpu-mem`` in GiB or MiB on one card, ``aliyun.com/gpu-count`` whole cards.

All ``gpu-mem`` containers of a pod go on one card, as with the original; its annotations and
variables are written in the unit that the pod was read in, which is that of its node.
"""

import json
from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec
from sublet.contract.dialects.amounts import (
    CARDS,
    MOST_MEMORY,
    Unit,
    conflict,
    read_amounts,
    units_of,
    whole,
    whole_cards,
)
from sublet.contract.dialects.interface import Decided, Dialect, LabelVariable, Options, Placed
from sublet.contract.dialects.memoryunits import unit_name
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim, Requirement
from sublet.model.reasons import Refusal

INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD_MEMORY = "ALIYUN_COM_GPU_MEM_DEV"
POD_MEMORY = "ALIYUN_COM_GPU_MEM_POD"
CONTAINER_MEMORY = "ALIYUN_COM_GPU_MEM_CONTAINER"
ASSIGNED = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUME_TIME = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
ALLOCATION = "scheduler.framework.gpushare.allocation"

_SHARE_VARIABLES = (INDEX, POD_MEMORY, CARD_MEMORY)


class Gpushare(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:
        unit_mib = options.memory_units.of_pod(pod)
        unit = Unit(unit_name(unit_mib), MOST_MEMORY)
        both = {keys.ALIYUN_GPU_MEM: unit, keys.ALIYUN_GPU_COUNT: CARDS}
        if both.keys() <= container.limits.keys():
            return conflict(
                container, tuple(both), "Keep gpu-mem for a share of one card, or gpu-count for whole cards"
            )
        amounts = read_amounts(container, both, options)
        if isinstance(amounts, Refusal):
            return amounts
        if keys.ALIYUN_GPU_COUNT in amounts:
            return whole_cards(container, self.name, amounts[keys.ALIYUN_GPU_COUNT])
        amount = amounts[keys.ALIYUN_GPU_MEM]
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            memory_mib=amount * unit_mib,
            vendor=Vendor.NVIDIA,
            one_card_group=keys.ALIYUN_GPU_MEM,
            constants=((CONTAINER_MEMORY, str(amount)),),
        )

    def requirements(self, pod: Json, options: Options) -> tuple[Requirement, ...]:
        named = any(keys.ALIYUN_GPU_MEM in one.limits for one in podspec.containers(pod))
        return options.memory_units.keeps_to(pod) if named else ()

    def annotations(self, decided: Decided) -> dict[str, str]:
        unit_mib = _unit_mib(decided)
        counted = decided.counted
        # where a pod asks in both ways, the annotations that hold one number tell of its shares
        main = [one for one in counted if not one.claim.exclusive] or counted
        annotations = {
            INDEX: ",".join(str(index) for index in sorted({g.index for one in main for g in one.grants})),
            CARD_MEMORY: str((decided.cards[main[0].grants[0].card].memory_mib or 0) // unit_mib),
            POD_MEMORY: str(sum(sum(_units(one, unit_mib).values()) for one in main)),
            ASSIGNED: "true",
            ASSUME_TIME: str(decided.at_ns),
        }
        if len(counted) > 1 or len(main[0].grants) > 1:
            allocation = {str(one.claim.position): _units(one, unit_mib) for one in counted}
            annotations[ALLOCATION] = json.dumps(allocation, separators=(",", ":"))
        return annotations

    def variable_names(self, claim: Claim) -> tuple[str, ...]:
        return () if claim.exclusive else _SHARE_VARIABLES

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:
        annotations = self.annotations(decided)
        return {name: annotations[name] for name in self.variable_names(one.claim)}

    def env_sources(self, claim: Claim) -> Mapping[str, str]:
        return {name: name for name in self.variable_names(claim)}

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = whole(cards)
        return {
            keys.ALIYUN_GPU_MEM: units_of(counted, options.gpu_mem_unit_mib),
            keys.ALIYUN_GPU_COUNT: len(counted),
        }


def _unit_mib(decided: Decided) -> int:
    """The unit of the pod's own amounts; a pod of whole cards has none and gets that of its node."""
    for one in decided.placed:
        amount = dict(one.claim.constants).get(CONTAINER_MEMORY)
        if amount and one.claim.memory_mib:
            return one.claim.memory_mib // int(amount)
    return decided.options.gpu_mem_unit_mib


def _units(placed: Placed, unit_mib: int) -> dict[str, int]:
    """Card index -> what the container asked of it, in the dialect's unit; a whole card is all its memory."""
    asked = placed.claim.memory_mib
    return {
        str(grant.index): (grant.memory_mib or 0 if asked is None else asked) // unit_mib
        for grant in placed.grants
    }


GPUSHARE = Gpushare(
    name="gpushare",
    resources=frozenset({keys.ALIYUN_GPU_MEM, keys.ALIYUN_GPU_COUNT}),
    result_keys=frozenset({INDEX, CARD_MEMORY, POD_MEMORY, ASSIGNED, ASSUME_TIME, ALLOCATION}),
    label_variables=(LabelVariable("cgpu.disable.isolation", "true", "CGPU_DISABLE", "true"),),
)
