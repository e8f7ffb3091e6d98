"""Tables of the embedded API server: the columns and words that kubectl's users know."""

from typing import Any

import pytest

from sublet.demo.apiserver.tables import elapsed, is_wanted, table
from sublet.kube.kind import CONFIGMAPS, NODES, PODS, Kind

CREATED_S = 1_700_000_000
CREATED = "2023-11-14T22:13:20Z"


def cells(kind: Kind, obj: dict[str, Any], *, after_s: int = 0) -> dict[str, Any]:
    obj = {**obj, "metadata": {"name": "a", "creationTimestamp": CREATED, **obj.get("metadata", {})}}
    made = table(kind, [obj], meta={}, include="", now_s=CREATED_S + after_s)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


def pod(**status: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main"}, {"name": "more"}], "nodeName": "n1"}, "status": status}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (2 * 86400, "2d"), (-5, "0s")],
)
def test_an_age_is_told_in_the_largest_unit_of_which_there_are_two(seconds: int, words: str) -> None:
    assert elapsed(seconds) == words


def test_a_running_pod_shows_how_many_of_its_containers_are_ready() -> None:
    statuses = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    shown = cells(PODS, pod(phase="Running", containerStatuses=statuses, podIP="10.0.0.1"), after_s=180)
    assert shown == {
        "Name": "a",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": 3,
        "Age": "3m",
        "IP": "10.0.0.1",
        "Node": "n1",
    }


@pytest.mark.parametrize(
    ("manifest", "word"),
    [
        (pod(), "Pending"),
        (pod(phase="Failed", reason="UnexpectedAdmissionError"), "UnexpectedAdmissionError"),
        (
            pod(phase="Pending", containerStatuses=[{"state": {"waiting": {"reason": "CreateError"}}}]),
            "CreateError",
        ),
        (pod() | {"metadata": {"deletionTimestamp": CREATED}}, "Terminating"),
        (pod() | {"spec": {"containers": [], "schedulingGates": [{"name": "x"}]}}, "SchedulingGated"),
    ],
)
def test_the_status_of_a_pod_is_the_word_that_says_most(manifest: dict[str, Any], word: str) -> None:
    assert cells(PODS, manifest)["Status"] == word


@pytest.mark.parametrize(
    ("node", "word"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "NotReady"),
        ({"spec": {"unschedulable": True}}, "Unknown,SchedulingDisabled"),
    ],
)
def test_the_status_of_a_node_says_whether_it_is_cordoned(node: dict[str, Any], word: str) -> None:
    assert cells(NODES, node)["Status"] == word


def test_the_roles_of_a_node_are_its_labels() -> None:
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": "", "x": "y"}
    assert cells(NODES, {"metadata": {"labels": labels}})["Roles"] == "gpu,worker"


def test_every_other_kind_shows_name_and_age() -> None:
    assert cells(CONFIGMAPS, {}, after_s=5) == {"Name": "a", "Age": "5s"}


def test_a_row_carries_as_much_of_its_object_as_was_asked_for() -> None:
    obj = {"metadata": {"name": "a"}, "data": {"x": "y"}}
    rows = {
        include: table(CONFIGMAPS, [obj], meta={}, include=include, now_s=0)["rows"][0]
        for include in ("", "Object", "None")
    }
    assert rows[""]["object"]["kind"] == "PartialObjectMetadata"
    assert rows["Object"]["object"] == obj
    assert "object" not in rows["None"]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", True),
        ("application/json, application/json;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", False),
        ("", False),
    ],
)
def test_a_table_is_sent_to_who_asks_for_it_first(accept: str, wanted: bool) -> None:
    assert is_wanted(accept) is wanted
