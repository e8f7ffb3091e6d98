"""The engine: what it does with starts, the ledger, observations and the bus."""

from sublet_agent.core import event as ev
from sublet_agent.core.engine import Config, Engine
from sublet_agent.core.observation import Checkpoint, Process

from sublet.model.card import Inventory
from sublet.model.ids import CardId, PodUid
from sublet.model.placement import CardUse, GrantState, Occupancy
from sublet.model.reasons import Reason
from tests.unit.agent.words import (
    NODE,
    POD,
    SLOT,
    UID,
    A,
    B,
    cards,
    engine,
    grant,
    holding,
    ledger,
    listing,
    meta,
    observed,
    shown,
    verdict,
    who,
    written,
)

ASK = ev.Ask(1)


def ready(*ids: CardId) -> Engine:
    """An engine that knows its cards and a complete, empty ledger."""
    one = engine(grant_wait_s=20)
    one.handle(cards(*ids or (A, B)), now=0)
    one.handle(ev.MetaSeen(meta()), now=0)
    one.handle(ev.LedgerSeen(ledger(revision=1)), now=0)
    return one


def answers(effects: list[ev.Effect]) -> list[ev.Effect]:
    return [effect for effect in effects if isinstance(effect, ev.Started | ev.Refused)]


def occupancies(effects: list[ev.Effect]) -> list[Occupancy]:
    return [effect.occupancy for effect in effects if isinstance(effect, ev.PublishOccupancy)]


def inventories(effects: list[ev.Effect]) -> list[Inventory]:
    return [effect.inventory for effect in effects if isinstance(effect, ev.PublishInventory)]


def test_a_start_without_a_grant_reads_the_ledger_past_the_watch_and_waits() -> None:
    one = ready()
    assert one.handle(ev.StartAsked(ASK, who()), now=1) == [ev.ReadLedger(0)]
    assert ev.ReadLedger(0) in one.handle(ev.Tick(), now=2)
    [started] = answers(one.handle(ev.LedgerSeen(ledger(grant(A), revision=2)), now=3))
    assert isinstance(started, ev.Started)
    assert started.record.cards == (A,)


def test_a_start_that_waited_too_long_is_refused_with_what_it_waited_for() -> None:
    one = ready()
    one.handle(ev.StartAsked(ASK, who()), now=1)
    assert answers(one.handle(ev.Tick(), now=20.9)) == []
    [refused] = answers(one.handle(ev.Tick(), now=21))
    assert isinstance(refused, ev.Refused)
    assert "no grant" in refused.reason
    assert one.pending == {}


def test_an_answer_from_before_the_ledger_was_forgotten_counts_for_nothing() -> None:
    one = ready()
    one.handle(ev.LedgerForgotten(), now=1)
    stale = ev.LedgerRead(generation=0, meta=meta(), entry=ledger(grant(A), revision=9))
    assert one.handle(stale, now=2) == []
    assert one.entry is None
    one.handle(ev.LedgerRead(generation=1, meta=meta(), entry=ledger(grant(A), revision=2)), now=3)
    assert one.entry == ledger(grant(A), revision=2)


def test_another_epoch_makes_the_entry_unknown() -> None:
    one = ready()
    assert one.handle(ev.MetaSeen(meta(epoch="m2")), now=1) == [ev.ReadLedger(1)]
    assert one.entry is None
    assert answers(one.handle(ev.StartAsked(ASK, who()), now=2)) == []


def test_an_older_entry_never_replaces_a_newer_one() -> None:
    one = ready()
    one.handle(ev.LedgerSeen(ledger(grant(A), revision=5)), now=1)
    assert one.handle(ev.LedgerSeen(ledger(revision=4)), now=2) == []


def test_every_new_revision_is_followed_by_a_look_and_ending_grants_by_one_a_tick() -> None:
    one = ready()
    assert ev.Look() in one.handle(ev.LedgerSeen(ledger(revision=2, closed=(A,))), now=1)
    assert ev.Look() not in one.handle(ev.Tick(), now=2)
    one.handle(ev.LedgerSeen(ledger(grant(A, state=GrantState.ENDING), revision=3)), now=3)
    assert ev.Look() in one.handle(ev.Tick(), now=4)


def test_an_observation_is_evidence_for_the_revision_that_was_read_before_it() -> None:
    one = ready()
    [record] = occupancies(one.handle(observed(revision=7), now=1))
    assert record.ledger_revision == 7
    one.handle(ev.LedgerForgotten(), now=2)
    [record] = occupancies(one.handle(observed(revision=7), now=3))
    assert record.ledger_revision == 0


def kept(effects: list[ev.Effect]) -> list[ev.KeepVerdicts]:
    return [effect for effect in effects if isinstance(effect, ev.KeepVerdicts)]


def test_a_verdict_of_a_card_that_was_ever_in_trouble_is_kept() -> None:
    one = ready()
    assert kept(one.handle(verdict(A, withheld=False), now=1)) == []
    bad = verdict(A, withheld=True, seq=2, since_ms=5)
    assert kept(one.handle(bad, now=2)) == [ev.KeepVerdicts((bad.verdict,))]
    assert kept(one.handle(bad, now=3)) == []
    well = verdict(A, withheld=False, seq=3, since_ms=9)
    assert kept(one.handle(well, now=4)) == [ev.KeepVerdicts((well.verdict,))]
    assert kept(one.handle(ev.VerdictGone(A), now=5)) == [ev.KeepVerdicts(())]


def test_a_healthd_that_begins_to_count_anew_does_not_make_the_agent_forget() -> None:
    one = ready()
    bad = verdict(A, withheld=True, seq=2, since_ms=5)
    one.handle(bad, now=1)
    for anew in (
        verdict(A, withheld=False),
        verdict(A, withheld=False, seq=1),
        verdict(A, withheld=True, seq=2),
    ):
        assert kept(one.handle(anew, now=2)) == []
    assert list(one.kept.values()) == [bad.verdict]


def test_a_card_that_was_withheld_stays_so_over_a_restart_without_the_bus() -> None:
    bad = verdict(A, withheld=True, seq=2).verdict
    one = Engine(Config(node=NODE, boot_id="b1", epoch="e2"), kept={A: bad})
    assert shown(one.begin()).withheld == frozenset()
    one.handle(cards(A, B), now=0)
    assert len(shown(one.handle(observed(), now=1)).withheld) == 16


def prepared() -> Engine:
    one = ready()
    one.handle(ev.LedgerSeen(ledger(grant(A), revision=2)), now=50)
    written(one, one.handle(ev.StartAsked(ASK, who()), now=50))
    return one


def test_only_what_was_written_starts_again() -> None:
    """The disk was full at the first start, and the card closed meanwhile."""
    one = ready()
    one.handle(ev.LedgerSeen(ledger(grant(A), revision=2)), now=1)
    [started] = answers(one.handle(ev.StartAsked(ASK, who()), now=1))
    assert isinstance(started, ev.Started)
    one.handle(ev.LedgerSeen(ledger(grant(A), revision=3, closed=(A,))), now=2)
    [refused] = answers(one.handle(ev.StartAsked(ASK, who()), now=3))
    assert isinstance(refused, ev.Refused)
    assert "closed" in refused.reason


def test_slots_that_could_not_be_written_are_tried_again() -> None:
    one = engine()
    assert ev.KeepSlotCount(64) in one.begin()
    one.handle(ev.SlotsUnkept(), now=0)
    again = one.handle(observed(), now=1)
    assert ev.KeepSlotCount(64) in again
    assert shown(again) == ev.ShowSlots(64, frozenset())
    assert ev.KeepSlotCount(64) not in one.handle(observed(), now=2)


def test_verdicts_that_could_not_be_written_are_written_later() -> None:
    one = ready()
    bad = verdict(A, withheld=True, seq=2)
    one.handle(bad, now=1)
    assert kept(one.handle(ev.Tick(), now=2)) == []
    one.handle(ev.VerdictsUnkept(), now=3)
    assert kept(one.handle(ev.Tick(), now=4)) == [ev.KeepVerdicts((bad.verdict,))]
    assert kept(one.handle(ev.Tick(), now=5)) == []


def test_a_record_goes_when_every_source_says_that_its_pod_is_gone() -> None:
    one = prepared()
    effects = one.handle(observed(cgroups=frozenset()), now=101)
    assert ev.Forget(SLOT) in effects
    assert occupancies(effects)[0].prepared == ()


def test_a_record_stays_while_anything_is_left_or_unknown() -> None:
    for seen in (
        observed(holding(0), listings=(listing(0),), cgroups=frozenset()),
        observed(cgroups=frozenset({UID})),
        observed(cgroups=None),
        observed(listings=None, cgroups=frozenset()),
        observed(checkpoint=None, cgroups=frozenset()),
        observed(cgroups=frozenset(), began_s=49),
    ):
        one = prepared()
        assert ev.Forget(SLOT) not in one.handle(seen, now=101)


def test_occupancy_names_the_pod_of_a_slot_that_pod_resources_does_not_list() -> None:
    one = prepared()
    [record] = occupancies(one.handle(observed(holding(0, container="i")), now=101))
    assert [(use.uid, use.pod, use.container) for use in record.slots] == [(UID, POD, "i")]


def test_processes_of_nobody_whom_we_prepared_are_outside() -> None:
    one = prepared()
    stranger = PodUid("33333333-cccc")
    processes = tuple(
        Process(card=A, pid=pid, used_mib=mib, uid=uid)
        for pid, mib, uid in ((1, 10, UID), (2, 20, None), (3, 40, stranger))
    )
    [record] = occupancies(one.handle(observed(processes=processes, processes_read=True), now=101))
    outside_by = (f"pod {stranger}", "process 2")
    assert record.cards[0] == CardUse(card=A, processes=3, used_mib=70, outside_mib=60, outside_by=outside_by)


def test_a_plugin_of_another_vendor_for_the_same_cards_is_a_problem() -> None:
    for resource in (
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "aliyun.com/gpu-mem",
        "amd.com/gpu",
        "amd.com/cpx_nps1",
        "volcano.sh/gpu-memory",
        "tencent.com/vcuda-core",
        "nvidia.com/gpumem",
    ):
        one = ready()
        [inventory] = inventories(
            one.handle(observed(checkpoint=Checkpoint(served={resource: 1, "example.com/nic": 2})), now=1)
        )
        assert inventory.problems == (Reason.FOREIGN_PLUGIN,)
    one = ready()
    gone = observed(checkpoint=Checkpoint(served={"nvidia.com/gpu": 0}))
    assert inventories(one.handle(gone, now=1)) == []


def test_a_plugin_that_left_is_a_problem_until_nobody_holds_what_it_gave() -> None:
    one = ready()
    held = observed(others=frozenset({"nvidia.com/gpu", "example.com/nic"}))
    [inventory] = inventories(one.handle(held, now=1))
    assert inventory.problems == (Reason.FOREIGN_PLUGIN,)
    assert inventories(one.handle(observed(listings=None), now=2)) == []
    [inventory] = inventories(one.handle(observed(), now=3))
    assert inventory.problems == ()


def test_problems_of_the_card_source_are_passed_on() -> None:
    one = engine()
    seen = cards(A)
    mig = ev.CardsSeen(cards=seen.cards, nodes=seen.nodes, problems=("MigUnsupported",))
    assert inventories(one.handle(mig, now=1))[0].problems == ("MigUnsupported",)


def test_an_inventory_is_published_when_it_differs() -> None:
    one = ready()
    assert inventories(one.handle(cards(A, B), now=1)) == []
    assert inventories(one.handle(ev.RegistrationChanged(True), now=2))[0].registered
    assert inventories(one.handle(ev.RegistrationChanged(True), now=3)) == []


def test_a_bus_that_is_reached_hears_who_the_cards_are() -> None:
    one = ready()
    [announced] = one.handle(ev.BusReached(), now=1)
    assert isinstance(announced, ev.Announce)
    assert [card.id for card in announced.cards] == [A, B]


def test_what_was_prepared_before_a_restart_of_the_agent_is_restored_first() -> None:
    before = prepared()
    after = Engine(before.config, records=dict(before.records), slot_count=0)
    restored, *others = after.begin()
    assert restored == ev.Restore(SLOT, before.records[SLOT].edits)
    assert others == [ev.KeepSlotCount(64), ev.ShowSlots(64, frozenset())]
