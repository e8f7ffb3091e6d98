"""Names that users, the kubelet and other controllers see: resources, annotations, labels, the gate.

They are an interface: never renamed, each written in this file alone.
"""

DOMAIN = "sublet.dev"
PREFIX = f"{DOMAIN}/"
CARDS_DOMAIN = f"cards.{DOMAIN}"
CARDS_PREFIX = f"{CARDS_DOMAIN}/"
SUBDOMAINS = f".{DOMAIN}/"
"""In the names of all that the scheduler writes for one container: below every subdomain of ours."""

# resources
GPU = f"{PREFIX}gpu"
GPU_MEMORY = f"{PREFIX}gpu-memory"
GPU_MEMORY_PERCENT = f"{PREFIX}gpu-memory-percent"
GPU_CORE = f"{PREFIX}gpu-core"
SLOT = f"{PREFIX}slot"
NATIVE_RESOURCES = (GPU, GPU_MEMORY, GPU_MEMORY_PERCENT, GPU_CORE)

NVIDIA_GPU = "nvidia.com/gpu"
NVIDIA_GPU_SHARED = "nvidia.com/gpu.shared"
NVIDIA_MIG_PREFIX = "nvidia.com/mig-"
AMD_GPU = "amd.com/gpu"
ALIYUN_GPU_MEM = "aliyun.com/gpu-mem"
ALIYUN_GPU_COUNT = "aliyun.com/gpu-count"
VOLCANO_GPU_MEMORY = "volcano.sh/gpu-memory"
VOLCANO_GPU_NUMBER = "volcano.sh/gpu-number"
VOLCANO_VGPU_NUMBER = "volcano.sh/vgpu-number"
VOLCANO_VGPU_MEMORY = "volcano.sh/vgpu-memory"
VOLCANO_VGPU_PERCENT = "volcano.sh/vgpu-memory-percentage"
VOLCANO_VGPU_CORES = "volcano.sh/vgpu-cores"
QGPU_CORE = "tke.cloud.tencent.com/qgpu-core"
QGPU_MEMORY = "tke.cloud.tencent.com/qgpu-memory"
QGPU_GREEDY = "tke.cloud.tencent.com/qgpu-core-greedy"
ELASTIC_DOMAINS = ("elasticgpu.io", "elasticgpu.com")
VCUDA_CORE = "tencent.com/vcuda-core"
VCUDA_MEMORY = "tencent.com/vcuda-memory"
HAMI_MEMORY = "nvidia.com/gpumem"
HAMI_PERCENT = "nvidia.com/gpumem-percentage"
HAMI_CORES = "nvidia.com/gpucores"
HAMI_PRIORITY = "nvidia.com/priority"

GPU_DRIVERS = frozenset({"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"})
"""DRA drivers that give away cards, as ResourceSlices name them."""

# annotations that users write
CARD_MODELS = f"{PREFIX}card-models"
EXCLUDE_CARD_MODELS = f"{PREFIX}exclude-card-models"
CARD_UUIDS = f"{PREFIX}card-uuids"
EXCLUDE_CARD_UUIDS = f"{PREFIX}exclude-card-uuids"
NODE_POLICY = f"{PREFIX}node-policy"
CARD_POLICY = f"{PREFIX}card-policy"
LINK = f"{PREFIX}link"
NUMA = f"{PREFIX}numa"
ISOLATION = f"{PREFIX}isolation"
SERVICE_CLASS = f"{PREFIX}service-class"
SAME_CARD = f"{PREFIX}same-card"
APART = f"{PREFIX}apart"
GANG = f"{PREFIX}gang"
GANG_SIZE = f"{PREFIX}gang-size"
USER_ANNOTATIONS = frozenset(
    {
        CARD_MODELS,
        EXCLUDE_CARD_MODELS,
        CARD_UUIDS,
        EXCLUDE_CARD_UUIDS,
        NODE_POLICY,
        CARD_POLICY,
        LINK,
        NUMA,
        ISOLATION,
        SERVICE_CLASS,
        SAME_CARD,
        APART,
        GANG,
        GANG_SIZE,
    }
)

# written by the scheduler only
DECISION = f"{PREFIX}decision"
WAITING = f"{PREFIX}waiting"
GATE = f"{PREFIX}placement"
CLAIMED_LABEL = f"{PREFIX}claimed"
RESERVED_ANNOTATIONS = frozenset({DECISION, WAITING})

# namespaces and nodes
MANAGE_LABEL = f"{PREFIX}manage"
LIMIT_PREFIX = "limits."
LIMIT_CARDS = f"{LIMIT_PREFIX}{GPU}"
LIMIT_MEMORY = f"{LIMIT_PREFIX}{GPU_MEMORY}"
LIMIT_CORE = f"{LIMIT_PREFIX}{GPU_CORE}"
"""In a ResourceQuota's spec.hard: what the pods of its namespace may hold, over all cards of their claims."""
CARDS_LABEL = f"{PREFIX}cards"
GPU_MEM_UNIT = f"{PREFIX}gpu-mem-unit"
"""On a Node: in which unit its total of aliyun.com/gpu-mem counts, so that no tool must guess."""
HEALTH_ANNOTATION = f"{PREFIX}cards-health"
MARKS = f"{PREFIX}marks"
"""On a Node: which keys of other systems' domains we wrote there."""
VOLCANO_UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
GFD_COUNT = "nvidia.com/gpu.count"
GFD_PRODUCT = "nvidia.com/gpu.product"
GFD_MEMORY = "nvidia.com/gpu.memory"
GFD_REPLICAS = "nvidia.com/gpu.replicas"
GFD_MIG_STRATEGY = "nvidia.com/mig.strategy"
MARKED_PREFIXES = (
    VOLCANO_UNHEALTHY,
    GFD_COUNT,
    GFD_PRODUCT,
    GFD_MEMORY,
    GFD_REPLICAS,
    GFD_MIG_STRATEGY,
    NVIDIA_MIG_PREFIX,
)
"""Beginnings of those keys."""
RELEASE_REQUESTED = f"{PREFIX}release-requested"
"""On a Node: the word of the person whom it names that the machine is off."""
NODE_CONDITION = "SubletCardsHealthy"

# pods of the scheduler's own, which run nothing: names of a namespace and of the PriorityClass in it
BALLAST_NAMESPACE = "sublet-ballast"
BALLAST_CLASS = "sublet-ballast"
PLACEHOLDER_NAMESPACE = "sublet-placeholders"
PLACEHOLDER_CLASS = "sublet-placeholder"
COMPONENT_LABEL = "app.kubernetes.io/component"
BALLAST = "ballast"
PLACEHOLDER = "placeholder"
STANDS_FOR = f"{PREFIX}stands-for"
"""On a placeholder: the waiting pods it stands for, each as namespace/name/UID."""

# what a container sees
CDI_KIND = f"{PREFIX}slot"
ENV_CARDS = "SUBLET_CARDS"
ENV_NVIDIA_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def cards_annotation(container: str) -> str:
    """The annotation that lists the card UUIDs of one container."""
    return f"{CARDS_PREFIX}{container}"


def variable_annotation(variable: str, container: str) -> str:
    """The annotation that holds what the decision makes of a variable of one container."""
    return f"{variable.lower().replace('_', '-')}.env{SUBDOMAINS}{container}"


def is_ours(key: str) -> bool:
    """Whether `key` lies in our domain or below it."""
    return key.startswith(PREFIX) or SUBDOMAINS in key


def is_reserved(key: str) -> bool:
    """Whether only the scheduler may write the annotation `key`."""
    return key in RESERVED_ANNOTATIONS or SUBDOMAINS in key
