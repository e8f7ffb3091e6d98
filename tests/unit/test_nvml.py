"""NVIDIA's driver in trouble: what hangs, fails or vanishes stays its own affair, in the right words."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sublet.cards.nvml import NvmlCards
from sublet.cards.nvml.library import Library
from sublet.cards.nvml.monitor import EventMonitor
from sublet.cards.nvml.reading import read_card
from sublet.cards.port import DRIVER_NOT_LOADED, Observation, ProcessUse
from sublet.model.card import Link
from sublet.model.health import HealthState, SignalKind
from sublet.model.ids import CardId
from sublet.model.level import SUPPRESSED
from tests.eventually import eventually
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import MIG_CHANGE, XID, FakeCard, FakeInstance, FakeNvml

LIMIT_S = 0.4
POLL_S = 0.05
UNKNOWN, LOST, DRIVER_GONE, MISMATCH, RESET_REQUIRED, INFOROM = 999, 15, 9, 18, 16, 14
A, B = CardId("GPU-a"), CardId("GPU-b")
ADDRESSES = ("0000:01:00.0", "0000:02:00.0")


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return fake_nvml(tmp_path)


@pytest.fixture
async def source(fake: FakeNvml, tmp_path: Path) -> AsyncIterator[NvmlCards]:
    made = NvmlCards(
        library=str(fake.library),
        sysfs_root=tmp_path,
        call_limit_s=LIMIT_S,
        poll_s=POLL_S,
        event_slice_ms=50,
    )
    yield made
    fake.set()
    fake.show()  # lets go of what hangs
    await made.close()


def two_cards(fake: FakeNvml) -> None:
    fake.show(FakeCard(uuid=A, pci="0:1:0"), FakeCard(uuid=B, pci="0:2:0"))


class Heard:
    """Reads the signals in the background of a test, and keeps them."""

    def __init__(self, source: NvmlCards) -> None:
        self.all: list[Observation] = []
        self._signals = source.signals()

    async def until(self, holds: Callable[[Observation], bool]) -> Observation:
        async with asyncio.timeout(5):
            async for one in self._signals:
                self.all.append(one)
                if holds(one):
                    return one
        raise AssertionError("the signals ended")

    async def probe(self, card: CardId, value: str) -> Observation:
        return await self.until(
            lambda one: (one.card, one.kind, one.value) == (card, SignalKind.PROBE, value)
        )

    async def kind(self, card: CardId, kind: SignalKind) -> Observation:
        return await self.until(lambda one: (one.card, one.kind) == (card, kind))


async def test_a_card_that_hangs_never_blocks_the_loop_nor_the_other_card(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    await source.discover()
    fake.change(A, hang=True)
    looking = asyncio.create_task(source.discover())
    turns = 0
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100
    assert [card.health for card in (await looking).cards] == [HealthState.HEALTHY, HealthState.HEALTHY]
    assert await source.processes(B) == ()
    assert await source.processes(A) is None


async def test_a_hang_is_told_of_the_card_concerned_only(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    await source.discover()
    fake.change(A, hang=True)
    heard = Heard(source)
    await heard.probe(A, "hang")
    await heard.probe(B, "ok")
    assert not any(one.value == "hang" for one in heard.all if one.card == B)


async def test_a_card_whose_call_still_hangs_is_not_asked_again(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    await source.discover()
    fake.change(A, hang=True)
    await source.discover()
    with capture_logs() as logs:
        for _ in range(3):
            await source.discover()
    assert [log for log in logs if log["event"] == "nvml.call_stuck"] == []


async def test_a_card_that_answers_again_after_a_hang_is_read_again(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, hang=True)
    await heard.probe(A, "hang")
    fake.change(A, hang=False)
    await heard.probe(A, "ok")


async def test_a_driver_that_hangs_as_a_whole_takes_no_card_away(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    await source.discover()
    fake.set(hang="nvmlDeviceGetCount_v2")
    found = await source.discover()
    assert [card.id for card in found.cards] == [A, B]
    assert found.problems == ()
    assert found.warnings == ("the driver does not answer",)
    assert source.needs_restart() == ""


async def test_closing_returns_though_the_driver_hangs(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    await source.discover()
    fake.set(hang="nvmlShutdown")
    async with asyncio.timeout(5):
        await source.close()


async def test_a_card_that_is_lost_for_every_call_leaves_the_others_usable(
    fake: FakeNvml, source: NvmlCards
) -> None:
    fake.show(*(FakeCard(uuid=f"GPU-{number}", pci=f"0:{number}:0") for number in range(4)))
    await source.discover()
    fake.change("GPU-3", error=LOST)
    found = await source.discover()
    assert [card.health for card in found.cards] == [HealthState.HEALTHY] * 3 + [HealthState.LOST]
    assert await source.processes(CardId("GPU-0")) == ()
    assert await source.processes(CardId("GPU-3")) is None


async def test_a_card_that_was_never_readable_is_a_warning_only(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A), FakeCard(uuid=B, error=LOST))
    found = await source.discover()
    assert [card.id for card in found.cards] == [A]
    assert found.warnings == ("card 1 was never readable: lost",)
    assert found.problems == ()


async def test_an_event_wait_that_fails_at_once_is_tried_ever_more_slowly_and_told_once(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    fake.set(wait_error=UNKNOWN)
    with capture_logs() as logs:
        await source.discover()
        await eventually(lambda: fake.calls("waits") >= 1)
        began = time.monotonic()
        await eventually(lambda: fake.calls("waits") >= 4)
    assert (fake.calls("waits") - 1) / (time.monotonic() - began) <= 5
    assert [log["event"] for log in logs].count("nvml.events_lost") == 1


async def test_a_card_whose_events_cannot_arrive_does_not_count_as_well(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    fake.set(set_error=UNKNOWN)
    heard = Heard(source)
    probe = await heard.probe(A, "error")
    assert probe.name == "events"
    fake.set()
    await heard.probe(A, "ok")


async def test_events_arrive_again_after_the_wait_failed(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    fake.set(wait_error=LOST)
    heard = Heard(source)
    await heard.probe(A, "error")
    fake.set()
    await heard.probe(A, "ok")
    fake.event(A, XID, 31)
    assert (await heard.kind(A, SignalKind.XID)).code == 31


async def test_an_event_names_the_partition_where_the_driver_does(fake: FakeNvml, source: NvmlCards) -> None:
    two_cards(fake)
    await source.discover()
    await eventually(lambda: fake.calls("waits") > 0)
    fake.event(B, XID, 94, 2, 0)
    xid = await Heard(source).kind(B, SignalKind.XID)
    assert (xid.code, xid.gi, xid.ci) == (94, 2, 0)


async def test_an_instance_tells_its_own_errors_and_the_card_no_leftover_of_its_instances(
    fake: FakeNvml, source: NvmlCards
) -> None:
    instance = FakeInstance(uuid="MIG-1", ecc=0)
    fake.show(FakeCard(uuid=A, mig=1, used_mib=500, instances=(instance,)))
    heard = Heard(source)
    first = await heard.kind(CardId("MIG-1"), SignalKind.LEVEL)
    fake.change(A, instances=(replace(instance, ecc=2),))
    second = await heard.kind(CardId("MIG-1"), SignalKind.LEVEL)
    assert [(one.name, one.value) for one in (first, second)] == [
        ("ecc_uncorrectable", "0"),
        ("ecc_uncorrectable", "2"),
    ]
    assert not [one for one in heard.all if one.name in ("leftover_memory_mib", "remap_pending")]


async def test_an_instance_without_counters_tells_nothing(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(
        FakeCard(uuid=A, mig=1, instances=(FakeInstance(uuid="MIG-1"), FakeInstance(uuid="MIG-2", place=1)))
    )
    heard = Heard(source)
    await heard.probe(A, "ok")
    await heard.probe(A, "ok")
    assert {one.card for one in heard.all} == {A}


async def test_an_instance_that_cannot_be_read_leaves_its_card_as_it_was(
    fake: FakeNvml, source: NvmlCards
) -> None:
    one, two = FakeInstance(uuid="MIG-1", ecc=0), FakeInstance(uuid="MIG-2", place=1, ecc=0)
    fake.show(FakeCard(uuid=A, mig=1, instances=(one, two)), FakeCard(uuid=B))
    before = await source.discover()
    fake.change(A, instances=(replace(one, error=UNKNOWN), two))
    after = await source.discover()
    assert after.cards == before.cards


async def test_who_runs_on_an_instance_is_read_of_it(fake: FakeNvml, source: NvmlCards) -> None:
    instances = (FakeInstance(uuid="MIG-1", processes=((7, 100),)), FakeInstance(uuid="MIG-2", place=1))
    fake.show(FakeCard(uuid=A, mig=1, instances=instances))
    await source.discover()
    assert await source.processes(CardId("MIG-1")) == (ProcessUse(pid=7, used_mib=100),)
    assert await source.processes(CardId("MIG-2")) == ()


async def test_the_profile_is_made_of_sizes_where_the_driver_does_not_name_it(
    fake: FakeNvml, source: NvmlCards
) -> None:
    half = FakeInstance(uuid="MIG-1", name="NVIDIA", slices=3, compute_slices=1, memory_mib=19968)
    fake.show(FakeCard(uuid=A, mig=1, memory_mib=40536, instances=(half,)))
    [part] = (await source.discover()).cards[0].partitions
    assert (part.profile, part.slices) == ("1c.3g.20gb", 1)


async def test_a_change_of_mig_mode_makes_the_source_look_again(fake: FakeNvml, tmp_path: Path) -> None:
    fake.show(FakeCard(uuid=A, mig=0))
    source = NvmlCards(
        library=str(fake.library), sysfs_root=tmp_path, poll_s=600, call_limit_s=LIMIT_S, event_slice_ms=50
    )
    changes = source.changes()
    await anext(changes)
    await source.discover()
    await eventually(lambda: fake.calls("waits") > 0)
    fake.change(A, mig=1)
    fake.event(A, MIG_CHANGE, 0)
    async with asyncio.timeout(5):
        await anext(changes)
    assert (await source.discover()).cards[0].mig
    await source.close()


async def test_a_driver_that_is_loaded_later_is_found_without_a_restart(tmp_path: Path) -> None:
    missing = tmp_path / "later" / "libnvidia-ml.so.1"
    source = NvmlCards(library=str(missing), poll_s=POLL_S, call_limit_s=LIMIT_S, event_slice_ms=50)
    found = await source.discover()
    assert (found.cards, found.problems) == ((), (DRIVER_NOT_LOADED,))
    two_cards(fake_nvml(missing.parent))
    async with asyncio.timeout(5):
        async for _ in source.changes():
            found = await source.discover()
            if found.cards:
                break
    assert (len(found.cards), found.problems, found.driver) == (2, (), "550.90.07")
    await source.close()


async def test_a_driver_that_was_unloaded_keeps_its_cards_and_its_return_is_a_reset(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    heard = Heard(source)
    await heard.probe(B, "ok")
    fake.set(init_error=DRIVER_GONE)
    await heard.probe(A, "error")
    found = await source.discover()
    assert ([card.id for card in found.cards], found.problems) == ([A, B], (DRIVER_NOT_LOADED,))
    fake.set()
    await heard.kind(A, SignalKind.RESET)
    await heard.kind(B, SignalKind.RESET)
    await heard.probe(A, "ok")


async def test_a_process_that_no_card_answers_any_more_must_be_started_anew(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    await source.discover()
    fake.show(FakeCard(uuid=A, error=UNKNOWN), FakeCard(uuid=B, error=UNKNOWN))
    for _ in range(2):
        await source.discover()
    assert source.needs_restart() == ""
    found = await source.discover()
    assert source.needs_restart() == "no card answers this process any more"
    assert len(found.cards) == 2


async def test_a_driver_replaced_under_an_open_library_needs_a_new_process(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    await source.discover()
    fake.set(init_error=MISMATCH)
    await source.discover()
    assert "replaced" in source.needs_restart()


async def test_a_recovery_action_is_told_when_it_changes(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, recovery=0))
    heard = Heard(source)
    assert (await heard.kind(A, SignalKind.RECOVERY_ACTION)).value == "none"
    for _ in range(2):
        await heard.probe(A, "ok")
    assert [one.kind for one in heard.all].count(SignalKind.RECOVERY_ACTION) == 1
    fake.change(A, recovery=4)
    assert (await heard.kind(A, SignalKind.RECOVERY_ACTION)).value == "drain_and_reset"


async def test_an_answer_that_demands_a_reset_is_a_recovery_action_until_calls_succeed(
    fake: FakeNvml, source: NvmlCards
) -> None:
    fake.show(FakeCard(uuid=A))
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, error=RESET_REQUIRED)
    assert (await heard.kind(A, SignalKind.RECOVERY_ACTION)).value == "gpu_reset"
    fake.change(A, error=0)
    await heard.kind(A, SignalKind.RESET)
    assert (await heard.kind(A, SignalKind.RECOVERY_ACTION)).value == "none"


async def test_a_corrupted_inforom_is_a_level(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A))
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, error=INFOROM)
    level = await heard.kind(A, SignalKind.LEVEL)
    assert (level.name, level.value) == ("inforom_corrupt", "true")
    fake.change(A, error=0)
    assert (await heard.kind(A, SignalKind.LEVEL)).value == "false"


@pytest.mark.parametrize("before", [{"ecc": 3}, {"remap_pending": True}, {"retired_pending": True}])
async def test_what_only_a_reset_clears_proves_a_reset(
    fake: FakeNvml, source: NvmlCards, before: dict[str, int]
) -> None:
    fake.show(FakeCard(uuid=A, **{"ecc": 0, **before}))  # type: ignore[arg-type]  # names are FakeCard's
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.show(FakeCard(uuid=A, ecc=0))
    await heard.kind(A, SignalKind.RESET)


async def test_a_thermal_slowdown_is_a_level_and_a_power_cap_is_not(
    fake: FakeNvml, source: NvmlCards
) -> None:
    power_cap, thermal = 0x4, 0x40
    fake.show(FakeCard(uuid=A, clocks=power_cap))
    heard = Heard(source)
    await heard.probe(A, "ok")
    assert not any(one.value == "true" for one in heard.all)
    fake.change(A, clocks=power_cap | thermal)
    assert (await heard.kind(A, SignalKind.LEVEL)).name == "thermal_slowdown"


async def test_memory_is_what_containers_can_have(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, memory_mib=81559, reserved_mib=559), FakeCard(uuid=B, memory_mib=-1))
    assert [card.memory_mib for card in (await source.discover()).cards] == [81000, None]


async def test_the_numa_node_is_the_kernels_and_minus_one_is_none(
    fake: FakeNvml, source: NvmlCards, tmp_path: Path
) -> None:
    for address, node in (("0000:01:00.0", "1\n"), ("0000:02:00.0", "-1\n")):
        folder = tmp_path / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(node)
    two_cards(fake)
    assert [card.numa for card in (await source.discover()).cards] == [1, None]


async def test_cards_on_an_nvswitch_are_joined_by_nvlink(fake: FakeNvml, source: NvmlCards) -> None:
    ends = ("0:90:0", "0:91:0")
    fake.show(*(FakeCard(uuid=u, pci=p, links=ends, switched=True) for u, p in ((A, "0:1:0"), (B, "0:2:0"))))
    assert (await source.discover()).cards[0].links == {B: Link.NVLINK}


async def test_without_nvlink_the_way_over_pcie_decides(fake: FakeNvml, source: NvmlCards) -> None:
    groups = [1, 1, 2]
    fake.show(*(FakeCard(uuid=f"GPU-{n}", pci=f"0:{n}:0", group=group) for n, group in enumerate(groups)))
    first = (await source.discover()).cards[0]
    assert first.links == {CardId("GPU-1"): Link.SWITCH, CardId("GPU-2"): Link.HOST}


async def test_a_link_that_is_down_joins_nothing(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, pci="0:1:0", links=("down",)), FakeCard(uuid=B, pci="0:2:0"))
    assert (await source.discover()).cards[0].links == {}


async def test_who_holds_a_card_is_told_with_the_memory(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, processes=((41, 512), (42, 1024))))
    await source.discover()
    assert await source.processes(A) == (
        ProcessUse(pid=41, used_mib=512),
        ProcessUse(pid=42, used_mib=1024),
    )


async def test_a_library_is_found_under_the_drivers_root(tmp_path: Path) -> None:
    two_cards(fake_nvml(tmp_path / "root/usr/lib64"))
    source = NvmlCards(driver_root=tmp_path / "root", call_limit_s=LIMIT_S, event_slice_ms=50)
    assert len((await source.discover()).cards) == 2
    await source.close()


async def test_an_event_thread_that_the_driver_keeps_is_replaced_twice_and_no_more(
    fake: FakeNvml, tmp_path: Path
) -> None:
    fake.show(FakeCard(uuid=A))
    library = Library(str(fake.library), tmp_path)
    library.count()
    cards = {A: read_card(0, tmp_path).handle}
    monitor = EventMonitor(lambda _: None, slice_ms=10, silent_s=0.1)
    monitor.watch(cards)
    fake.set(hang="nvmlEventSetWait_v2")

    def trouble() -> str:
        monitor.watch(cards)
        return monitor.trouble()

    await eventually(lambda: trouble() == "stuck" and fake.calls("sets") == 2)
    until = time.monotonic() + 0.3
    await eventually(lambda: trouble() == "stuck" and time.monotonic() > until)
    assert fake.calls("sets") == 2
    fake.set()
    await eventually(lambda: trouble() == "")
    listening = monitor.begin_to_stop()
    assert listening is not None
    listening.join(5)
    library.close()


async def test_events_beyond_the_queue_leave_out_the_oldest_and_say_how_many(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    await source.discover()
    await eventually(lambda: fake.calls("waits") > 0)
    for number in range(1_005):
        fake.event(A, XID, number)
    await eventually(lambda: fake.calls("delivered") == 1_005)
    waits = fake.calls("waits")
    await eventually(lambda: fake.calls("waits") > waits)
    heard = Heard(source)
    assert (await heard.kind(A, SignalKind.XID)).code == 5
    left_out = await heard.until(lambda one: one.name == SUPPRESSED)
    assert (left_out.card, left_out.count) == (A, 5)
    assert len({one.code for one in heard.all if one.kind is SignalKind.XID}) == 1_000


async def test_a_card_that_hangs_is_lost_once_the_bus_agrees(
    fake: FakeNvml, source: NvmlCards, tmp_path: Path
) -> None:
    config = {address: tmp_path / "bus/pci/devices" / address / "config" for address in ADDRESSES}
    for file in config.values():
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\xde\x10\x00\x20")
    two_cards(fake)
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, hang=True)
    await heard.probe(A, "hang")
    config[ADDRESSES[0]].write_bytes(b"\xff" * 64)
    await heard.probe(A, "lost")
    assert not any(one.value == "lost" for one in heard.all if one.card == B)


async def test_a_card_that_hangs_while_the_bus_says_nothing_is_never_lost(
    fake: FakeNvml, source: NvmlCards
) -> None:
    two_cards(fake)
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, hang=True)
    for _ in range(3):
        await heard.probe(A, "hang")
    assert not any(one.value == "lost" for one in heard.all)


async def test_a_bus_that_never_showed_the_card_proves_nothing(
    fake: FakeNvml, source: NvmlCards, tmp_path: Path
) -> None:
    (tmp_path / "bus/pci/devices/0000:00:1f.0").mkdir(parents=True)
    two_cards(fake)
    heard = Heard(source)
    await heard.probe(A, "ok")
    fake.change(A, hang=True)
    for _ in range(2):
        await heard.probe(A, "hang")
    assert not any(one.value == "lost" for one in heard.all)
