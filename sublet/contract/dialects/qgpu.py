"""Tencent qGPU: ``qgpu-core`` in percent and ``qgpu-memory`` in GB, online and offline pods.

Between whole cards a request of more than one is split over two, in equal shares, rounded down.
"""

from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec
from sublet.contract.dialects.amounts import (
    MOST_CARDS,
    Unit,
    bad_amount,
    bad_annotation,
    core_of,
    missing,
    read_amounts,
    units_of,
    whole,
    whole_cards,
    written,
)
from sublet.contract.dialects.elastic import ASSUMED, CONTAINER_PREFIX, assumed_annotations
from sublet.contract.dialects.interface import Decided, Dialect, Options
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal, RefusalCode

APP_CLASS = "tke.cloud.tencent.com/app-class"
ONLINE, OFFLINE = "online", "offline"
MOST_SPLIT_CARDS = 2
STEP_PERCENT = 5
GB_MIB = 1024

_UNITS = {
    keys.QGPU_CORE: Unit("percent of a card's compute (100 = a card)", 100 * MOST_CARDS),
    keys.QGPU_GREEDY: Unit("percent of a card's compute", 100),
    keys.QGPU_MEMORY: Unit("GB", 2**30),
}
_TOGETHER = {
    "": (keys.QGPU_CORE, keys.QGPU_MEMORY),
    ONLINE: (keys.QGPU_MEMORY,),
    OFFLINE: (keys.QGPU_GREEDY, keys.QGPU_MEMORY),
}


class Qgpu(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:
        app_class = podspec.annotations(pod).get(APP_CLASS, "")
        if app_class not in ("", ONLINE, OFFLINE):
            return bad_annotation(APP_CLASS, app_class, f"{ONLINE} or {OFFLINE}")
        amounts = read_amounts(container, _UNITS, options)
        if isinstance(amounts, Refusal):
            return amounts
        if refusal := _wrong_keys(container, amounts, app_class):
            return refusal
        if app_class:
            return self._share(
                container,
                memory_gb=amounts[keys.QGPU_MEMORY],
                core_limit_percent=amounts.get(keys.QGPU_GREEDY),
                service_class=app_class,
            )
        core = amounts[keys.QGPU_CORE]
        if core % 100 == 0:
            return whole_cards(container, self.name, core // 100)
        cards = -(-core // 100)
        memory_gb = amounts[keys.QGPU_MEMORY]
        if refusal := _bad_core(container, core, cards, memory_gb):
            return refusal
        return self._share(container, cards=cards, memory_gb=memory_gb // cards, core_percent=core // cards)

    def _share(
        self,
        container: ContainerSpec,
        *,
        memory_gb: int,
        cards: int = 1,
        core_percent: int = 0,
        core_limit_percent: int | None = None,
        service_class: str = "",
    ) -> Claim:
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            cards=cards,
            memory_mib=memory_gb * GB_MIB,
            core_percent=core_percent,
            core_limit_percent=core_limit_percent,
            service_class=service_class,
            vendor=Vendor.NVIDIA,
        )

    def annotations(self, decided: Decided) -> Mapping[str, str]:
        return assumed_annotations(decided)

    def labels(self, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return {ASSUMED: "true"}

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = whole(cards)
        return {
            keys.QGPU_CORE: core_of(counted),
            keys.QGPU_GREEDY: 100 * len(counted) * shares_per_card,
            keys.QGPU_MEMORY: units_of(counted, GB_MIB),
        }


def _wrong_keys(container: ContainerSpec, amounts: Mapping[str, int], app_class: str) -> Refusal | None:
    """Which resources go together depends on the pod's class; whole cards need no memory."""
    wanted = _TOGETHER[app_class]
    kind = f"a pod with {APP_CLASS}={app_class!r}" if app_class else f"a pod without {APP_CLASS}"
    rule = f"{kind} asks with {' and '.join(wanted)}"
    hint = f"Write {' and '.join(wanted)}"
    if extra := [key for key in amounts if key not in wanted]:
        return Refusal(
            code=RefusalCode.CONFLICTING_KEYS,
            message=f"container {container.name!r} has {written(container, extra)}: {rule}",
            hint=hint,
        )
    of_whole_cards = keys.QGPU_CORE in amounts and amounts[keys.QGPU_CORE] % 100 == 0
    if len(amounts) < len(wanted) and not of_whole_cards:
        return missing(container, list(amounts), rule, hint)
    return None


def _bad_core(container: ContainerSpec, core: int, cards: int, memory_gb: int) -> Refusal | None:
    if core < 100 and core % STEP_PERCENT:
        below, above = core // STEP_PERCENT * STEP_PERCENT, -(-core // STEP_PERCENT) * STEP_PERCENT
        return bad_amount(
            container,
            keys.QGPU_CORE,
            f"a share is from {STEP_PERCENT} to 95 percent in steps of {STEP_PERCENT}",
            f"Write {below} or {above}" if below else f"Write {above}",
        )
    if cards > MOST_SPLIT_CARDS:
        return bad_amount(
            container,
            keys.QGPU_CORE,
            f"a request that is not of whole cards is split over at most {MOST_SPLIT_CARDS} cards",
            f"Write {core // 100 * 100} or {cards * 100} for whole cards, or less than 200",
        )
    if memory_gb < cards:
        return bad_amount(
            container,
            keys.QGPU_MEMORY,
            f"split over {cards} cards nothing is left of it",
            f"Ask for at least {cards} GB",
        )
    return None


QGPU = Qgpu(
    name="qgpu",
    resources=frozenset(_UNITS),
    result_keys=frozenset({ASSUMED}),
    result_prefixes=(CONTAINER_PREFIX,),
    result_labels=(ASSUMED,),
)
