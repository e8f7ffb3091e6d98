"""Partitions on the node: containers get their own and no other, also after the card was divided anew."""

from dataclasses import replace

import pytest
from sublet_agent.core import event as ev
from sublet_agent.core.edits import Node, Runtime
from sublet_agent.core.engine import Engine
from sublet_agent.core.record import Record, record_in, record_out

from sublet.contract import keys
from sublet.model.card import Card, Partition
from sublet.model.health import DESTROYED, HealthState
from sublet.model.ids import CardId
from tests.unit.agent.words import (
    A,
    B,
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

ONE, TWO, NEW = CardId("MIG-1"), CardId("MIG-2"), CardId("MIG-3")
ASK = ev.Ask(1)


def node(path: str) -> Node:
    return Node(host_path=path, container_path=path)


def divided(*parts: tuple[CardId, int]) -> ev.CardsSeen:
    """Card A in MIG mode, with partitions (UUID, GPU instance), and card B, which is whole."""
    partitions = tuple(
        Partition(uuid=part, profile="1g.5gb", memory_mib=4864, gi=gi, ci=0) for part, gi in parts
    )
    own = {part: (node("/dev/nvidia0"), node(f"/dev/nvidia-caps/nvidia-cap{gi}")) for part, gi in parts}
    return ev.CardsSeen(
        cards=(
            Card(id=A, index=0, memory_mib=40_000, mig=True, partitions=partitions),
            Card(id=B, index=1, memory_mib=40_000),
        ),
        nodes={A: (node("/dev/nvidia0"),), B: (node("/dev/nvidia1"),), **own},
    )


def ready(*grants: CardId, closed: tuple[CardId, ...] = (), **config: object) -> Engine:
    one = engine(**config)
    one.begin()
    one.handle(divided((ONE, 1), (TWO, 2)), now=0)
    one.handle(ev.MetaSeen(meta()), now=0)
    one.handle(ev.LedgerSeen(ledger(*map(grant, grants), closed=closed)), now=0)
    return one


def start(one: Engine, *, now: float = 1) -> Record | str:
    """What the container gets, or why it does not start."""
    for effect in written(one, one.handle(ev.StartAsked(ASK, who()), now=now)):
        match effect:
            case ev.Started(_, record):
                return record
            case ev.Refused(_, reason):
                return reason
    return "waits"


def record_of(one: Engine) -> Record:
    found = start(one)
    assert isinstance(found, Record)
    return found


def partitions(effects: list[ev.Effect]) -> list[str]:
    """Those of card A in the newest inventory among `effects`."""
    told = [one.inventory for one in effects if isinstance(one, ev.PublishInventory)]
    return [part.uuid for part in told[-1].cards[0].partitions]


def test_a_container_gets_its_partition_by_uuid_and_by_its_own_nodes() -> None:
    edits = record_of(ready(TWO)).edits
    assert edits.env == {keys.ENV_NVIDIA_VISIBLE: "MIG-2"}
    assert [one.host_path for one in edits.nodes] == ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap2"]


def test_several_partitions_come_with_all_their_nodes_once() -> None:
    edits = record_of(ready(ONE, TWO)).edits
    assert edits.env == {keys.ENV_NVIDIA_VISIBLE: "MIG-1,MIG-2"}
    assert [one.host_path for one in edits.nodes] == [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia-caps/nvidia-cap2",
    ]


def test_the_vendors_runtime_is_kept_from_giving_it_a_second_time() -> None:
    env = record_of(ready(ONE, runtime=Runtime.NVIDIA)).edits.env
    assert env == {keys.ENV_NVIDIA_VISIBLE: "void", keys.ENV_CARDS: "MIG-1"}


@pytest.mark.parametrize("closed", [ONE, A])
def test_a_partition_that_is_closed_or_whose_card_is_takes_no_first_start(closed: CardId) -> None:
    assert start(ready(ONE, closed=(closed,))) == ("card MIG-1 is closed and this container never ran on it")


def test_a_closed_partition_says_nothing_against_its_siblings() -> None:
    assert isinstance(start(ready(TWO, closed=(ONE,))), Record)


def test_a_card_in_mig_mode_is_never_given_whole() -> None:
    assert start(ready(A)) == "card GPU-a is granted whole and in MIG mode"


def test_a_partition_that_is_gone_before_the_first_start_is_refused() -> None:
    one = ready(ONE)
    one.handle(divided((TWO, 2)), now=0)
    assert start(one) == "card MIG-1 is granted and not seen on this node"


def test_a_container_never_starts_again_on_a_partition_that_was_destroyed() -> None:
    one = ready(ONE)
    assert isinstance(start(one), Record)
    one.handle(divided((NEW, 1), (TWO, 2)), now=2)
    assert start(one, now=3) == "partition MIG-1 is there no more; delete the pod"


def test_a_container_on_a_partition_starts_again_after_the_agent_did_but_not_before_it_looked() -> None:
    before = ready(ONE)
    kept = record_in(record_out(record_of(before)))
    one = engine()
    one.records[kept.slot] = kept
    one.begin()
    assert start(one) == "waits"
    effects = one.handle(divided((ONE, 1)), now=2)
    assert [type(effect) for effect in effects if isinstance(effect, ev.Started)] == [ev.Started]


def test_a_record_of_before_there_were_partitions_is_read() -> None:
    record = record_of(ready(ONE))
    old = record_out(replace(record, parents={})).replace('"parents": {},', "")
    assert record_in(old).parents == {}


def test_partitions_that_exist_are_published_as_they_come_and_go() -> None:
    one = engine()
    one.begin()
    assert partitions(one.handle(divided((ONE, 1)), now=0)) == ["MIG-1"]
    assert partitions(one.handle(divided((ONE, 1), (TWO, 2)), now=1)) == ["MIG-1", "MIG-2"]
    assert partitions(one.handle(divided(), now=2)) == []


def test_a_new_partition_is_not_offered_while_a_container_holds_the_nodes_of_the_old_one() -> None:
    one = ready(ONE)
    start(one)
    held = observed(holding(0), listings=(listing(0),))
    one.handle(held, now=2)
    assert partitions(one.handle(divided((NEW, 1), (TWO, 2)), now=3)) == ["MIG-2"]
    gone = observed(listings=(), cgroups=frozenset(), began_s=200)
    assert partitions(one.handle(gone, now=200)) == ["MIG-3", "MIG-2"]


def test_a_withheld_partition_withholds_one_slot_and_a_withheld_card_all_of_its_own() -> None:
    one = ready(shares_per_card=16)
    one.handle(observed(), now=1)
    assert len(shown(one.handle(verdict(ONE, withheld=True), now=2)).withheld) == 1
    assert len(shown(one.handle(verdict(A, withheld=True), now=3)).withheld) == 16


def test_a_destroyed_partition_withholds_nothing() -> None:
    one = ready(shares_per_card=16)
    one.handle(observed(), now=1)
    gone = verdict(NEW, withheld=True).verdict
    told = replace(gone, rule=DESTROYED, state=HealthState.LOST)
    assert [
        effect for effect in one.handle(ev.VerdictSeen(told), now=2) if isinstance(effect, ev.ShowSlots)
    ] == []
    assert one.slot_count == 64
