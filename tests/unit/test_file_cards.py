"""Cards in a file: edits that cannot be read, and lines of the signal file."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sublet.cards.file import FileCards
from sublet.cards.port import INVENTORY_UNREADABLE, Discovery, Observation
from sublet.cards.signalfile import SignalFile, read_signal
from sublet.model.errors import BadRequest
from sublet.model.health import SignalKind
from sublet.model.ids import CardId, NodeName

NODE = NodeName("n1")
ONE_CARD = "nodes: [{name: n1, cards: [{uuid: GPU-a, memoryMiB: 1024}]}]"


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[FileCards]:
    made = FileCards(node=NODE, inventory=tmp_path / "inventory", signals=tmp_path / "signals", poll_s=0.01)
    yield made
    await made.close()


def edit(tmp_path: Path, text: str) -> None:
    (tmp_path / "new").write_text(text)
    (tmp_path / "new").replace(tmp_path / "inventory")


def line(**fields: Any) -> str:
    return json.dumps({"card": "GPU-a", **fields}) + "\n"


async def look(source: FileCards) -> Discovery:
    return await source.discover()


async def test_a_bad_edit_keeps_the_last_good_cards_and_warns(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, ONE_CARD)
    good = await look(source)
    edit(tmp_path, ONE_CARD.replace("1024", "80Gi"))
    bad = await look(source)
    assert bad.cards == good.cards
    assert bad.problems == ()
    assert "'80Gi' is not a whole number" in bad.warnings[0]


async def test_a_bad_edit_is_logged_once(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, "nodes: [")
    with capture_logs() as logs:
        for _ in range(3):
            await look(source)
    assert [log["event"] for log in logs] == ["inventory_file.refused"]


async def test_a_good_edit_takes_the_warning_away(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, "nodes: [")
    await look(source)
    edit(tmp_path, ONE_CARD)
    assert (await look(source)).warnings == ()


async def test_without_a_readable_file_the_node_is_not_managed(source: FileCards) -> None:
    found = await look(source)
    assert (found.cards, found.problems) == ((), (INVENTORY_UNREADABLE,))


async def test_a_file_that_is_gone_for_a_while_takes_no_card_away(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, ONE_CARD)
    await look(source)
    (tmp_path / "inventory").unlink()
    assert len((await look(source)).cards) == 1


async def test_the_entry_named_like_the_node_is_taken(source: FileCards, tmp_path: Path) -> None:
    other = "{name: n2, cards: [{uuid: GPU-b, memoryMiB: 1}]}"
    edit(tmp_path, ONE_CARD.replace("nodes: [", f"nodes: [{other}, "))
    assert [card.id for card in (await look(source)).cards] == ["GPU-a"]


async def test_the_only_entry_is_taken_whatever_its_name(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, ONE_CARD.replace("n1", "anything"))
    assert len((await look(source)).cards) == 1


async def test_several_entries_of_other_nodes_are_refused(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, "nodes: [{name: a}, {name: b}]")
    assert "2 entries, none of them named n1" in (await look(source)).warnings[0]


async def test_a_card_that_was_never_lost_is_never_probed(tmp_path: Path) -> None:
    edit(tmp_path, ONE_CARD)
    source = FileCards(
        node=NODE, inventory=tmp_path / "inventory", signals=tmp_path / "signals", poll_s=0.01, probe_s=0
    )
    signals = source.signals()
    assert (await anext(signals)).kind is SignalKind.CARD
    (tmp_path / "signals").write_text(line(kind="reset"))
    async with asyncio.timeout(5):
        assert (await anext(signals)).kind is SignalKind.RESET
    await source.close()


async def test_a_lost_card_is_probed_again_and_again(tmp_path: Path) -> None:
    edit(tmp_path, ONE_CARD)
    source = FileCards(node=NODE, inventory=tmp_path / "inventory", poll_s=0.01, probe_s=0.02)
    signals = source.signals()
    await anext(signals)
    edit(tmp_path, "nodes: [{name: n1}]")
    async with asyncio.timeout(5):
        assert [(await anext(signals)).value for _ in range(3)] == ["lost", "lost", "lost"]
    await source.close()


async def test_the_signal_file_may_be_born_after_the_source(source: FileCards, tmp_path: Path) -> None:
    edit(tmp_path, "nodes: [{name: n1}]")
    (tmp_path / "signals").write_text(line(kind="xid", code=48))
    async with asyncio.timeout(5):
        assert (await anext(source.signals())).code == 48


def test_what_was_in_the_file_before_is_over(tmp_path: Path) -> None:
    path = tmp_path / "signals"
    path.write_text(line(kind="xid", code=79))
    assert SignalFile(path, NODE).news() == []


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "signals"
    path.touch()
    signals = SignalFile(path, NODE)
    text = line(kind="xid", code=79)
    path.write_text(text + text[:20])
    assert len(signals.news()) == 1
    assert signals.news() == []
    path.write_text(text + text)
    assert len(signals.news()) == 1


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "signals"
    path.touch()
    signals = SignalFile(path, NODE)
    path.write_text(line(kind="xid", code=79) * 2)
    signals.news()
    path.write_text(line(kind="xid", code=31))
    assert [one.code for one in signals.news()] == [31]


def test_a_file_in_its_place_is_read_on_where_it_begins_the_same_and_else_from_its_start(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "signals", tmp_path / "other"
    path.write_text(line(kind="xid", code=79))
    signals = SignalFile(path, NODE)
    for text, codes in (
        (line(kind="xid", code=79) + line(kind="xid", code=48), [48]),
        (line(kind="xid", code=79) + line(kind="xid", code=48), []),
        (line(kind="xid", code=31) + line(kind="xid", code=48) * 2, [31, 48, 48]),
    ):
        other.write_text(text)
        other.rename(path)
        assert [one.code for one in signals.news()] == codes


def test_a_bad_line_is_logged_and_the_next_one_read(tmp_path: Path) -> None:
    path = tmp_path / "signals"
    path.touch()
    signals = SignalFile(path, NODE)
    path.write_text("nonsense\n" + line(kind="xid", code=31))
    with capture_logs() as logs:
        assert [one.code for one in signals.news()] == [31]
    assert [log["event"] for log in logs] == ["signal_file.line_refused"]


def test_a_line_about_another_node_is_not_for_us() -> None:
    assert read_signal(line(kind="reset", node="n2"), NODE) is None


A = CardId("GPU-a")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"kind": "reset", "t": 1.5, "node": "n1"}, Observation(card=A, kind=SignalKind.RESET)),
        (
            {"kind": "xid", "code": 94, "source": "nvml", "gi": 1, "ci": 0},
            Observation(card=A, kind=SignalKind.XID, code=94, source="nvml", gi=1, ci=0),
        ),
        ({"kind": "sxid", "code": 11001}, Observation(card=A, kind=SignalKind.SXID, code=11001)),
        (
            {"kind": "recovery_action", "value": "drain_p2p"},
            Observation(card=A, kind=SignalKind.RECOVERY_ACTION, value="drain_p2p"),
        ),
        (
            {"kind": "level", "name": "remap_pending", "value": True},
            Observation(card=A, kind=SignalKind.LEVEL, name="remap_pending", value="true"),
        ),
        (
            {"kind": "level", "name": "ecc_uncorrectable", "value": 2},
            Observation(card=A, kind=SignalKind.LEVEL, name="ecc_uncorrectable", value="2"),
        ),
        ({"kind": "probe", "result": "hang"}, Observation(card=A, kind=SignalKind.PROBE, value="hang")),
        (
            {"kind": "card", "serial": "1", "pci": "00000000:B3:00.0", "model": "T4", "bootId": "b"},
            Observation(
                card=A, kind=SignalKind.CARD, serial="1", pci="0000:b3:00.0", model="T4", boot_id="b"
            ),
        ),
    ],
)
def test_every_line_of_a_card_becomes_an_observation(fields: dict[str, Any], wanted: Observation) -> None:
    assert read_signal(line(**fields), NODE) == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"kind": "boot", "bootId": "b2"}, Observation(card=None, kind=SignalKind.BOOT, boot_id="b2")),
        (
            {"kind": "kmsg", "text": "NVRM: Xid (PCI:0000:b3:00): 79"},
            Observation(card=None, kind=SignalKind.KMSG, source="kmsg", raw="NVRM: Xid (PCI:0000:b3:00): 79"),
        ),
    ],
)
def test_a_boot_and_a_kernel_line_are_about_the_node(fields: dict[str, Any], wanted: Observation) -> None:
    assert read_signal(json.dumps(fields), NODE) == wanted


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "hold", "by": "me"}, "kind: 'hold' is not one of card, xid"),
        ({"kind": "xid"}, "code is missing"),
        ({"kind": "xid", "code": 79, "cod": 1}, "unknown key 'cod'"),
        ({"kind": "probe", "result": "fine"}, "result: 'fine' is not one of ok"),
        ({"kind": "level", "name": "warmth", "value": 1}, "name: 'warmth' is not one of"),
        ({"kind": "level", "name": "power_brake", "value": 1}, "value: 1 is not true or false"),
        ({"kind": "level", "name": "power_brake"}, "value is missing"),
        ({"kind": "reset", "t": "soon"}, "t: 'soon' is not a number"),
    ],
)
def test_a_line_that_is_wrong_is_refused_with_its_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_signal(line(**fields), NODE)
    assert message in str(refused.value)
