"""KAI Scheduler: annotations of the pod that give one of its containers a fraction or MiB of a card."""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from sublet.contract import podspec
from sublet.contract.dialects.amounts import CARDS, MIB, Unit, bad_annotation, not_yet
from sublet.contract.dialects.interface import Decided, Dialect, Options, Placed
from sublet.contract.podspec import ContainerSpec, Json
from sublet.contract.quantity import whole_number
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal, RefusalCode

FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"

SHARING_MODE = "kai.scheduler/gpu-compute-sharing-mode"
TIME_SLICING, SM_SHARING = "time-slicing", "sm-sharing"

RECEIVED = "received-resource-type"
GROUP_LABEL = "runai-gpu-group"
PORTION_VARIABLES = ("GPU_PORTION", "RUNAI_NUM_OF_GPUS")

_FRACTION = re.compile(r"0*\.\d{1,18}", re.ASCII)
_LEAST_DECIMALS = 2


class Kai(Dialect):
    def speaks(self, container: ContainerSpec, pod: Json, options: Options) -> bool:  # noqa: ARG002
        annotations = podspec.annotations(pod)
        if not self.claiming_annotations & annotations.keys():
            return False
        every = list(podspec.containers(pod))
        first = next((one.name for one in every if one.path == "/spec/containers/0"), "")
        named = annotations.get(CONTAINER, first)
        # where no container has that name, the first one says so
        return container.name == (named if any(one.name == named for one in every) else first)

    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        annotations = podspec.annotations(pod)
        if refusal := _contradiction(container, annotations):
            return refusal
        cards = _whole(annotations, DEVICES, CARDS) if DEVICES in annotations else 1
        if isinstance(cards, Refusal):
            return cards
        memory = _whole(annotations, MEMORY, MIB) if MEMORY in annotations else None
        if isinstance(memory, Refusal):
            return memory
        percent = _percent(annotations) if FRACTION in annotations else None
        if isinstance(percent, Refusal):
            return percent
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            cards=cards,
            memory_mib=memory,
            memory_percent=percent,
            core_percent=int(percent or 0),
            vendor=Vendor.NVIDIA,
        )

    def wishes(self, pod: Json) -> Mapping[str, str] | Refusal:
        mode = podspec.annotations(pod).get(SHARING_MODE, TIME_SLICING)
        if mode == SM_SHARING:
            return not_yet(SHARING_MODE, mode, f"Write {TIME_SLICING}, or ask for a whole card")
        if mode != TIME_SLICING:
            return bad_annotation(SHARING_MODE, mode, f"{TIME_SLICING} or {SM_SHARING}")
        return {}

    def annotations(self, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return {RECEIVED: "Fraction"}

    def labels(self, decided: Decided) -> Mapping[str, str]:
        """The group of KAI is the card; with several there is one label each."""
        cards = [grant.card for one in decided.placed for grant in one.grants]
        if len(cards) == 1:
            return {GROUP_LABEL: cards[0]}
        return {f"{GROUP_LABEL}/{card}": card for card in cards}

    def variable_names(self, claim: Claim) -> tuple[str, ...]:  # noqa: ARG002
        return PORTION_VARIABLES

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:
        """Of each card; MiB become hundredths, rounded up."""
        percent = one.claim.memory_percent
        if percent is None:
            grant = one.grants[0]
            whole_mib = decided.cards[grant.card].memory_mib or 1
            percent = Fraction(-(-100 * (grant.memory_mib or 0) // whole_mib))
        return dict.fromkeys(PORTION_VARIABLES, _decimal(percent / 100))

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        return {}


def _contradiction(container: ContainerSpec, annotations: Mapping[str, str]) -> Refusal | None:
    if FRACTION in annotations and MEMORY in annotations:
        return Refusal(
            code=RefusalCode.CONFLICTING_KEYS,
            message=f"the pod has both {FRACTION}={annotations[FRACTION]!r} "
            f"and {MEMORY}={annotations[MEMORY]!r}",
            hint="Keep one of the two",
        )
    if not (FRACTION in annotations or MEMORY in annotations):
        return Refusal(
            code=RefusalCode.MISSING_KEY,
            message=f"annotation {DEVICES}={annotations.get(DEVICES)!r} says of how many cards, not how much",
            hint=f"Add {FRACTION} or {MEMORY}",
        )
    if annotations.get(CONTAINER, container.name) != container.name:
        return bad_annotation(CONTAINER, annotations[CONTAINER], "the name of a container of the pod")
    return None


def _whole(annotations: Mapping[str, str], key: str, unit: Unit) -> int | Refusal:
    value = annotations[key]
    found = whole_number(value, key=key, unit=unit.name, most=unit.most)
    if isinstance(found, Refusal):
        return bad_annotation(key, value, f"a whole number of {unit.name} such as '2'")
    return found


def _percent(annotations: Mapping[str, str]) -> Fraction | Refusal:
    value = annotations[FRACTION]
    fraction = Fraction(value) if _FRACTION.fullmatch(value) else Fraction(0)
    if not fraction:
        return bad_annotation(FRACTION, value, "a decimal fraction between 0 and 1 such as '0.5'")
    return fraction * 100


def _decimal(value: Fraction) -> str:
    """Exact, with at least two decimals: 0.50, 0.125."""
    decimals = next(
        (count for count in range(_LEAST_DECIMALS, 21) if (value * 10**count).denominator == 1), 20
    )
    digits = str(int(value * 10**decimals)).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}"


KAI = Kai(
    name="kai",
    claiming_annotations=frozenset({FRACTION, MEMORY, DEVICES}),
    result_keys=frozenset({RECEIVED}),
    result_labels=(GROUP_LABEL,),
    scheduler="kai-scheduler",
)
