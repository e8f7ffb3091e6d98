"""A flood at an agent's input: 10,000 raw signals a second for a minute, from the eight cards of one node.

It meets the token bucket, which stands before the bus. Once in that minute each card tells of something
grave.
"""

import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import cycle
from time import perf_counter

from sublet_agent.core.bucket import Held
from sublet_agent.shell.intake import Intake

from bench.figure import Figure, spread
from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId

CARDS = tuple(CardId(f"GPU-{number}") for number in range(8))
A_SECOND, SECONDS = 10_000, 60
NOISE, GRAVE = (13, 31, 43), 79
LOOKS_A_SECOND = 10


def measure() -> list[Figure]:
    run = _Run(samples=True)
    since = perf_counter()
    run.take(_raw())
    took_s = perf_counter() - since
    tracemalloc.start()
    quiet = _Run(samples=False)
    quiet.take(_raw())
    grown_mib = tracemalloc.get_traced_memory()[0] / 2**20
    tracemalloc.stop()
    raw = A_SECOND * SECONDS
    return [
        Figure(
            what=f"raw signals taken in a second, of {raw:,}", value=raw / took_s, unit="", aim="≥ 10,000"
        ),
        *spread("one raw signal", run.taken_us, "µs"),
        Figure(what="signals that went on to the bus", value=run.told, unit=""),
        Figure(what="raw signals that no signal counts", value=raw - run.counted, unit="", aim="≤ 0"),
        Figure(what="longest wait of something grave", value=run.late_s, unit="s", aim="≤ 3 s"),
        Figure(what="memory that the flood added", value=grown_mib, unit="MiB", aim="≤ 1 MiB"),
    ]


def _raw() -> Iterator[Observation]:
    noise = cycle([_xid(code, card) for card in CARDS for code in NOISE])
    grave = {A_SECOND * (5 + 6 * number): _xid(GRAVE, card) for number, card in enumerate(CARDS)}
    for number in range(A_SECOND * SECONDS):
        yield grave.get(number) or next(noise)


def _xid(code: int, card: CardId) -> Observation:
    return Observation(card=card, kind=SignalKind.XID, code=code, source="nvml")


class _Run:
    """One flood; `samples` says whether the time that each took is kept."""

    def __init__(self, *, samples: bool) -> None:
        self._intake = Intake(busy=lambda _card: False)
        self._samples = samples
        self.taken_us: list[float] = []
        self.told = self.counted = 0
        self.late_s = 0.0

    def take(self, raw: Iterable[Observation]) -> None:
        for number, one in enumerate(raw):
            now_s = number / A_SECOND
            before = perf_counter()
            held = self._intake.take(one, at_ms=round(now_s * 1000), now_s=now_s)
            if self._samples:
                self.taken_us.append((perf_counter() - before) * 1e6)
            if held is not None:
                self._tell(held, now_s)
            if number % (A_SECOND // LOOKS_A_SECOND) == 0:
                self._look(now_s)
        self._look(3_600)

    def _look(self, now_s: float) -> None:
        for held in self._intake.due(now_s):
            self._tell(held, now_s)

    def _tell(self, held: Held[Observation], now_s: float) -> None:
        self.told += 1
        self.counted += held.count
        if held.value.code == GRAVE:
            self.late_s = max(self.late_s, now_s - held.at_ms / 1000)
