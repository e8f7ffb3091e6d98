"""What an agent's list of cards amounts to, told as signals."""

from sublet.model.card import Card, Inventory
from sublet.model.health import Signal, SignalKind
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.fold import LISTED


def where(card: Card) -> tuple[str | None, ...]:
    """What a card is and where it sits."""
    return card.pci, card.serial, card.model


def listed(inventory: Inventory, card: Card, at_ms: int, *, back: bool) -> Signal:
    """The card is on the list; only one that comes `back` is known to be there, for agents go on listing a
    card that is lost."""
    return Signal(
        node=inventory.node,
        card=card.id,
        kind=SignalKind.CARD,
        value="" if back else LISTED,
        source="inventory",
        boot_id=inventory.boot_id,
        at_ms=at_ms,
        pci=card.pci or "",
        serial=card.serial or "",
        model=card.model,
        driver=inventory.driver,
    )


def lost(node: NodeName, card: CardId, at_ms: int, *, why: str = "") -> Signal:
    """The card is not there; `why` is replaced or moved where that is known."""
    return Signal(
        node=node,
        card=card,
        kind=SignalKind.PROBE,
        value="lost",
        name=why,
        source="inventory",
        at_ms=at_ms,
    )
