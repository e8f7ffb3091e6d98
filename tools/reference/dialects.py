"""Other systems' requests: what each is read as, what is refused, what is written back; made by the readers."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sublet_scheduler.core.shapes import Policies

from sublet.cli.claims import claims_of
from sublet.cli.offline import OfflineFleet
from sublet.cli.place import place_one
from sublet.contract import dialects, keys
from sublet.contract.dialects import elastic, hami, kai, qgpu, vcuda, volcano
from sublet.contract.dialects.interface import HAMI_NAME, IN_A_CLUSTER, NATIVE_NAME, Dialect, Options
from sublet.contract.inventory import InventoryNode, read_inventory
from sublet.contract.patching import DEFAULT_SCHEDULER
from sublet.model.card import Card
from sublet.model.claim import Policy
from tools.reference.page import code, codes, page, table

OPTIONS = Options(enabled=tuple(dialects.BY_NAME))
WISHES = {
    HAMI_NAME: {
        **hami.CARD_LISTS,
        hami.NODE_POLICY: keys.NODE_POLICY,
        hami.CARD_POLICY: f"{keys.CARD_POLICY}, {keys.LINK}",
        hami.NUMA_BIND: keys.NUMA,
    },
    "volcano": {**volcano.CARD_LISTS, volcano.GROUP_POLICY: keys.NODE_POLICY},
}


@dataclass(frozen=True, slots=True)
class Request:
    """Limits of one container, and annotations of its pod."""

    limits: Mapping[str, object]
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def pod(self) -> dict[str, Any]:
        limits = {key: str(amount) for key, amount in self.limits.items()}
        container = {"name": "app", "resources": {"limits": limits}}
        metadata = {"name": "pod", "namespace": "default", "annotations": dict(self.annotations)}
        return {"metadata": metadata, "spec": {"containers": [container]}}

    def __str__(self) -> str:
        annotations = (f'annotation {key}: "{value}"' for key, value in self.annotations.items())
        return codes((*annotations, *(f"{key}: {amount}" for key, amount in self.limits.items())))


_CORE, _MEMORY, _GREEDY = keys.QGPU_CORE, keys.QGPU_MEMORY, keys.QGPU_GREEDY
_OFFLINE, _ONLINE = {qgpu.APP_CLASS: qgpu.OFFLINE}, {qgpu.APP_CLASS: qgpu.ONLINE}
_V = volcano.VIRTUAL

READ: Mapping[str, tuple[Request, ...]] = {
    "nvidia": (
        Request({keys.NVIDIA_GPU: 2}),
        Request({keys.NVIDIA_GPU_SHARED: 1}),
        Request({f"{keys.NVIDIA_MIG_PREFIX}3g.20gb": 1}),
    ),
    "amd": (Request({keys.AMD_GPU: 1}),),
    "gpushare": (Request({keys.ALIYUN_GPU_MEM: 3}), Request({keys.ALIYUN_GPU_COUNT: 2})),
    "volcano": (
        Request({keys.VOLCANO_GPU_MEMORY: 20000}),
        Request({keys.VOLCANO_GPU_NUMBER: 1}),
        Request({_V.count: 2, _V.memory: 2000, _V.cores: 30}),
        Request({_V.count: 1, _V.percent: 20}),
        Request({_V.count: 1}),
    ),
    "qgpu": (
        Request({_CORE: 30, _MEMORY: 5}),
        Request({_CORE: 200}),
        Request({_CORE: 160, _MEMORY: 20}),
        Request({_CORE: 121, _MEMORY: 31}),
        Request({_GREEDY: 10, _MEMORY: 5}, _OFFLINE),
        Request({_MEMORY: 5}, _ONLINE),
    ),
    "elastic-gpu": (
        Request({elastic.CORE[0]: 30, elastic.MEMORY[0]: 2000}),
        Request({elastic.MEMORY[1]: 256}),
        Request({elastic.CORE[0]: 200}),
    ),
    "vcuda": (
        Request({keys.VCUDA_CORE: 50, keys.VCUDA_MEMORY: 30}, {vcuda.CORE_LIMIT: "80"}),
        Request({keys.VCUDA_CORE: 200, keys.VCUDA_MEMORY: 60}),
    ),
    "hami": (
        Request({keys.NVIDIA_GPU: 2, keys.HAMI_MEMORY: 3000, keys.HAMI_CORES: 30}),
        Request({keys.HAMI_MEMORY: 3000, keys.HAMI_PRIORITY: 1}),
        Request({keys.NVIDIA_GPU: 1, keys.HAMI_PERCENT: 40}),
        Request({keys.NVIDIA_GPU: 1, keys.HAMI_PERCENT: 0}),
        Request({keys.NVIDIA_GPU: 1, keys.HAMI_CORES: 100}),
    ),
    "kai": (
        Request({}, {kai.FRACTION: "0.125"}),
        Request({}, {kai.FRACTION: "0.5", kai.DEVICES: "2"}),
        Request({}, {kai.MEMORY: "2000", kai.CONTAINER: "app"}),
    ),
}
"""What is read; the first one of each is placed as well."""

REFUSED: Mapping[str, tuple[Request, ...]] = {
    "nvidia": (
        Request({keys.NVIDIA_GPU: "0.5"}),
        Request({keys.NVIDIA_GPU: 1, keys.NVIDIA_GPU_SHARED: 1}),
    ),
    "amd": (Request({keys.AMD_GPU: 0}),),
    "gpushare": (
        Request({keys.ALIYUN_GPU_MEM: "10G"}),
        Request({keys.ALIYUN_GPU_MEM: 1, keys.ALIYUN_GPU_COUNT: 1}),
    ),
    "volcano": (
        Request({keys.VOLCANO_GPU_MEMORY: "1Gi"}),
        Request({keys.VOLCANO_GPU_MEMORY: 1, keys.VOLCANO_GPU_NUMBER: 1}),
    ),
    "qgpu": (
        Request({_CORE: 7, _MEMORY: 1}),
        Request({_CORE: 250, _MEMORY: 60}),
        Request({_CORE: 121, _MEMORY: 1}),
        Request({_CORE: 30}),
        Request({_CORE: 30, _MEMORY: 5}, _OFFLINE),
    ),
    "elastic-gpu": (
        Request({elastic.CORE[0]: 150}),
        Request({elastic.CORE[0]: 10, elastic.CORE[1]: 10}),
    ),
    "vcuda": (
        Request({keys.VCUDA_CORE: 50}),
        Request({keys.VCUDA_MEMORY: 4}),
        Request({keys.VCUDA_CORE: 150, keys.VCUDA_MEMORY: 4}),
    ),
    "hami": (
        Request({keys.HAMI_MEMORY: "16Gi"}),
        Request({keys.NVIDIA_GPU: 1, keys.HAMI_PERCENT: 101}),
        Request({keys.HAMI_MEMORY: 1}, {hami.CARD_POLICY: "mutex"}),
    ),
    "kai": (
        Request({}, {kai.FRACTION: "1"}),
        Request({}, {kai.FRACTION: "0.5", kai.MEMORY: "1"}),
        Request({keys.NVIDIA_GPU: 1}, {kai.FRACTION: "0.5"}),
    ),
}

INVENTORY = {
    "nodes": [
        {
            "name": "n1",
            "cards": [
                {"uuid": "GPU-0", "memoryMiB": 16276},
                {"uuid": "GPU-1", "memoryMiB": 16276},
                {"uuid": "AMD-2", "memoryMiB": 65520, "vendor": "amd"},
                {
                    "uuid": "GPU-3",
                    "memoryMiB": 40960,
                    "partitions": [{"uuid": "MIG-0", "profile": "3g.20gb", "memoryMiB": 20096}],
                },
            ],
        }
    ]
}
NODE = "two cards of 16,276 MiB with the indices 0 and 1, one of AMD, and one with a partition `3g.20gb`"


def render() -> str:
    [node] = read_inventory(INVENTORY)
    blocks: list[str] = []
    for dialect in dialects.ALL:
        if dialect.name != NATIVE_NAME:
            blocks += _section(dialect, node)
    return page(
        "Dialects",
        "What other systems' pods are read as, and what they find. Every line is made by the code that reads and "
        "writes them. All amounts of a claim are per card. Results are those of the first request, on a node with "
        f"{NODE}; times are 0 there.",
        f"On by default: {codes(IN_A_CLUSTER)}; `SUBLET_DIALECTS` names those that are on, the offline commands read "
        "all of them. A container speaks one dialect, the containers of a pod may speak several. Amounts are plain "
        "whole numbers; zero, fractions and suffixes are refused but where a dialect gives them a meaning below.",
        "`NVIDIA_VISIBLE_DEVICES` holds UUIDs in every dialect: they mean the same card after a reboot, indices "
        "may not. Indices stand in the annotations and variables of the systems that count so.",
        *blocks,
    )


def _section(dialect: Dialect, node: InventoryNode) -> Iterator[str]:
    name = dialect.name
    yield f"## {name}"
    module = sys.modules[type(dialect).__module__]
    yield " ".join((module.__doc__ or "").replace("``", "`").split())
    yield table(("request", "claim"), ((str(one), _claim(one)) for one in READ[name]))
    if dialect.scheduler:
        yield (
            f"`schedulerName: {dialect.scheduler}` becomes `{DEFAULT_SCHEDULER}`, "
            "unless `SUBLET_KEEP_SCHEDULER_NAME` is `true`."
        )
    if name in WISHES:
        rows = ((code(key), codes(ours.split(", "))) for key, ours in sorted(WISHES[name].items()))
        yield table(("annotation of the pod", "read as"), rows)
    yield table(
        ("refused", "code", "message", "way out"),
        ((str(one), *_refusal(one)) for one in REFUSED[name]),
    )
    yield table(("result", "name", "value"), _results(READ[name][0], node))
    for one in dialect.label_variables:
        on, told = f"{one.label}={one.label_value}", f"{one.name}={one.value}"
        yield f"On nodes with the label {code(on)} the containers of shares find {code(told)} as well."
    yield table(("total of the node", "value"), ((code(key), str(n)) for key, n in _totals(dialect, node)))


def _claim(request: Request) -> str:
    found = claims_of(request.pod, OPTIONS)
    claim = found["containers"]["app"]
    cards = f"{claim['cards']} {'card' if claim['cards'] == 1 else 'cards'}"
    if claim["profile"]:
        return f"{claim['cards']} partition `{claim['profile']}`, whole"
    if claim["exclusive"]:
        return f"{cards}, whole"
    percent = claim["memoryPercent"]
    memory = f"{claim['memoryMiB']} MiB" if percent is None else f"{percent:g} % of the memory"
    parts = [cards, "no memory promised" if claim["memoryMiB"] is percent is None else memory]
    parts.append(
        f"{claim['corePercent']} % of the compute" if claim["corePercent"] else "no compute promised"
    )
    if claim.get("grows"):
        parts.append("over more cards, in equal shares, where one has too little")
    return ", ".join(parts)


def _refusal(request: Request) -> tuple[str, str, str]:
    found = claims_of(request.pod, OPTIONS)["refused"]
    return (code(found["code"]), found["message"], found["hint"])


def _results(request: Request, node: InventoryNode) -> Iterator[tuple[str, str, str]]:
    fleet = OfflineFleet([node], OPTIONS, Policies(Policy.BINPACK, Policy.BINPACK))
    placed = place_one(request.pod, fleet, OPTIONS)
    found = (
        ("annotation", placed["annotations"]),
        ("label", placed["labels"]),
        ("variable", placed["env"]["app"]),
    )
    for kind, entries in found:
        for key, value in entries.items():
            if key not in (keys.DECISION, keys.CLAIMED_LABEL):
                yield (kind, code(key), code(value))


def _totals(dialect: Dialect, node: InventoryNode) -> list[tuple[str, int]]:
    cards: list[Card] = [one for card in node.cards for one in card.offered]
    totals = dialect.totals(cards, shares_per_card=node.shares_per_card, options=OPTIONS)
    return sorted(totals.items())
