"""How much of cards each namespace may hold: every quota holds by itself, and counts all cards of a claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sublet.model.placement import CardGrant
from sublet_scheduler.core.need import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Of cards; memory in MiB and compute in percent are added up over cards."""

    cards: int = 0
    memory_mib: int = 0
    core_percent: int = 0

    @classmethod
    def of(cls, grants: Iterable[CardGrant]) -> "Amount":
        given = list(grants)
        return cls(
            cards=len(given),
            memory_mib=sum(one.memory_mib or 0 for one in given),
            core_percent=sum(one.core_percent for one in given),
        )

    @classmethod
    def least(cls, loads: Sequence[Load]) -> "Amount":
        """What a pod takes at least, whichever cards it gets."""
        needs = [need for load in loads for need in load.needs]
        return cls(
            cards=sum(need.cards for need in needs),
            memory_mib=sum(need.cards * need.memory_mib for need in needs),
            core_percent=sum(need.cards * need.core_percent for need in needs),
        )

    def plus(self, other: "Amount", sign: int = 1) -> "Amount":
        return Amount(
            cards=self.cards + sign * other.cards,
            memory_mib=self.memory_mib + sign * other.memory_mib,
            core_percent=self.core_percent + sign * other.core_percent,
        )


NOTHING = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What the pods of a namespace may hold together; None is not limited, 0 is none at all."""

    name: str
    cards: int | None = None
    memory_mib: int | None = None
    core_percent: int | None = None


@dataclass(slots=True)
class Limits:
    """The quotas of all namespaces, and what their pods hold."""

    quotas: dict[str, dict[str, Quota]] = field(default_factory=dict)
    used: dict[str, Amount] = field(default_factory=dict)
    _held: dict[tuple[str, str], Amount] = field(default_factory=dict)
    """(namespace, booking key) -> what that holds."""

    def set(self, namespace: str, quota: Quota) -> None:
        self.quotas.setdefault(namespace, {})[quota.name] = quota

    def remove(self, namespace: str, name: str) -> None:
        quotas = self.quotas.get(namespace, {})
        quotas.pop(name, None)
        if not quotas:
            self.quotas.pop(namespace, None)

    def hold(self, namespace: str, key: str, grants: Iterable[CardGrant]) -> None:
        """Count what a booking holds, in place of what it held."""
        self.free(namespace, key)
        amount = Amount.of(grants)
        self._held[namespace, key] = amount
        self.used[namespace] = self.used.get(namespace, NOTHING).plus(amount)

    def free(self, namespace: str, key: str) -> None:
        amount = self._held.pop((namespace, key), None)
        if amount:
            self.used[namespace] = self.used[namespace].plus(amount, -1)
            if self.used[namespace] == NOTHING:
                del self.used[namespace]

    def against(self, namespace: str, asked: Amount) -> str:
        """A sentence with the numbers where some quota does not allow `asked` as well, else nothing."""
        used = self.used.get(namespace, NOTHING)
        for name, quota in sorted(self.quotas.get(namespace, {}).items()):
            for most, has, wants, unit in (
                (quota.cards, used.cards, asked.cards, "cards"),
                (quota.memory_mib, used.memory_mib, asked.memory_mib, "MiB of card memory"),
                (quota.core_percent, used.core_percent, asked.core_percent, "% of card compute"),
            ):
                if most is not None and has + wants > most:
                    return (
                        f"the quota {name!r} of namespace {namespace} allows {most} {unit}: "
                        f"{has} are held and {wants} are asked for"
                    )
        return ""
