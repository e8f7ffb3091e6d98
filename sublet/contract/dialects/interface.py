"""What a dialect must be able to do, and what it is given for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sublet.contract.podspec import ContainerSpec
from sublet.model.card import Card
from sublet.model.claim import Claim
from sublet.model.ids import CardId
from sublet.model.placement import CardGrant
from sublet.model.reasons import Refusal

NATIVE_NAME = "sublet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a cluster sets about its dialects."""

    enabled: tuple[str, ...] = (NATIVE_NAME, "nvidia", "gpushare")
    gpu_mem_unit_mib: int = 1024
    """The unit of ``aliyun.com/gpu-mem`` in MiB: 1024 for GiB, 1 for MiB; never guessed."""
    stored: bool = False
    """Pods come from the API server, which writes an amount of 50000 as ``50k``; otherwise they come as a
    user wrote them, and a suffix is a mistake."""
    tolerate: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    """Taint keys which claiming pods tolerate by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A claiming container with its grants."""

    claim: Claim
    grants: tuple[CardGrant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a pod carries and its containers see in the words of one dialect."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Container -> variable -> value."""


class Dialect(Protocol):
    """One spelling. Implementations are stateless values."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> frozenset[str]:
        """Resource names that make a container a claiming one."""
        ...

    @property
    def result_keys(self) -> frozenset[str]:
        """Annotations that only the scheduler writes in this dialect's name."""
        ...

    def claim(self, container: ContainerSpec, options: Options) -> Claim | Refusal:
        """Read the claim of a container that names at least one of `resources` in its limits."""
        ...

    def results(
        self, placed: Sequence[Placed], cards: Mapping[CardId, Card], options: Options, *, at_ns: int
    ) -> Results:
        """The pod's results for its containers of this dialect; `at_ns` is Unix time in ns."""
        ...

    def env_sources(self, claim: Claim) -> Mapping[str, str]:
        """Variable -> annotation of the same value, for nodes where the runtime reads the pod's env."""
        ...

    def env_constants(self, claim: Claim, options: Options) -> Mapping[str, str]:
        """Variables whose value does not depend on the decision."""
        ...

    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:
        """Node totals for kube-scheduler; a placement that is right per card must fit them."""
        ...
