"""`kubectl inspect gpushare` prints gpushare's own tables, byte for byte."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sublet.cli.gpushare import details, sharing_nodes, summary
from sublet.cli.tabs import aligned
from sublet.demo.apiserver.server import serve_api
from sublet.kube.client import open_client
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import MergePatch

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
INDEX, ALLOCATION = "ALIYUN_COM_GPU_MEM_IDX", "scheduler.framework.gpushare.allocation"


def node(name: str, address: str, mem: int, count: int) -> dict[str, Any]:
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    amounts = {MEM: str(mem), COUNT: str(count)}
    return {
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts, "addresses": addresses},
    }


def pod(name: str, on: str, mem: int, phase: str = "Running", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "app", "image": "app", "resources": {"limits": {MEM: str(mem)}}}],
        },
        "status": {"phase": phase},
    }


B, C = "cn-shanghai.i-uf61h64dz1tmlob9hmtb", "cn-shanghai.i-uf61h64dz1tmlob9hmtc"
TWO = [node(C, "192.168.0.70", 15, 1), node(B, "192.168.0.71", 15, 1)]
THREE = [
    pod("binpack-1-0", B, 3, **{INDEX: "0"}),
    pod("binpack-1-1", B, 3, **{INDEX: "0"}),
    pod("binpack-1-2", C, 3, **{INDEX: "0"}),
    pod("done", C, 9, "Succeeded", **{INDEX: "0"}),
    pod("failed", C, 9, "Failed", **{INDEX: "0"}),
]


def test_the_table_of_the_users_guide() -> None:
    assert summary(sharing_nodes(TWO, THREE)).splitlines() == [
        "NAME                                IPADDRESS     GPU0(Allocated/Total)  GPU Memory(GiB)",
        "cn-shanghai.i-uf61h64dz1tmlob9hmtb  192.168.0.71  6/15                   6/15",
        "cn-shanghai.i-uf61h64dz1tmlob9hmtc  192.168.0.70  3/15                   3/15",
        "------------------------------------------------------------------------------",
        "Allocated/Total GPU Memory In Cluster:",
        "9/30 (30%)  ",
    ]


def test_the_details_of_a_node() -> None:
    shown = details(sharing_nodes(TWO[1:], THREE))
    assert shown.splitlines() == [
        "",
        "NAME:       cn-shanghai.i-uf61h64dz1tmlob9hmtb",
        "IPADDRESS:  cn-shanghai.i-uf61h64dz1tmlob9hmtb",
        "",
        "NAME         NAMESPACE  GPU0(Allocated)  ",
        "binpack-1-0  default    3                ",
        "binpack-1-1  default    3                ",
        "Allocated :  6 (40%)    ",
        "Total :      15         ",
        "-" * (2 * len("binpack-1-0\tdefault\t3\t\n") + 10),
        "",
        "",
        "Allocated/Total GPU Memory In Cluster:  6/15 (40%)  ",
    ]


def test_missing_cards_are_nothing_of_nothing_and_pods_without_a_card_are_pending() -> None:
    nodes = [node("a", "10.0.0.1", 32552, 2), node("b", "10.0.0.2", 16276, 1)]
    pods = [pod("p", "a", 8138, **{INDEX: "1"}), pod("lost", "a", 100)]
    assert summary(sharing_nodes(nodes, pods)).splitlines()[:3] == [
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)  GPU Memory(MiB)",
        "a     10.0.0.1   0/16276                8138/16276             100                 8238/32552",
        "b     10.0.0.2   0/16276                0/0                                        0/16276",
    ]
    rows = details(sharing_nodes(nodes[:1], pods)).splitlines()[4:7]
    assert [row.split() for row in rows] == [
        ["NAME", "NAMESPACE", "GPU0(Allocated)", "GPU1(Allocated)", "Pending(Allocated)"],
        ["lost", "default", "0", "0", "100"],
        ["p", "default", "0", "8138", "0"],
    ]


def test_a_pod_over_several_cards_is_one_row_with_its_part_of_each() -> None:
    both = pod("p", "a", 5, **{INDEX: "0,1", ALLOCATION: json.dumps({"0": {"0": 2}, "1": {"1": 3}})})
    nodes = sharing_nodes([node("a", "10.0.0.1", 30, 2)], [both])
    assert "a     10.0.0.1   2/15                   3/15                   5/30" in summary(nodes)
    assert [row.split() for row in details(nodes).splitlines() if row.startswith("p ")] == [
        ["p", "default", "2", "3"]
    ]


def test_nodes_without_shared_memory_are_left_out() -> None:
    assert sharing_nodes([node("a", "10.0.0.1", 0, 0)], []) == []
    assert summary([]).splitlines()[0] == "NAME  IPADDRESS  GPU Memory(GiB)"


def test_the_unit_is_what_a_node_says_of_its_total() -> None:
    """A card of 80 units may be one of 80 MiB, and one of 141 units one of 141 GiB."""
    large = {**node("a", "10.0.0.1", 141, 1), **said("a", "GiB")}
    assert "GPU Memory(GiB)" in summary(sharing_nodes([large], []))


def test_nodes_of_different_units_stand_in_tables_of_their_own() -> None:
    nodes = [
        {**node("a", "10.0.0.1", 16276, 1), **said("a", "MiB")},
        {**node("b", "10.0.0.2", 15, 1), **said("b", "GiB")},
    ]
    pods = [pod("p", "a", 8138, **{INDEX: "0"}), pod("q", "b", 3, **{INDEX: "0"})]
    shown = summary(sharing_nodes(nodes, pods)).splitlines()
    assert [line.split() for line in shown] == [
        ["NAME", "IPADDRESS", "GPU0(Allocated/Total)", "GPU", "Memory(GiB)"],
        ["b", "10.0.0.2", "3/15", "3/15"],
        [shown[2]],
        ["Allocated/Total", "GPU", "Memory", "In", "Cluster:"],
        ["3/15", "(20%)"],
        [],
        ["NAME", "IPADDRESS", "GPU0(Allocated/Total)", "GPU", "Memory(MiB)"],
        ["a", "10.0.0.1", "8138/16276", "8138/16276"],
        [shown[8]],
        ["Allocated/Total", "GPU", "Memory", "In", "Cluster:"],
        ["8138/16276", "(50%)"],
    ]
    told = details(sharing_nodes(nodes, pods))
    assert told.index("NAME:       b") < told.index("3/15 (20%)") < told.index("NAME:       a")


def said(name: str, unit: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {"sublet.dev/gpu-mem-unit": unit}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nccc\td\n", "a    b\nccc  d\n"),
        ("a\tb\n\nccc\td", "a  b\n\nccc  d"),
        ("a\t\tx\nb\t\ty", "a    x\nb    y"),
        ("aaa\tb\t\nc\t\n", "aaa  b  \nc    \n"),
    ],
    ids=["one column", "a line without cells ends it", "empty cells", "cells at the end are padded"],
)
def test_columns_are_aligned_as_by_gos_tabwriter(text: str, expected: str) -> None:
    assert aligned(text) == expected


async def test_the_command_reads_a_cluster(tmp_path: Path) -> None:
    async with serve_api() as server, open_client(server.access) as kube:
        for one in TWO:
            await kube.create(NODES, {"metadata": one["metadata"]})
            status = MergePatch({"status": one["status"]})
            await kube.patch(NODES, one["metadata"]["name"], status, subresource="status")
        await kube.create(PODS, {**THREE[0], "status": {}}, namespace="default")
        server.write_kubeconfig(tmp_path / "config")
        shown = await ran(tmp_path / "config")
        missing = await ran(tmp_path / "config", "-d", "nobody")
    assert (shown[0], "192.168.0.71  3/15" in shown[1]) == (0, True)
    assert (missing[0], missing[1], missing[2].startswith("Failed due to ")) == (1, "", True)


async def ran(config: Path, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error of the console script."""
    script = "import sys; from sublet.cli.gpushare import main; sys.exit(main(sys.argv[1:]))"
    words = ("-c", script, "--kubeconfig", str(config), *arguments)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()
