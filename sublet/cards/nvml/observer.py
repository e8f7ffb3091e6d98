"""Turns what polls find into observations: levels as they change, resets that must have happened. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.cards.memory import Outcome
from sublet.cards.nvml.reading import HealthReading
from sublet.cards.port import Observation
from sublet.model.card import Card
from sublet.model.health import SignalKind
from sublet.model.ids import CardId

SOURCE = "nvml_poll"
UNREACHABLE = (Outcome.LOST, Outcome.RESET_REQUIRED)
PENDING = ("remap_pending", "retired_pending")
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
        self, card: CardId, outcome: Outcome, health: HealthReading | None, *, watched: bool
    ) -> list[Observation]:
        """How a poll of `card` ended; `health` is there when it was `OK`.

        A card that answers but whose events cannot arrive (`watched` false) must not count as well.
        """
        told = self._told.setdefault(card, _Told())
        before, told.outcome = told.outcome, outcome
        found: list[Observation] = []
        if health is not None:
            if before in UNREACHABLE or _was_reset(told.levels, health.levels):
                found.append(self._reset(card))
            found += self._levels(card, {**health.levels, **_inforom_well(told.levels)})
            found += self._recovery_action(card, health.recovery_action or _cleared(told))
        elif outcome is Outcome.RESET_REQUIRED:
            found += self._recovery_action(card, "gpu_reset")
        elif outcome is Outcome.INFOROM:
            found += self._levels(card, {"inforom_corrupt": "true"})
        blind = outcome is Outcome.OK and not watched
        return [*found, _probe(card, "error", name="events") if blind else _probe(card, PROBES[outcome])]

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


def _inforom_well(told: Mapping[str, str]) -> dict[str, str]:
    return {"inforom_corrupt": "false"} if "inforom_corrupt" in told else {}


def _cleared(told: _Told) -> str:
    """A driver that has no recovery actions says by answering that the reset it demanded is done."""
    return "none" if told.recovery_action else ""
