"""`sublet claims`: the document of each pod, byte for byte where it counts."""

import json
from typing import Any

import pytest

from tests.builders import container, pod, sidecar
from tests.unit.cli.running import Sublet


def test_the_document_of_a_native_claim(sublet: Sublet) -> None:
    [one] = sublet.claims(pod("p", container(gpu_memory=4096, gpu_core=30), namespace="ns"))
    assert json.dumps(one) == json.dumps(
        {
            "schema": 1,
            "pod": "ns/p",
            "dialects": ["sublet"],
            "containers": {
                "main": {
                    "kind": "main",
                    "cards": 1,
                    "memoryMiB": 4096,
                    "memoryPercent": None,
                    "corePercent": 30,
                    "exclusive": False,
                    "profile": None,
                }
            },
            "refused": None,
        }
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"gpu": 2}, (2, None, None, 100, True)),
        ({"gpu": 2, "gpu_core": 30}, (2, None, None, 30, False)),
        ({"gpu_core": 100}, (1, None, None, 100, False)),
        ({"gpu_memory_percent": 25}, (1, None, 25, 0, False)),
        ({"nvidia": 3}, (3, None, None, 100, True)),
        ({"gpu_mem": 8}, (1, 8192, None, 0, False)),
        ({"gpu_count": 2}, (2, None, None, 100, True)),
    ],
)
def test_each_form_of_a_claim(sublet: Sublet, limits: dict[str, Any], expected: tuple[object, ...]) -> None:
    [one] = sublet.claims(pod("p", container(**limits)))
    claim = one["containers"]["main"]
    keys = ("cards", "memoryMiB", "memoryPercent", "corePercent", "exclusive")
    assert tuple(claim[key] for key in keys) == expected


def test_only_claiming_containers_appear_with_their_kind(sublet: Sublet) -> None:
    manifest = pod(
        "p",
        container("main", gpu_memory=2048),
        container("quiet", cpu="1"),
        init=(container("prepare", gpu_memory=1024), sidecar("proxy", nvidia=1)),
    )
    [one] = sublet.claims(manifest)
    assert {name: claim["kind"] for name, claim in one["containers"].items()} == {
        "prepare": "init",
        "proxy": "sidecar",
        "main": "main",
    }
    assert one["dialects"] == ["nvidia", "sublet"]


def test_a_pod_without_a_claim_is_listed(sublet: Sublet) -> None:
    [one] = sublet.claims(pod("p", container(cpu="1")))
    assert (one["dialects"], one["containers"], one["refused"]) == ([], {}, None)


def test_requests_alone_are_refused_by_every_command_with_the_way_out(sublet: Sublet) -> None:
    asking = {"name": "main", "resources": {"requests": {"sublet.dev/gpu-memory": 1}}}
    [one] = sublet.claims(pod("p", asking))
    assert (one["containers"], one["refused"]["code"]) == ({}, "MissingKey")
    [placed] = sublet.place(pod("p", asking), on=[{"name": "n", "cards": []}])
    assert (placed["outcome"], placed["reasons"]) == ("refused", {"MissingKey": 1})
    assert "Write it in limits" in placed["message"]
    assert "MissingKey" in sublet("migrate", "-f", sublet.files(pod("p", asking))).out


def test_a_refusal_has_its_code_and_the_way_out_in_every_table(sublet: Sublet) -> None:
    file = sublet.files(pod("p", container(gpu_memory="4Gi")))
    inventory = sublet.file("inventory.yaml", {"nodes": [{"name": "n", "cards": []}]})
    for ran in (sublet("claims", "-f", file), sublet("place", "-f", file, "--inventory", inventory)):
        assert "BadQuantity: " in ran.out
        assert "for example sublet.dev/gpu-memory: 4096" in ran.out


@pytest.mark.parametrize("written", ["0", "-1", "1.50", "16Gi", "5k", "3000m", "1e3", '""', "1_0k"])
def test_an_amount_that_is_no_whole_number_is_refused_as_written(sublet: Sublet, written: str) -> None:
    text = (
        "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        f"  - {{name: main, resources: {{limits: {{sublet.dev/gpu-memory: {written}}}}}}}\n"
    )
    ran = sublet("claims", "-f", sublet.file("p.yaml", text), "-o", "json")
    [one] = ran.json
    assert one["containers"] == {}
    assert one["refused"]["code"] == "BadQuantity"
    assert f"sublet.dev/gpu-memory='{written.strip(chr(34))}'" in one["refused"]["message"]
    assert "MiB" in one["refused"]["hint"]


def test_narrower_dialects_leave_foreign_names_to_others(sublet: Sublet) -> None:
    [one] = sublet.claims(pod("p", container(nvidia=1)), more=("--dialects", "sublet,gpushare"))
    assert one["containers"] == {}


def test_the_unit_of_gpu_mem_is_a_setting(sublet: Sublet) -> None:
    [one] = sublet.claims(pod("p", container(gpu_mem=8)), more=("--gpu-mem-unit", "MiB"))
    assert one["containers"]["main"]["memoryMiB"] == 8


def test_keys_of_the_scheduler_are_refused(sublet: Sublet) -> None:
    forged = [
        pod("a", annotations={"sublet.dev/decision": "{}"}),
        pod("b", annotations={"cards.sublet.dev/main": "GPU-1"}),
        pod("c", container(gpu_mem=1), annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"}),
        pod("d", schedulingGates=[{"name": "sublet.dev/placement"}]),
    ]
    assert [one["refused"]["code"] for one in sublet.claims(*forged)] == ["ReservedKey"] * 4


def test_in_a_pipe_the_table_is_plain_and_aligned(sublet: Sublet) -> None:
    ran = sublet("claims", "-f", sublet.files(pod("a"), pod("bcd", container(nvidia=1))))
    assert ran.out.splitlines() == [
        "POD          CONTAINER  KIND  DIALECTS  CARDS  MEMORY    CORE   NOTE",
        "default/a    main       main  sublet    1      4096 MiB  0 %",
        "default/bcd  main       main  nvidia    1      whole     100 %  exclusive",
    ]


def test_a_dialect_that_a_cluster_leaves_off_is_read_and_that_is_said(sublet: Sublet) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    manifest = pod("p", {"name": "main", "image": "app", "resources": {"limits": limits}})
    [one] = sublet.claims(manifest)
    assert (one["dialects"], one["offInACluster"]) == (["hami"], ["hami"])
    told = sublet("claims", "-f", sublet.files(manifest)).out
    assert "a cluster does not read hami unless its SUBLET_DIALECTS says so" in told
    [as_there] = sublet.claims(manifest, more=("--dialects", "cluster"))
    assert as_there["refused"]["code"] == "UnknownResource"
    node = {"name": "n1", "cards": [{"uuid": "A", "memoryMiB": 8192}]}
    [placed] = sublet.place(manifest, on=[node])
    assert (placed["outcome"], placed["offInACluster"]) == ("placed", ["hami"])
