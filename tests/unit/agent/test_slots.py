"""How many slots there are, and which of them are withheld."""

from sublet_agent.core import event as ev
from sublet_agent.core.slots import next_count, slot_id, slot_number, wanted_count

from sublet.model.ids import NodeName, PodUid
from tests.unit.agent.words import A, B, C, cards, engine, holding, observed, shown, slots, verdict

OTHER = PodUid("22222222-bbbb")


def test_a_node_has_at_least_64_slots() -> None:
    assert wanted_count(cards=0, shares_per_card=16) == 64
    assert wanted_count(cards=8, shares_per_card=16) == 128


def test_a_slot_id_names_its_number_and_nothing_else_does() -> None:
    assert slot_number(slot_id(7)) == 7
    assert slot_number(slot_id(1234)) == 1234
    assert [slot_number(text) for text in (slot_id(0)[:-1], "slot-0007", "GPU-7", "slot-x")] == [None] * 4  # type: ignore[arg-type]


def test_slots_do_not_shrink_below_one_that_is_held() -> None:
    assert next_count(128, 64, slots(100)) == 101
    assert next_count(128, 64, slots(3)) == 64
    assert next_count(128, 64, None) == 128
    assert next_count(64, 128, None) == 128


def test_everything_is_on_disk_before_the_first_list() -> None:
    assert engine().begin() == [ev.KeepSlotCount(64), ev.ShowSlots(64, frozenset())]


def test_a_withheld_card_takes_as_many_slots_as_it_has_shares_highest_first() -> None:
    one = engine()
    one.handle(cards(A, B), now=1)
    one.handle(observed(holding(63)), now=1)
    assert shown(one.handle(verdict(A, withheld=True), now=2)).withheld == slots(*range(47, 63))
    assert shown(one.handle(verdict(A, withheld=False), now=3)).withheld == frozenset()


def test_a_slot_that_was_just_given_is_taken_back_from_the_withheld() -> None:
    one = engine()
    one.handle(observed(), now=1)
    one.handle(verdict(A, withheld=True), now=2)
    assert shown(one.handle(ev.SlotsTaken((slot_id(63),)), now=3)).withheld == slots(*range(47, 63))


def test_a_verdict_of_another_node_changes_nothing() -> None:
    one = engine()
    one.handle(observed(), now=1)
    assert one.handle(verdict(A, withheld=True, node=NodeName("n2")), now=2) == []


def test_a_lost_card_that_the_driver_lists_no_more_still_counts_as_withheld() -> None:
    one = engine()
    one.handle(observed(), now=1)
    one.handle(cards(A, B, C), now=1)
    one.handle(verdict(A, withheld=True), now=2)
    one.handle(cards(B, C), now=3)
    assert (one.slot_count, len(one.withheld)) == (64, 16)


def test_while_the_checkpoint_is_unreadable_no_further_slot_is_withheld() -> None:
    one = engine()
    one.handle(observed(), now=1)
    one.handle(verdict(A, withheld=True), now=2)
    one.handle(observed(checkpoint=None), now=3)
    assert one.handle(verdict(B, withheld=True), now=4) == []
    assert shown(one.handle(ev.SlotsTaken((slot_id(50),)), now=5)).withheld == slots(*range(48, 64)) - slots(
        50
    )


def test_a_pod_that_the_checkpoint_still_names_though_it_is_gone_holds_nothing() -> None:
    one = engine()
    one.handle(observed(holding(0, OTHER), cgroups=frozenset()), now=1)
    assert one.held == frozenset()
    one.handle(observed(holding(0, OTHER), cgroups=frozenset({OTHER})), now=2)
    assert one.held == slots(0)
    one.handle(observed(holding(0, OTHER), cgroups=None), now=3)
    assert one.held == slots(0)
