"""Reading the amounts of one container, and the refusals that all dialects share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.podspec import ContainerSpec
from sublet.contract.quantity import whole_number
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal, RefusalCode

MOST_CARDS = 1024
MOST_MEMORY = 2**40


@dataclass(frozen=True, slots=True)
class Unit:
    """What a resource counts, and how much of it makes sense."""

    name: str
    most: int
    least: int = 1


CARDS = Unit("cards", MOST_CARDS)
MIB = Unit("MiB", MOST_MEMORY)


def read_amounts(
    container: ContainerSpec, units: Mapping[str, Unit], options: Options
) -> dict[str, int] | Refusal:
    """The amounts of those resources in `units` which the container names."""
    amounts: dict[str, int] = {}
    for key, unit in units.items():
        if key not in container.limits:
            continue
        amount = whole_number(
            container.limits[key],
            key=key,
            unit=unit.name,
            least=unit.least,
            most=unit.most,
            stored=options.stored,
        )
        if isinstance(amount, Refusal):
            return amount
        amounts[key] = amount
    return amounts


def written(container: ContainerSpec, names: Iterable[str]) -> str:
    """The named limits as the user wrote them."""
    return " and ".join(f"{key}={str(container.limits[key])[:80]!r}" for key in names)


def conflict(container: ContainerSpec, names: Sequence[str], hint: str) -> Refusal:
    """Two limits of one container that exclude each other."""
    return Refusal(
        code=RefusalCode.CONFLICTING_KEYS,
        message=f"container {container.name!r} has both {written(container, names)}",
        hint=hint,
    )


def bad_amount(container: ContainerSpec, key: str, rule: str, hint: str) -> Refusal:
    """A limit that is a whole number, but not one that its system serves."""
    return Refusal(code=RefusalCode.BAD_QUANTITY, message=f"{written(container, [key])}: {rule}", hint=hint)


def missing(container: ContainerSpec, names: Sequence[str], rule: str, hint: str) -> Refusal:
    """Limits that are not a claim without another key."""
    return Refusal(
        code=RefusalCode.MISSING_KEY,
        message=f"container {container.name!r} has {written(container, names)}: {rule}",
        hint=hint,
    )


def bad_annotation(key: str, value: str, allowed: str) -> Refusal:
    return Refusal(
        code=RefusalCode.BAD_ANNOTATION,
        message=f"annotation {key}={value[:80]!r} is not understood",
        hint=f"Write {allowed}",
    )


def not_yet(key: str, value: str, hint: str = "Remove the annotation") -> Refusal:
    return Refusal(
        code=RefusalCode.NOT_SUPPORTED_YET,
        message=f"annotation {key}={value[:80]!r} is known, but this version cannot honour it yet",
        hint=hint,
    )


def partition_of_any_size(key: str, value: str) -> Refusal:
    """A mode in which the other system divides cards by itself, to the size that a pod asks for."""
    return Refusal(
        code=RefusalCode.NOT_SUPPORTED_YET,
        message=f"annotation {key}={value[:80]!r}: cards are not divided for a pod, "
        "partitions that exist are asked for by their profile",
        hint=f"Remove the annotation and the amounts, and ask for {keys.NVIDIA_MIG_PREFIX}<profile>: 1 "
        "with a profile that `sublet cards` shows, such as 1g.10gb",
    )


def whole_cards(
    container: ContainerSpec,
    dialect: str,
    count: int,
    *,
    vendor: Vendor = Vendor.NVIDIA,
    profile: str | None = None,
    constants: Mapping[str, str] | None = None,
) -> Claim:
    """A claim of `count` cards (or partitions of one profile) for this container alone."""
    return Claim(
        container=container.name,
        kind=container.kind,
        dialect=dialect,
        cards=count,
        core_percent=100,
        exclusive=True,
        profile=profile,
        vendor=vendor,
        constants=tuple((constants or {}).items()),
    )


def whole(cards: Iterable[Card], vendor: Vendor = Vendor.NVIDIA) -> list[Card]:
    """The cards of a vendor that are not partitions."""
    return [card for card in cards if card.vendor is vendor and not card.profile]


def units_of(cards: Iterable[Card], unit_mib: int) -> int:
    """How many units of memory the cards have together, each counted by itself and rounded down."""
    return sum(card.most_mib // unit_mib for card in cards)


def core_of(cards: Iterable[Card]) -> int:
    """The percent of compute that shares may have of all cards together."""
    return sum(card.shareable_core_percent for card in cards)


def memory_percent_of(cards: Iterable[Card]) -> int:
    """The percent of memory that shares may have of all cards together, each rounded up: a percentage takes
    whole MiB of a card, rounded down, and what fits a card must fit its node."""
    return sum(-(-100 * card.most_mib // card.memory_mib) if card.memory_mib else 100 for card in cards)
