"""What a placed pod carries and its containers see: our keys and those of the claims' dialects."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import Decided, Options, Placed
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim, PodAsk
from sublet.model.ids import CardId
from sublet.model.placement import Placement

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResults:
    """Annotations and labels of the pod; per container the variables that its processes see."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    env: Mapping[str, Mapping[str, str]]


def pod_results(
    ask: PodAsk,
    placement: Placement,
    cards: Mapping[CardId, Card],
    options: Options,
    *,
    at_ns: int,
    labels: Mapping[str, str] = _NONE,
) -> PodResults:
    """Everything but the decision annotation itself. `cards` holds at least the granted cards, `labels`
    are those of the node; `at_ns` is Unix time in nanoseconds."""
    annotations: dict[str, str] = {}
    written: dict[str, str] = {keys.CLAIMED_LABEL: "true"}
    env: dict[str, dict[str, str]] = {}
    placed = _placed(ask, placement)
    for one in placed:
        name = one.claim.container
        uuids = ",".join(grant.card for grant in one.grants)
        annotations[keys.cards_annotation(name)] = uuids
        nvidia = all(cards[grant.card].vendor is Vendor.NVIDIA for grant in one.grants)
        env[name] = {keys.ENV_NVIDIA_VISIBLE: uuids} if nvidia else {}
    for dialect in dialects.ALL:
        theirs = [one for one in placed if one.claim.dialect == dialect.name]
        if theirs:
            decided = Decided(
                placed=theirs,
                node=placement.node,
                cards=cards,
                labels=labels,
                containers=ask.containers,
                options=options.on(labels),
                at_ns=at_ns,
            )
            results = dialect.results(decided)
            annotations |= results.annotations
            written |= results.labels
            for name, variables in results.env.items():
                env[name] |= variables
    return PodResults(annotations=annotations, labels=written, env=env)


def env_sources(claim: Claim) -> dict[str, str]:
    """Variable -> the annotation that its value is read from when the container starts. It does not
    depend on the decision, which may still change while a pod's variables no longer can."""
    own = (
        {}
        if claim.vendor == Vendor.AMD
        else {keys.ENV_NVIDIA_VISIBLE: keys.cards_annotation(claim.container)}
    )
    return own | dict(dialects.BY_NAME[claim.dialect].env_sources(claim))


def label_sources(claim: Claim, labels: Container[tuple[str, str]]) -> dict[str, str]:
    """As `env_sources`, of the variables that the container has on nodes with certain labels: those of
    them that stand in `labels`, which are the labels that some node has."""
    return {
        one.name: keys.variable_annotation(one.name, claim.container)
        for one in dialects.BY_NAME[claim.dialect].on_labels(claim)
        if (one.label, one.label_value) in labels
    }


def env_constants(claim: Claim) -> dict[str, str]:
    """Variables whose value the claim alone settles."""
    return dict(claim.constants)


def _placed(ask: PodAsk, placement: Placement) -> list[Placed]:
    return [Placed(claim=claim, grants=placement.containers[claim.container]) for claim in ask.claims]
