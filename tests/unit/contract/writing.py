"""Placements and their results for tests of what is written into a pod."""

from collections.abc import Mapping
from typing import Any

from sublet.contract.dialects.interface import Options
from sublet.contract.results import PodResults, pod_results
from sublet.model.card import Card
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant, Placement
from tests.builders import ask, card

AT_NS = 1_700_000_000_000_000_000


def grant(one: Card, memory_mib: int | None = None, core: int = 0, *, exclusive: bool = False) -> CardGrant:
    return CardGrant(
        card=one.id,
        index=one.index,
        memory_mib=one.memory_mib if exclusive else memory_mib,
        core_percent=100 if exclusive else core,
        exclusive=exclusive,
    )


def placed(node: str = "n1", **containers: CardGrant | tuple[CardGrant, ...]) -> Placement:
    return Placement(
        node=NodeName(node),
        containers={
            name: grants if isinstance(grants, tuple) else (grants,) for name, grants in containers.items()
        },
    )


A = card("GPU-a", index=0, gib=15)
B = card("GPU-b", index=1, gib=15)
C = card("GPU-c", index=2, gib=None)


def results(
    manifest: dict[str, Any],
    placement: Placement,
    *,
    options: Options | None = None,
    cards: Mapping[CardId, Card] | None = None,
) -> PodResults:
    known = cards or {one.id: one for one in (A, B, C)}
    chosen = options or Options()
    return pod_results(ask(manifest, options=chosen), placement, known, chosen, at_ns=AT_NS)
