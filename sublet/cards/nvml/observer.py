"""Turns what polls find into observations: levels as they change, resets that must have happened. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.cards.memory import Outcome
from sublet.cards.nvml.health import HealthReading
from sublet.cards.nvml.rates import Rates
from sublet.cards.port import Observation
from sublet.model.card import Card
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import LEFTOVER

SOURCE = "nvml_poll"
UNREACHABLE = (Outcome.LOST, Outcome.RESET_REQUIRED)
PENDING = ("remap_pending", "retired_pending")
LEFTOVER_STEP_MIB = 16
"""A driver keeps a few MiB of an idle card for itself, and not always the same."""
PROBES = {
    Outcome.OK: "ok",
    Outcome.LOST: "lost",
    Outcome.RESET_REQUIRED: "error",
    Outcome.INFOROM: "error",
    Outcome.ERROR: "error",
    Outcome.HANG: "hang",
}


@dataclass(slots=True)
class _Told:
    """What was said last about one card."""

    outcome: Outcome = Outcome.OK
    recovery_action: str = ""
    levels: dict[str, str] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)


class Observer:
    """Remembers what it said of each card; a new one says everything once."""

    def __init__(self) -> None:
        self._told: dict[CardId, _Told] = {}
        self._identities: dict[CardId, Observation] = {}

    def seen(self, card: Card, driver: str) -> list[Observation]:
        """A card that answers: its identity, when it is new or differs."""
        identity = Observation(
            card=card.id,
            kind=SignalKind.CARD,
            source=SOURCE,
            pci=card.pci or "",
            serial=card.serial or "",
            model=card.model,
            driver=driver,
        )
        if self._identities.get(card.id) == identity:
            return []
        self._identities[card.id] = identity
        return [identity]

    def driver_came_back(self) -> list[Observation]:
        """Loading a driver resets every card."""
        return [self._reset(card) for card in sorted(self._told)]

    def polled(
        self, card: CardId, outcome: Outcome, health: HealthReading | None, *, watched: bool, now_s: float
    ) -> list[Observation]:
        """How a poll of `card` ended at `now_s`; `health` is there when it was `OK`.

        A card that answers but whose events cannot arrive (`watched` false) must not count as well.
        """
        told = self._told.setdefault(card, _Told())
        before, told.outcome = told.outcome, outcome
        found: list[Observation] = []
        if health is not None:
            if before in UNREACHABLE or _was_reset(told.levels, health.levels):
                found.append(self._reset(card))
            well = {"inforom_corrupt": "false"} if before is Outcome.INFOROM else {}
            found += self._levels(
                card, {**well, **health.levels, **told.rates.levels(health.counters, now_s)}
            )
            found += self._leftover(card, health.leftover_mib)
            found += self._recovery_action(card, health.recovery_action or _cleared(told))
        elif outcome is Outcome.RESET_REQUIRED:
            found += self._recovery_action(card, "gpu_reset")
        elif outcome is Outcome.INFOROM:
            found += self._levels(card, {"inforom_corrupt": "true"})
        blind = outcome is Outcome.OK and not watched
        return [*found, _probe(card, "error", name="events") if blind else _probe(card, PROBES[outcome])]

    def levels(self, instance: CardId, levels: Mapping[str, str]) -> list[Observation]:
        """What was polled of one MIG instance."""
        self._told.setdefault(instance, _Told())
        return self._levels(instance, levels)

    def _reset(self, card: CardId) -> Observation:
        return Observation(card=card, kind=SignalKind.RESET, source=SOURCE)

    def _levels(self, card: CardId, levels: Mapping[str, str]) -> list[Observation]:
        told = self._told[card].levels
        changed = {name: value for name, value in levels.items() if told.get(name) != value}
        told.update(changed)
        return [
            Observation(card=card, kind=SignalKind.LEVEL, name=name, value=value, source=SOURCE)
            for name, value in changed.items()
        ]

    def _leftover(self, card: CardId, leftover_mib: int | None) -> list[Observation]:
        """Told at every poll while there is some: who hears it knows whether a pod is on the card."""
        if leftover_mib is None:
            return []
        value = str(leftover_mib - leftover_mib % LEFTOVER_STEP_MIB)
        told = self._told[card].levels
        if value == "0" == told.get(LEFTOVER):
            return []
        told[LEFTOVER] = value
        return [Observation(card=card, kind=SignalKind.LEVEL, name=LEFTOVER, value=value, source=SOURCE)]

    def _recovery_action(self, card: CardId, action: str) -> list[Observation]:
        told = self._told[card]
        if not action or action == told.recovery_action:
            return []
        told.recovery_action = action
        return [Observation(card=card, kind=SignalKind.RECOVERY_ACTION, value=action, source=SOURCE)]


def _probe(card: CardId, result: str, *, name: str = "") -> Observation:
    return Observation(card=card, kind=SignalKind.PROBE, name=name, value=result, source=SOURCE)


def _was_reset(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Volatile counts fall, and what waits for a reset is done, only by a reset."""
    errors = "ecc_uncorrectable"
    if errors in before and errors in now and int(now[errors]) < int(before[errors]):
        return True
    return any(before.get(name) == "true" and now.get(name) == "false" for name in PENDING)


def _cleared(told: _Told) -> str:
    """A driver that has no recovery actions says by answering that the reset it demanded is done."""
    return "none" if told.recovery_action else ""
