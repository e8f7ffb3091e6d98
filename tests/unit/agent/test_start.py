"""Which container may start, and with what."""

from dataclasses import replace
from typing import Any

import pytest
from sublet_agent.core.edits import Runtime
from sublet_agent.core.record import Record
from sublet_agent.core.start import Give, Known, Refuse, Wait, decide

from sublet.contract import keys
from sublet.model.claim import ContainerKind
from sublet.model.ids import PodRef
from sublet.model.placement import GrantState, LedgerGrant
from tests.unit.agent.words import UID, A, B, C, cards, grant, ledger, meta, who

SEEN = cards(A, B)


def known(*grants: LedgerGrant, **more: Any) -> Known:
    values: dict[str, Any] = {
        "meta": meta(),
        "entry": ledger(*grants),
        "cards": {card.id: card for card in SEEN.cards},
        "nodes": SEEN.nodes,
        "boot_id": "b1",
    }
    return Known(**(values | more))


def given(decision: Give | Wait | Refuse) -> Record:
    assert isinstance(decision, Give), decision
    return decision.record


def test_a_container_gets_what_its_grant_says() -> None:
    record = given(decide(who(), None, known(grant(A, env={"X": "1"})), now=5))
    assert record.edits.env == {keys.ENV_NVIDIA_VISIBLE: A, "X": "1"}
    assert [node.host_path for node in record.edits.nodes] == ["/dev/nvidia0"]
    assert (record.uid, record.cards, record.containers) == (UID, (A,), frozenset({"main"}))


def test_cards_stand_in_the_order_of_their_indices() -> None:
    record = given(decide(who(), None, known(grant(B, index=1), grant(A, index=0)), now=5))
    assert record.edits.env[keys.ENV_NVIDIA_VISIBLE] == f"{A},{B}"


def test_the_nvidia_runtime_finds_void() -> None:
    record = given(decide(who(), None, known(grant(A), runtime=Runtime.NVIDIA), now=5))
    assert record.edits.env[keys.ENV_NVIDIA_VISIBLE] == "void"
    assert record.edits.env[keys.ENV_CARDS] == A


def test_init_containers_and_their_heir_all_get_the_heirs_cards() -> None:
    init = grant(A, container="i", kind=ContainerKind.INIT, memory_mib=900, core_percent=1, heir="main")
    heir = [grant(A, core_percent=70), grant(B, index=1)]
    record = given(decide(who("i", "main"), None, known(init, *heir), now=5))
    assert record.cards == (A, B)


def test_init_containers_without_an_heir_get_the_cards_of_the_one_with_most() -> None:
    one = grant(A, container="i1", kind=ContainerKind.INIT)
    two = [grant(card, container="i2", kind=ContainerKind.INIT) for card in (A, B)]
    record = given(decide(who("i1", "i2", pod=None), None, known(one, *two), now=5))
    assert set(record.cards) == {A, B}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"meta": None}, "not complete"),
        ({"meta": meta(complete=False)}, "not complete"),
        ({"entry": None}, "entry of this node was not read"),
        ({"entry": ledger()}, "no grant for pod"),
        ({"entry": ledger(grant(A, container="other"))}, "no grant for pod"),
        ({"cards": None}, "cards of this node were not read"),
    ],
)
def test_what_is_not_known_yet_is_waited_for(changes: dict[str, Any], reason: str) -> None:
    decision = decide(who(), None, known(grant(A), **changes), now=5)
    assert isinstance(decision, Wait)
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("asked", "grants", "reason"),
    [
        (who(listed=set()), [grant(A)], "PodResources gives slot-000 to nobody"),
        (
            who("i", "main", listed={"i"}),
            [grant(A), grant(A, container="i", kind=ContainerKind.INIT)],
            "to i,",
        ),
        (who(pod=PodRef("ns", "else")), [grant(A)], "PodResources gives slot-000 to ns/else"),
        (who("main", "two"), [grant(A), grant(A, container="two")], "run side by side"),
        (who("i", pod=None), [grant(A, container="i", kind=ContainerKind.INIT, heir="x")], "inherit"),
        (who(), [grant(A, state=GrantState.ENDING)], "is ending"),
        (who(), [grant(C)], "granted and not seen"),
        (replace(who(), listed=None), [grant(A)], "PodResources could not be read"),
    ],
)
def test_what_does_not_fit_is_refused_never_guessed(
    asked: Any, grants: list[LedgerGrant], reason: str
) -> None:
    decision = decide(asked, None, known(*grants), now=5)
    assert isinstance(decision, Refuse)
    assert reason in decision.reason


def test_a_closed_card_takes_no_first_start_and_a_restart() -> None:
    record = given(decide(who(), None, known(grant(A)), now=5))
    closed = known(grant(A), entry=ledger(grant(A), closed=(A,)))
    assert isinstance(decide(who(), None, closed, now=6), Refuse)
    assert given(decide(who(), record, closed, now=6)) == record


def test_a_restart_needs_neither_ledger_nor_pod_resources() -> None:
    record = given(decide(who(), None, known(grant(A)), now=5))
    bare = Known(boot_id="b1")
    assert given(decide(replace(who(), listed=None), record, bare, now=6)) == record


def test_a_record_of_another_pod_on_the_same_slot_counts_for_nothing() -> None:
    record = replace(given(decide(who(), None, known(grant(A)), now=5)), uid="else")  # type: ignore[arg-type]
    assert isinstance(decide(who(), record, known(), now=6), Wait)


def test_after_a_reboot_the_device_nodes_are_those_of_now() -> None:
    record = given(decide(who(), None, known(grant(A)), now=5))
    swapped = cards(B, A)
    after = known(boot_id="b2", nodes=swapped.nodes)
    assert [node.host_path for node in given(decide(who(), record, after, now=6)).edits.nodes] == [
        "/dev/nvidia1"
    ]
    assert isinstance(decide(who(), record, Known(boot_id="b2"), now=6), Refuse)
