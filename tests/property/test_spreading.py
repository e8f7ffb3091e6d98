"""The law of memory over several cards: as few as can be, none of them with less room than its share."""

import hypothesis.strategies as st
from hypothesis import given

from tests.builders import container, pod
from tests.conformance.words import Cluster, cards, used

TOTAL_MIB = 1000


@given(st.lists(st.integers(0, TOTAL_MIB), min_size=1, max_size=6), st.integers(1, 6 * TOTAL_MIB + 5))
def test_memory_goes_on_the_smallest_number_of_cards_that_have_it(
    taken_mib: list[int], asked_mib: int
) -> None:
    node = cards("n1", *[TOTAL_MIB] * len(taken_mib))
    grants = {f"_{at}": taken for at, taken in enumerate(taken_mib) if taken}
    placed = Cluster(used(node, **grants)).place(
        pod("p", container("app", **{"volcano.sh/gpu-memory": asked_mib}))
    )
    free = [TOTAL_MIB - taken for taken in taken_mib]
    enough = [
        count
        for count in range(1, len(free) + 1)
        if sum(left >= -(-asked_mib // count) for left in free) >= count
    ]
    if not enough:
        assert placed["outcome"] == "held"
        return
    found = placed["containers"]["app"]
    assert len(found) == enough[0]
    assert {grant["memoryMiB"] for grant in found} == {-(-asked_mib // enough[0])}
    assert all(free[grant["index"]] >= grant["memoryMiB"] for grant in found)
    assert len({grant["card"] for grant in found}) == len(found)
