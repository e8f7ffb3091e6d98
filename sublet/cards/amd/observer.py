"""Turns what polls of AMD's driver and exporter find into observations. Pure."""

from dataclasses import dataclass, field

from sublet.cards.memory import Outcome
from sublet.cards.port import Observation
from sublet.model.card import Card
from sublet.model.health import SignalKind
from sublet.model.ids import CardId

SOURCE = "sysfs"
ECC = "ecc_uncorrectable"
JUDGED = "vendor_unhealthy"
WORDS = {"healthy": "false", "unhealthy": "true"}
PROBES = {Outcome.OK: "ok", Outcome.LOST: "lost", Outcome.HANG: "hang"}


@dataclass(slots=True)
class _Told:
    outcome: Outcome = Outcome.OK
    levels: dict[str, str] = field(default_factory=dict)


class Observer:
    """Remembers what it said of each card; a new one says everything once."""

    def __init__(self) -> None:
        self._told: dict[CardId, _Told] = {}
        self._identities: dict[CardId, Observation] = {}

    def polled(
        self, card: Card, outcome: Outcome, *, driver: str, errors: int | None, word: str | None
    ) -> list[Observation]:
        """`errors`: uncorrectable ones since the last reset. `word` is the exporter's, None where there is no
        exporter; an exporter that does not know a card makes it unknown, never ill."""
        told = self._told.setdefault(card.id, _Told())
        before, told.outcome = told.outcome, outcome
        if outcome is not Outcome.OK:
            return [_probe(card, PROBES.get(outcome, "error"))]
        found = self._identity(card, driver)
        if before is Outcome.LOST or _fell(told.levels.get(ECC), errors):
            found.append(Observation(card=card.id, kind=SignalKind.RESET, source=SOURCE))
        levels = {} if errors is None else {ECC: str(errors)}
        if word in WORDS:
            levels[JUDGED] = WORDS[word]
        for name, value in levels.items():
            if told.levels.get(name) != value:
                found.append(
                    Observation(card=card.id, kind=SignalKind.LEVEL, name=name, value=value, source=SOURCE)
                )
        told.levels |= levels
        blind = word is not None and word not in WORDS
        return [*found, _probe(card, "error", name="exporter") if blind else _probe(card, "ok")]

    def _identity(self, card: Card, driver: str) -> list[Observation]:
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


def _fell(before: str | None, errors: int | None) -> bool:
    """Only a reset takes counts back."""
    return before is not None and errors is not None and errors < int(before)


def _probe(card: Card, result: str, *, name: str = "") -> Observation:
    return Observation(card=card.id, kind=SignalKind.PROBE, name=name, value=result, source=SOURCE)
