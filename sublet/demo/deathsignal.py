"""Children that end with the process that started them, however that ends."""

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded before any fork: a child between fork and exec must not allocate


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


DIE_WITH_PARENT: Callable[[], None] | None = _die_with_parent if sys.platform == "linux" else None
"""For `preexec_fn`; other systems than Linux have no such thing."""
