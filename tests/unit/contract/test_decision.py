"""The decision annotation is the durable record: it reads back whole, and only our own is believed."""

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sublet.contract import decision
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import CardGrant, Placement

KEY = b"secret of the scheduler"
ID = DecisionId("d1")
PLACED = Placement(
    node=NodeName("n1"),
    containers={
        "main": (
            CardGrant(card=CardId("A"), index=0, memory_mib=4096, core_percent=30),
            CardGrant(card=CardId("B"), index=3, memory_mib=4096, core_percent=30),
        ),
        "whole": (CardGrant(card=CardId("C"), index=1, memory_mib=None, core_percent=100, exclusive=True),),
    },
)
WRITTEN = decision.write(ID, PLACED, uid=PodUid("u1"), key=KEY)


def changed(**parts: Any) -> str:
    return json.dumps(json.loads(WRITTEN) | parts)


def test_what_is_written_reads_back() -> None:
    found = decision.read(WRITTEN)
    assert (found.id, found.uid, found.placement) == (ID, "u1", PLACED)
    assert decision.is_signed(WRITTEN, KEY)


def test_it_is_compact_json_of_the_documented_keys() -> None:
    grant = {"card": "C", "index": 1, "memoryMiB": None, "corePercent": 100, "exclusive": True}
    document = json.loads(WRITTEN)
    assert document.keys() == {"v", "id", "uid", "node", "containers", "mac"}
    assert document["containers"]["whole"] == [grant]
    assert document["containers"]["main"][0] == {
        "card": "A",
        "index": 0,
        "memoryMiB": 4096,
        "corePercent": 30,
    }
    assert " " not in WRITTEN


def test_the_same_decision_is_the_same_text() -> None:
    assert decision.write(ID, PLACED, uid=PodUid("u1"), key=KEY) == WRITTEN


def test_a_pod_that_waits_has_an_id_and_no_place() -> None:
    text = decision.write(ID, None, uid=None, key=KEY)
    assert decision.read(text) == decision.Decision(
        id=ID, uid=None, placement=None, mac=json.loads(text)["mac"]
    )
    assert decision.is_signed(text, KEY)


def test_without_a_key_there_is_no_mac_and_no_trust() -> None:
    text = decision.write(ID, PLACED, uid=None, key=b"")
    assert json.loads(text)["mac"] == ""
    assert not decision.is_signed(text, b"")
    assert not decision.is_signed(text, KEY)
    assert not decision.is_signed(WRITTEN, b"")


def test_another_key_did_not_sign_it() -> None:
    assert not decision.is_signed(WRITTEN, b"another secret")


@pytest.mark.parametrize(
    "text",
    [
        changed(id="d2"),
        changed(uid="u2"),
        changed(uid=None),
        changed(node="n2"),
        changed(after="7"),
        changed(v=2),
        changed(containers={}),
        changed(containers={"main": [{"card": "A", "index": 0, "memoryMiB": 1, "corePercent": 30}]}),
        changed(mac=""),
        changed(mac="ä" * 32),
        changed(mac=None),
        WRITTEN.replace('"memoryMiB":4096', '"memoryMiB":4097'),
        WRITTEN.replace('"exclusive":true', '"exclusive":false'),
    ],
)
def test_whatever_is_changed_the_mac_no_longer_fits(text: str) -> None:
    assert text != WRITTEN
    assert not decision.is_signed(text, KEY)


def test_the_next_waiting_note_differs_from_every_earlier_one() -> None:
    notes = {decision.write(ID, None, uid=PodUid("u"), key=KEY, after=version) for version in ("7", "8", "")}
    assert len(notes) == 3


HOSTILE = [
    "", "null", "7", "[]", '"text"', "{}", "{", "[" * 100_000, '{"mac":' + "[" * 100_000, "\ud800",
    '{"v":1}', '{"v":1,"id":"x"}', '{"v":1,"id":7,"mac":""}', '{"v":1,"id":"x","mac":[]}',
    '{"v":1,"id":"x","uid":[1],"mac":""}',
    '{"v":1,"id":"x","node":"n","mac":""}',
    '{"v":1,"id":"x","node":["n"],"containers":{},"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":[],"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":{"a":7},"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":{"a":["b"]},"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":{"a":[{"card":[],"index":0,"memoryMiB":1,"corePercent":1}]},"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":{"a":[{"card":"c","index":0,"memoryMiB":Infinity,"corePercent":1}]},"mac":""}',
    '{"v":1,"id":"x","node":"n","containers":{"a":[{"card":"c","index":NaN,"memoryMiB":1,"corePercent":1}]},"mac":""}',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
def test_text_that_is_no_decision_is_a_bad_request_and_not_signed(text: str) -> None:
    with pytest.raises(BadRequest):
        decision.read(text)
    assert not decision.is_signed(text, KEY)


def test_a_version_of_the_future_is_named() -> None:
    with pytest.raises(BadRequest, match="version 2"):
        decision.read('{"v":2}')


@given(st.text())
def test_any_text_at_all_is_judged(text: str) -> None:
    assert not decision.is_signed(text, KEY)
    with pytest.raises(BadRequest):
        decision.read(text)


_CARD = st.text(min_size=1, max_size=8)
_GRANT = st.builds(
    CardGrant,
    card=_CARD,
    index=st.integers(0, 64),
    memory_mib=st.none() | st.integers(0, 2**40),
    core_percent=st.integers(0, 100),
    exclusive=st.booleans(),
)


@given(
    node=st.text(min_size=1),
    containers=st.dictionaries(st.text(min_size=1), st.lists(_GRANT, min_size=1, max_size=3).map(tuple)),
    uid=st.none() | st.text(min_size=1),
)
def test_every_decision_survives_the_annotation(
    node: str, containers: dict[str, tuple[CardGrant, ...]], uid: str | None
) -> None:
    placed = Placement(node=NodeName(node), containers=containers)
    text = decision.write(ID, placed, uid=PodUid(uid) if uid else None, key=KEY)
    found = decision.read(text)
    assert found.placement == placed
    assert found.uid == uid
    assert decision.is_signed(text, KEY)
