"""Names on pods, namespaces and nodes."""

from collections.abc import Mapping

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import NATIVE_NAME
from sublet.contract.wishes import NUMA_VALUES, read_wishes
from sublet.model.claim import Apart, LinkWish, Policy
from sublet.model.reasons import Refusal, RefusalCode
from tools.reference.page import code, codes, page, table

RESOURCES = {
    keys.GPU: (
        "cards",
        "number of distinct cards; alone: whole, exclusive cards; with memory or core: a share of each",
    ),
    keys.GPU_MEMORY: ("MiB per card", "a share of the memory; cards default to 1"),
    keys.GPU_MEMORY_PERCENT: (
        "1 to 100, per card",
        "as above, of the card that is chosen, rounded down to whole MiB; not together with "
        + keys.GPU_MEMORY,
    ),
    keys.GPU_CORE: (
        "1 to 100 %, per card",
        "a share of the compute; alone it also takes the same percentage of the memory",
    ),
    keys.SLOT: (
        "1 per claiming container",
        "added by the webhook, the only resource the kubelet allocates; never written by users",
    ),
}
LISTS = ("a comma list",)
WISHES: Mapping[str, tuple[tuple[str, ...], str]] = {
    keys.CARD_MODELS: (LISTS, "only cards whose model contains one of these, in any case of letters"),
    keys.EXCLUDE_CARD_MODELS: (LISTS, "no card whose model contains one of these"),
    keys.CARD_UUIDS: (LISTS, "only these cards"),
    keys.EXCLUDE_CARD_UUIDS: (LISTS, "none of these cards"),
    keys.NODE_POLICY: (
        tuple(Policy),
        "fill nodes one after another, spread, or leave what later pods can use",
    ),
    keys.CARD_POLICY: (
        tuple(Policy),
        "fill cards one after another, spread, or leave what later pods can use",
    ),
    keys.LINK: (
        tuple(LinkWish),
        "for several cards: those that are joined best (nvlink, then one switch, then one NUMA node), or only cards of "
        "which each pair is joined by nvlink",
    ),
    keys.NUMA: (NUMA_VALUES, "all cards of the pod on one NUMA node of the machine"),
    keys.ISOLATION: (("none", "an adapter's name"), "how shares are kept apart"),
    keys.SERVICE_CLASS: (
        ("online", "offline"),
        "online pods are kept apart from offline ones, which fill what is left and give way",
    ),
    keys.SAME_CARD: (("a name",), "all pods of the namespace with the same name here share one card"),
    keys.APART: (
        tuple(Apart),
        "replicas of one owner: on different cards, or on different nodes, as long as there is room elsewhere",
    ),
    keys.GANG: (("a name",), "place all pods of this name together or none"),
    keys.GANG_SIZE: (("1..10000",), "how many pods with a claim the gang has"),
}
WRITTEN = {
    keys.DECISION: (
        "annotation",
        "who got which cards: version, id, pod UID, node, container -> grants, and a MAC",
    ),
    f"{keys.CARDS_PREFIX}<container>": ("annotation", "comma list of the UUIDs of that container's cards"),
    f"<variable>.env{keys.SUBDOMAINS}<container>": (
        "annotation",
        "what the decision makes of a variable of that container's dialect",
    ),
    keys.WAITING: ("annotation", "why the pod is held"),
    keys.GATE: ("scheduling gate", "holds the pod until its grants are in the ledger"),
    f"{keys.CLAIMED_LABEL}=true": ("label", "the pod claims something of ours"),
}
LIMIT = "key of a ResourceQuota, by a person"
ELSEWHERE = {
    f"{keys.MANAGE_LABEL}=true": ("label of a Namespace, by a person", "foreign names count here"),
    keys.LIMIT_CARDS: (LIMIT, "cards that the pods of the namespace may hold together"),
    keys.LIMIT_MEMORY: (LIMIT, "MiB of card memory, over all cards of all claims"),
    keys.LIMIT_CORE: (LIMIT, "percent of card compute, over all cards of all claims"),
    keys.CARDS_LABEL: ("label of a Node, by the scheduler", "number of cards"),
    keys.GPU_MEM_UNIT: (
        "annotation of a Node, by the scheduler",
        f"the unit of its total `{keys.ALIYUN_GPU_MEM}`: GiB or MiB",
    ),
    keys.HEALTH_ANNOTATION: (
        "annotation of a Node, by healthd",
        "its cards that are not healthy, with reasons and holds, and the number of the last verdict of those that are well again",
    ),
    keys.NODE_CONDITION: (
        "condition of a Node, by healthd",
        "`False` while a card is out of scheduling for its health",
    ),
    keys.MARKS: (
        "annotation of a Node, by healthd",
        "which keys of other systems it wrote there, so that it takes away no other's",
    ),
    keys.VOLCANO_UNHEALTHY: (
        "annotation of a Node, by healthd with the component `health-marks`",
        "indices of cards that take no new shares",
    ),
    **{
        key: ("label of a Node, by healthd with the component `card-labels`", text)
        for key, text in {
            keys.GFD_COUNT: "number of NVIDIA's cards",
            keys.GFD_PRODUCT: "the model of the first one, spaces as dashes",
            keys.GFD_MEMORY: "MiB of the smallest one",
            keys.GFD_REPLICAS: "shares that one card takes",
            keys.GFD_MIG_STRATEGY: "`mixed` where there are partitions",
            f"{keys.NVIDIA_MIG_PREFIX}<profile>.count": "number of such partitions",
            f"{keys.NVIDIA_MIG_PREFIX}<profile>.memory": "MiB of one of them",
        }.items()
    },
    keys.RELEASE_REQUESTED: (
        "annotation of a Node, by `sublet release`",
        "who says that the machine is off, and when",
    ),
    keys.STANDS_FOR: (
        "annotation of a placeholder, by the scheduler with the component `placeholders`",
        "the waiting pods it stands for, each as namespace/name/UID",
    ),
}
ENVIRONMENT = {
    keys.ENV_NVIDIA_VISIBLE: "UUIDs of the container's NVIDIA cards; `void` where NVIDIA's runtime would otherwise inject twice",
    keys.ENV_CARDS: "UUIDs of the container's NVIDIA cards where `NVIDIA_VISIBLE_DEVICES` is `void`",
}


def render() -> str:
    return page(
        "Resources, annotations, labels",
        "These names are an interface: later versions add some, none is renamed.",
        "## Resources",
        "Read from `limits` only, as plain whole numbers: zero, negative and fractional values and suffixes such as "
        "`16Gi`, `5k` or `3000m` are refused.",
        table(("resource", "unit", "means"), ((code(name), *about) for name, about in RESOURCES.items())),
        "## Other systems' resources",
        f'Read in namespaces labelled `{keys.MANAGE_LABEL}: "true"`; `SUBLET_DIALECTS` says which dialects are on.',
        "What each of them is read as: [dialects](dialects.md).",
        table(
            ("dialect", "resources", "claiming annotations", "annotations and labels of its results"),
            _dialects(),
        ),
        "## Annotations that users write, on pods",
        "An unknown one in our domain is refused by name. One whose feature is not built yet is refused with "
        f"`{RefusalCode.NOT_SUPPORTED_YET}`: none is read and then ignored.",
        table(("annotation", "values", "refused for now", "means"), _wishes()),
        "## On pods, written by the scheduler only",
        table(("name", "kind", "means"), ((code(name), *about) for name, about in WRITTEN.items())),
        "## On namespaces and nodes",
        table(("name", "kind", "means"), ((code(name), *about) for name, about in ELSEWHERE.items())),
        "## What a container sees",
        table(("variable", "holds"), ((code(name), text) for name, text in ENVIRONMENT.items())),
        f"The devices come through CDI, kind `{keys.CDI_KIND}`.",
    )


def _dialects() -> list[tuple[str, ...]]:
    return [
        (
            code(one.name),
            codes((*sorted(one.resources), *(f"{prefix}*" for prefix in one.resource_prefixes))) or "none",
            codes(sorted(one.claiming_annotations)) or "none",
            codes(
                (
                    *sorted(one.result_keys | set(one.result_labels)),
                    *(f"{prefix}*" for prefix in one.result_prefixes),
                )
            )
            or "none",
        )
        for one in dialects.ALL
        if one.name != NATIVE_NAME
    ]


def _wishes() -> list[tuple[str, ...]]:
    return [
        (code(key), _values(values), _refused(key, values), text) for key, (values, text) in WISHES.items()
    ]


def _values(values: tuple[str, ...]) -> str:
    return ", ".join(value if " " in value else code(value) for value in values)


def _refused(key: str, values: tuple[str, ...]) -> str:
    """What the code that reads the annotation says to each of its values."""
    refused = [value for value in values if _is_refused(key, value)]
    return "all" if refused == list(values) else _values(tuple(refused))


def _is_refused(key: str, value: str) -> bool:
    answer = read_wishes({"metadata": {"annotations": {key: value}}}, [1], ())
    return isinstance(answer, Refusal) and answer.code is RefusalCode.NOT_SUPPORTED_YET
