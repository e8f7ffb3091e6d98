"""Which of the given pods are members of gangs, so that an offline command decides on a gang at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sublet.contract.gangs import read_gang
from sublet.contract.podspec import Json
from sublet.model.claim import Gang, PodAsk
from sublet.model.reasons import Refusal

GangId = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True, kw_only=True)
class Gathered:
    """A gang, the positions of its members among the pods, and how many pods without a claim it has."""

    gang: Gang
    members: list[int] = field(default_factory=list)
    others: int = 0


def gather(pods: Sequence[Json], asks: Sequence[PodAsk | Refusal | None]) -> Mapping[GangId, Gathered]:
    """Pods that are refused, or that name their node and so cannot wait, would never be there."""
    found: dict[GangId, Gathered] = {}
    for at, (pod, ask) in enumerate(zip(pods, asks, strict=True)):
        if isinstance(ask, Refusal) or (ask and ask.node_name):
            continue
        gang = ask.gang if ask else read_gang(pod)
        if not isinstance(gang, Gang) or not (ask or gang.derived):
            continue
        gathered = found.setdefault((pod["metadata"]["namespace"], gang.name), Gathered(gang=gang))
        if ask:
            gathered.gang = gang
            gathered.members.append(at)
        else:
            gathered.others += 1
    return found
