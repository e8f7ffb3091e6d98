"""The agent's engine: one event and the time in, effects out, in order."""

from dataclasses import dataclass, field, replace
from typing import assert_never

from sublet.model.card import Card, Inventory
from sublet.model.health import DESTROYED, HealthState, Verdict
from sublet.model.ids import CardId, NodeName, PodUid, SlotId
from sublet.model.placement import CardUse, GrantState, LedgerMeta, NodeLedger
from sublet_agent.core import event as ev
from sublet_agent.core.edits import Injection, Node, Runtime
from sublet_agent.core.holders import live_holdings
from sublet_agent.core.identity import Identity
from sublet_agent.core.observation import Observation
from sublet_agent.core.occupancy import occupancy
from sublet_agent.core.partitions import still_reached
from sublet_agent.core.preflight import problems
from sublet_agent.core.record import Record
from sublet_agent.core.slots import LEAST, next_count, slot_number, wanted_count, withheld_slots
from sublet_agent.core.start import Give, Known, Refuse, Wait, decide

TAKEN_S = 10.0
"""How long an Allocate call counts as holding while the node does not show it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    node: NodeName
    boot_id: str
    epoch: str
    shares_per_card: int = 16
    injection: Injection = Injection.CDI
    runtime: Runtime = Runtime.PLAIN
    grant_wait_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Pending:
    who: Identity
    until_s: float
    reason: str


@dataclass(slots=True)
class Engine:
    """All that one agent knows of its node, and the only place that changes it.

    `records`, `slot_count` and `kept` come from disk; `generation` counts how often the ledger was
    forgotten, so that an answer from before is not mistaken for one from after.
    """

    config: Config
    records: dict[SlotId, Record] = field(default_factory=dict)
    slot_count: int = LEAST
    withheld: frozenset[SlotId] = frozenset()
    cards: dict[CardId, Card] | None = None
    nodes: dict[CardId, tuple[Node, ...]] = field(default_factory=dict)
    driver: str = ""
    found: tuple[str, ...] = ()
    verdicts: dict[CardId, Verdict] = field(default_factory=dict)
    kept: dict[CardId, Verdict] = field(default_factory=dict)
    """The newest verdict of each card that ever was in trouble; healthd may have lost it."""
    meta: LedgerMeta | None = None
    entry: NodeLedger | None = None
    generation: int = 0
    seen: Observation | None = None
    taken: dict[SlotId, float] = field(default_factory=dict)
    pending: dict[ev.Ask, Pending] = field(default_factory=dict)
    registered: bool = False
    unkept: bool = False
    """The slots as they should be could not be written: try again."""
    verdicts_unkept: bool = False
    told: Inventory | None = None
    others: frozenset[str] = frozenset()
    """Resources of other plugins that containers held when that was read last."""
    uses: tuple[CardUse, ...] = ()
    """Who holds the cards, as last observed."""

    def begin(self) -> list[ev.Effect]:
        """What must be on disk before the kubelet hears of any slot."""
        self.verdicts = dict(self.kept)
        highest = max((slot_number(slot) or 0 for slot in self.records), default=-1)
        self.slot_count = max(LEAST, self.slot_count, highest + 1)
        restored = [ev.Restore(slot, record.edits) for slot, record in sorted(self.records.items())]
        return [
            *restored,
            ev.KeepSlotCount(self.slot_count),
            ev.ShowSlots(self.slot_count, self.withheld),
        ]

    def handle(self, event: ev.Event, *, now: float) -> list[ev.Effect]:
        """Take one event in and return what the shell must do, in order. `now` is monotonic seconds."""
        match event:
            case ev.CardsSeen():
                return self._cards_seen(event, now)
            case ev.VerdictSeen(verdict):
                if verdict.node != self.config.node:
                    return []
                self.verdicts[verdict.card] = verdict
                return [*self._keep(verdict), *self._slots()]
            case ev.VerdictGone(card):
                self.verdicts.pop(card, None)
                dropped = self.kept.pop(card, None)
                return [*([self._kept()] if dropped else []), *self._slots()]
            case ev.LedgerSeen(entry):
                return self._entry_seen(entry, now)
            case ev.LedgerForgotten():
                self._forget_ledger()
                return [ev.ReadLedger(self.generation)]
            case ev.MetaSeen(meta):
                return self._meta_seen(meta, now)
            case ev.LedgerRead(generation=generation, meta=meta, entry=entry):
                if generation != self.generation:
                    return []
                return [*self._meta_seen(meta, now), *self._entry_seen(entry, now)]
            case ev.Observed(observation):
                return self._observed(observation)
            case ev.SlotsTaken(slots):
                self.taken |= dict.fromkeys(slots, now)
                return [*self._slots(), ev.Look()]
            case ev.StartAsked(ask, who):
                return self._start(ask, who, until_s=now + self.config.grant_wait_s, now=now)
            case ev.Prepared(record):
                self.records[record.slot] = record
                return [ev.Look()]
            case ev.SlotsUnkept():
                self.unkept = True
                return []
            case ev.VerdictsUnkept():
                self.verdicts_unkept = True
                return []
            case ev.RegistrationChanged(registered):
                self.registered = registered
                return self._inventory()
            case ev.BusReached():
                cards = (self.cards or {}).values()
                present = (card for card in cards if card.health is not HealthState.LOST)
                return [ev.Announce(tuple(present))]
            case ev.Tick():
                return self._tick(now)
            case _:
                assert_never(event)

    def known(self) -> Known:
        return Known(
            meta=self.meta,
            entry=self.entry,
            cards=self.units,
            nodes=self.nodes,
            runtime=self.config.runtime,
            boot_id=self.config.boot_id,
        )

    @property
    def units(self) -> dict[CardId, Card] | None:
        """Every card, and every partition as one."""
        if self.cards is None:
            return None
        return {each.id: each for card in self.cards.values() for each in (card, *card.offered)}

    @property
    def offered(self) -> tuple[CardId, ...]:
        """What containers can hold: cards, and partitions in place of theirs."""
        return tuple(each.id for card in (self.cards or {}).values() for each in card.offered)

    def is_given(self, card: CardId) -> bool:
        """Whether a container was prepared with `card` and is not known to have ended."""
        return any(card in record.cards for record in self.records.values())

    @property
    def held(self) -> frozenset[SlotId] | None:
        """Slots that somebody holds or was just given; None while the checkpoint is not readable."""
        holdings = live_holdings(self.seen, self.taken) if self.seen else None
        if self.seen is None or holdings is None:
            return None
        listed = {listing.slot for listing in self.seen.listings or ()}
        return frozenset({holding.slot for holding in holdings} | listed | self.taken.keys())

    # cards and slots

    def _cards_seen(self, event: ev.CardsSeen, now: float) -> list[ev.Effect]:
        self.cards = {card.id: card for card in event.cards}
        self.nodes, self.driver, self.found = dict(event.nodes), event.driver, event.problems
        return [*self._slots(), *self._inventory(), *self._again(now)]

    def _slots(self) -> list[ev.Effect]:
        """Recompute the slot list; a card that is withheld counts even when the driver lists it no more."""
        withheld_now = {
            card
            for card, verdict in self.verdicts.items()
            if verdict.withheld and verdict.rule != DESTROYED  # of a card that gives its slots as before
        }
        parents = {each.id: each.parent for each in (self.units or {}).values() if each.parent}
        bad = withheld_now - parents.keys()
        parts = sum(card in withheld_now and parent not in bad for card, parent in parents.items())
        held, count = self.held, self.slot_count
        if self.cards is not None:
            wanted = wanted_count(
                cards=len(self.cards.keys() | bad), shares_per_card=self.config.shares_per_card
            )
            count = next_count(count, wanted, held)
        quota = len(bad) * self.config.shares_per_card + parts  # a partition never holds more than one
        if held is not None:
            withheld = withheld_slots(count, quota, held)
        else:
            withheld = frozenset(sorted(self.withheld - self.taken.keys())[-quota:] if quota else ())
        if (count, withheld) == (self.slot_count, self.withheld) and not self.unkept:
            return []
        grown = self.unkept or count != self.slot_count
        self.slot_count, self.withheld, self.unkept = count, withheld, False
        kept: list[ev.Effect] = [ev.KeepSlotCount(count)] if grown else []
        return [*kept, ev.ShowSlots(count, withheld), *self._inventory()]

    def _keep(self, verdict: Verdict) -> list[ev.Effect]:
        known = self.kept.get(verdict.card)
        if verdict == known or not _follows(verdict, known):
            return []
        self.kept[verdict.card] = verdict
        return [self._kept()]

    def _kept(self) -> ev.KeepVerdicts:
        return ev.KeepVerdicts(tuple(one for _, one in sorted(self.kept.items())))

    def _shown(self, card: Card) -> Card:
        """Without the partitions that a container can still open which was given another."""
        reached = still_reached(card, self.nodes, self.records.values())
        left = tuple(one for one in card.partitions if CardId(one.uuid) not in reached)
        return replace(card, partitions=left) if reached else card

    def _inventory(self) -> list[ev.Effect]:
        if self.cards is None:
            return []
        served = self.seen.checkpoint.served if self.seen and self.seen.checkpoint else {}
        inventory = Inventory(
            node=self.config.node,
            boot_id=self.config.boot_id,
            epoch=self.config.epoch,
            seq=0,
            at_ms=0,
            cards=tuple(self._shown(card) for card in self.cards.values()),
            shares_per_card=self.config.shares_per_card,
            slots=self.slot_count,
            registered=self.registered,
            injection=self.config.injection,
            driver=self.driver,
            problems=problems(self.found, served, self.others),
        )
        if inventory == self.told:
            return []
        self.told = inventory
        return [ev.PublishInventory(inventory)]

    # the ledger

    def _entry_seen(self, entry: NodeLedger, now: float) -> list[ev.Effect]:
        if self.entry is not None and entry.revision <= self.entry.revision:
            return []
        self.entry = entry
        return [*self._again(now), ev.Look()]

    def _meta_seen(self, meta: LedgerMeta | None, now: float) -> list[ev.Effect]:
        before, self.meta = self.meta, meta
        if before is not None and (meta is None or before.epoch != meta.epoch):
            self._forget_ledger()
            return [ev.ReadLedger(self.generation)]
        return self._again(now)

    def _forget_ledger(self) -> None:
        self.entry = None
        self.generation += 1

    # starts

    def _start(self, ask: ev.Ask, who: Identity, *, until_s: float, now: float) -> list[ev.Effect]:
        record = self.records.get(who.slot)
        match decide(who, record, self.known(), now=now):
            case Give(given):
                self.pending.pop(ask, None)
                again = record is not None and record.uid == given.uid
                return [ev.Started(ask, given, again)]
            case Refuse(reason):
                self.pending.pop(ask, None)
                return [ev.Refused(ask, reason)]
            case Wait(reason):
                first = ask not in self.pending
                self.pending[ask] = Pending(who, until_s, reason)
                return [ev.ReadLedger(self.generation)] if first else []

    def _again(self, now: float) -> list[ev.Effect]:
        """Decide anew what waits, oldest first."""
        waiting = list(self.pending.items())
        return [
            effect
            for ask, one in waiting
            for effect in self._start(ask, one.who, until_s=one.until_s, now=now)
        ]

    # the node

    def _observed(self, seen: Observation) -> list[ev.Effect]:
        if seen.generation != self.generation:  # it proves nothing about entries made since
            seen = replace(seen, revision=0)
        self.seen = seen
        if seen.listings is not None:
            self.others = seen.others
        shown = {holding.slot for holding in live_holdings(seen) or ()}
        self.taken = {
            slot: at for slot, at in self.taken.items() if seen.began_s < at + TAKEN_S and slot not in shown
        }
        gone = [ev.Forget(slot) for slot in self._ended(seen)]
        for one in gone:
            del self.records[one.slot]
        changed = self._slots()
        entry = self.entry.grants if self.entry else ()
        units = self.units or {}
        record = occupancy(
            seen,
            node=self.config.node,
            boot_id=self.config.boot_id,
            epoch=self.config.epoch,
            cards={one: units[one] for one in self.offered},
            holdings=live_holdings(seen, self.taken) or (),
            records=self.records,
            pods={grant.uid: grant.pod for grant in entry},
            withheld=len(self.withheld),
        )
        self.uses = record.cards
        return [*gone, *changed, *self._inventory(), ev.PublishOccupancy(record)]

    def _ended(self, seen: Observation) -> list[SlotId]:
        """Slots whose holder's pod is proved gone: every source was readable and none names it."""
        holdings = live_holdings(seen, self.taken)
        if holdings is None or seen.listings is None or seen.pods_with_cgroups is None:
            return []
        holders = {(holding.slot, holding.uid) for holding in holdings}
        return [
            slot
            for slot, record in sorted(self.records.items())
            if record.prepared_s < seen.began_s
            and (slot, record.uid) not in holders
            and record.uid not in seen.pods_with_cgroups
        ]

    def _tick(self, now: float) -> list[ev.Effect]:
        late = [(ask, one) for ask, one in self.pending.items() if one.until_s <= now]
        for ask, _ in late:
            del self.pending[ask]
        effects: list[ev.Effect] = [ev.Refused(ask, one.reason) for ask, one in late]
        if self.pending or self.entry is None:
            effects.append(ev.ReadLedger(self.generation))
        if self.ending:
            effects.append(ev.Look())
        if self.verdicts_unkept:
            self.verdicts_unkept = False
            effects.append(self._kept())
        return effects

    @property
    def ending(self) -> frozenset[PodUid]:
        """Pods whose grants are kept until an occupancy record proves that nothing is left of them."""
        grants = self.entry.grants if self.entry else ()
        return frozenset(grant.uid for grant in grants if grant.state is GrantState.ENDING)


def _follows(verdict: Verdict, known: Verdict | None) -> bool:
    """Whether `verdict` is later than `known`; a healthd that lost everything counts from the start again,
    and what it does not know yet must not be forgotten here."""
    if known is None:
        return verdict.seq > 0
    return verdict.seq > known.seq or (verdict.seq, verdict.since_ms) == (known.seq, known.since_ms)
