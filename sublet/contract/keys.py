"""Names that users, the kubelet and other controllers see: resources, annotations, labels, the gate.

They are an interface: never renamed, each written in this file alone.
"""

DOMAIN = "sublet.dev"
PREFIX = f"{DOMAIN}/"
CARDS_DOMAIN = f"cards.{DOMAIN}"
CARDS_PREFIX = f"{CARDS_DOMAIN}/"

# resources
GPU = f"{PREFIX}gpu"
GPU_MEMORY = f"{PREFIX}gpu-memory"
GPU_MEMORY_PERCENT = f"{PREFIX}gpu-memory-percent"
GPU_CORE = f"{PREFIX}gpu-core"
SLOT = f"{PREFIX}slot"
NATIVE_RESOURCES = (GPU, GPU_MEMORY, GPU_MEMORY_PERCENT, GPU_CORE)

NVIDIA_GPU = "nvidia.com/gpu"
ALIYUN_GPU_MEM = "aliyun.com/gpu-mem"
ALIYUN_GPU_COUNT = "aliyun.com/gpu-count"

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
CARDS_LABEL = f"{PREFIX}cards"
HEALTH_ANNOTATION = f"{PREFIX}cards-health"
RELEASE_REQUESTED = f"{PREFIX}release-requested"
"""On a Node: the word of the person whom it names that the machine is off."""
NODE_CONDITION = "SubletCardsHealthy"

# what a container sees
CDI_KIND = f"{PREFIX}slot"
ENV_CARDS = "SUBLET_CARDS"
ENV_NVIDIA_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def cards_annotation(container: str) -> str:
    """The annotation that lists the card UUIDs of one container."""
    return f"{CARDS_PREFIX}{container}"


def is_ours(key: str) -> bool:
    """Whether `key` lies in one of our two domains."""
    return key.startswith((PREFIX, CARDS_PREFIX))


def is_reserved(key: str) -> bool:
    """Whether only the scheduler may write the annotation `key`."""
    return key in RESERVED_ANNOTATIONS or key.startswith(CARDS_PREFIX)
