"""Effects on their way out, by node: nodes side by side, the effects of one node in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from sublet.model.health import Verdict
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.event import CardEffect
from sublet_healthd.core.judge import Forgotten, Refreshed, Transition

log = structlog.get_logger()

WORKERS = 8
TRANSITIONS_A_CARD = 64
"""Beyond it the oldest unpublished transition of that card goes; its newest verdict always stays."""


@dataclass(slots=True)
class Work:
    """What waits for one node: transitions in order, the newest verdicts that changed otherwise, and those
    that are to go."""

    transitions: dict[CardId, deque[Transition]] = field(default_factory=dict)
    refreshed: dict[CardId, Verdict] = field(default_factory=dict)
    forgotten: dict[CardId, Verdict] = field(default_factory=dict)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def add(self, effect: CardEffect) -> bool:
        """False when an older transition had to go."""
        card = effect.verdict.card
        if isinstance(effect, Forgotten):
            self.refreshed.pop(card, None)
            self.forgotten[card] = effect.verdict
            return True
        self.forgotten.pop(card, None)
        if isinstance(effect, Refreshed):
            self.refreshed[card] = effect.verdict
            return True
        self.refreshed.pop(card, None)
        waiting = self.transitions.setdefault(card, deque(maxlen=TRANSITIONS_A_CARD))
        full = len(waiting) == TRANSITIONS_A_CARD
        waiting.append(effect)
        return not full


Perform = Callable[[NodeName, Work], Awaitable[None]]


class Outbox:
    def __init__(self, *, dropped: Callable[[], None]) -> None:
        self._dropped = dropped
        self._work: dict[NodeName, Work] = {}
        self._ready: asyncio.Queue[NodeName] = asyncio.Queue()  # each node at most once
        self._busy: set[NodeName] = set()

    def put(
        self,
        node: NodeName,
        effects: list[CardEffect],
        *,
        done: asyncio.Future[None] | None = None,
    ) -> None:
        """`done` is set when all of it, and what waited before, is stored."""
        if node not in self._work:
            self._work[node] = Work()
            if node not in self._busy:
                self._ready.put_nowait(node)
        work = self._work[node]
        for effect in effects:
            if not work.add(effect):
                self._dropped()
                log.warning("transition.dropped", node=node, card=effect.verdict.card)
        if done is not None:
            work.waiting.append(done)

    async def run(self, perform: Perform) -> None:
        """Do the work until cancelled; an error of `perform` ends it."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._serve(perform), name=f"outbox-{number}")

    async def _serve(self, perform: Perform) -> None:
        while True:
            node = await self._ready.get()
            work = self._work.pop(node)
            self._busy.add(node)
            await perform(node, work)
            self._busy.discard(node)
            for done in work.waiting:
                if not done.done():
                    done.set_result(None)
            if node in self._work:
                self._ready.put_nowait(node)
