"""Elastic GPU, the open one: ``gpu-core`` (100 = a card) and ``gpu-memory`` in MB, in either of its domains.

Also what its tools read of qGPU, whose own results are not public.
"""

import hashlib
from collections.abc import Iterable, Mapping

from sublet.contract import keys
from sublet.contract.dialects.amounts import (
    MIB,
    MOST_CARDS,
    Unit,
    bad_amount,
    conflict,
    core_of,
    read_amounts,
    units_of,
    whole,
    whole_cards,
)
from sublet.contract.dialects.interface import Decided, Dialect, Options, Placed
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim
from sublet.model.reasons import Refusal

ASSUMED = "elasticgpu.io/assumed"
CONTAINER_PREFIX = "elasticgpu.io/container-"
HASH_VARIABLE = "GPU"

CORE, MEMORY = (
    tuple(f"{domain}/{name}" for domain in keys.ELASTIC_DOMAINS) for name in ("gpu-core", "gpu-memory")
)
_CORE = Unit("percent of a card's compute (100 = a card)", 100 * MOST_CARDS)
_LONGEST_NAME = 63 - len("container-")
"""A longer name of a container makes an annotation that the API server refuses."""


class Elastic(Dialect):
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:  # noqa: ARG002
        for twice in (CORE, MEMORY):
            if all(key in container.limits for key in twice):
                return conflict(container, twice, "Keep one of the two domains")
        units = dict.fromkeys(CORE, _CORE) | dict.fromkeys(MEMORY, MIB)
        amounts = read_amounts(container, units, options)
        if isinstance(amounts, Refusal):
            return amounts
        core_key = next((key for key in CORE if key in amounts), "")
        core = amounts.get(core_key, 0)
        if core > 100 and core % 100:
            return bad_amount(
                container,
                core_key,
                "more than one card is asked for in whole cards only",
                f"Write {core // 100 * 100} or {-(-core // 100) * 100}",
            )
        if core >= 100:
            return whole_cards(container, self.name, core // 100)
        return Claim(
            container=container.name,
            kind=container.kind,
            dialect=self.name,
            memory_mib=next((amounts[key] for key in MEMORY if key in amounts), None),
            core_percent=core,
            vendor=Vendor.NVIDIA,
        )

    def annotations(self, decided: Decided) -> Mapping[str, str]:
        return assumed_annotations(decided)

    def labels(self, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return {ASSUMED: "true"}

    def variable_names(self, claim: Claim) -> tuple[str, ...]:  # noqa: ARG002
        return (HASH_VARIABLE,)

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        cards = ":".join(sorted(grant.card for grant in one.grants))
        return {HASH_VARIABLE: hashlib.sha256(cards.encode()).hexdigest()[:8]}

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:  # noqa: ARG002
        counted = whole(cards)
        return dict.fromkeys(CORE, core_of(counted)) | dict.fromkeys(MEMORY, units_of(counted, 1))


def assumed_annotations(decided: Decided) -> dict[str, str]:
    """The indices of each container's cards, as ``0,3``."""
    indices = {
        f"{CONTAINER_PREFIX}{one.claim.container}": ",".join(str(grant.index) for grant in one.grants)
        for one in decided.placed
        if len(one.claim.container) <= _LONGEST_NAME
    }
    return {ASSUMED: "true", **indices}


ELASTIC = Elastic(
    name="elastic-gpu",
    resources=frozenset((*CORE, *MEMORY)),
    result_keys=frozenset({ASSUMED}),
    result_prefixes=(CONTAINER_PREFIX,),
    result_labels=(ASSUMED,),
)
