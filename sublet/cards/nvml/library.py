"""Finds and opens NVIDIA's library, and says what its error codes mean for a card, a node or nobody."""

import ctypes
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pynvml

from sublet.cards.memory import Outcome

SONAME = "libnvidia-ml.so.1"
FOLDERS = ("usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib", "lib64")


class Meaning(Enum):
    CARD = auto()  # this card is in trouble
    DRIVER_GONE = auto()  # the whole node, until a driver is there
    RESTART = auto()  # the library in this process fits no longer to the driver
    ABSENT = auto()  # the card or driver does not have the feature
    UNCLEAR = auto()


MEANINGS: dict[int, Meaning] = {
    pynvml.NVML_ERROR_GPU_IS_LOST: Meaning.CARD,
    pynvml.NVML_ERROR_RESET_REQUIRED: Meaning.CARD,
    pynvml.NVML_ERROR_CORRUPTED_INFOROM: Meaning.CARD,
    pynvml.NVML_ERROR_OPERATING_SYSTEM: Meaning.CARD,
    pynvml.NVML_ERROR_UNINITIALIZED: Meaning.DRIVER_GONE,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Meaning.DRIVER_GONE,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Meaning.DRIVER_GONE,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Meaning.RESTART,
    pynvml.NVML_ERROR_NOT_SUPPORTED: Meaning.ABSENT,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Meaning.ABSENT,
    pynvml.NVML_ERROR_NO_PERMISSION: Meaning.ABSENT,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Meaning.ABSENT,
    pynvml.NVML_ERROR_NOT_FOUND: Meaning.ABSENT,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Meaning.ABSENT,
    pynvml.NVML_ERROR_IN_USE: Meaning.ABSENT,
}

OUTCOMES: dict[int, Outcome] = {
    pynvml.NVML_ERROR_GPU_IS_LOST: Outcome.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Outcome.RESET_REQUIRED,
    pynvml.NVML_ERROR_CORRUPTED_INFOROM: Outcome.INFOROM,
}


def code(error: pynvml.NVMLError) -> int:
    return int(error.value)


def meaning(error: pynvml.NVMLError) -> Meaning:
    return MEANINGS.get(code(error), Meaning.UNCLEAR)


def outcome(error: pynvml.NVMLError) -> Outcome:
    """What `error` says of the card that a call was about."""
    return OUTCOMES.get(code(error), Outcome.ERROR)


def optional(call: Callable[..., Any], *arguments: object) -> Any:  # the binding has no types
    """What `call` answers, None where card or driver do not have it."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if meaning(error) is Meaning.ABSENT:
            return None
        raise


class Library:
    """Open or not; every method blocks and belongs in the worker's thread. Raises NVMLError."""

    def __init__(self, path: str, driver_root: Path) -> None:
        self._path = path
        self._driver_root = driver_root
        self._opened = False

    def count(self) -> tuple[str, int]:
        """The driver's version and the number of cards, after opening the library where it is not."""
        if not self._opened:
            self._open()
        return str(pynvml.nvmlSystemGetDriverVersion()), int(pynvml.nvmlDeviceGetCount())

    def _open(self) -> None:
        path = self._path or self._found() or SONAME
        try:
            loaded = ctypes.CDLL(path)
        except OSError:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND) from None
        # The binding looks for its library by name only; this is the way to give it one by path.
        pynvml.nvmlLib = loaded
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlInit()
        self._opened = True

    def _found(self) -> str:
        places = (self._driver_root / folder / SONAME for folder in FOLDERS)
        return next((str(place) for place in places if place.exists()), "")

    def close(self) -> None:
        """Shut down, so that the next `count` opens anew; a driver that is gone is no error."""
        if self._opened:
            self._opened = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                if meaning(error) is Meaning.CARD:
                    raise
