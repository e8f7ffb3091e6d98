"""Slots: anonymous, stable tokens that the kubelet counts; none belongs to a card."""

from collections.abc import Set

from sublet.model.ids import SlotId

LEAST = 64
MOST = 32_000  # the kubelet reads lists up to 4 MiB; half of what fits


def slot_id(number: int) -> SlotId:
    return SlotId(f"slot-{number:03d}")


def slot_ids(count: int) -> tuple[SlotId, ...]:
    return tuple(slot_id(number) for number in range(count))


def slot_number(slot: SlotId) -> int | None:
    """The number of a slot of ours; None for any other text."""
    word, _, digits = slot.partition("-")
    if word != "slot" or not (digits.isascii() and digits.isdigit()) or slot_id(int(digits)) != slot:
        return None
    return int(digits)


def wanted_count(*, cards: int, shares_per_card: int) -> int:
    return min(max(LEAST, cards * shares_per_card), MOST)


def next_count(current: int, wanted: int, held: Set[SlotId] | None) -> int:
    """How many slots to show now; `held` None means that nobody knows who holds which.

    Grows at once; shrinks only as far as no slot above is held.
    """
    if wanted >= current:
        return wanted
    if held is None:
        return current
    highest = max((slot_number(slot) or 0 for slot in held), default=-1)
    return min(current, max(wanted, highest + 1))


def withheld_slots(count: int, quota: int, held: Set[SlotId]) -> frozenset[SlotId]:
    """Up to `quota` slots that nobody holds, highest id first."""
    free = [slot for slot in slot_ids(count) if slot not in held]
    return frozenset(free[max(0, len(free) - quota) :])
