"""What keeps a node from being managed, as far as the node itself can see it."""

from collections.abc import Mapping

from sublet.contract import keys
from sublet.model.reasons import Reason

_OF_DIALECTS = frozenset(
    {*keys.NATIVE_RESOURCES, keys.NVIDIA_GPU, keys.ALIYUN_GPU_MEM, keys.ALIYUN_GPU_COUNT}
)
# How the vendors' plugins name shared cards and slices, AMD's also whole cards.
_SAME_CARDS = (f"{keys.NVIDIA_GPU}.", "nvidia.com/mig-", "amd.com/")


def foreign_plugins(served: Mapping[str, int]) -> tuple[str, ...]:
    """Resources on this node for which another plugin hands out the cards that we hand out."""
    return tuple(
        sorted(
            name
            for name, devices in served.items()
            if devices and (name in _OF_DIALECTS or name.startswith(_SAME_CARDS))
        )
    )


def problems(of_source: tuple[str, ...], served: Mapping[str, int]) -> tuple[str, ...]:
    """The findings in a stable order; `of_source` are those of the card source, such as MigUnsupported."""
    found = {*of_source, *((Reason.FOREIGN_PLUGIN.value,) if foreign_plugins(served) else ())}
    return tuple(sorted(found))
