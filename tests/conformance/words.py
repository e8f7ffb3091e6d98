"""Reads and places the samples of other systems as the offline commands do."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from sublet_scheduler.core.shapes import Policies

from sublet.cli.claims import claims_of
from sublet.cli.manifest import read_pods
from sublet.cli.offline import OfflineFleet
from sublet.cli.place import place_one
from sublet.contract import dialects
from sublet.contract.dialects.interface import Options
from sublet.contract.inventory import read_inventory
from sublet.contract.podspec import Json
from sublet.model.claim import Policy

ALL = Options(enabled=tuple(dialects.BY_NAME))
ALL_MIB = Options(enabled=tuple(dialects.BY_NAME), gpu_mem_unit_mib=1)
CASES = Path(__file__).parent
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "from"

Claimed = tuple[int, int | Fraction | None, int, bool]
"""Cards, memory in MiB or (as a Fraction) in percent, percent of compute, exclusive."""

WHOLE: Claimed = (1, None, 100, True)


def whole(cards: int) -> Claimed:
    return (cards, None, 100, True)


def sample(name: str) -> list[Json]:
    """The pods of a sample, by its path below this folder."""
    return list(read_pods([str(CASES / f"{name}.yaml")]))


def example(name: str) -> list[Json]:
    """The pods of the sample of a system that the documentation shows."""
    return list(read_pods([str(EXAMPLES / f"{name}.yaml")]))


def claimed(pod: Json, options: Options = ALL) -> dict[str, Claimed]:
    """What each container of a pod claims; the pod must not be refused."""
    document = claims_of(pod, options)
    assert document["refused"] is None, document["refused"]
    return {name: _claimed(claim) for name, claim in document["containers"].items()}


def _claimed(claim: Mapping[str, Any]) -> Claimed:
    percent = claim["memoryPercent"]
    memory = claim["memoryMiB"] if percent is None else Fraction(str(percent))
    return (claim["cards"], memory, claim["corePercent"], claim["exclusive"])


def refusal(pod: Json, options: Options = ALL) -> dict[str, str]:
    found: dict[str, str] | None = claims_of(pod, options)["refused"]
    assert found is not None, pod
    return found


def card(uuid: str, memory_mib: int | None, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "memoryMiB": memory_mib, **more}


def cards(node: str, *memories_mib: int) -> dict[str, Any]:
    """A node and its cards, called <node>/0, <node>/1 and so on."""
    held = [card(f"{node}/{at}", memory_mib) for at, memory_mib in enumerate(memories_mib)]
    return {"name": node, "cards": held}


def used(node: dict[str, Any], **used_mib: int) -> dict[str, Any]:
    """The node with shares on its cards: used(node, _0=1024) is 1,024 MiB of its card 0."""
    grants = [
        {"pod": f"old/{node['name']}{at}", "card": f"{node['name']}/{at.strip('_')}", "memoryMiB": memory_mib}
        for at, memory_mib in used_mib.items()
    ]
    return {**node, "grants": grants}


class Cluster:
    """Nodes on which pods are placed one after another."""

    def __init__(self, *nodes: Mapping[str, Any], options: Options = ALL) -> None:
        inventory = read_inventory({"nodes": list(nodes)})
        self._options = options
        self._fleet = OfflineFleet(inventory, options, Policies(Policy.BINPACK, Policy.BINPACK))

    def place(self, pod: Json) -> dict[str, Any]:
        """The document of `sublet place`."""
        return place_one(pod, self._fleet, self._options)

    def seats(self, pods: Sequence[Json]) -> list[dict[str, list[str]]]:
        """Container -> its cards, for each of `pods`; nothing where a pod is not placed."""
        return [
            {name: [grant["card"] for grant in grants] for name, grants in one["containers"].items()}
            for one in (self.place(pod) for pod in pods)
        ]
