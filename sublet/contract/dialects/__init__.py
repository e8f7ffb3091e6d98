"""Other systems' spellings of a claim, one module a dialect, registered in one list.

A dialect turns the resources of one container into a Claim, and a finished placement into the
annotations, labels and environment which that system's tools and images read.
"""

from sublet.contract.dialects.gpushare import GPUSHARE
from sublet.contract.dialects.interface import Dialect
from sublet.contract.dialects.native import NATIVE
from sublet.contract.dialects.nvidia import NVIDIA

ALL: tuple[Dialect, ...] = (NATIVE, NVIDIA, GPUSHARE)
BY_NAME = {dialect.name: dialect for dialect in ALL}
