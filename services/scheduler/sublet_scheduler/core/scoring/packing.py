"""Three numbers that count one after another, in one integer of 63 bits."""

FIELD_BITS = 30
FIELD_MAX = (1 << FIELD_BITS) - 1
_MOST_GROWN = 7


def packed(grown: int, first: int, second: int) -> int:
    """Compares as the three do; what is outside of a field's range counts as its end."""
    high = min(grown, _MOST_GROWN) << 2 * FIELD_BITS
    return high | min(max(first, 0), FIELD_MAX) << FIELD_BITS | min(max(second, 0), FIELD_MAX)
