"""HAMi on NVIDIA cards: ``nvidia.com/gpu`` cards; ``gpumem``, ``gpumem-percentage``, ``gpucores`` of each.

``nvidia.com/gpu`` alone means the same in NVIDIA's dialect, which reads it where both are on, unless the
pod has annotations of HAMi.
"""

from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec
from sublet.contract.dialects.amounts import (
    Unit,
    bad_annotation,
    core_of,
    memory_percent_of,
    not_yet,
    partition_of_any_size,
    read_amounts,
    units_of,
    whole,
)
from sublet.contract.dialects.interface import HAMI_NAME, Decided, Dialect, Options, Placed
from sublet.contract.dialects.virtual import (
    Names,
    devices,
    memory_limit_names,
    memory_limits,
    read_virtual,
)
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card
from sublet.model.claim import Claim, LinkWish, Policy
from sublet.model.reasons import Refusal

NAMES = Names(
    count=keys.NVIDIA_GPU, memory=keys.HAMI_MEMORY, percent=keys.HAMI_PERCENT, cores=keys.HAMI_CORES
)
SHARES = frozenset({keys.HAMI_MEMORY, keys.HAMI_PERCENT, keys.HAMI_CORES})
OWN = SHARES | {keys.HAMI_PRIORITY}

CARD_LISTS = {
    "nvidia.com/use-gputype": keys.CARD_MODELS,
    "nvidia.com/nouse-gputype": keys.EXCLUDE_CARD_MODELS,
    "nvidia.com/use-gpuuuid": keys.CARD_UUIDS,
    "nvidia.com/nouse-gpuuuid": keys.EXCLUDE_CARD_UUIDS,
}
NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS = "hami.io/device-scoring-weights"
NUMA_BIND = "nvidia.com/numa-bind"
MODE = "nvidia.com/vgpu-mode"
ANNOTATIONS = frozenset({*CARD_LISTS, NODE_POLICY, CARD_POLICY, SCORING_WEIGHTS, NUMA_BIND, MODE})

NODE = "hami.io/vgpu-node"
TIME = "hami.io/vgpu-time"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
BIND_PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"
PRIORITY_VARIABLE = "CUDA_TASK_PRIORITY"

_PRIORITY = Unit("its priority: 0 high, 1 low", 1, 0)
_MODE = ("hami-core", "mig", "mps")
_WITHOUT_MPS = "Remove it: the share is placed as one of hami-core, and no MPS daemon limits it"
_LONGEST_LABEL = 63


class Hami(Dialect):
    def speaks(self, container: ContainerSpec, pod: Json, options: Options) -> bool:
        if SHARES & container.limits.keys():
            return True
        if keys.NVIDIA_GPU not in container.limits:
            return False
        return (
            keys.HAMI_PRIORITY in container.limits
            or "nvidia" not in options.enabled
            or bool(ANNOTATIONS & podspec.annotations(pod).keys())
        )

    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        priority = read_amounts(container, {keys.HAMI_PRIORITY: _PRIORITY}, options)
        if isinstance(priority, Refusal):
            return priority
        constants = [(PRIORITY_VARIABLE, str(value)) for value in priority.values()]
        return read_virtual(container, NAMES, self.name, options, constants)

    def wishes(self, pod: Json) -> Mapping[str, str] | Refusal:
        wishes: dict[str, str] = {}
        for key, value in sorted(podspec.annotations(pod).items()):
            if key not in ANNOTATIONS:
                continue
            if not value.strip(" ,"):
                continue  # as with HAMi: no constraint
            found = _wish(key, value)
            if isinstance(found, Refusal):
                return found
            wishes |= found
        return wishes

    def annotations(self, decided: Decided) -> Mapping[str, str]:
        seconds = str(decided.at_ns // 10**9)
        written = devices(decided, decided.placed)
        return {
            NODE: decided.node,
            TIME: seconds,
            TO_ALLOCATE: written,
            ALLOCATED: written,
            BIND_PHASE: "success",
            BIND_TIME: seconds,
        }

    def labels(self, decided: Decided) -> Mapping[str, str]:
        return {NODE: decided.node} if len(decided.node) <= _LONGEST_LABEL else {}

    def variable_names(self, claim: Claim) -> tuple[str, ...]:
        return memory_limit_names(claim)

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return memory_limits(one)

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = whole(cards)
        return {
            keys.NVIDIA_GPU: len(counted) * shares_per_card,
            keys.HAMI_MEMORY: units_of(counted, 1),
            keys.HAMI_PERCENT: memory_percent_of(counted),
            keys.HAMI_CORES: core_of(counted),
            keys.HAMI_PRIORITY: len(counted) * shares_per_card,
        }


def _wish(key: str, value: str) -> dict[str, str] | Refusal:
    if key in CARD_LISTS:
        return {CARD_LISTS[key]: value}
    if key == NODE_POLICY:
        if value not in (Policy.BINPACK, Policy.SPREAD):
            return bad_annotation(key, value, "binpack or spread")
        return {keys.NODE_POLICY: value}
    if key == CARD_POLICY:
        return _card_policy(key, value)
    if key == NUMA_BIND:
        if value not in ("true", "false"):
            return bad_annotation(key, value, "true or false")
        return {keys.NUMA: "same"} if value == "true" else {}
    if key == MODE:
        if value not in _MODE:
            return bad_annotation(key, value, ", ".join(_MODE))
        if value == "mig":
            return partition_of_any_size(key, value)
        return {} if value == _MODE[0] else not_yet(key, value, _WITHOUT_MPS)
    return not_yet(key, value, f"Remove it, and choose with {keys.CARD_POLICY} or {CARD_POLICY}")


def _card_policy(key: str, value: str) -> dict[str, str] | Refusal:
    """A list is a chain of sorting keys, of which the first counts most."""
    wishes: dict[str, str] = {}
    for part in (one.strip() for one in value.split(",")):
        if part in (Policy.BINPACK, Policy.SPREAD):
            wishes.setdefault(keys.CARD_POLICY, part)
        elif part in ("topology-aware", "numa"):  # joined cards are preferred, then those of one NUMA node
            wishes[keys.LINK] = LinkWish.PREFERRED
        elif part == "mutex":
            return not_yet(
                key, value, f"Remove it; {keys.HAMI_CORES}: 100 asks for a card that nobody shares"
            )
        else:
            return bad_annotation(key, value, "binpack, spread, topology-aware or numa")
    return wishes


HAMI = Hami(
    name=HAMI_NAME,
    resources=frozenset({*NAMES.all, keys.HAMI_PRIORITY}),
    result_keys=frozenset({NODE, TIME, TO_ALLOCATE, ALLOCATED, BIND_PHASE, BIND_TIME}),
    result_labels=(NODE,),
    scheduler="hami-scheduler",
    quota_keys=(
        (f"{keys.LIMIT_PREFIX}{keys.HAMI_MEMORY}", keys.LIMIT_MEMORY),
        (f"{keys.LIMIT_PREFIX}{keys.HAMI_CORES}", keys.LIMIT_CORE),
    ),
)
