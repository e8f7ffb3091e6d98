"""The judge under a flood: what one signal costs it, and how many it takes a second; 1,000 cards."""

import gc
import os
from array import array
from pathlib import Path
from random import Random
from time import perf_counter, thread_time

from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import Told
from sublet_healthd.core.policyfile import shipped_policy

from bench.figure import Figure, spread
from sublet.model.health import Signal, SignalKind
from sublet.model.ids import CardId, NodeName

NODES, CARDS_A_NODE = 125, 8
A_SECOND = 1_000
SECONDS = 60
START_MS = 1_700_000_000_000
GRAVE = (48, 79, 95, 119)
CODES = (13, 31, 43, 45, *GRAVE, 63, 94)


def measure() -> list[Figure]:
    dice, engine = Random(1), Engine(shipped_policy())
    keys = [
        (NodeName(f"n{node}"), CardId(f"GPU-{node}-{card}"))
        for node in range(NODES)
        for card in range(CARDS_A_NODE)
    ]
    for node, card in keys:
        engine.handle(Told(node=node, card=card, pods=()), now_ms=START_MS)
    gc.collect()
    before_mib = _resident_mib()
    taken_ms, worked_ms = array("d"), array("d")
    grave: set[tuple[NodeName, CardId, str]] = set()
    half_mib = before_mib
    since = perf_counter()
    for number in range(A_SECOND * SECONDS):
        now_ms = START_MS + number * 1000 // A_SECOND
        node, card = dice.choice(keys[: len(keys) // 10])  # a tenth of the cards makes all the noise
        code = dice.choice(CODES)
        signal = Signal(
            node=node,
            card=card,
            kind=SignalKind.XID,
            code=code,
            at_ms=now_ms,
            epoch="e",
            seq=number + 1,
        )
        before, worked = perf_counter(), thread_time()
        engine.handle(signal, now_ms=now_ms)
        worked_ms.append((thread_time() - worked) * 1000)
        taken_ms.append((perf_counter() - before) * 1000)
        if code in GRAVE:
            grave.add((node, card, f"xid:{code}"))
        if number == A_SECOND * SECONDS // 2:
            half_mib = _resident_mib()
    took_s = perf_counter() - since
    after_mib = _resident_mib()
    known = {
        (one.node, one.card, reason.id)
        for one in engine.cards.values()
        if one.verdict and not one.verdict.state.accepts_shares
        for reason in one.verdict.reasons
    }
    return [
        Figure(
            what=f"signals judged in a second, of {A_SECOND * SECONDS:,}",
            value=A_SECOND * SECONDS / took_s,
            unit="",
            aim=f"≥ {A_SECOND:,}",
        ),
        *spread("one signal, CPU time", worked_ms, "ms", aim="≤ 5 ms"),
        *spread("one signal, by the clock", taken_ms, "ms"),
        Figure(
            what="grave faults that no verdict names, or whose card takes shares by its state",
            value=len(grave - known),
            unit="",
            aim="≤ 0",
        ),
        Figure(
            what="memory that the flood added, its 120,000 samples included",
            value=after_mib - before_mib,
            unit="MiB",
        ),
        Figure(what="of that in its second half", value=after_mib - half_mib, unit="MiB", aim="≤ 4 MiB"),
    ]


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
