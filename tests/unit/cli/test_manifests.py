"""Manifests: which objects become which pods, and what is refused with its place."""

import json

import pytest
import yaml

from tests.builders import container, pod
from tests.unit.cli.running import Sublet

TEMPLATE = {"spec": {"containers": [container(gpu_memory=1024)]}}


def names(sublet: Sublet, text: str) -> list[str]:
    ran = sublet("claims", "-f", sublet.file("m.yaml", text), "-o", "json")
    assert ran.code == 0, ran.err
    return [one["pod"] for one in ran.json]


def workload(kind: str, **spec: object) -> str:
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    body = {"jobTemplate": {"spec": {"template": TEMPLATE}}} if kind == "CronJob" else {"template": TEMPLATE}
    return yaml.safe_dump(
        {
            "apiVersion": group,
            "kind": kind,
            "metadata": {"name": "w", "namespace": "team"},
            "spec": body | spec,
        }
    )


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        ("Deployment", {"replicas": 3}, 3),
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 0}, 0),
        ("ReplicaSet", {"replicas": 2}, 2),
        ("StatefulSet", {"replicas": 2}, 2),
        ("Job", {"parallelism": 4}, 4),
        ("Job", {"completions": 4}, 1),
        ("DaemonSet", {}, 1),
        ("CronJob", {}, 1),
    ],
)
def test_a_workload_becomes_its_pods(sublet: Sublet, kind: str, spec: dict[str, object], count: int) -> None:
    assert names(sublet, workload(kind, **spec)) == [f"team/w-{at}" for at in range(count)]


def test_a_list_is_read_item_by_item(sublet: Sublet) -> None:
    items = [pod("a"), {"kind": "Service"}, {"kind": "List", "items": [pod("b")]}]
    assert names(sublet, yaml.safe_dump({"kind": "List", "items": items})) == ["default/a", "default/b"]


def test_other_kinds_are_skipped_and_so_is_the_same_word_of_another_group(sublet: Sublet) -> None:
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": []}}
    text = yaml.safe_dump_all([{"apiVersion": "v1", "kind": "ConfigMap"}, volcano, pod("a")])
    assert names(sublet, text) == ["default/a"]


def test_a_generated_name_ends_in_0(sublet: Sublet) -> None:
    assert names(sublet, "kind: Pod\nmetadata: {generateName: x-}\nspec: {containers: [{name: c}]}") == [
        "default/x-0"
    ]


def test_documents_of_several_files_keep_their_order(sublet: Sublet) -> None:
    first = sublet.file("1.yaml", f"---\n---\n{yaml.safe_dump(pod('a'))}---\n{yaml.safe_dump(pod('b'))}")
    second = sublet.file("2.json", json.dumps(pod("c"), indent="\t") + "\n" + json.dumps(pod("d")))
    ran = sublet("claims", "-f", first, "-f", second, "-o", "json")
    assert [one["pod"] for one in ran.json] == ["default/a", "default/b", "default/c", "default/d"]


def test_yaml_in_braces_is_no_json_and_is_read_all_the_same(sublet: Sublet) -> None:
    assert names(sublet, "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}") == ["default/a"]


BAD = [
    ("a: [", "document 1, line 1"),
    ("a: 1\n---\nb: {\n", "document 2, line 4"),
    ("a: 1\n---\n\n- x\n", "document 1, line 1: the object has no kind"),
    ("kind: ConfigMap\n---\njust words\n", "document 2, line 3: 'just words' is not a Kubernetes object"),
    ("kind: Pod\nmetadata: {}\n", "document 1, line 2: the Pod has no name"),
    (
        "kind: Pod\nmetadata:\n  name: a\n  annotations:\n    x: 1\n",
        "document 1, line 5: metadata.annotations.x: 1 is not text",
    ),
    (
        "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    resources: [1]\n",
        "document 1, line 6: spec.containers[0].resources: [1] is not a mapping",
    ),
    (
        "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n  - name: c\n",
        "document 1, line 6: the container name 'c' appears twice",
    ),
    (
        "kind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: many\n  template: {}\n",
        "document 1, line 4: spec.replicas: 'many' is not a whole number",
    ),
    ("kind: Job\nmetadata: {name: a}\nspec: {}\n", "document 1, line 3: the Job 'a' has no pod template"),
    (
        '{"kind": "List", "items": [\n{"kind": "Pod", "metadata": []}]}',
        "document 1, line 1: items[0].metadata: [] is not a mapping",
    ),
    ("kind: List\nitems: &all\n- kind: List\n  items: *all\n", "document 1, line 1: it contains itself"),
    ("a: \x07\n", "document 1, line 1: not YAML"),
    ("[" * 100_000, "nested too deeply"),
    (
        "kind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: 100000000\n  template: {}\n",
        "document 1, line 4: 100000000 pods of one Deployment; at most 150000 are read",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_cannot_be_read_ends_with_2_and_its_place_and_prints_nothing(
    sublet: Sublet, text: str, said: str
) -> None:
    ran = sublet("claims", "-f", sublet.file("bad.yaml", text), "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "bad.yaml: " in ran.err
    assert said in ran.err


def test_a_number_of_thousands_of_digits_is_refused_as_an_amount(sublet: Sublet) -> None:
    text = yaml.safe_dump(pod("p", container(gpu=1))).replace("'1'", "9" * 10_000)
    ran = sublet("claims", "-f", sublet.file("m.yaml", text))
    assert (ran.code, "BadQuantity" in ran.out) == (0, True)


def test_half_a_character_is_shown_as_it_was_written(sublet: Sublet) -> None:
    text = json.dumps(pod("\ud800", container(gpu=1)))
    ran = sublet("claims", "-f", sublet.file("m.json", text))
    assert ran.code == 0, ran.err
    assert "\\ud800" in ran.out


def test_a_missing_file_ends_with_2(sublet: Sublet) -> None:
    ran = sublet("claims", "-f", "no/such/file.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "no/such/file.yaml: No such file" in ran.err


def test_wrong_usage_ends_with_2(sublet: Sublet) -> None:
    assert sublet("claims").code == 2
    assert sublet("claims", "-f", "-", "--dialects", "klingon").code == 2
    assert sublet("place", "-f", "-").code == 2
    assert sublet("dance").code == 2
