"""Laws of all dialects: nothing sayable is lost, injection modes agree, totals never refuse what fits."""

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import jsonpatch
import pytest
from hypothesis import given

from sublet.contract import dialects
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import admission_patch, release_patch, waiting_patch
from sublet.contract.podspec import annotations
from sublet.contract.reading import forged_keys, read_pod
from sublet.contract.results import env_constants, env_sources, pod_results
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim, ContainerKind, PodAsk
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import CardGrant, Placement
from tests.builders import pod
from tests.property.spelling import APP_CLASS, WRITERS, Spelled, gpushare_in, meaning

ALL = Options(enabled=tuple(dialects.BY_NAME))
NAMES = tuple(WRITERS)
TEXT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")

memories = st.one_of(st.integers(1, 64).map(lambda gib: gib * 1024), st.integers(1, 200_000))
percents = st.one_of(
    st.integers(1, 100).map(Fraction), st.integers(1, 999_999).map(lambda one: Fraction(one, 10_000))
)
cores = st.one_of(st.sampled_from([0, 0, 5, 50, 55, 95]), st.integers(0, 100))


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    """Any claim; more often one that some dialect has words for."""
    blank = Claim(container="main", kind=ContainerKind.MAIN, dialect="", cards=draw(st.integers(1, 3)))
    kind = draw(
        st.sampled_from(["whole", "partition", "share", "percent", "core", "nothing", "grows", "class"])
    )
    match kind:
        case "whole":
            return replace(blank, exclusive=True, core_percent=100)
        case "partition":
            return replace(blank, exclusive=True, core_percent=100, profile="3g.20gb")
        case "share":
            limit = draw(st.one_of(st.none(), st.integers(1, 100)))
            return replace(
                blank, memory_mib=draw(memories), core_percent=draw(cores), core_limit_percent=limit
            )
        case "percent":
            percent = draw(percents)
            core = draw(st.one_of(st.just(int(percent)), cores))
            return replace(blank, memory_percent=percent, core_percent=core)
        case "core":
            return replace(blank, core_percent=draw(st.integers(1, 100)))
        case "grows":
            return replace(blank, cards=1, memory_mib=draw(memories), grows=True)
        case "class":
            name = draw(st.sampled_from(["online", "offline"]))
            limit = draw(st.integers(1, 100)) if name == "offline" else None
            return replace(
                blank,
                cards=1,
                memory_mib=draw(st.integers(1, 64)) * 1024,
                service_class=name,
                core_limit_percent=limit,
            )
        case _:
            return blank


def manifest(spelled: Spelled) -> dict[str, Any]:
    limits = {key: str(amount) for key, amount in spelled.limits.items()}
    return pod("p", {"name": "main", "resources": {"limits": limits}}, annotations=spelled.annotations)


def asked(written: dict[str, Any]) -> PodAsk:
    found = read_pod(written, namespace="default", options=ALL, managed=True)
    assert isinstance(found, PodAsk), found
    return found


@given(claims())
def test_a_claim_written_in_a_dialect_and_read_back_is_the_same(claim: Claim) -> None:
    for name, write in WRITERS.items():
        spelled = write(claim)
        if spelled is not None:
            [found] = asked(manifest(spelled)).claims
            assert meaning(found) == meaning(claim), (name, spelled)
            assert found.dialect == name or (name, found.dialect) == ("hami", "nvidia")


EXTRA = {"nvidia": ("nvidia.com/mig-3g.20gb",)}
"""Resources that a dialect names by their beginning alone."""
amounts = st.one_of(
    st.integers(1, 300), st.sampled_from([0, 5, 50, 95, 100, 101, 121, 160, 200, 800, 1024, 20480])
)
said_beside: Mapping[str, st.SearchStrategy[dict[str, str]]] = {
    "qgpu": st.sampled_from([{}, {APP_CLASS: "online"}, {APP_CLASS: "offline"}]),
    "vcuda": st.one_of(
        st.just({}), st.integers(1, 400).map(lambda most: {"tencent.com/vcuda-core-limit": str(most)})
    ),
    "kai": st.dictionaries(
        st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"]),
        st.one_of(
            st.integers(1, 3).map(str),
            st.integers(1, 10**18 - 1).map(lambda digits: f"0.{digits:018d}"),
            st.sampled_from(["0.5", "0.125", "4096"]),
        ),
    ),
}


@st.composite
def sentences(draw: st.DrawFn, name: str) -> Spelled:
    """What somebody may write in a dialect, well or ill."""
    known = (*sorted(dialects.BY_NAME[name].resources), *EXTRA.get(name, ()))
    some = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
    return Spelled({key: draw(amounts) for key in some}, draw(said_beside.get(name, st.just({}))))


@pytest.mark.parametrize("unit_mib", [1024, 1], ids=["GiB", "MiB"])
@pytest.mark.parametrize("name", NAMES)
@given(st.data())
def test_whatever_a_dialect_says_can_be_said_in_it_again(
    name: str, unit_mib: int, data: st.DataObject
) -> None:
    """No part of a claim is read that has no words, and none gets lost between the words and the claim."""
    options = Options(enabled=(name,), gpu_mem_unit_mib=unit_mib)
    said = data.draw(sentences(name))
    found = read_pod(manifest(said), namespace="default", options=options, managed=True)
    if not isinstance(found, PodAsk):
        return
    [claim] = found.claims
    write = gpushare_in(unit_mib) if name == "gpushare" else WRITERS[name]
    again = write(claim)
    assert again is not None, (said, claim)
    repeated = read_pod(manifest(again), namespace="default", options=options, managed=True)
    assert isinstance(repeated, PodAsk), (said, again, repeated)
    assert meaning(repeated.claims[0]) == meaning(claim), (said, again)


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_has_words_for_something(name: str) -> None:
    whole = Claim(container="main", kind=ContainerKind.MAIN, dialect="", exclusive=True, core_percent=100)
    share = replace(whole, exclusive=False, core_percent=0, memory_mib=4096)
    part = replace(share, memory_mib=None, memory_percent=Fraction(50), core_percent=50)
    assert any(WRITERS[name](one) for one in (whole, share, part))


def card(at: int, vendor: Vendor = Vendor.NVIDIA) -> Card:
    return Card(id=CardId(f"GPU-{at}"), index=at, vendor=vendor, memory_mib=81_920)


def placed(claim: Claim, first: int) -> tuple[Placement, dict[CardId, Card]]:
    vendor = Vendor(claim.vendor or "nvidia")
    cards = [card(first + at, vendor) for at in range(claim.cards)]
    grants = tuple(
        CardGrant(
            card=one.id,
            index=one.index,
            memory_mib=claim.memory_mib or 1000,
            core_percent=claim.core_percent,
            exclusive=claim.exclusive,
        )
        for one in cards
    )
    placement = Placement(node=NodeName("n1"), containers={"main": grants})
    return placement, {one.id: one for one in cards}


spelled_claims = st.builds(
    lambda claim, name: (name, WRITERS[name](claim)), claims(), st.sampled_from(NAMES)
).filter(lambda pair: pair[1] is not None)


@given(spelled_claims, st.integers(0, 5))
def test_both_injection_modes_give_the_same_variables_and_valid_names(
    pair: tuple[str, Spelled], first: int
) -> None:
    ask = asked(manifest(pair[1]))
    [claim] = ask.claims
    found = pod_results(ask, *placed(claim, first), ALL, at_ns=1_700_000_000_000_000_000)
    sources = {name: found.annotations[key] for name, key in env_sources(claim).items()}
    assert sources | env_constants(claim) == found.env["main"]
    for key in (*found.annotations, *found.labels):
        prefix, _, name = key.rpartition("/")
        assert TEXT.fullmatch(name), key
        assert not prefix or PREFIX.fullmatch(prefix), key
    assert all(TEXT.fullmatch(value) for value in found.labels.values())


@given(spelled_claims, st.integers(0, 5))
def test_no_result_outlives_a_decision_and_none_may_be_brought_along(
    pair: tuple[str, Spelled], first: int
) -> None:
    before = manifest(pair[1])
    ask = asked(before)
    placement, cards = placed(ask.claims[0], first)
    results = pod_results(ask, placement, cards, ALL, at_ns=1)
    how: dict[str, Any] = {"options": ALL, "key": b"key"}
    decided = jsonpatch.apply_patch(
        before,
        admission_patch(
            before, ask, DecisionId("1"), placement=placement, written=results, waiting="", **how
        ),
    )
    again = asked(decided)
    assert again.claims == ask.claims
    assert not admission_patch(
        decided, again, DecisionId("1"), placement=placement, written=results, waiting="", **how
    )
    for key in results.annotations:
        forged = copy.deepcopy(before)
        forged["metadata"]["annotations"] = {**annotations(before), key: "x"}
        assert forged_keys(forged, ALL)
    for key in results.labels:
        forged = copy.deepcopy(before)
        forged["metadata"]["labels"] = {key: "x"}
        assert forged_keys(forged, ALL)
    decided["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    waits = jsonpatch.apply_patch(
        decided,
        waiting_patch(decided, DecisionId("1"), uid=PodUid("u"), version="7", waiting="x", key=b"key"),
    )
    left = set(annotations(waits)) - set(annotations(before))
    assert left == {"sublet.dev/decision", "sublet.dev/waiting"}
    assert waits["metadata"]["labels"] == {"sublet.dev/claimed": "true"}
    released = jsonpatch.apply_patch(
        waits,
        release_patch(
            waits,
            DecisionId("1"),
            uid=PodUid("u"),
            version="7",
            placement=placement,
            written=results,
            key=b"key",
        ),
    )
    assert results.annotations.items() <= annotations(released).items()
    assert released["metadata"]["labels"] == dict(results.labels)


@given(st.lists(spelled_claims, max_size=12))
def test_what_fits_the_cards_fits_the_totals_of_its_node(pairs: list[tuple[str, Spelled]]) -> None:
    """kube-scheduler counts each dialect's requests against that dialect's totals alone."""
    cards = [card(at) for at in range(4)]
    free = {one.id: [81_920, 100, 16] for one in cards}
    taken: dict[str, int] = {}
    for _, spelled in pairs:
        ask = asked(manifest(spelled))
        [claim] = ask.claims
        if claim.vendor == Vendor.AMD or claim.profile:
            continue
        share = _share(claim)
        fitting = [one for one, left in free.items() if all(a <= b for a, b in zip(share, left, strict=True))]
        if len(fitting) < claim.cards:
            continue
        for one in fitting[: claim.cards]:
            free[one] = [left - part for left, part in zip(free[one], share, strict=True)]
        for key, amount in ask.resources.items():
            taken[key] = taken.get(key, 0) + amount
    totals: dict[str, int] = {"sublet.dev/slot": 64}
    for dialect in dialects.ALL:
        totals |= dialect.totals(cards, shares_per_card=16, options=ALL)
    assert all(amount <= totals[key] for key, amount in taken.items())


def _share(claim: Claim) -> tuple[int, int, int]:
    """Of each card: MiB, percent, shares. A claim that may be spread is tried on one card alone."""
    if claim.exclusive:
        return (81_920, 100, 16)
    percent = claim.memory_percent
    if percent is None and claim.memory_mib is None:
        percent = Fraction(claim.core_percent)
    memory = claim.memory_mib if percent is None else int(81_920 * percent / 100)
    return (memory or 0, claim.core_percent, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_that_is_off_is_not_read(name: str) -> None:
    spelled = next(
        found
        for claim in (
            Claim(container="main", kind=ContainerKind.MAIN, dialect="", exclusive=True, core_percent=100),
            Claim(container="main", kind=ContainerKind.MAIN, dialect="", memory_mib=4096),
        )
        if (found := WRITERS[name](claim))
    )
    others = tuple(one for one in NAMES if one not in (name, "nvidia", "hami"))
    options = replace(ALL, enabled=others)
    assert read_pod(manifest(spelled), namespace="default", options=options, managed=True) is None
