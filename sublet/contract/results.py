"""What a placed pod carries and its containers see: our keys and those of the claims' dialects."""

from collections.abc import Mapping
from dataclasses import dataclass

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import Options, Placed
from sublet.model.card import Card, Vendor
from sublet.model.claim import ContainerKind, PodAsk
from sublet.model.ids import CardId
from sublet.model.placement import CardGrant, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResults:
    """Annotations and labels of the pod; per container the variables, and from which annotation each
    can be read (env mode)."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    env: Mapping[str, Mapping[str, str]]
    env_from: Mapping[str, Mapping[str, str]]


def pod_results(
    ask: PodAsk, placement: Placement, cards: Mapping[CardId, Card], options: Options, *, at_ns: int
) -> PodResults:
    """Everything but the decision annotation itself. `cards` holds at least the granted cards;
    `at_ns` is Unix time in nanoseconds."""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {keys.CLAIMED_LABEL: "true"}
    env: dict[str, dict[str, str]] = {}
    env_from: dict[str, dict[str, str]] = {}
    placed = _placed(ask, placement)
    for one in placed:
        name = one.claim.container
        uuids = ",".join(grant.card for grant in one.grants)
        annotations[keys.cards_annotation(name)] = uuids
        env[name] = own_env(one.grants)
        env_from[name] = {keys.ENV_CARDS: keys.cards_annotation(name)}
        if all(cards[grant.card].vendor is Vendor.NVIDIA for grant in one.grants):
            env[name][keys.ENV_NVIDIA_VISIBLE] = uuids
            env_from[name][keys.ENV_NVIDIA_VISIBLE] = keys.cards_annotation(name)
    for dialect in dialects.ALL:
        theirs = [one for one in placed if one.claim.dialect == dialect.name]
        if theirs:
            results = dialect.results(theirs, cards, options, at_ns=at_ns)
            annotations |= results.annotations
            labels |= results.labels
            for name, variables in results.env.items():
                env[name] |= variables
            for name, sources in results.env_from.items():
                env_from[name] |= sources
    return PodResults(annotations=annotations, labels=labels, env=env, env_from=env_from)


def own_env(grants: tuple[CardGrant, ...]) -> dict[str, str]:
    """Our own variables of one container: its cards, and its share of each in their order."""
    return {
        keys.ENV_CARDS: ",".join(grant.card for grant in grants),
        keys.ENV_MEMORY_MIB: ",".join(
            "" if grant.memory_mib is None else str(grant.memory_mib) for grant in grants
        ),
        keys.ENV_CORE_PERCENT: ",".join(str(grant.core_percent) for grant in grants),
    }


def _placed(ask: PodAsk, placement: Placement) -> list[Placed]:
    found: list[Placed] = []
    position = 0
    for claim in ask.claims:
        found.append(Placed(claim=claim, grants=placement.containers[claim.container], position=position))
        position += claim.kind is not ContainerKind.INIT
    return found
