"""Laws of the agent's core, whatever happens in whatever order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from sublet_agent.core import event as ev
from sublet_agent.core.engine import Engine
from sublet_agent.core.identity import Identity, identify
from sublet_agent.core.observation import Checkpoint, Holding, Listing
from sublet_agent.core.slots import next_count, slot_id, slot_ids, withheld_slots
from sublet_agent.core.start import Give, Known, decide

from sublet.model.claim import ContainerKind
from sublet.model.ids import CardId, PodRef, PodUid, SlotId
from sublet.model.placement import GrantState, LedgerGrant
from tests.unit.agent.words import cards, engine, grant, ledger, listing, meta, observed, verdict, written

CARDS = tuple(CardId(f"GPU-{number}") for number in range(6))
PODS = tuple(PodUid(f"pod-{number}-1111") for number in range(3))
held_slots = st.frozensets(st.integers(0, 99).map(slot_id))


@given(count=st.integers(0, 100), quota=st.integers(0, 200), held=held_slots)
def test_only_slots_that_nobody_holds_are_withheld_and_as_many_as_can_be(
    count: int, quota: int, held: frozenset[SlotId]
) -> None:
    withheld = withheld_slots(count, quota, held)
    free = set(slot_ids(count)) - held
    assert withheld <= free
    assert len(withheld) == min(quota, len(free))
    assert all(slot > other for slot in withheld for other in free - withheld)


@given(current=st.integers(0, 200), wanted=st.integers(0, 200), held=st.none() | held_slots)
def test_a_slot_that_is_held_is_never_dropped(
    current: int, wanted: int, held: frozenset[SlotId] | None
) -> None:
    count = next_count(current, wanted, held)
    assert count >= wanted
    if held is None:
        assert count >= current
    else:
        assert set(slot_ids(current)) & held <= set(slot_ids(count))


slots = st.integers(0, 100).map(slot_id)
holdings = st.builds(
    lambda slot, uid, name: Holding(slot=slot, uid=uid, container=name),
    slots,
    st.sampled_from(PODS),
    st.sampled_from(["i", "main", "two"]),
)
listings = st.builds(
    lambda slot, name: Listing(slot=slot, pod=PodRef("ns", "p"), container=name),
    slots,
    st.sampled_from(["main", "two"]),
)
grants = st.builds(
    lambda card, uid, name, state: grant(card, uid=uid, container=name, state=state),
    st.sampled_from(CARDS),
    st.sampled_from(PODS),
    st.sampled_from(["i", "main", "two"]),
    st.sampled_from(GrantState),
)
starts = st.builds(
    lambda number, slot, uid, name, known: ev.StartAsked(
        ev.Ask(number),
        Identity(
            slot=slot,
            uid=uid,
            containers=frozenset({name}),
            pod=None,
            listed=frozenset({name}) if known else None,
        ),
    ),
    st.integers(),
    slots,
    st.sampled_from(PODS),
    st.sampled_from(["i", "main", "two"]),
    st.booleans(),
)
observations = st.builds(
    lambda found, listed, cgroups, readable, began_s: observed(
        *found,
        listings=tuple(listed) if readable[0] else None,
        cgroups=cgroups if readable[1] else None,
        checkpoint=Checkpoint(holdings=tuple(found)) if readable[2] else None,
        began_s=began_s,
    ),
    st.lists(holdings, max_size=6),
    st.lists(listings, max_size=4),
    st.frozensets(st.sampled_from(PODS)),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.floats(0, 400),
)
events: st.SearchStrategy[ev.Event] = st.one_of(
    st.lists(st.sampled_from(CARDS), unique=True).map(lambda ids: cards(*ids)),
    st.builds(lambda card, bad: verdict(card, withheld=bad), st.sampled_from(CARDS), st.booleans()),
    st.sampled_from(CARDS).map(ev.VerdictGone),
    st.builds(
        lambda found, revision, closed: ev.LedgerSeen(
            ledger(*found, revision=revision, closed=tuple(closed))
        ),
        st.lists(grants, max_size=5),
        st.integers(1, 20),
        st.lists(st.sampled_from(CARDS), max_size=2),
    ),
    st.just(ev.LedgerForgotten()),
    st.none().map(ev.MetaSeen) | st.booleans().map(lambda full: ev.MetaSeen(meta(complete=full))),
    observations,
    st.lists(slots, max_size=3).map(lambda taken: ev.SlotsTaken(tuple(taken))),
    starts,
    st.booleans().map(ev.RegistrationChanged),
    st.just(ev.BusReached()),
    st.just(ev.Tick()),
)
histories = st.lists(events, max_size=40)


def step(one: Engine, event: ev.Event, number: int) -> list[ev.Effect]:
    """Of what is to be written some cannot be."""
    effects = one.handle(event, now=9.0 * number)
    if number % 5 == 0:
        return effects
    return written(one, effects, now=9.0 * number)


def replay(history: list[ev.Event]) -> tuple[Engine, list[list[ev.Effect]]]:
    one = engine()
    return one, [one.begin(), *(step(one, event, number) for number, event in enumerate(history))]


@given(histories)
def test_a_slot_that_somebody_holds_is_never_shown_unhealthy(history: list[ev.Event]) -> None:
    one = engine()
    one.begin()
    for number, event in enumerate(history):
        step(one, event, number)
        assert not one.withheld & (one.held or set(one.taken))
        assert one.withheld <= set(slot_ids(one.slot_count))


@given(histories)
def test_healthy_slots_suffice_for_every_card_that_is_not_withheld(history: list[ev.Event]) -> None:
    one, _ = replay(history)
    bad = {card for card, judged in one.verdicts.items() if judged.withheld}
    good = set(one.cards or ()) - bad
    assert one.slot_count - len(one.withheld) >= len(good) * one.config.shares_per_card


@given(histories)
def test_no_slot_is_shown_before_its_spec_file_was_asked_for(history: list[ev.Event]) -> None:
    _, effects = replay(history)
    kept = 0
    for effect in (effect for several in effects for effect in several):
        if isinstance(effect, ev.KeepSlotCount):
            kept = max(kept, effect.count)
        if isinstance(effect, ev.ShowSlots):
            assert effect.count <= kept


@given(histories)
def test_a_first_start_has_a_grant_on_open_cards_for_that_very_pod_and_container(
    history: list[ev.Event],
) -> None:
    one = engine()
    for number, event in enumerate(history):
        for effect in step(one, event, number):
            if isinstance(effect, ev.Started) and not effect.again:
                assert one.meta is not None
                assert one.meta.complete
                assert one.entry is not None
                assert not set(effect.record.cards) & set(one.entry.closed)
                for name in effect.record.containers:
                    mine = [
                        found
                        for found in one.entry.grants
                        if (found.uid, found.container) == (effect.record.uid, name)
                    ]
                    assert {found.grant.card for found in mine} == set(effect.record.cards)
                    assert all(found.state is GrantState.COMMITTED for found in mine)


@given(histories)
def test_every_start_is_answered_once_or_still_waits(history: list[ev.Event]) -> None:
    asked = [
        replace(event, ask=ev.Ask(n)) if isinstance(event, ev.StartAsked) else event
        for n, event in enumerate(history)
    ]
    one, effects = replay(asked)
    answered = [e.ask for several in effects for e in several if isinstance(e, ev.Started | ev.Refused)]
    wanted = [event.ask for event in asked if isinstance(event, ev.StartAsked)]
    assert sorted([*answered, *one.pending], key=lambda ask: ask.number) == wanted


@given(histories)
def test_replaying_a_history_gives_the_same_state(history: list[ev.Event]) -> None:
    assert replay(history) == replay(history)


@given(st.lists(holdings, max_size=6), st.lists(listings, max_size=6), slots)
def test_an_identity_never_mixes_two_pods(found: list[Holding], listed: list[Listing], slot: SlotId) -> None:
    who = identify(slot, found, listed)
    if isinstance(who, Identity):
        assert {one.uid for one in found if one.slot == slot} == {who.uid}
        assert who.listed is not None
        assert who.listed <= who.containers


@given(
    st.lists(grants, min_size=1, max_size=6),
    st.frozensets(st.sampled_from(["i", "main", "two"]), min_size=1),
)
def test_nobody_gets_a_card_that_none_of_his_grants_names(
    found: list[LedgerGrant], containers: frozenset[str]
) -> None:
    kinds = {"i": ContainerKind.INIT}
    mine = [replace(one, kind=kinds.get(one.container, ContainerKind.MAIN)) for one in found]
    who = Identity(slot=slot_id(0), uid=PODS[0], containers=containers, pod=None, listed=containers - {"i"})
    known = Known(meta=meta(), entry=ledger(*mine), cards={card.id: card for card in cards(*CARDS).cards})
    decision = decide(who, None, known, now=0)
    if isinstance(decision, Give):
        named = {one.grant.card for one in mine if one.uid == PODS[0] and one.container in containers}
        assert set(decision.record.cards) <= named


def test_the_words_above_can_make_a_start() -> None:
    history: list[ev.Event] = [
        cards(*CARDS),
        ev.MetaSeen(meta()),
        ev.LedgerSeen(ledger(grant(CARDS[0], uid=PODS[0]))),
        ev.StartAsked(
            ev.Ask(0),
            Identity(
                slot=slot_id(0),
                uid=PODS[0],
                containers=frozenset({"main"}),
                pod=listing(0).pod,
                listed=frozenset({"main"}),
            ),
        ),
    ]
    _, effects = replay(history)
    assert any(isinstance(effect, ev.Started) for effect in effects[-1])
