"""A simulated fleet of 1,000 cards for a simulated year: what automation takes out, and brings back.

Failures as published of Llama 3's training: 2.9 in 10,000 cards a day, of the kinds seen there.
Applications fail a hundred times as often. Four times a year something systemic hits 40 nodes within a
minute, such as a bad driver. What a reset mends is reset within two hours, a reboot takes one; one fault in
ten ends in a replacement.
"""

import heapq
from collections import Counter
from random import Random
from time import perf_counter

from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import BreakerActed, BreakerChanged, Event, Told
from sublet_healthd.core.judge import Tick, Transition
from sublet_healthd.core.policyfile import shipped_policy

from bench.figure import Figure
from sublet.model.health import BreakerState, HealthState, Signal, SignalKind
from sublet.model.ids import CardId, NodeName

NODES, CARDS_A_NODE = 125, 8
DAY_MS = 86_400_000
DAYS = 365
HARDWARE_A_CARD_DAY = 2.9e-4
APPLICATION_A_CARD_DAY = 3e-2
SYSTEMIC_A_YEAR, SYSTEMIC_NODES = 4, 40
START_MS = 1_700_000_000_000
HARDWARE = ((79, 148), (95, 36), (48, 36), (64, 10), (140, 9), (119, 17), (74, 35))
"""XIDs and their weights."""
APPLICATION = (13, 31, 43, 45, 94)
Key = tuple[NodeName, CardId]


def measure() -> list[Figure]:
    year = _Year()
    since = perf_counter()
    year.run()
    counts = year.counts
    return [
        Figure(what="signals in the year", value=counts["signals"], unit=""),
        Figure(what="hardware faults", value=counts["faults"], unit=""),
        Figure(what="take-outs by automation", value=counts["out"], unit=""),
        Figure(what="take-outs of cards without a hardware fault", value=counts["false"], unit="", aim="0"),
        Figure(what="recoveries", value=counts["back"], unit=""),
        Figure(what="cards replaced", value=counts["replaced"], unit=""),
        Figure(what="breaker trips", value=counts["trips"], unit="", aim=f"{SYSTEMIC_A_YEAR}"),
        Figure(what="cards that the breaker kept in scheduling", value=counts["held back"], unit=""),
        Figure(what="cards out at the end", value=year.out(), unit=""),
        Figure(what="the year took", value=perf_counter() - since, unit="s"),
    ]


class _Year:
    def __init__(self) -> None:
        self._dice = Random(7)
        self._engine = Engine(shipped_policy())
        self._plan: list[tuple[int, int, Event]] = []
        self._numbers = 0
        self._ill: set[Key] = set()
        self._boots: Counter[NodeName] = Counter()
        self.counts: Counter[str] = Counter()
        self._keys = [
            (NodeName(f"n{node}"), CardId(f"GPU-{node}-{card}"))
            for node in range(NODES)
            for card in range(CARDS_A_NODE)
        ]

    def run(self) -> None:
        for node, card in self._keys:
            seen = self._signal((node, card), "card", START_MS, serial=card)
            self._engine.handle(seen, now_ms=START_MS)
            self._engine.handle(Told(node=node, card=card, pods=()), now_ms=START_MS)
        for day in range(DAYS):
            self._faults(START_MS + day * DAY_MS)
        for number in range(SYSTEMIC_A_YEAR):
            self._systemic(START_MS + (number * 2 + 1) * DAYS * DAY_MS // (2 * SYSTEMIC_A_YEAR))
        while self._plan:
            now_ms, _, event = heapq.heappop(self._plan)
            while (due_ms := self._engine.due_ms()) is not None and due_ms <= now_ms:
                self._hand(Tick(), due_ms)
            self._hand(event, now_ms)

    def out(self) -> int:
        return sum(not one.verdict.schedulable for one in self._engine.cards.values() if one.verdict)

    def _faults(self, day_ms: int) -> None:
        cards = len(self._keys)
        for _ in range(self._drawn(cards * HARDWARE_A_CARD_DAY)):
            codes, weights = zip(*HARDWARE, strict=True)
            [code] = self._dice.choices(codes, weights)
            self._fault(self._dice.choice(self._keys), code, day_ms + self._dice.randrange(DAY_MS))
        for _ in range(self._drawn(cards * APPLICATION_A_CARD_DAY)):
            at_ms = day_ms + self._dice.randrange(DAY_MS)
            code = self._dice.choice(APPLICATION)
            self._later(at_ms, self._signal(self._dice.choice(self._keys), "xid", at_ms, code=code))

    def _drawn(self, mean: float) -> int:
        return int(mean) + (self._dice.random() < mean % 1)

    def _fault(self, key: Key, code: int, at_ms: int) -> None:
        self.counts["faults"] += 1
        self._later(at_ms, self._signal(key, "xid", at_ms, code=code))
        if self._dice.random() < 0.1 or code == 64:
            self._later(at_ms + DAY_MS, self._replaced(key, at_ms + DAY_MS))
        elif code == 79:
            self._later(at_ms + 3_600_000, self._boot(key[0], at_ms + 3_600_000))
        else:
            mended_ms = at_ms + self._dice.randrange(600_000, 7_200_000)
            self._later(mended_ms, self._signal(key, "reset", mended_ms))

    def _systemic(self, at_ms: int) -> None:
        """The same code everywhere; a day later a new driver ends it, and somebody closes the breaker."""
        hit = self._dice.sample(self._keys, SYSTEMIC_NODES)
        for key in hit:
            self.counts["faults"] += 1
            seen_ms = at_ms + self._dice.randrange(60_000)
            self._later(seen_ms, self._signal(key, "xid", seen_ms, code=119))
            self._later(at_ms + DAY_MS, self._boot(key[0], at_ms + DAY_MS))
        self._later(at_ms + DAY_MS + 600_000, BreakerActed(what="breaker_close", by="on call"))

    def _hand(self, event: Event, now_ms: int) -> None:
        if isinstance(event, Signal):
            self.counts["signals"] += 1
            if event.card and event.code in dict(HARDWARE):
                self._ill.add((event.node, event.card))
        before = set(self._engine.known.waiting)
        for effect in self._engine.handle(event, now_ms=now_ms):
            if isinstance(effect, BreakerChanged):
                opened = effect.breaker.state is BreakerState.OPEN
                self.counts["trips"] += opened and effect.before.state is not BreakerState.OPEN
            elif isinstance(effect, Transition):
                self._count(effect)
        self.counts["held back"] += len(self._engine.known.waiting - before)

    def _count(self, change: Transition) -> None:
        verdict, key = change.verdict, (change.verdict.node, change.verdict.card)
        if (
            verdict.state is HealthState.CONDEMNED
            and change.previous.accepts_shares
            and not verdict.schedulable
        ):
            self.counts["out"] += 1
            self.counts["false"] += key not in self._ill
        if change.previous is HealthState.RECOVERING and verdict.state is HealthState.HEALTHY:
            self.counts["back"] += 1
            self._ill.discard(key)

    def _replaced(self, key: Key, at_ms: int) -> Event:
        self.counts["replaced"] += 1
        return self._signal(key, "card", at_ms, serial=f"s{at_ms}")

    def _boot(self, node: NodeName, at_ms: int) -> Event:
        self._boots[node] += 1
        boot = f"{node}-b{self._boots[node]}"
        return Signal(node=node, card=None, kind=SignalKind.BOOT, boot_id=boot, at_ms=at_ms)

    def _signal(self, key: Key, kind: str, at_ms: int, *, code: int = 0, serial: str = "") -> Signal:
        self._numbers += 1
        return Signal(
            node=key[0],
            card=key[1],
            kind=SignalKind(kind),
            code=code,
            serial=serial,
            at_ms=at_ms,
            epoch="e",
            seq=self._numbers,
        )

    def _later(self, at_ms: int, event: Event) -> None:
        self._numbers += 1
        heapq.heappush(self._plan, (at_ms, self._numbers, event))
