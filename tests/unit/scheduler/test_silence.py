"""Which nodes were not heard of lately is the same as asking every node, in any history."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from sublet_scheduler.core.fleet import Fleet

from sublet.model.ids import NodeName

FRESH_S = 3.0
NAMES = [NodeName(name) for name in "abc"]

steps = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["hear", "late", "forget", "add", "wait"]))
)


@given(steps)
def test_the_silent_nodes_are_those_without_a_fresh_beat(history: Sequence[tuple[NodeName, str]]) -> None:
    fleet, now = Fleet(), 0.0
    for name, what in history:
        now += 1.0
        if what in {"hear", "late"}:
            fleet.hear(name, now - (2.0 if what == "late" else 0.0))
        elif what == "forget":
            fleet.forget(name)
        elif what == "add":
            fleet.node(name)
        oldest = now - FRESH_S
        silent = {one.name for one in fleet.nodes.values() if one.beat_s is None or one.beat_s < oldest}
        assert fleet.not_counted_on(oldest) == silent


def test_a_node_whose_cards_somebody_else_hands_out_is_not_counted_on() -> None:
    fleet = Fleet()
    fleet.hear(NAMES[0], 0.0)
    node = fleet.node(NAMES[0])
    for dra, foreign in ((True, None), (False, True)):
        fleet.share_with(node, dra=dra, foreign=foreign)
        assert fleet.not_counted_on(0.0) == {NAMES[0]}
    fleet.share_with(node, foreign=False)
    assert fleet.not_counted_on(0.0) == set()
