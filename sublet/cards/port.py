"""What the agent wants from whatever knows the cards: a driver's library, or a file that stands in for one.

Implemented by `sublet.cards.nvml` (NVIDIA's library), `sublet.cards.amd` (sysfs) and `sublet.cards.file`
(nodes without hardware); all pass `tests/contract/test_cards.py`. None ever raises for a card that fails:
it says so in what it returns.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from sublet.model.card import Card
from sublet.model.health import Signal, SignalKind
from sublet.model.ids import CardId, NodeName
from sublet.model.reasons import Reason

MIG_UNSUPPORTED = Reason.MIG_UNSUPPORTED.value
DRIVER_NOT_LOADED = "DriverNotLoaded"
INVENTORY_UNREADABLE = "InventoryUnreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The cards of this node, by ascending index.

    A card that was seen before and is missing now stays in with health `lost` until another takes its place;
    cards whose driver hangs stay as they were last read. `problems` are codes that keep the node from being
    managed (`Inventory.problems`); `warnings` are sentences for people that keep nothing from anybody.
    """

    cards: tuple[Card, ...] = ()
    driver: str = ""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One raw health observation; the agent adds who saw it, when, and its number.

    `card` is None for the whole node. `value` is text in the words of `sublet health replay`: a level's
    `true`, `false` or decimal number, a probe's `ok`, `lost`, `error` or `hang`, a recovery action's name.
    `boot_id` is empty unless the observation itself tells of a boot.
    """

    card: CardId | None
    kind: SignalKind
    code: int = 0
    name: str = ""
    value: str = ""
    source: str = "file"
    boot_id: str = ""
    count: int = 1
    """How many alike this one stands for."""
    gi: int | None = None
    ci: int | None = None
    raw: str = ""
    pci: str = ""
    serial: str = ""
    model: str = ""
    driver: str = ""

    def signal(self, *, node: NodeName, boot_id: str, epoch: str, seq: int, at_ms: int) -> Signal:
        return Signal(
            node=node,
            card=self.card,
            kind=self.kind,
            code=self.code,
            name=self.name,
            value=self.value,
            source=self.source,
            boot_id=self.boot_id or boot_id,
            epoch=epoch,
            seq=seq,
            at_ms=at_ms,
            count=self.count,
            gi=self.gi,
            ci=self.ci,
            raw=self.raw,
            pci=self.pci,
            serial=self.serial,
            model=self.model,
            driver=self.driver,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """A process that holds a card; `pid` counts in the host's PID namespace, `used_mib` is 0 where the
    driver does not say."""

    pid: int
    used_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device that a container needs to reach a card."""

    host_path: str
    container_path: str
    permissions: str = "rw"


class CardReader(Protocol):
    """Open from its making until `close`; all of it belongs to one event loop, which it never blocks."""

    async def discover(self) -> Discovery:
        """Look at the cards now. Takes a bounded time and never raises for what hardware does."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever `discover` would answer something else; ends after `close`."""
        ...

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        """Who holds `card` now; None where that cannot be read."""
        ...

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        """The device nodes present on this host that a container with `card` gets.

        Raises:
            NotFound: no discovery has shown this card.
        """
        ...

    def needs_restart(self) -> str:
        """Why only a new process can reach the driver again; empty while this one is good."""
        ...

    async def close(self) -> None:
        """Stop every thread that can be stopped; returns in a bounded time, may be called twice."""
        ...


class CardSource(CardReader, Protocol):
    """Cards of one origin, which also tells how they are."""

    def signals(self) -> AsyncGenerator[Observation, None]:
        """Yield what is observed about cards, in order for each card; ends after `close`. Iterate it once."""
        ...
