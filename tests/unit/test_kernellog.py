"""The kernel's log: its records in all their forms, and files and FIFOs that come, grow, turn and go."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from sublet.cards.kernellog import KernelLog
from sublet.cards.kernellog.record import LONGEST, Joiner, Lines, read_record
from sublet.cards.port import Observation
from sublet.contract.kernelline import Line, Named, read_line
from sublet.model.health import SignalKind
from sublet.model.level import SUPPRESSED

B3 = "0000:b3:00"
XID, SXID = SignalKind.XID, SignalKind.SXID


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:b3:00): 79, pid=7, name=x, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:B3:00.0): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:00000000:b3:00): 79",
        "NVRM: Xid (0000:b3:00): 79, GPU has fallen off the bus.",
        "[ 12.3] NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>'",
    ],
)
def test_an_xid_is_read_however_the_card_is_written(line: str) -> None:
    found, _ = read_line(line, at_ms=0, named=None)
    assert found == Line(kind=XID, code=79, pci=B3)


def test_a_domain_is_part_of_the_address() -> None:
    found, _ = read_line("NVRM: Xid (PCI:0008:06:00): 31", at_ms=0, named=None)
    assert found == Line(kind=XID, code=31, pci="0008:06:00")


def test_a_code_of_a_switch_is_read() -> None:
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted"
    assert read_line(line, at_ms=0, named=None)[0] == Line(kind=SXID, code=12028, pci="0000:c1:00")


@pytest.mark.parametrize(
    ("instance", "gi", "ci"), [(" GPU-I:05", 5, None), (" GPU-I:05 GPU-CI:00", 5, 0), ("", None, None)]
)
def test_an_xid_names_the_mig_instance_where_the_driver_does(
    instance: str, gi: int | None, ci: int | None
) -> None:
    line = f"NVRM: Xid (PCI:0000:b3:00{instance}): 94, pid=7194, name=x, Contained"
    assert read_line(line, at_ms=0, named=None)[0] == Line(kind=XID, code=94, pci=B3, gi=gi, ci=ci)


def read_all(*lines: str, step_ms: int = 1) -> list[Line]:
    named: Named | None = None
    found = []
    for number, text in enumerate(lines):
        line, named = read_line(text, at_ms=number * step_ms, named=named)
        found += [line] if line else []
    return found


FALLEN = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


def test_a_fall_without_an_xid_is_told_over_three_lines() -> None:
    assert read_all(*FALLEN) == [Line(kind=XID, code=79, pci=B3)]


def test_lines_too_far_apart_are_no_message() -> None:
    assert read_all(*FALLEN, step_ms=2_000) == []


def test_a_fall_on_one_line_is_read_too() -> None:
    assert read_all("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.") == [
        Line(kind=XID, code=79, pci=B3)
    ]


def test_words_that_go_with_an_xid_are_no_second_fault() -> None:
    lines = (
        "NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.",
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
    )
    assert read_all(*lines) == [Line(kind=XID, code=79, pci=B3)]


def test_a_record_is_read_with_its_number_and_time() -> None:
    record = read_record(r"4,812,55123456,-,caller=T12;NVRM: a\x09b")
    assert record is not None
    assert (record.number, record.at_us, record.text) == (812, 55123456, "NVRM: a\tb")


def test_properties_of_a_record_are_no_record() -> None:
    assert read_record(" SUBSYSTEM=pci") is None
    assert read_record("") is None


def test_text_without_a_header_is_taken_as_it_is() -> None:
    record = read_record("NVRM: Xid (PCI:0000:b3:00): 79; more")
    assert record is not None
    assert (record.number, record.text) == (None, "NVRM: Xid (PCI:0000:b3:00): 79; more")


def joined(*lines: str) -> tuple[list[str], int]:
    joiner, found = Joiner(), []
    for line in lines:
        if (record := read_record(line)) is not None:
            found += list(joiner.feed(record))
    found += list(joiner.flush())
    return [record.text for record in found], joiner.missing


def test_parts_of_a_line_are_put_together() -> None:
    assert joined("4,1,0,c;NVRM: Xid (PCI:", "4,2,1,+;0000:b3:00): 79", "4,3,2,-;next") == (
        ["NVRM: Xid (PCI:0000:b3:00): 79", "next"],
        0,
    )


def test_a_part_whose_other_part_does_not_come_is_a_line() -> None:
    assert joined("4,1,0,c;first", "4,2,1,-;next", "4,3,2,c;last") == (["first", "next", "last"], 0)


def test_records_that_were_overwritten_are_counted() -> None:
    assert joined("4,1,0,-;a", "4,9,0,-;b", "4,10,0,-;c") == (["a", "b", "c"], 7)


def test_a_line_waits_for_its_end_and_one_without_an_end_is_left_out() -> None:
    lines = Lines()
    assert list(lines.feed(b"4,1,0,-;NVRM: hal")) == []
    assert list(lines.feed(b"f\n4,2")) == ["4,1,0,-;NVRM: half"]
    assert list(lines.feed(b"x" * (LONGEST + 1))) == []
    assert list(lines.feed(b"x" * LONGEST)) == []
    assert list(lines.feed(b"end\nnext\n")) == ["next"]
    assert lines.too_long == 1


def record(number: int, text: str) -> str:
    return f"4,{number},{number}000,-;{text}\n"


def xid(number: int, code: int) -> str:
    return record(number, f"NVRM: Xid (PCI:0000:b3:00): {code}, pid=1")


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[Callable[[], "asyncio.Task[Observation]"]]:
    """Reads `path`; the log is at its end when the block begins."""
    log = KernelLog(path, poll_s=0.01)
    async with aclosing(log.signals()) as signals:

        async def after() -> Observation:
            async with asyncio.timeout(5):
                return await anext(signals)

        yield lambda: asyncio.create_task(after())
        log.close()


async def code(task: "asyncio.Task[Observation]") -> int:
    return (await task).code


async def begun(task: "asyncio.Task[Observation]") -> "asyncio.Task[Observation]":
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_what_was_in_the_log_before_is_over(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(xid(1, 48))
    async with reading(path) as after:
        task = await begun(after())
        append(path, record(2, "usb 1-1: new device") + xid(3, 79))
        found = await task
    assert (found.kind, found.code, found.pci, found.source) == (XID, 79, B3, "kmsg")
    assert found.raw == "NVRM: Xid (PCI:0000:b3:00): 79, pid=1"


async def test_a_log_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    async with reading(path) as after:
        task = await begun(after())
        path.write_text(xid(1, 79))
        assert await code(task) == 79


async def test_a_log_that_is_replaced_or_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(xid(1, 13) * 3)
    async with reading(path) as after:
        task = await begun(after())
        fresh = tmp_path / "fresh"
        fresh.write_text(xid(1, 31) + record(2, "longer than what comes next"))
        fresh.replace(path)
        assert await code(task) == 31
        task = await begun(after())
        path.write_text("")
        await asyncio.sleep(0.05)
        append(path, xid(1, 43))
        assert await code(task) == 43


async def test_a_fifo_outlives_its_writers(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    async with reading(path) as after:
        task = await begun(after())
        for wanted in (79, 31):
            append(path, xid(wanted, wanted))
            assert await code(task) == wanted
            task = after()
        task.cancel()
        await asyncio.wait([task])


async def test_records_that_never_came_are_told_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    async with reading(path) as after:
        task = await begun(after())
        append(path, xid(1, 31) + xid(42, 31))
        assert await code(task) == 31
        assert await code(after()) == 31
        missing = await after()
    assert (missing.name, missing.count, missing.card) == (SUPPRESSED, 40, None)
