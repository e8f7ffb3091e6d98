"""`sublet place`: one after another on an inventory, with the words of the formats page."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sublet.cli.explain import reasons_in
from tests.builders import container, pod
from tests.unit.cli.running import Sublet


def card(uuid: str, *, gib: int | None = 10, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "memoryMiB": None if gib is None else gib * 1024, **more}


def node(name: str, *cards: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "cards": list(cards), **more}


def reasons(sublet: Sublet, manifest: dict[str, Any], *nodes: dict[str, Any]) -> dict[str, int]:
    [one] = sublet.place(manifest, on=list(nodes))
    assert one["outcome"] == "held"
    found: dict[str, int] = one["reasons"]
    return found


def test_the_document_of_a_placed_pod(sublet: Sublet) -> None:
    manifest = pod("p", container(gpu_memory=4096, gpu_core=30), namespace="ns")
    [one] = sublet.place(manifest, on=[node("n1", card("GPU-1", index=3))])
    grant = {"card": "GPU-1", "index": 3, "memoryMiB": 4096, "corePercent": 30}
    decided = {"containers": {"main": [grant]}, "id": "1", "node": "n1", "v": 1}
    text = json.dumps(decided, sort_keys=True, separators=(",", ":"))
    assert one == {
        "schema": 1,
        "pod": "ns/p",
        "outcome": "placed",
        "node": "n1",
        "containers": {"main": [grant]},
        "annotations": {
            "cards.sublet.dev/main": "GPU-1",
            "sublet.dev/decision": text.removesuffix("}") + ',"mac":""}',
        },
        "labels": {"sublet.dev/claimed": "true"},
        "env": {"main": {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}},
        "reasons": {},
        "message": "",
    }


def test_gpushare_results_carry_no_time(sublet: Sublet) -> None:
    [one] = sublet.place(pod("p", container(gpu_mem=4)), on=[node("n1", card("GPU-1"))])
    assert one["annotations"] | one["env"]["main"] == {
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "0",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
        "ALIYUN_COM_GPU_MEM_DEV": "10",
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_POD": "4",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "cards.sublet.dev/main": "GPU-1",
        "sublet.dev/decision": one["annotations"]["sublet.dev/decision"],
    }


def test_each_pod_sees_those_before_it(sublet: Sublet) -> None:
    three = [pod(f"p{at}", container(gpu_memory=6144)) for at in range(3)]
    placed = sublet.place(*three, on=[node("n1", card("A"), card("B"))])
    assert [one["outcome"] for one in placed] == ["placed", "placed", "held"]
    assert placed[2]["reasons"] == {"InsufficientMemory": 2}
    assert [json.loads(one["annotations"]["sublet.dev/decision"])["id"] for one in placed[:2]] == ["1", "2"]


def test_an_exclusive_grant_is_the_whole_card_even_of_unknown_memory(sublet: Sublet) -> None:
    [one] = sublet.place(pod("p", container(gpu=2)), on=[node("n1", card("A"), card("B", gib=None))])
    assert one["containers"]["main"] == [
        {"card": "A", "index": 0, "memoryMiB": 10240, "corePercent": 100},
        {"card": "B", "index": 1, "memoryMiB": None, "corePercent": 100},
    ]


def test_grants_of_the_inventory_are_held(sublet: Sublet) -> None:
    grants = [
        {"pod": "ns/a", "container": "c", "card": "A", "memoryMiB": 8192, "corePercent": 10},
        {"pod": "ns/b", "container": "c", "card": "B", "exclusive": True},
    ]
    on = node("n1", card("A"), card("B"), grants=grants)
    assert reasons(sublet, pod("p"), on) == {"Exclusive": 1, "InsufficientMemory": 1}
    assert reasons(sublet, pod("p", container(gpu=1)), on) == {"InUse": 2}


def test_a_pod_with_a_grant_counts_as_a_pod_of_its_node(sublet: Sublet) -> None:
    grants = [{"pod": "ns/a", "card": "A", "memoryMiB": 1}]
    assert reasons(sublet, pod("p"), node("n1", card("A"), pods=1, grants=grants)) == {"TooManyPods": 1}


def test_each_node_and_card_counts_under_the_first_thing_against_it(sublet: Sublet) -> None:
    nodes = [
        node("a", card("A"), taints=[{"key": "x", "effect": "NoSchedule"}]),
        node("b", card("B"), unschedulable=True),
        node("c", card("C"), cpuMilli=1000),
        node("d", card("D"), memoryMiB=1),
        node("e"),
        node("f", card("F1", health="quarantined"), card("F2", gib=1), card("F3", model="Tesla T4")),
        node("g", card("G", vendor="amd", gib=None)),
        node("h", card("H", gib=None)),
    ]
    manifest = pod(
        "p",
        container(gpu_memory=4096, cpu="2", memory="2Gi"),
        annotations={"sublet.dev/card-models": "a100"},
    )
    assert reasons(sublet, manifest, *nodes) == {
        "Taint": 1,
        "Unschedulable": 1,
        "InsufficientCPU": 1,
        "InsufficientHostMemory": 1,
        "NoCards": 1,
        "Unhealthy": 1,
        "InsufficientMemory": 1,
        "UnknownMemory": 2,
        "ModelMismatch": 1,
    }


def test_what_no_node_could_take_says_both_numbers(sublet: Sublet) -> None:
    [one] = sublet.place(pod("p", container(gpu_memory=99999)), on=[node("n1", card("A"))])
    assert one["reasons"] == {"InsufficientMemory": 1, "LargerThanAnyNode": 1}
    assert "99999 MiB" in one["message"]
    assert "10240 MiB" in one["message"]
    assert reasons_in(one["message"]) == one["reasons"]


def test_a_pod_that_names_its_node_is_placed_there_or_refused(sublet: Sublet) -> None:
    nodes = [node("n1", card("A")), node("n2", card("B", gib=2))]
    good, bad = sublet.place(pod("good", nodeName="n1"), pod("bad", nodeName="n2"), on=nodes)
    assert (good["outcome"], good["node"]) == ("placed", "n1")
    assert (bad["outcome"], bad["node"], bad["containers"]) == ("refused", None, {})
    assert bad["reasons"] == {"NodeSelector": 1, "InsufficientMemory": 1}


def test_refused_and_unclaimed_pods(sublet: Sublet) -> None:
    refused, unclaimed = sublet.place(
        pod("a", container(gpu_memory="16Gi")), pod("b", container(cpu="1")), on=[node("n1", card("A"))]
    )
    assert (refused["outcome"], refused["reasons"]) == ("refused", {"BadQuantity": 1})
    assert "sublet.dev/gpu-memory='16Gi'" in refused["message"]
    assert (unclaimed["outcome"], unclaimed["reasons"], unclaimed["message"]) == ("unclaimed", {}, "")


def test_an_unclaimed_pod_takes_host_resources_of_the_node_it_names(sublet: Sublet) -> None:
    plain = pod("plain", container(cpu="63"), nodeName="n1")
    _, claiming = sublet.place(plain, pod("p", container(gpu_memory=1, cpu="2")), on=[node("n1", card("A"))])
    assert claiming["reasons"] == {"InsufficientCPU": 1}


def test_policies_are_options(sublet: Sublet) -> None:
    two = [pod("a"), pod("b")]
    nodes = [node("n1", card("A"), card("B")), node("n2", card("C"))]

    def cards(*more: str) -> list[str]:
        return [one["containers"]["main"][0]["card"] for one in sublet.place(*two, on=nodes, more=more)]

    assert cards() == ["A", "A"]
    assert cards("--node-policy", "binpack", "--card-policy", "binpack") == ["C", "C"]
    assert cards("--node-policy", "spread", "--card-policy", "binpack") == ["A", "C"]
    assert cards("--node-policy", "spread", "--card-policy", "spread") == ["A", "C"]


def test_the_replicas_of_a_workload_keep_apart_where_they_wish_it(sublet: Sublet) -> None:
    template = pod("x", container(gpu_memory=1024), annotations={"sublet.dev/apart": "nodes"})
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }
    nodes = [node("n1", card("A"), card("B")), node("n2", card("C"))]
    found = sublet.place(workload, on=nodes)
    assert [one["containers"]["main"][0]["card"] for one in found] == ["A", "C", "B"]


def member(name: str, *containers: dict[str, Any], size: int, **more: Any) -> dict[str, Any]:
    annotations = {"sublet.dev/gang": "g", "sublet.dev/gang-size": str(size)}
    return pod(name, *containers or [container(gpu=1)], annotations=annotations, **more)


def test_a_gang_that_does_not_fit_holds_no_card(sublet: Sublet) -> None:
    gang = [member(f"p{at}", size=4) for at in range(4)]
    told = sublet.place(*gang, pod("alone", container(gpu=2)), on=[node("n1", card("A"), card("B"))])
    assert [one["outcome"] for one in told] == ["held"] * 4 + ["placed"]
    assert told[0]["reasons"] == {"InUse": 2, "GangNoRoom": 1}
    assert "gang 'g' of 4 pods does not fit at once" in told[0]["message"]


def test_a_gang_that_lacks_members_is_held_and_says_how_many(sublet: Sublet) -> None:
    [one] = sublet.place(member("p", size=2), on=[node("n1", card("A"))])
    assert (one["outcome"], one["reasons"]) == ("held", {"GangIncomplete": 1})
    assert "of gang 'g' of 2 pods 1 is missing" in one["message"]


def test_a_gang_is_placed_at_once_in_the_turn_of_its_first_member(sublet: Sublet) -> None:
    pods = [member("a", size=2), pod("between", container(gpu=1)), member("b", size=2)]
    told = sublet.place(*pods, on=[node("n1", card("A"), card("B"))])
    assert [one["outcome"] for one in told] == ["placed", "held", "placed"]
    assert {one["containers"]["main"][0]["card"] for one in (told[0], told[2])} == {"A", "B"}


def test_members_above_the_size_of_a_gang_are_held_where_they_do_not_fit(sublet: Sublet) -> None:
    told = sublet.place(*(member(f"p{at}", size=2) for at in range(3)), on=[node("n1", card("A"), card("B"))])
    assert [one["outcome"] for one in told] == ["placed", "placed", "held"]


def test_pods_without_a_claim_count_in_a_gang_that_another_controller_describes(sublet: Sublet) -> None:
    group = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    pods = [pod("a", annotations=group), pod("b", container(cpu="1"), annotations=group)]
    for one in pods:
        one["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": "g"}
    told = sublet.place(*pods, on=[node("n1", card("A"))])
    assert [one["outcome"] for one in told] == ["placed", "unclaimed"]
    [alone] = sublet.place(pods[0], on=[node("n1", card("A"))])
    assert alone["reasons"] == {"GangIncomplete": 1}


def test_a_pod_of_a_gang_that_names_its_node_is_refused(sublet: Sublet) -> None:
    [one] = sublet.place(member("p", size=2, nodeName="n1"), on=[node("n1", card("A"))])
    assert (one["outcome"], one["reasons"]) == ("refused", {"GangIncomplete": 1})
    assert one["message"].startswith("NodeCannotTakeIt: ")


def test_ratios_are_options(sublet: Sublet) -> None:
    two = [pod("a", container(gpu_memory=8192)), pod("b", container(gpu_memory=4096))]
    nodes = [node("n1", card("A", model="NVIDIA A100"))]

    def outcomes(*more: str) -> list[str]:
        return [one["outcome"] for one in sublet.place(*two, on=nodes, more=more)]

    assert outcomes() == ["placed", "held"]
    assert outcomes("--overcommit-memory", "pool=dev:2") == ["placed", "held"]
    assert outcomes("--overcommit-memory", "A100:1.5") == ["placed", "placed"]
    ran = sublet("place", "-f", "-", "--inventory", "x", "--overcommit-core", "A100:11")
    assert (ran.code, "'11'" in ran.err, "T4:1.5" in ran.err) == (2, True, True)


@pytest.mark.parametrize("bad", ["tightest", "random"])
def test_an_unknown_policy_is_wrong_usage(sublet: Sublet, bad: str) -> None:
    ran = sublet("place", "-f", "-", "--inventory", "x", "--node-policy", bad)
    assert (ran.code, ran.out) == (2, "")


def test_an_inventory_that_cannot_be_read_is_refused_with_its_line(sublet: Sublet) -> None:
    text = "nodes:\n- name: n1\n  cards:\n  - uuid: A\n    memoryMiB: 5\n    colour: red\n"
    ran = sublet("place", "-f", sublet.files(pod()), "--inventory", sublet.file("i.yaml", text), "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "i.yaml: document 1, line 6: unknown key 'colour' at nodes[0](n1).cards[0](A)" in ran.err


SHAPES = st.lists(
    st.one_of(
        st.builds(lambda mib: container(gpu_memory=mib), st.integers(1, 12_000)),
        st.builds(lambda count: container(gpu=count), st.integers(1, 3)),
        st.builds(lambda gib: container(gpu_mem=gib), st.integers(1, 12)),
        st.builds(lambda core: container(gpu_core=core), st.integers(1, 100)),
    ),
    min_size=1,
    max_size=6,
)
NODES = [
    node("a", card("A0"), card("A1", links={"A0": "nvlink"})),
    node("b", card("B0"), card("B1"), cpuMilli=1000),
    node("c", card("C0", gib=4), grants=[{"pod": "ns/x", "card": "C0", "memoryMiB": 1000}]),
    node("d"),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=SHAPES, order=st.permutations(NODES))
def test_any_order_of_nodes_gives_the_same_bytes(
    sublet: Sublet, shapes: list[dict[str, Any]], order: list[dict[str, Any]]
) -> None:
    pods = sublet.files(*(pod(f"p{at}", shape) for at, shape in enumerate(shapes)))

    def out(nodes: list[dict[str, Any]]) -> str:
        inventory = sublet.file("inventory.yaml", {"nodes": nodes})
        return sublet("place", "-f", pods, "--inventory", inventory, "-o", "json").out

    assert out(NODES) == out(order)
