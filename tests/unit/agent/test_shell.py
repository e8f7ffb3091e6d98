"""Parts of the shell that need neither kubelet nor bus."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sublet_agent.core.bucket import BURST, KINDS
from sublet_agent.core.edits import Edits, Injection, Node
from sublet_agent.core.record import Record, record_in, record_out
from sublet_agent.settings import Settings
from sublet_agent.shell.cgroups import pod_of_pid, pods_with_cgroups
from sublet_agent.shell.publisher import Publisher
from sublet_agent.shell.pulse import Pulse
from sublet_agent.shell.signals import Announcer, SignalBox, once_id
from sublet_agent.shell.sockets import target
from sublet_agent.shell.state import State

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.bus.port import Upserted
from sublet.cards.port import Observation
from sublet.contract import subjects
from sublet.model.card import Inventory
from sublet.model.errors import BadRequest
from sublet.model.health import Action, OpenReason, SignalKind
from sublet.model.ids import CardId, DecisionId, PodUid
from sublet.model.level import SUPPRESSED
from sublet.wire.health import signal_in
from sublet.wire.node import inventory_in
from tests.unit.agent.words import NODE, POD, SLOT, UID, A, B, verdict

BOTH = frozenset({PodUid("11111111-a"), PodUid("22222222-b")})
RECORD = Record(
    slot=SLOT,
    uid=UID,
    pod=POD,
    containers=frozenset({"main", "i"}),
    decision=DecisionId("d1"),
    cards=(A, B),
    edits=Edits(env={"A": "1"}, nodes=(Node(host_path="/h", container_path="/c"),)),
    boot_id="b1",
)


def test_a_record_comes_back_as_it_was() -> None:
    assert record_in(record_out(RECORD)) == RECORD


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2}', record_out(RECORD).replace('"uid"', '"u"')]
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        record_in(text)


def test_state_survives_on_disk_and_skips_what_is_broken(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert (state.read_count(), state.read_records()) == (0, {})
    state.write_count(128)
    state.write_record(RECORD)
    (tmp_path / "prepared" / "slot-001.json").write_text("{")
    (tmp_path / "prepared" / "slot-002.json").write_bytes(b"\xff\xfe\x00")  # after a power cut
    (tmp_path / "prepared" / "slot-003.json").write_text("[" * 100_000)
    again = State(tmp_path)
    assert (again.read_count(), again.read_records()) == (128, {SLOT: RECORD})
    again.drop_record(SLOT)
    (tmp_path / "slots.json").write_text("{")
    assert (again.read_count(), again.read_records()) == (0, {})


def test_verdicts_survive_on_disk_and_an_unreadable_file_holds_none(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.read_verdicts() == ()
    one = verdict(A, withheld=True, seq=3).verdict
    reason = OpenReason(
        id="xid:79",
        kind="xid",
        klass="bus",
        latched=True,
        leave=True,
        clears_on="reboot",
        action=Action.REBOOT_NODE,
        first_seen_ms=1,
        last_seen_ms=2,
    )
    state.write_verdicts((replace(one, reasons=(reason,)), verdict(B, withheld=False).verdict))
    assert State(tmp_path).read_verdicts()[0].reasons == (reason,)
    (tmp_path / "verdicts.pb").write_bytes(b"\xff\xff")
    assert state.read_verdicts() == ()


async def test_every_inventory_carries_the_verdicts_of_its_moment() -> None:
    bus, known = MemoryBus(LAYOUT), [verdict(A, withheld=True, seq=3).verdict]
    publisher = Publisher(bus, node=NODE, unix_ms=lambda: 1, verdicts=lambda: known)
    inventory = Inventory(
        node=NODE,
        boot_id="b1",
        epoch="e1",
        seq=0,
        at_ms=0,
        cards=(),
        shares_per_card=16,
        slots=64,
        registered=True,
    )
    changes = bus.follow(subjects.INVENTORY_BUCKET, subjects.inventory_key(NODE))
    heard: list[tuple[int, ...]] = []
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        writing = group.create_task(publisher.run())
        publisher.inventory(inventory)
        async for change in changes:
            if isinstance(change, Upserted):
                heard.append(tuple(one.seq for one in inventory_in(change.entry.value).verdicts))
                known.append(verdict(B, withheld=True, seq=4).verdict)
                publisher.refresh()
            if len(heard) == 2:
                break
        writing.cancel()
    await changes.aclose()
    assert heard == [(3,), (3, 4)]


def cgroup(root: Path, *parts: str) -> None:
    root.joinpath(*parts).mkdir(parents=True)


def test_pods_are_found_in_every_hierarchy_of_cgroup_v1(tmp_path: Path) -> None:
    cgroup(tmp_path, "memory", "kubepods", "burstable", "pod11111111-a", "ctr")
    cgroup(tmp_path, "cpu", "lab-node1", "kubepods", "pod22222222-b")
    assert pods_with_cgroups(tmp_path) == BOTH


def test_pods_are_found_in_slices_of_cgroup_v2(tmp_path: Path) -> None:
    cgroup(tmp_path, "kubepods.slice", "kubepods-pod11111111_a.slice", "cri-x.scope")
    cgroup(tmp_path, "kubepods.slice", "kubepods-besteffort.slice", "kubepods-besteffort-pod22222222_b.slice")
    assert pods_with_cgroups(tmp_path) == BOTH


def test_no_kubepods_means_that_it_cannot_be_said(tmp_path: Path) -> None:
    cgroup(tmp_path, "system.slice")
    assert pods_with_cgroups(tmp_path) is None
    assert pods_with_cgroups(tmp_path / "absent") is None
    cgroup(tmp_path, "kubepods")
    assert pods_with_cgroups(tmp_path) == frozenset()


def test_a_process_is_found_in_its_pod(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/kubepods/burstable/pod11111111-a/ctr\n")
    assert pod_of_pid(7, tmp_path) == "11111111-a"
    assert pod_of_pid(8, tmp_path) is None


def test_the_longest_path_of_a_socket_is_taken_and_one_more_is_not() -> None:
    longest = Path("/" + 106 * "x")
    assert target(longest) == f"unix:{longest}"
    with pytest.raises(BadRequest, match="of 108 bytes, and Linux takes 107"):
        target(Path("/" + 107 * "x"))


def test_a_loop_that_stands_still_is_named() -> None:
    now = 0.0
    pulse = Pulse(("a", "b"), clock=lambda: now, limit_s=10)
    now = 11.0
    pulse.of("a")()
    assert pulse.still() == ["b"]


def xid(code: int) -> Observation:
    return Observation(card=A, kind=SignalKind.XID, code=code)


def box(bus: MemoryBus, *, limit: int) -> SignalBox:
    return SignalBox(bus, node=NODE, boot_id="b1", epoch="e1", unix_ms=lambda: 1, limit=limit)


async def sent(bus: MemoryBus, signals: SignalBox, count: int) -> list[tuple[int, int]]:
    """Let the box send; (code, count) of what the stream then holds."""
    messages = bus.subscribe(subjects.SIGNALS_STREAM, [subjects.pattern(subjects.SIGNAL)], since=0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        sending = group.create_task(signals.run())
        found = [signal_in((await anext(messages)).body) for _ in range(count)]
        sending.cancel()
    await messages.aclose()
    assert len({once_id(signal) for signal in found}) == count
    return [(signal.code, signal.count) for signal in found]


async def test_a_full_box_counts_repetitions_on_and_reports_what_it_dropped() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=3)
    for code in (1, 2, 79, 79, 79, 5):
        signals.put(xid(code))
    assert signals.dropped == 1
    assert await sent(bus, signals, 3) == [(2, 1), (79, 3), (5, 1)]


async def test_what_a_full_box_dropped_is_told_by_its_number_once_the_bus_is_back() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=3)
    for code in (1, 2, 3, 4, 5):
        signals.put(xid(code))
    messages = bus.subscribe(subjects.SIGNALS_STREAM, [subjects.pattern(subjects.SIGNAL)], since=0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        sending = group.create_task(signals.run())
        found = [signal_in((await anext(messages)).body) for _ in range(4)]
        sending.cancel()
    await messages.aclose()
    assert [signal.code or (signal.name, signal.value, signal.count) for signal in found] == [
        *(3, 4, 5, (SUPPRESSED, "2", 2)),
    ]


def test_a_flood_while_the_bus_is_away_stays_in_the_box_and_every_signal_is_counted() -> None:
    now_s = [0.0]
    signals = SignalBox(
        MemoryBus(LAYOUT), node=NODE, boot_id="b1", epoch="e1", unix_ms=lambda: 1, clock=lambda: now_s[0]
    )
    for number in range(50_000):
        now_s[0] = number / 10_000
        signals.put(xid(number % 150))
    assert signals.waiting == BURST
    assert signals.folded == 50_000 - BURST - KINDS
    assert signals.dropped == 0


class Refusing(MemoryBus):
    """Takes no message about one card, whatever is tried."""

    async def publish(self, subject: str, body: bytes, **more: Any) -> None:
        if subject.endswith(f".{A}"):
            raise BadRequest("too large")
        await super().publish(subject, body, **more)


async def test_a_signal_that_the_bus_never_takes_holds_up_no_other_and_is_counted() -> None:
    bus = Refusing(LAYOUT)
    signals = box(bus, limit=10)
    signals.put(xid(79))
    signals.put(Observation(card=B, kind=SignalKind.XID, code=31))
    assert await sent(bus, signals, 1) == [(31, 1)]
    assert signals.dropped == 1


async def test_what_came_too_fast_is_sent_when_it_is_due() -> None:
    bus, now_s = MemoryBus(LAYOUT), [0.0]
    signals = SignalBox(
        bus, node=NODE, boot_id="b1", epoch="e1", unix_ms=lambda: 1, clock=lambda: now_s[0], limit=100
    )
    for _ in range(BURST + 5):
        signals.put(xid(31))
    now_s[0] = 60.0
    assert await sent(bus, signals, BURST + 1) == [*[(31, 1)] * BURST, (31, 5)]


async def test_every_level_is_told_again_when_the_bus_may_have_lost_it() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=20)
    for value in ("true", "true"):
        signals.put(Observation(card=A, kind=SignalKind.LEVEL, name="power_brake", value=value))
    Announcer(signals, boot_id="b1", driver=lambda: "").announce(())
    assert await told(bus, signals, 3) == ["true", SignalKind.BOOT, "true"]


async def test_signals_wait_for_the_bus_in_order() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=10)
    for code in (1, 2, 3):
        signals.put(xid(code))
    assert await sent(bus, signals, 3) == [(1, 1), (2, 1), (3, 1)]


def probe(value: str, card: CardId = A) -> Observation:
    return Observation(card=card, kind=SignalKind.PROBE, value=value)


async def told(bus: MemoryBus, signals: SignalBox, count: int) -> list[str]:
    """Let the box send; what the first `count` messages of the stream say, in order."""
    messages = bus.subscribe(subjects.SIGNALS_STREAM, [subjects.pattern(subjects.SIGNAL)], since=0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        sending = group.create_task(signals.run())
        found = [signal_in((await anext(messages)).body) for _ in range(count)]
        sending.cancel()
    await messages.aclose()
    return [signal.value or signal.kind for signal in found]


async def test_a_probe_that_goes_well_again_and_again_is_told_once_and_trouble_each_time() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=20)
    for value in ("ok", "ok", "error", "error", "hang", "ok", "ok", "lost", "lost", "ok", "ok"):
        signals.put(probe(value))
    signals.put(probe("ok", B))
    signals.put(xid(79))
    assert await told(bus, signals, 10) == [
        *("ok", "error", "error", "hang", "ok", "lost", "lost", "ok", "ok"),
        SignalKind.XID,
    ]


async def test_a_well_card_is_told_again_when_the_bus_may_have_lost_it() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=20)
    signals.put(probe("ok"))
    Announcer(signals, boot_id="b1", driver=lambda: "").announce(())
    signals.put(probe("ok"))
    signals.put(probe("ok"))
    signals.put(xid(79))
    assert await told(bus, signals, 4) == ["ok", SignalKind.BOOT, "ok", SignalKind.XID]


async def test_a_well_card_is_told_again_after_a_full_box_dropped_something() -> None:
    bus = MemoryBus(LAYOUT)
    signals = box(bus, limit=2)
    for one in (probe("ok"), xid(1), xid(2), probe("ok")):
        signals.put(one)
    assert await told(bus, signals, 2) == [SignalKind.XID, "ok"]


def test_settings_are_read_by_name_and_a_typo_is_refused() -> None:
    settings = Settings.from_env(
        {"SUBLET_NODE": "n1", "SUBLET_INJECTION": "env", "SUBLET_VENDOR_CDI_DIRS": "/a,/b", "HOME": "/"}
    )
    assert (settings.node, settings.injection, settings.vendor_cdi_dirs) == (
        "n1",
        Injection.ENV,
        ("/a", "/b"),
    )
    for bad in (
        {"SUBLET_NODES": "x"},
        {"SUBLET_CARDS": "file"},
        {"SUBLET_CARDS": "rocm"},
        {"SUBLET_SHARES_PER_CARD": "0"},
        {"SUBLET_SHARES_PER_CARD": "70000"},
        {"SUBLET_GRANT_WAIT_S": "29"},
    ):
        with pytest.raises(BadRequest):
            Settings.from_env({"SUBLET_NODE": "n1"} | bad)
    with pytest.raises(BadRequest, match="SUBLET_NODE is missing"):
        Settings.from_env({})
