"""How much more of a card than it has may be promised to shares: ratios by card model or node label.

Ratios are exact: what may be promised is rounded down to whole MiB and whole percent. They are for shares
alone. A whole card is what it is, and no single share is larger than its card.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sublet.model.card import Card
from sublet.model.errors import BadRequest

MOST = 10
_NUMBER = re.compile(r"\d{1,4}(\.\d{1,4})?")
_EXAMPLE = "Write <card model>:<ratio> or <node label>=<value>:<ratio>, for example T4:1.5 or pool=dev:2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """For cards whose model contains `model` (small letters), or on nodes whose `label` has `value`."""

    ratio: Fraction
    model: str = ""
    label: str = ""
    value: str = ""

    def holds(self, card: Card, labels: Mapping[str, str]) -> bool:
        if self.label:
            return labels.get(self.label) == self.value
        return self.model in card.model.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overcommit:
    """Of the entries that hold for a card the first counts."""

    memory: tuple[Ratio, ...] = ()
    core: tuple[Ratio, ...] = ()

    @classmethod
    def read(cls, *, memory: Sequence[str], core: Sequence[str]) -> "Overcommit":
        """From the settings: entries such as ``T4:1.5`` and ``pool=dev:2``.

        Raises:
            BadRequest: an entry that is not of this form, or a ratio that is not from 1 to 10.
        """
        return cls(memory=tuple(_ratio(text) for text in memory), core=tuple(_ratio(text) for text in core))

    def __bool__(self) -> bool:
        return bool(self.memory or self.core)

    @property
    def by_label(self) -> bool:
        """Whether it depends on nodes' labels."""
        return any(one.label for one in (*self.memory, *self.core))

    def on(self, card: Card, labels: Mapping[str, str]) -> Card:
        """The card with what may be promised of it on a node with these labels."""
        if card.memory_mib is None or card.profile or card.is_unpartitioned:
            return card  # it takes whole claims only
        memory, core = _first(self.memory, card, labels), _first(self.core, card, labels)
        if memory is None and core is None:
            return card
        shareable_mib = card.shareable_mib if memory is None else int(card.memory_mib * memory)
        percent = card.shareable_core_percent if core is None else int(100 * core)
        return replace(card, shareable_mib=shareable_mib, shareable_core_percent=percent)


def _first(ratios: Sequence[Ratio], card: Card, labels: Mapping[str, str]) -> Fraction | None:
    return next((one.ratio for one in ratios if one.holds(card, labels)), None)


def _ratio(text: str) -> Ratio:
    selector, colon, number = text.rpartition(":")
    label, equals, value = selector.partition("=")
    if not colon or not selector.strip() or (equals and not (label and value)):
        raise BadRequest(f"{text!r} does not say which cards it is about", hint=_EXAMPLE)
    if not _NUMBER.fullmatch(number) or not 1 <= Fraction(number) <= MOST:
        raise BadRequest(
            f"{text!r} has the ratio {number!r}, which is not a plain number from 1 to {MOST}", hint=_EXAMPLE
        )
    if equals:
        return Ratio(ratio=Fraction(number), label=label, value=value)
    return Ratio(ratio=Fraction(number), model=selector.strip().lower())
