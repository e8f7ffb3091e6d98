"""Who uses or sees cards that were not given to them, as the agent finds it."""

from pathlib import Path

import pytest
from sublet_agent.core import event as ev
from sublet_agent.core.exposure import exposed_cards
from sublet_agent.core.observation import Exposure, Process
from sublet_agent.shell.environs import exposures

from sublet.model.card import Partition
from sublet.model.ids import CardId, PodUid
from sublet.model.placement import CardUse
from tests.builders import card
from tests.unit.agent.words import (
    UID,
    A,
    B,
    cards,
    engine,
    grant,
    holding,
    ledger,
    meta,
    observed,
    who,
    written,
)

STRANGER = PodUid("33333333-cccc")
NODES = frozenset({0, 1})


def uses(
    *containers: Exposure, processes: tuple[Process, ...] = (), alive: PodUid = STRANGER
) -> list[CardUse]:
    """What occupancy says of the cards A and B; pod UID was given A."""
    one = engine()
    for event in (cards(A, B), ev.MetaSeen(meta()), ev.LedgerSeen(ledger(grant(A)))):
        one.handle(event, now=0)
    written(one, one.handle(ev.StartAsked(ev.Ask(1), who()), now=50), now=50)
    seen = observed(holding(0), exposures=containers, processes=processes, cgroups=frozenset({UID, alive}))
    [record] = [
        effect.occupancy for effect in one.handle(seen, now=101) if isinstance(effect, ev.PublishOccupancy)
    ]
    return list(record.cards)


def sees(visible: str, uid: PodUid = STRANGER, **more: object) -> Exposure:
    return Exposure(uid=uid, visible=visible, **{"minors": NODES, **more})  # type: ignore[arg-type]


def by(found: list[CardUse]) -> list[tuple[str, ...]]:
    return [use.outside_by for use in found]


def test_a_pod_whose_variables_name_cards_is_outside_on_each_of_them() -> None:
    assert by(uses(sees("all"))) == [(f"pod {STRANGER}",)] * 2
    assert by(uses(sees("1"))) == [(), (f"pod {STRANGER}",)]


def test_a_pod_is_not_outside_on_the_card_that_it_was_given() -> None:
    assert by(uses(sees("all", uid=UID))) == [(), (f"pod {UID}",)]
    assert by(uses(sees(A, uid=UID))) == [(), ()]


def test_a_pod_that_has_gone_since_its_variables_were_read_counts_no_more() -> None:
    assert by(uses(sees("all"), alive=PodUid("44444444-dddd"))) == [(), ()]


def test_processes_beside_kubernetes_are_named_with_their_program() -> None:
    found = uses(
        processes=(
            Process(card=A, pid=7, used_mib=20, uid=None, name="Xorg"),
            Process(card=A, pid=8, used_mib=5, uid=STRANGER),
            Process(card=A, pid=9, used_mib=1, uid=UID),
        )
    )
    assert found[0] == CardUse(
        card=A,
        processes=3,
        used_mib=26,
        outside_mib=25,
        outside_by=(f"pod {STRANGER}", "process 7 Xorg"),
    )


WHOLE = card("GPU-0", index=0)
[SPLIT] = type(WHOLE)(
    id=CardId("GPU-1"),
    index=1,
    minor=1,
    partitions=(Partition(uuid="MIG-1", profile="1g.5gb", memory_mib=4864),),
).offered


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("", []),
        ("void", []),
        ("none", []),
        ("all", ["GPU-0", "MIG-1"]),
        ("0", ["GPU-0"]),
        ("1, GPU-0", ["GPU-0", "MIG-1"]),
        ("MIG-1", ["MIG-1"]),
        ("GPU-1", ["MIG-1"]),
        ("7,GPU-9", []),
    ],
)
def test_cards_are_named_by_index_uuid_or_all(visible: str, expected: list[str]) -> None:
    assert sorted(exposed_cards(sees(visible), (WHOLE, SPLIT))) == expected


@pytest.mark.parametrize(
    ("capabilities", "counts"),
    [("", True), ("all", True), ("compute,utility", True), ("utility", False), ("utility,", False)],
)
def test_who_may_only_look_at_cards_uses_none(capabilities: str, counts: bool) -> None:
    assert bool(exposed_cards(sees("all", capabilities=capabilities), (WHOLE,))) is counts


def test_a_card_whose_device_node_is_not_in_the_container_is_not_seen() -> None:
    assert exposed_cards(sees("all", minors=frozenset({1})), (WHOLE, SPLIT)) == {"MIG-1"}
    unknown = type(WHOLE)(id=CardId("GPU-2"), index=2)
    assert exposed_cards(sees("all", minors=frozenset()), (WHOLE, unknown)) == {"GPU-2"}


def process(proc: Path, pid: int, cgroup: str, environ: dict[str, str], *nodes: str) -> None:
    folder = proc / str(pid)
    (folder / "root" / "dev").mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    (folder / "environ").write_bytes(b"".join(f"{k}={v}".encode() + b"\0" for k, v in environ.items()))
    for node in nodes:
        (folder / "root" / "dev" / node).touch()


def test_variables_are_read_from_the_first_process_of_each_container(tmp_path: Path) -> None:
    """Those of an image stand there as those of the pod do."""
    kubepods = "/kubepods/besteffort/pod"
    image = {"PATH": "/bin", "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    process(tmp_path, 12, f"{kubepods}{STRANGER}/c1", {"NVIDIA_VISIBLE_DEVICES": "3"})
    process(tmp_path, 9, f"{kubepods}{STRANGER}/c1", image, "nvidia0", "nvidia1", "nvidiactl", "null")
    process(tmp_path, 10, f"{kubepods}{UID}/c1", {"NVIDIA_VISIBLE_DEVICES": "void"})
    process(tmp_path, 11, "/system.slice/ssh.service", {"NVIDIA_VISIBLE_DEVICES": "all"})
    (tmp_path / "13").mkdir()
    (tmp_path / "self").mkdir()
    assert exposures(tmp_path) == (
        Exposure(uid=STRANGER, visible="all", capabilities="compute,utility", minors=frozenset({0, 1})),
    )


def test_a_process_that_can_be_read_in_part_is_left_out(tmp_path: Path) -> None:
    process(tmp_path, 9, f"/kubepods/pod{STRANGER}/c1", {"NVIDIA_VISIBLE_DEVICES": "all"})
    (tmp_path / "9" / "environ").unlink()
    assert exposures(tmp_path) == ()
