"""Other systems' spellings of a claim, one module a dialect, registered in one list.

A dialect turns the resources of one container, or annotations of its pod, into a Claim, and a finished
placement into the annotations, labels and environment which that system's tools and images read.
"""

from functools import lru_cache

from sublet.contract.dialects.amd import AMD
from sublet.contract.dialects.elastic import ELASTIC
from sublet.contract.dialects.gpushare import GPUSHARE
from sublet.contract.dialects.hami import HAMI
from sublet.contract.dialects.interface import Dialect, Options
from sublet.contract.dialects.kai import KAI
from sublet.contract.dialects.native import NATIVE
from sublet.contract.dialects.nvidia import NVIDIA
from sublet.contract.dialects.qgpu import QGPU
from sublet.contract.dialects.vcuda import VCUDA
from sublet.contract.dialects.volcano import VOLCANO

ALL: tuple[Dialect, ...] = (
    NATIVE,
    NVIDIA,
    AMD,
    GPUSHARE,
    VOLCANO,
    QGPU,
    ELASTIC,
    VCUDA,
    HAMI,
    KAI,
)
"""HAMi after NVIDIA: while it is on, nodes show its count of ``nvidia.com/gpu``, which is of shares."""
BY_NAME = {dialect.name: dialect for dialect in ALL}


def enabled(options: Options) -> tuple[Dialect, ...]:
    return tuple(one for one in ALL if one.name in options.enabled)


@lru_cache(maxsize=4096)
def serves(key: str, options: Options) -> bool:
    """Whether `key` is a resource of a dialect that is on."""
    return any(one.names(key) for one in enabled(options))
