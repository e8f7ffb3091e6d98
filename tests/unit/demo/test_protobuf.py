"""What kubectl sends in protobuf is read as what it would be in JSON, and what is broken is refused."""

import pytest

from sublet.demo.apiserver.answers import Refused
from sublet.demo.apiserver.protobuf import decoded


def text(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def number(field: int, value: int) -> bytes:
    return bytes([field << 3, value])


def sent(version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + text(1, text(1, version) + text(2, kind)) + text(2, raw)


def test_a_config_map_with_its_metadata() -> None:
    meta = text(1, b"c") + text(2, b"") + text(11, text(1, b"a") + text(2, b"b"))
    body = sent(b"v1", b"ConfigMap", text(1, meta) + text(2, text(1, b"k") + text(2, b"v")))
    assert decoded(body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"a": "b"}},
        "data": {"k": "v"},
    }


def test_an_eviction_with_its_options() -> None:
    options = number(1, 30) + text(2, text(1, b"uid")) + number(3, 1) + text(5, b"All")
    body = sent(b"policy/v1", b"Eviction", text(1, text(1, b"p")) + text(2, options))
    assert decoded(body)["deleteOptions"] == {
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "uid"},
        "orphanDependents": True,
        "dryRun": ["All"],
    }


def test_a_field_that_is_not_known_is_passed_over() -> None:
    body = sent(b"v1", b"Namespace", text(1, text(1, b"n") + number(7, 3)) + text(9, b"x"))
    assert decoded(body)["metadata"] == {"name": "n"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", 400),
        (sent(b"v1", b"Namespace", text(1, b"n"))[:-1], 400),
        (sent(b"v1", b"Namespace", text(1, text(1, b"\xff"))), 400),
        (sent(b"v1", b"Namespace", text(1, b"\x0d1234")), 400),
        (sent(b"v1", b"Namespace", number(1, 1)), 400),
        (b"k8s\x00\x0a\xff", 400),
        (sent(b"v1", b"Secret", b""), 415),
    ],
)
def test_what_is_broken_or_unknown_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(Refused) as refused:
        decoded(body)
    assert refused.value.code == code
