"""Virtual cards as HAMi and Volcano's vGPU plugin have them: count, memory or a percentage of it, cores.

The count is of different cards, all else is meant for each of them; what is left out is the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sublet.contract.dialects.amounts import CARDS, MIB, Unit, read_amounts, whole_cards
from sublet.contract.dialects.interface import Decided, Options, Placed
from sublet.contract.podspec import ContainerSpec
from sublet.model.card import Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal

MEMORY_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
CORE_LIMIT = "CUDA_DEVICE_SM_LIMIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The four resources."""

    count: str
    memory: str
    percent: str
    cores: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.count, self.memory, self.percent, self.cores)


def read_virtual(
    container: ContainerSpec,
    names: Names,
    dialect: str,
    options: Options,
    constants: Sequence[tuple[str, str]] = (),
) -> Claim | Refusal:
    """Memory in MiB beats a percentage; 0 percent is as if it were not there, 0 cores promise nothing.

    All cores, or neither memory nor cores, mean a card for this container alone.
    """
    units = {
        names.count: CARDS,
        names.memory: MIB,
        names.percent: Unit("percent of the card's memory", 100, 0),
        names.cores: Unit("percent of the card's compute", 100, 0),
    }
    amounts = read_amounts(container, units, options)
    if isinstance(amounts, Refusal):
        return amounts
    count = amounts.get(names.count, 1)
    memory, cores = amounts.get(names.memory), amounts.get(names.cores)
    percent = amounts.get(names.percent) or 100
    if cores == 100 or (cores is None and memory is None and percent == 100):
        return whole_cards(container, dialect, count, constants={CORE_LIMIT: "100", **dict(constants)})
    return Claim(
        container=container.name,
        kind=container.kind,
        dialect=dialect,
        cards=count,
        memory_mib=memory,
        memory_percent=Fraction(percent) if memory is None else None,
        core_percent=cores or 0,
        vendor=Vendor.NVIDIA,
        constants=((CORE_LIMIT, str(cores or 0)), *constants),
    )


def is_virtual(claim: Claim) -> bool:
    return any(name == CORE_LIMIT for name, _ in claim.constants)


def memory_limit_names(claim: Claim) -> tuple[str, ...]:
    return tuple(f"{MEMORY_LIMIT}_{at}" for at in range(claim.cards))


def memory_limits(one: Placed) -> dict[str, str]:
    """Per card in MiB; empty, never zero, where the memory is unknown: zero would mean no limit."""
    names = memory_limit_names(one.claim)
    return {
        name: f"{grant.memory_mib}m" if grant.memory_mib else ""
        for name, grant in zip(names, one.grants, strict=False)
    }


def devices(decided: Decided, placed: Sequence[Placed]) -> str:
    """All containers of the pod in their order: ``uuid,NVIDIA,MiB,cores:`` for each card, then ``;``."""
    grants = {one.claim.container: one.grants for one in placed}
    return "".join(
        "".join(
            f"{grant.card},NVIDIA,{grant.memory_mib or 0},{grant.core_percent}:"
            for grant in grants.get(name, ())
        )
        + ";"
        for name in decided.containers
    )
