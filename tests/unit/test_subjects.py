"""Subjects and keys: written and read back without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.contract import subjects
from sublet.contract.subjects import Subject
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, NodeName

nodes = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]{1,5})?", fullmatch=True).map(NodeName)
cards = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable()).map(CardId)


@given(st.sampled_from(subjects.KINDS), st.none() | nodes, st.none() | cards)
def test_a_subject_reads_back_as_it_was_written(
    kind: str, node: NodeName | None, card: CardId | None
) -> None:
    text = subjects.subject(kind, node, card)
    assert subjects.parse_subject(text) == Subject(kind=kind, node=node, card=card)
    assert text.isascii()
    assert text.count(".") == 4
    assert not set(text) & set("*> ")


@given(nodes, cards)
def test_keys_read_back_as_they_were_written(node: NodeName, card: CardId) -> None:
    assert subjects.parse_verdict_key(subjects.verdict_key(node, card)) == (node, card)
    assert subjects.parse_ledger_key(subjects.ledger_key(node)) == node
    for key in (subjects.inventory_key, subjects.heartbeat_key, subjects.occupancy_key):
        kind, read = subjects.parse_node_key(key(node))
        assert (read, key(node)) == (node, f"{kind}.{node.replace('.', '_')}")


def test_a_vendors_uuid_is_readable_in_its_subject() -> None:
    text = subjects.subject("health", "gpu-1.example.com", "GPU-8f6e0a7c")
    assert text == "sublet.v1.health.gpu-1_example_com.GPU-8f6e0a7c"
    assert subjects.signal_subject("n1", None) == "sublet.v1.signal.n1.-"
    assert subjects.parse_ledger_key("_meta") is None


def test_a_pattern_leaves_open_what_is_not_named() -> None:
    assert subjects.pattern() == "sublet.v1.*.*.*"
    assert subjects.pattern("pod", "n1") == "sublet.v1.pod.n1.*"
    assert subjects.pattern(card="a b") == "sublet.v1.*.*.a=20b"
    assert subjects.verdict_keys("a.b") == "a_b.*"


@pytest.mark.parametrize(
    "text", ["sublet.v1.health.n1", "sublet.v2.health.n1.-", "sublet.v1.other.n1.-", "sublet.v1.pod..-"]
)
def test_a_foreign_subject_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="subject"):
        subjects.parse_subject(text)


def test_names_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(BadRequest, match="kind"):
        subjects.subject("other", None, None)
    with pytest.raises(BadRequest, match="DNS"):
        subjects.subject("pod", "N_1", None)
    with pytest.raises(BadRequest, match="empty"):
        subjects.subject("card", "n1", "")
    for read, key in (
        (subjects.parse_node_key, "other.n1"),
        (subjects.parse_verdict_key, "n1"),
        (subjects.parse_ledger_key, "n1"),
        (subjects.parse_verdict_key, "n1.=FF"),
    ):
        with pytest.raises(BadRequest):
            read(key)
