"""Children that end with the process that started them, however that ends."""

import os
import sys
from collections.abc import Sequence

_LAUNCH = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""1 is PR_SET_PDEATHSIG, which an exec leaves as it is; a parent that ended before sends nothing."""


def ending_with_us(command: Sequence[str]) -> tuple[str, ...]:
    """`command`, a program's path and its arguments, as the child that gets SIGTERM when this process ends.

    It keeps the process id. A function between fork and exec would do the same, but a fork of a process with
    threads, gRPC's above all, now and then aborts. Other systems than Linux have no such signal.
    """
    if sys.platform != "linux":
        return tuple(command)
    return (sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command)
