"""`sublet explain`: what is read out of a pod's own words."""

from typing import Any

from sublet.cli.explain import explanation, lines, reasons_in
from sublet.contract import decision, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import admission_patch
from sublet.contract.waiting import with_nearest
from sublet.demo.apiserver.patching import with_operations
from sublet.model.ids import CardId, DecisionId, NodeName
from sublet.model.placement import CardGrant, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from tests.builders import ask, container, pod

PLACEMENT = Placement(
    node=NodeName("n1"),
    containers={"main": (CardGrant(card=CardId("A"), index=2, memory_mib=4096, core_percent=0),)},
)


def waiting_pod(waiting: str) -> dict[str, Any]:
    manifest = pod("p")
    options = Options()
    operations = admission_patch(
        manifest,
        ask(manifest),
        DecisionId("d1"),
        placement=None,
        written=None,
        waiting=waiting,
        options=options,
        key=b"k",
    )
    return with_operations(manifest, operations)


def test_a_held_pod_says_which_reasons_how_often_and_the_way_out() -> None:
    told = explanation(waiting_pod("no room now (3 InsufficientMemory, 1 Taint): mostly ..."), managed=False)
    assert (told["outcome"], told["gated"], told["node"]) == ("held", True, None)
    assert told["reasons"] == {"InsufficientMemory": 3, "Taint": 1}
    assert told["waysOut"]["Taint"] == EXPLANATIONS[Reason.TAINT].way_out
    assert told["claims"]["main"]["memoryMiB"] == 4096


def test_a_held_pod_says_what_came_nearest() -> None:
    note = "no room now (3 InsufficientMemory): mostly ..."
    told = explanation(waiting_pod(with_nearest(note, "n7 card 2: 512 MiB short")), managed=False)
    assert told["nearest"] == "n7 card 2: 512 MiB short"
    assert told["reasons"] == {"InsufficientMemory": 3}
    assert "  nearest miss, when that was written: n7 card 2: 512 MiB short" in lines(told)
    assert explanation(waiting_pod(note), managed=False)["nearest"] == ""


def test_nearest_miss_and_way_out_are_said_once() -> None:
    why = EXPLANATIONS[Reason.INSUFFICIENT_MEMORY]
    note = f"no room now (3 InsufficientMemory): {why.text}; {why.way_out}"
    text = "\n".join(lines(explanation(waiting_pod(with_nearest(note, "n7 card 2")), managed=False)))
    assert text.count("n7 card 2") == 1
    assert text.count(why.way_out) == 1
    assert "of the compute of 1 card\n" in text


def test_a_held_pod_says_its_place_in_the_queue() -> None:
    """Priority first, then age; pods without our gate do not wait."""
    mine, higher, older, released = (waiting_pod("no room now (1 InUse)") for _ in range(4))
    for name, one in (("mine", mine), ("higher", higher), ("older", older), ("released", released)):
        one["metadata"] |= {"name": name, "creationTimestamp": "2026-11-29T12:00:00Z"}
    higher["spec"]["priority"] = 7
    older["metadata"]["creationTimestamp"] = "2026-11-29T11:59:59Z"
    del released["spec"]["schedulingGates"]
    told = explanation(mine, managed=False, claimed=[released, mine, older, higher])
    assert told["queue"] == {"position": 3, "waiting": 3}
    assert "  in the queue: 3 of 3 that wait" in lines(told)
    assert explanation(mine, managed=False)["queue"] is None
    assert explanation(released, managed=False, claimed=[mine, released])["queue"] is None


def test_a_released_pod_says_where_and_on_which_cards() -> None:
    written = decision.write(DecisionId("d1"), PLACEMENT, uid=None, key=b"k")
    manifest = pod("p", annotations={keys.DECISION: written}, nodeName="n1")
    manifest["metadata"]["labels"] = {keys.CLAIMED_LABEL: "true"}
    told = explanation(manifest, managed=False)
    assert (told["outcome"], told["node"], told["decision"]) == ("placed", "n1", "d1")
    assert told["containers"]["main"] == [{"card": "A", "index": 2, "memoryMiB": 4096, "corePercent": 0}]


def test_foreign_names_in_an_unmanaged_namespace_are_unclaimed() -> None:
    assert explanation(pod("p", container(nvidia=1)), managed=False)["outcome"] == "unclaimed"


def test_a_note_in_the_words_of_one_reason_is_that_reason() -> None:
    why = EXPLANATIONS[Reason.UNDECIDED]
    assert reasons_in(f"{why.text}; {why.way_out}") == {Reason.UNDECIDED: 1}
    assert reasons_in("") == {}


def test_amounts_are_read_as_the_api_server_stores_them() -> None:
    told = explanation(pod("p", container(gpu_memory="50k")), managed=False)
    assert told["claims"]["main"]["memoryMiB"] == 50_000


def test_a_held_pod_says_which_placeholder_asks_for_a_node_for_it() -> None:
    mine = waiting_pod("no room now (1 InUse)")
    mine["metadata"]["uid"] = "uid-1"
    theirs = pod("placeholder-uid-0", namespace=keys.PLACEHOLDER_NAMESPACE)
    theirs["metadata"]["annotations"] = {keys.STANDS_FOR: "default/o/uid-0,default/p/uid-1"}
    told = explanation(mine, managed=False, placeholders=[theirs])
    name = f"{keys.PLACEHOLDER_NAMESPACE}/placeholder-uid-0"
    assert told["placeholder"] == {"name": name, "node": None}
    assert f"  placeholder {name} asks an autoscaler for a node for it, and has got none yet" in lines(told)
    theirs["spec"]["nodeName"] = "n9"
    came = "\n".join(lines(explanation(mine, managed=False, placeholders=[theirs])))
    assert "and has got n9, whose cards cannot be used yet" in came
    theirs["metadata"]["annotations"] = {keys.STANDS_FOR: "default/o/uid-0"}
    assert explanation(mine, managed=False, placeholders=[theirs])["placeholder"] is None
