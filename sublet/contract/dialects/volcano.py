"""Volcano: ``gpu-memory`` in parts of one card or over several, ``gpu-number`` whole cards, and its vGPU.

A request of memory that no card has is spread over the smallest number of cards, in equal shares.
"""

from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec
from sublet.contract.dialects.amounts import (
    CARDS,
    MOST_MEMORY,
    Unit,
    bad_annotation,
    conflict,
    core_of,
    memory_percent_of,
    partition_of_any_size,
    read_amounts,
    units_of,
    whole,
    whole_cards,
)
from sublet.contract.dialects.interface import Decided, Dialect, Options, Placed
from sublet.contract.dialects.virtual import (
    Names,
    devices,
    is_virtual,
    memory_limit_names,
    memory_limits,
    read_virtual,
)
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim, Policy
from sublet.model.reasons import Refusal

VIRTUAL = Names(
    count=keys.VOLCANO_VGPU_NUMBER,
    memory=keys.VOLCANO_VGPU_MEMORY,
    percent=keys.VOLCANO_VGPU_PERCENT,
    cores=keys.VOLCANO_VGPU_CORES,
)
CARD_LISTS = {
    "volcano.sh/vgpu-use-gpuuuid": keys.CARD_UUIDS,
    "volcano.sh/vgpu-nouse-gpuuuid": keys.EXCLUDE_CARD_UUIDS,
}
MODE = "volcano.sh/vgpu-mode"
GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"

INDEX = "volcano.sh/gpu-index"
PREDICATE_TIME = "volcano.sh/predicate-time"
ASSIGNED = "volcano.sh/gpu-assigned"
VIRTUAL_NODE = "volcano.sh/vgpu-node"
VIRTUAL_TIME = "volcano.sh/vgpu-time"
VIRTUAL_IDS = "volcano.sh/vgpu-ids-new"
TO_ALLOCATE = "volcano.sh/devices-to-allocate"
BIND_TIME = "volcano.sh/bind-time"
BIND_PHASE = "volcano.sh/bind-phase"

ALLOCATED_VARIABLE = "VOLCANO_GPU_ALLOCATED"
TOTAL_VARIABLES = ("VOLCANO_GPU_MEMORY_TOTAL", "VOLCANO_GPU_TOTAL")
"""Of today's plugin, and of the older guide."""


class Volcano(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        plain = {
            keys.VOLCANO_GPU_MEMORY: Unit(_unit(options), MOST_MEMORY),
            keys.VOLCANO_GPU_NUMBER: CARDS,
        }
        asked = [key for key in plain if key in container.limits]
        virtual = [key for key in VIRTUAL.all if key in container.limits]
        if len(asked) > 1 or (asked and virtual):
            hint = "Keep gpu-memory for a share, gpu-number for whole cards, or the vgpu resources"
            return conflict(container, [*asked, *virtual], hint)
        if virtual:
            return read_virtual(container, VIRTUAL, self.name, options)
        amounts = read_amounts(container, plain, options)
        if isinstance(amounts, Refusal):
            return amounts
        if keys.VOLCANO_GPU_NUMBER in amounts:
            count = amounts[keys.VOLCANO_GPU_NUMBER]
            return whole_cards(container, self.name, count, constants={ALLOCATED_VARIABLE: str(count)})
        memory_mib = amounts[keys.VOLCANO_GPU_MEMORY] * options.volcano_unit_mib
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            memory_mib=memory_mib,
            grows=True,
            vendor=Vendor.NVIDIA,
            constants=((ALLOCATED_VARIABLE, str(memory_mib)),),
        )

    def wishes(self, pod: Json) -> Mapping[str, str] | Refusal:
        wishes: dict[str, str] = {}
        for key, value in sorted(podspec.annotations(pod).items()):
            if key not in (*CARD_LISTS, MODE, GROUP_POLICY):
                continue
            if key in CARD_LISTS and value.strip(" ,"):
                wishes[CARD_LISTS[key]] = value
            elif key == MODE and value not in ("", "hami-core"):
                if value == "mig":
                    return partition_of_any_size(key, value)
                return bad_annotation(key, value, "hami-core")
            elif key == GROUP_POLICY and value:
                if value != Policy.SPREAD:
                    return bad_annotation(key, value, "spread")
                wishes[keys.NODE_POLICY] = value
        return wishes

    def annotations(self, decided: Decided) -> Mapping[str, str]:
        virtual = [one for one in decided.placed if is_virtual(one.claim)]
        plain = [one for one in decided.placed if not is_virtual(one.claim)]
        found: dict[str, str] = {}
        if plain:
            indices = sorted({grant.index for one in plain for grant in one.grants})
            found |= {
                INDEX: ",".join(map(str, indices)),
                PREDICATE_TIME: str(decided.at_ns),
                ASSIGNED: "true",
            }
        if virtual:
            seconds, written = str(decided.at_ns // 10**9), devices(decided, virtual)
            found |= {
                VIRTUAL_NODE: decided.node,
                VIRTUAL_TIME: seconds,
                VIRTUAL_IDS: written,
                TO_ALLOCATE: written,
                BIND_TIME: seconds,
                BIND_PHASE: "success",
            }
        return found

    def variable_names(self, claim: Claim) -> tuple[str, ...]:
        return memory_limit_names(claim) if is_virtual(claim) else TOTAL_VARIABLES

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:
        if is_virtual(one.claim):
            return memory_limits(one)
        total = str(decided.cards[one.grants[0].card].memory_mib or 0)
        return dict.fromkeys(TOTAL_VARIABLES, total)

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:
        counted = whole(cards)
        return {
            keys.VOLCANO_GPU_MEMORY: units_of(counted, options.volcano_unit_mib),
            keys.VOLCANO_GPU_NUMBER: len(counted),
            keys.VOLCANO_VGPU_NUMBER: len(counted) * shares_per_card,
            keys.VOLCANO_VGPU_MEMORY: units_of(counted, 1),
            keys.VOLCANO_VGPU_PERCENT: memory_percent_of(counted),
            keys.VOLCANO_VGPU_CORES: core_of(counted),
        }


def _unit(options: Options) -> str:
    return "MiB" if options.volcano_unit_mib == 1 else f"{options.volcano_unit_mib} MiB"


VOLCANO = Volcano(
    name="volcano",
    resources=frozenset({keys.VOLCANO_GPU_MEMORY, keys.VOLCANO_GPU_NUMBER, *VIRTUAL.all}),
    result_keys=frozenset(
        {
            INDEX,
            PREDICATE_TIME,
            ASSIGNED,
            VIRTUAL_NODE,
            VIRTUAL_TIME,
            VIRTUAL_IDS,
            TO_ALLOCATE,
            BIND_TIME,
            BIND_PHASE,
        }
    ),
    scheduler="volcano",
)
