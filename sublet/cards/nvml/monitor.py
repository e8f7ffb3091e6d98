"""Waits for the driver's events in a thread of its own, in slices short enough to be told to stop.

A wait that fails at once is tried again ever more slowly, with a new event set; until it works again the
cards are unwatched, which `trouble` says. A thread that the driver does not let go is left behind.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pynvml
import structlog

from sublet.cards.nvml.library import Meaning, code, meaning, optional
from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId

SLICE_MS = 500
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
SILENT_S = 5.0
"""A thread that has not come back from the driver for so long is stuck; a slice takes a tenth of it."""
STUCK_THREADS = 2
STUCK = "stuck"
WANTED = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventMigConfigChange
NOT_SAID = 0xFFFFFFFF

Deliver = Callable[[Observation | None], None]
"""Takes an observation, or None for "look at the cards again"; called in the monitor's thread."""

log = structlog.get_logger()


class EventMonitor:
    """Listens to the cards that `watch` names; all methods are for the loop's thread and never block."""

    def __init__(self, deliver: Deliver, *, slice_ms: int = SLICE_MS, silent_s: float = SILENT_S) -> None:
        self._deliver = deliver
        self._slice_ms = slice_ms
        self._silent_s = silent_s
        self._listener: _Listener | None = None
        self._abandoned: list[_Listener] = []

    def watch(self, cards: Mapping[CardId, Any], *, hung: frozenset[CardId] = frozenset()) -> None:
        """Listen to these cards (by handle) from now on.

        A card in `hung` is still listened to where it already was, but never registered anew: that could
        hold the thread.
        """
        if self._listener is not None and self._listener.silent_s() > self._silent_s:
            self._abandon(self._listener)
        well = {card: handle for card, handle in cards.items() if card not in hung}
        if self._listener is None and well and self._may_start():
            self._listener = _Listener(self._deliver, well, self._slice_ms, STUCK if self._abandoned else "")
            self._listener.thread.start()
        elif self._listener is not None and self._listener.should_change(well, hung):
            self._listener.wanted = well

    def _may_start(self) -> bool:
        self._abandoned = [one for one in self._abandoned if one.thread.is_alive()]
        return len(self._abandoned) < STUCK_THREADS

    def _abandon(self, listener: "_Listener") -> None:
        log.warning("nvml.events_stuck", silent_s=round(listener.silent_s(), 1))
        listener.stop.set()
        self._abandoned.append(listener)
        self._listener = None

    def trouble(self) -> str:
        """Why no event can arrive now; empty while listening."""
        if self._listener is None:
            return STUCK if self._abandoned else ""
        return self._listener.trouble

    def begin_to_stop(self) -> threading.Thread | None:
        """Tell the thread to end; the thread, where there is one that will."""
        if self._listener is None:
            return None
        self._listener.stop.set()
        return self._listener.thread


class _Listener:
    """One thread with one event set at a time."""

    def __init__(self, deliver: Deliver, wanted: Mapping[CardId, Any], slice_ms: int, trouble: str) -> None:
        self._deliver = deliver
        self._slice_ms = slice_ms
        self.stop = threading.Event()
        self.trouble = trouble
        self.wanted = wanted
        self._unheard: frozenset[CardId] = frozenset()
        self._beat_s = time.monotonic()
        self.thread = threading.Thread(target=self._listen, name="nvml-events", daemon=True)

    def silent_s(self) -> float:
        return time.monotonic() - self._beat_s

    def should_change(self, well: Mapping[CardId, Any], hung: frozenset[CardId]) -> bool:
        """Whether a card is new, gone, under a new handle, or could not be registered last time."""
        now = {card: _address(handle) for card, handle in self.wanted.items() if card not in hung}
        return now != {card: _address(handle) for card, handle in well.items()} or bool(
            self._unheard & well.keys()
        )

    def _listen(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self.stop.is_set():
            wanted = self.wanted
            try:
                with self._event_set(wanted) as (events, owners):
                    while not self.stop.is_set() and self.wanted is wanted:
                        self._wait(events, owners)
                        pause_s = FIRST_PAUSE_S
                        self._say("")
            except pynvml.NVMLError as error:
                self._say(f"error {code(error)}")
                self._beat_s = time.monotonic() + pause_s
                self.stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _say(self, trouble: str) -> None:
        if trouble == self.trouble:
            return
        self.trouble = trouble
        if trouble:
            log.warning("nvml.events_lost", reason=trouble)
        else:
            log.info("nvml.events_restored")

    @contextlib.contextmanager
    def _event_set(self, wanted: Mapping[CardId, Any]) -> Iterator[tuple[Any, dict[int, CardId]]]:
        events = pynvml.nvmlEventSetCreate()
        try:
            yield events, self._register(events, wanted)
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(events)

    def _register(self, events: Any, wanted: Mapping[CardId, Any]) -> dict[int, CardId]:
        """Who is behind which handle; a lost card must not take the others' events away."""
        owners: dict[int, CardId] = {}
        unheard: set[CardId] = set()
        for card, handle in wanted.items():
            self._beat_s = time.monotonic()
            try:
                kinds = optional(pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0
                if kinds & WANTED:
                    optional(pynvml.nvmlDeviceRegisterEvents, handle, kinds & WANTED, events)
                owners[_address(handle)] = card
            except pynvml.NVMLError as error:
                if meaning(error) is not Meaning.CARD:
                    raise
                unheard.add(card)
        self._unheard = frozenset(unheard)
        return owners

    def _wait(self, events: Any, owners: Mapping[int, CardId]) -> None:
        self._beat_s = time.monotonic()
        try:
            event = pynvml.nvmlEventSetWait(events, self._slice_ms)
        except pynvml.NVMLError as error:
            if code(error) == pynvml.NVML_ERROR_TIMEOUT:
                return
            raise
        card = owners.get(_address(event.device))
        if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
            self._deliver(
                Observation(
                    card=card,
                    kind=SignalKind.XID,
                    code=int(event.eventData),
                    source="nvml",
                    gi=_instance(event.gpuInstanceId),
                    ci=_instance(event.computeInstanceId),
                )
            )
        elif event.eventType == pynvml.nvmlEventMigConfigChange:
            self._deliver(None)


def _address(handle: Any) -> int:
    return int(pynvml.cast(handle, pynvml.c_void_p).value or 0)


def _instance(number: int) -> int | None:
    return None if number == NOT_SAID else int(number)
