"""What is known of one card by observation alone: identity, open reasons, levels, probes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sublet.model.health import Cure, Hold, OpenReason
from sublet_healthd.core.policy import Rule

SAMPLES = 5
BAD_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelWatch:
    """One polled state: what it reads since the last line, and its newest samples."""

    bad: bool
    window: tuple[bool, ...]
    next_ms: int

    @property
    def settled(self) -> bool:
        """No further sample changes anything."""
        return not any(self.window) or (len(self.window) == SAMPLES and all(self.window) and self.bad)

    @property
    def open(self) -> bool:
        return sum(self.window) >= BAD_SAMPLES

    def sampled(self, bad: bool, *, next_ms: int) -> "LevelWatch":
        return LevelWatch(bad=bad, window=(*self.window, bad)[-SAMPLES:], next_ms=next_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One fault as it happened, however many ways told of it."""

    code: int
    at_ms: int
    sources: frozenset[str]
    workload: str
    unit: str = ""
    """The part of the card that the kernel's line names."""

    @property
    def likeness(self) -> tuple[int, str, str]:
        """The same for faults that are told apart by their time alone."""
        return (self.code, self.workload, self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Observations about one card, folded in the order in which they were made."""

    pci: str = ""
    serial: str = ""
    model: str = ""
    boot_id: str = ""
    boot_ms: int = 0
    """When `boot_id` was last vouched for."""
    reasons: tuple[OpenReason, ...] = ()
    """Open reasons by id."""
    hold: Hold | None = None
    driver: str = ""
    gone: str = ""
    """Why the card is not here any more, where that is known: replaced or moved."""
    cures: tuple[Cure, ...] = ()
    acked_ms: int = 0
    links: tuple[tuple[int, int], ...] = ()
    """NVLinks that failed, and when; for errors that only count when they come again."""
    levels: Mapping[str, LevelWatch] = field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    failures: int = 0
    """Probes in a row that said nothing."""
    reset_ms: int = 0
    """The newest observed reset."""
    restored: frozenset[str] = frozenset()
    """Reasons known from an earlier life of the judge: an observation older than them says nothing
    about them."""

    def reason(self, reason_id: str) -> OpenReason | None:
        return next((one for one in self.reasons if one.id == reason_id), None)

    def with_reason(self, reason: OpenReason) -> "Facts":
        others = (one for one in self.reasons if one.id != reason.id)
        return replace(
            self,
            reasons=tuple(sorted((*others, reason), key=lambda one: one.id)),
            restored=self.restored - {reason.id},
        )

    def opened(
        self,
        rule: Rule,
        reason_id: str,
        *,
        at_ms: int,
        count: int = 1,
        klass: str | None = None,
        instance: tuple[int | None, int | None] = (None, None),
    ) -> "Facts":
        """Add a reason, or one more sighting of an open one; `count` 0 only says that it is still there."""
        known = self.reason(reason_id)
        return self.with_reason(
            OpenReason(
                id=reason_id,
                kind=reason_id.partition(":")[0],
                klass=klass or rule.klass,
                latched=rule.latched,
                leave=rule.leave,
                clears_on=rule.clears_on,
                action=rule.action,
                first_seen_ms=known.first_seen_ms if known else at_ms,
                last_seen_ms=max(known.last_seen_ms, at_ms) if known else at_ms,
                count=known.count + count if known else max(count, 1),
                boot_id=self.boot_id,
                gi=instance[0],
                ci=instance[1],
            )
        )

    def without(self, gone: Callable[[OpenReason], bool], *, at_ms: int) -> "Facts":
        """Take out the reasons that `gone` names; one that was restored only by something newer than it."""
        kept = tuple(
            one
            for one in self.reasons
            if not gone(one) or (one.id in self.restored and one.last_seen_ms > at_ms)
        )
        if len(kept) == len(self.reasons):
            return self
        return replace(self, reasons=kept, restored=self.restored & {one.id for one in kept})

    def reads_bad(self, reason: OpenReason) -> bool:
        """Whether `reason` is a level that still reads bad; one that nobody has told of since the judge was
        started anew does."""
        if reason.kind != "level":
            return False
        watch = self.levels.get(reason.id.partition(":")[2])
        return watch is None or watch.bad
