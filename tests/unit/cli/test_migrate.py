"""`sublet migrate` on manifests: how workloads would be read, what would change, what must go first."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import container, pod
from tests.unit.cli.running import Ran, Sublet

NVIDIA = "nvidia.com/gpu"


def deployment(
    name: str, *containers: dict[str, Any], version: str = "apps/v1", **pods: Any
) -> dict[str, Any]:
    template = pod("unnamed", *containers, **pods)
    del template["metadata"]["name"], template["metadata"]["namespace"]
    return {
        "apiVersion": version,
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }


def wanting(limits: Mapping[str, object]) -> dict[str, Any]:
    written = {key: str(value) for key, value in limits.items()}
    return {"name": "main", "image": "app", "resources": {"limits": written}}


def daemon(name: str, image: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "plugins", **meta},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
    }


def node(name: str, capacity: Mapping[str, str], ours: str = "") -> dict[str, Any]:
    annotations = {"sublet.dev/totals": ours} if ours else {}
    meta = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": dict(capacity)}}


def webhook(name: str, *hooks: str, resource: str = "pods") -> dict[str, Any]:
    rules = [{"operations": ["CREATE"], "resources": [resource]}]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": one, "rules": rules} for one in hooks],
    }


def namespace(name: str, *, managed: bool) -> dict[str, Any]:
    labels = {"sublet.dev/manage": "true"} if managed else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def ask(sublet: Sublet, *objects: Mapping[str, Any], more: tuple[str, ...] = ()) -> Ran:
    return sublet("migrate", "-f", sublet.files(*objects), "-o", "json", *more)


def only(ran: Ran) -> dict[str, Any]:
    [workload] = ran.json["workloads"]
    return dict(workload)


def test_a_workload_that_stays_as_it_is_is_ready(sublet: Sublet) -> None:
    ran = ask(sublet, deployment("app", container(nvidia=2)))
    one = only(ran)
    assert (ran.code, ran.json["against"]) == (0, 0)
    assert (one["kind"], one["namespace"], one["name"]) == ("Deployment", "team", "app")
    assert (one["outcome"], one["dialects"], one["changes"]) == ("ready", ["nvidia"], [])
    claim = one["containers"]["main"]
    assert (claim["dialect"], claim["cards"], claim["exclusive"]) == ("nvidia", 2, True)
    assert "NVIDIA_VISIBLE_DEVICES" in one["writes"]["env"]


def test_each_container_speaks_for_itself(sublet: Sublet) -> None:
    one = only(ask(sublet, deployment("app", container("a", nvidia=1), container("b", gpu_mem=2))))
    assert {name: claim["dialect"] for name, claim in one["containers"].items()} == {
        "a": "nvidia",
        "b": "gpushare",
    }
    assert "ALIYUN_COM_GPU_MEM_IDX" in one["writes"]["annotations"]


def test_another_scheduler_makes_way_unless_its_name_is_kept(sublet: Sublet) -> None:
    manifest = deployment("app", wanting({"volcano.sh/gpu-number": 1}), schedulerName="volcano")
    told = only(ask(sublet, manifest))
    assert told["outcome"] == "changes"
    assert told["changes"] == [
        {"what": "schedulerName", "message": "schedulerName volcano becomes default-scheduler"}
    ]
    assert only(ask(sublet, manifest, more=("--keep-scheduler-name",)))["outcome"] == "ready"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"tke.cloud.tencent.com/qgpu-core": 121, "tke.cloud.tencent.com/qgpu-memory": 31},
            "become 2 shares of 60 % and 15 GB, rounded down",
        ),
        ({"volcano.sh/gpu-memory": 4096}, "volcano.sh/gpu-memory='4096' it is spread over several"),
        (
            {"tencent.com/vcuda-core": 200, "tencent.com/vcuda-memory": 60},
            "tencent.com/vcuda-memory='60' does not count beside whole cards",
        ),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 33}, "33 % of a card's memory"),
    ],
)
def test_rounding_is_said_with_the_amounts(sublet: Sublet, limits: dict[str, int], words: str) -> None:
    [change] = only(ask(sublet, pod("p", wanting(limits))))["changes"]
    assert change["what"] == "rounding"
    assert words in change["message"]


def test_a_fraction_of_kai_says_what_it_promises_and_which_label_is_not_read(sublet: Sublet) -> None:
    manifest = pod("p", container(), annotations={"gpu-fraction": "0.125"})
    manifest["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    messages = [change["message"] for change in only(ask(sublet, manifest))["changes"]]
    assert any("gpu-fraction='0.125' promises 12 % of the compute" in one for one in messages)
    assert any(one.startswith("kai.scheduler/queue='team' is not read") for one in messages)


def test_a_value_of_its_own_gives_way_to_the_decision(sublet: Sublet) -> None:
    asking = {**container(nvidia=1), "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]}
    [change] = only(ask(sublet, pod("p", asking)))["changes"]
    assert change == {
        "what": "env",
        "message": "container 'main': its own NVIDIA_VISIBLE_DEVICES='0' gives way",
    }


def test_a_version_that_is_served_no_more_is_named_with_its_heir(sublet: Sublet) -> None:
    told = only(ask(sublet, deployment("app", container(gpu_mem=3), version="extensions/v1beta1")))
    assert told["changes"][0]["message"] == "extensions/v1beta1 is served no more: write apps/v1"


def test_a_resource_that_nobody_reads_is_named(sublet: Sublet) -> None:
    told = only(ask(sublet, pod("p", wanting({NVIDIA: 1, "nvidia.com/hostdev": 1}))))
    assert [change["message"] for change in told["changes"]] == [
        "container 'main': nvidia.com/hostdev='1' is not read"
    ]


def test_a_refusal_names_value_rule_and_way_out_and_ends_with_1(sublet: Sublet) -> None:
    ran = ask(sublet, pod("p", container(gpu_mem="10G")), pod("q", container(nvidia=1)))
    refused, ready = ran.json["workloads"]
    assert (ran.code, ran.json["against"]) == (1, 1)
    assert (refused["outcome"], ready["outcome"]) == ("refused", "ready")
    assert refused["refused"]["code"] == "BadQuantity"
    assert "aliyun.com/gpu-mem='10G'" in refused["refused"]["message"]
    assert refused["refused"]["hint"]


def test_what_hami_alone_reads_is_refused_until_its_dialect_is_on(sublet: Sublet) -> None:
    manifest = pod("p", wanting({"nvidia.com/gpumem": 3000}))
    refused = only(ask(sublet, manifest))
    assert "nvidia.com/gpumem='3000'" in refused["refused"]["message"]
    assert "switch the dialect hami on" in refused["refused"]["hint"]
    assert only(ask(sublet, manifest, more=("--dialects", "all")))["outcome"] == "ready"


def test_requests_alone_are_refused_as_the_api_server_does(sublet: Sublet) -> None:
    asking = {"name": "main", "resources": {"requests": {NVIDIA: "1"}}}
    refused = only(ask(sublet, pod("p", asking)))["refused"]
    assert refused["code"] == "MissingKey"
    assert f"{NVIDIA}='1' in requests alone" in refused["message"]


def test_results_of_another_scheduler_in_a_template_are_refused(sublet: Sublet) -> None:
    manifest = deployment("app", container(gpu_mem=2), annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"})
    assert only(ask(sublet, manifest))["refused"]["code"] == "ReservedKey"


def test_results_in_a_pod_that_runs_are_only_to_be_left_away(sublet: Sublet) -> None:
    running = pod("p", container(gpu_mem=2), annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"})
    running["metadata"]["uid"] = "u"
    told = only(ask(sublet, running))
    assert told["outcome"] == "changes"
    assert told["changes"][0]["message"].endswith("ALIYUN_COM_GPU_MEM_IDX")


def test_a_pod_that_waits_for_cards_is_held_and_a_decided_one_is_placed(sublet: Sublet) -> None:
    one = pod("p", container(gpu=1), schedulingGates=[{"name": "sublet.dev/placement"}])
    one["metadata"] |= {"uid": "u", "labels": {"sublet.dev/claimed": "true"}}
    assert only(ask(sublet, one))["outcome"] == "held"
    assert "`sublet explain default/p` says why" in sublet("migrate", "-f", sublet.files(one)).out
    del one["spec"]["schedulingGates"]
    assert only(ask(sublet, one))["outcome"] == "placed"


def test_an_amount_in_the_api_servers_spelling_is_read_from_its_objects_alone(sublet: Sublet) -> None:
    written = pod("p", container(gpu_memory="50k"))
    assert only(ask(sublet, written))["outcome"] == "refused"
    written["metadata"]["uid"] = "u"
    assert only(ask(sublet, written))["containers"]["main"]["memoryMiB"] == 50_000


def test_a_pod_that_sees_cards_without_a_claim_stays_outside(sublet: Sublet) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    ran = ask(sublet, pod("p", {"name": "main", "image": "x", "env": env}))
    assert (ran.code, only(ran)["outcome"]) == (1, "outside")
    assert "NVIDIA_VISIBLE_DEVICES='all'" in only(ran)["outside"]["message"]


def test_a_daemonset_without_a_plugin_is_shown_the_component_for_it(sublet: Sublet) -> None:
    service = daemon("service", "example/service")
    [main] = service["spec"]["template"]["spec"]["containers"]
    main["env"] = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]
    assert "daemonset-cards" in only(ask(sublet, service))["outside"]["hint"]


@pytest.mark.parametrize(
    "env",
    [
        {"NVIDIA_VISIBLE_DEVICES": "void"},
        {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"},
        {"OTHER": "all"},
    ],
)
def test_a_pod_that_sees_no_card_or_only_watches_them_is_of_no_concern(
    sublet: Sublet, env: dict[str, str]
) -> None:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    ran = ask(sublet, pod("p", {"name": "main", "image": "x", "env": listed}))
    assert (ran.code, ran.json["workloads"], ran.json["unclaimed"]) == (0, [], 1)


def test_the_webhook_is_never_asked_in_some_namespaces(sublet: Sublet) -> None:
    told = only(ask(sublet, pod("p", container(nvidia=1), namespace="kube-system")))
    assert told["outcome"] == "outside"
    assert "kube-system" in told["outside"]["message"]


def test_templates_are_found_wherever_a_custom_resource_has_them(sublet: Sublet) -> None:
    tasks = [{"template": {"spec": pod("t", container(nvidia=at))["spec"]}} for at in (1, 2)]
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    ran = ask(sublet, {**job, "spec": {"tasks": tasks}})
    assert [(one["template"], one["containers"]["main"]["cards"]) for one in ran.json["workloads"]] == [
        ("spec.tasks[0].template", 1),
        ("spec.tasks[1].template", 2),
    ]


def test_a_pod_is_told_by_what_controls_it_and_an_ended_one_not_at_all(sublet: Sublet) -> None:
    parent = deployment("app", container(nvidia=1))
    parent["metadata"]["uid"] = "d"
    child = pod("app-0", container(nvidia=1), owner=("Deployment", "d"))
    alone = pod("alone", container(nvidia=1), owner=("Elsewhere", "x"))
    ended = {**pod("ended", container(nvidia=1)), "status": {"phase": "Succeeded"}}
    names = [one["name"] for one in ask(sublet, parent, child, alone, ended).json["workloads"]]
    assert names == ["app", "alone"]


def test_a_job_that_is_over_is_not_told_and_one_that_runs_is(sublet: Sublet) -> None:
    template = {"spec": pod("x", container(nvidia=1))["spec"]}
    jobs = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"j{at}"},
            "spec": {"template": template},
            "status": {"conditions": [{"type": word, "status": "True"}]},
        }
        for at, word in enumerate(("Complete", "Suspended", "Failed"))
    ]
    assert [one["name"] for one in ask(sublet, *jobs).json["workloads"]] == ["j1"]


def test_namespaces_that_are_not_given_to_sublet_are_named(sublet: Sublet) -> None:
    foreign, own = deployment("app", container(nvidia=1)), deployment("own", container(gpu=1))
    ran = ask(sublet, namespace("team", managed=False), foreign, own)
    assert ran.json["namespacesToLabel"] == ["team"]
    assert ran.code == 0
    assert ask(sublet, namespace("team", managed=True), foreign).json["namespacesToLabel"] == []


@pytest.mark.parametrize(
    ("name", "image", "system", "role"),
    [
        ("nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", "NVIDIA", "device plugin"),
        ("amdgpu", "rocm/k8s-device-plugin", "AMD", "device plugin"),
        ("hami-device-plugin", "projecthami/hami:v2.6.0", "HAMi", "device plugin"),
        ("vgpu", "docker.io/projecthami/volcano-vgpu-device-plugin:v1", "Volcano", "device plugin"),
        ("gpushare", "registry/acs/k8s-gpushare-plugin:v2", "gpushare", "device plugin"),
        ("qgpu-manager", "tke/qgpu-manager", "qGPU", "device plugin"),
        ("gpu-manager-daemonset", "tkestack/gpu-manager:v1.1.5", "gpu-manager", "device plugin"),
        ("elastic", "elasticai/elastic-gpu-agent", "Elastic GPU", "device plugin"),
        ("dra", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25", "NVIDIA DRA", "DRA driver"),
    ],
)
def test_a_device_plugin_must_go_before_its_node_comes_over(
    sublet: Sublet, name: str, image: str, system: str, role: str
) -> None:
    ran = ask(sublet, daemon(name, image))
    [one] = ran.json["components"]
    assert (one["system"], one["role"], one["goes"]) == (system, role, "before its node comes over")
    assert (ran.code, one["servesTwice"]) == (1, True)
    assert ran.json["workloads"] == []


def test_a_plugin_that_runs_nowhere_serves_nothing(sublet: Sublet) -> None:
    idle = {**daemon("nvdp", "nvidia/k8s-device-plugin"), "status": {"desiredNumberScheduled": 0}}
    ran = ask(sublet, idle)
    assert (ran.code, ran.json["components"][0]["servesTwice"]) == (0, False)


def test_a_plugin_is_shown_with_its_nodes_and_with_what_would_bring_it_back(sublet: Sublet) -> None:
    owner = {"kind": "ClusterPolicy", "name": "cluster-policy", "uid": "c", "controller": True}
    plugin = daemon("nvdp", "nvidia/k8s-device-plugin", uid="p", ownerReferences=[owner])
    pods = [
        {**pod(f"nvdp-{name}", {"name": "main"}, owner=("DaemonSet", "p"), nodeName=name)}
        for name in ("n2", "n1")
    ]
    [one] = ask(sublet, plugin, *pods).json["components"]
    assert one["nodes"] == ["n1", "n2"]
    assert "ClusterPolicy cluster-policy" in one["wayOut"]


def test_feature_discovery_and_what_is_ours_serve_nothing(sublet: Sublet) -> None:
    ours = daemon("agent", "sublet-agent")
    ours["spec"]["template"]["metadata"] = {"labels": {"app.kubernetes.io/name": "sublet"}}
    ran = ask(sublet, ours, daemon("gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin"))
    assert (ran.code, ran.json["components"]) == (0, [])


def test_an_unknown_plugin_is_to_be_looked_at(sublet: Sublet) -> None:
    unknown = daemon("rdma", "example/rdma")
    volume = {"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}
    unknown["spec"]["template"]["spec"]["volumes"] = [volume]
    ran = ask(sublet, unknown)
    assert (ran.code, ran.json["components"][0]["goes"]) == (0, "look at it")


def test_totals_that_others_keep_on_a_node_are_found_and_ours_are_not(sublet: Sublet) -> None:
    shown = {
        NVIDIA: "8",
        "aliyun.com/gpu-count": "2",
        "amd.com/gpu": "0",
        "cpu": "4",
        "sublet.dev/slot": "64",
    }
    ran = ask(sublet, node("n1", shown, ours=NVIDIA))
    [one] = ran.json["components"]
    assert (one["system"], one["role"], one["nodes"]) == ("aliyun.com/gpu-count=2", "node total", ["n1"])
    assert '"aliyun.com/gpu-count":null' in one["wayOut"]
    assert ran.code == 1


def test_a_dra_driver_shows_by_its_slices(sublet: Sublet) -> None:
    found = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": driver},
            "spec": {"driver": driver, "nodeName": "n1"},
        }
        for driver in ("gpu.nvidia.com", "dra.net")
    ]
    assert [one["name"] for one in ask(sublet, *found).json["components"]] == ["gpu.nvidia.com"]


def test_a_webhook_of_another_gpu_system_goes_first_and_any_other_is_to_be_looked_at(sublet: Sublet) -> None:
    ran = ask(
        sublet,
        webhook("mesh", "inject.mesh"),
        webhook("hami-webhook", "vgpu.hami.io"),
        webhook("sublet", "claims.sublet.dev"),
        webhook("services", "x.kai-", resource="services"),
    )
    assert [(one["name"], one["goes"]) for one in ran.json["components"]] == [
        ("hami-webhook", "before a namespace is labelled"),
        ("mesh", "look at it"),
    ]
    assert ran.code == 1


@pytest.mark.parametrize(
    ("image", "system"),
    [
        ("registry/acs/k8s-gpushare-schd-extender:1", "gpushare"),
        ("volcanosh/vc-scheduler:v1.12", "Volcano"),
        ("projecthami/hami:v2.6.0", "HAMi"),
        ("ghcr.io/kai-scheduler/kai-scheduler/scheduler:v0.9", "KAI"),
        ("tkestack/gpu-admission", "gpu-manager"),
    ],
)
def test_a_scheduler_may_stay_until_the_last_node_has_come_over(
    sublet: Sublet, image: str, system: str
) -> None:
    ran = ask(sublet, deployment("scheduler", {"name": "main", "image": image}))
    [one] = ran.json["components"]
    assert (one["system"], one["role"], one["goes"]) == (system, "scheduler", "after the last node")
    assert ran.code == 0


def test_an_extender_is_found_in_a_configuration_that_lies_in_the_cluster(sublet: Sublet) -> None:
    text = "kind: KubeSchedulerConfiguration\nextenders: [{managedResources: [{name: aliyun.com/gpu-mem}]}]"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "scheduler", "namespace": "kube-system"},
        "data": {"config.yaml": text, "other": "extenders"},
    }
    [one] = ask(sublet, config).json["components"]
    assert (one["role"], one["system"]) == ("scheduler extender", "aliyun.com/gpu-mem")


def test_a_configuration_on_a_nodes_disk_is_to_be_read_there(sublet: Sublet) -> None:
    command = ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"]
    scheduler = pod("kube-scheduler-n1", {"name": "main", "command": command}, namespace="kube-system")
    scheduler["metadata"]["labels"] = {"component": "kube-scheduler"}
    scheduler["spec"]["nodeName"] = "n1"
    [one] = ask(sublet, scheduler).json["components"]
    assert (one["goes"], one["nodes"]) == ("look at it", ["n1"])
    assert "/etc/kubernetes/scheduler.yaml" in one["wayOut"]


def test_the_table_ends_with_what_is_to_do_and_the_verdict(sublet: Sublet) -> None:
    files = sublet.files(
        namespace("team", managed=False),
        deployment("app", container(gpu_mem=2)),
        deployment("bad", container(nvidia="0.5")),
        daemon("nvdp", "nvidia/k8s-device-plugin"),
    )
    ran = sublet("migrate", "-f", files)
    lines = ran.out.splitlines()
    assert ran.code == 1
    assert lines[0].split() == ["WORKLOAD", "OUTCOME", "CONTAINER", "DIALECT", "CLAIM", "NOTE"]
    assert lines[1].startswith("Deployment team/app  ready    main       gpushare  2048 MiB, 0 % compute")
    assert any(line.startswith("DaemonSet plugins/nvdp  NVIDIA  device plugin") for line in lines)
    assert "To do: kubectl label namespace team sublet.dev/manage=true" in lines
    assert lines[-1] == (
        "Not ready: 1 workload would be refused or stay outside, "
        "1 component would serve cards or change pods beside Sublet."
    )


def test_nothing_against_it_is_said_as_well(sublet: Sublet) -> None:
    ran = sublet("migrate", "-f", sublet.files(pod("p", container(nvidia=1))))
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == (
        "Ready, as far as these files tell: nothing in them would be refused or serve cards beside "
        "Sublet. No cluster was looked at: `sublet migrate` without -f does."
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a}, {name: a}]}",
            "appears twice",
        ),
        ("kind: Node\nmetadata: {name: n}\nstatus: {capacity: [1]}", "status.capacity: [1] is not a mapping"),
        ("kind: X\nmetadata: {name: x}\nspec: {t: {spec: {containers: [{name: a, env: 1}]}}}", "env"),
        ("metadata: {name: p}", "has no kind"),
    ],
)
def test_what_cannot_be_read_ends_with_2_and_the_line(sublet: Sublet, content: str, words: str) -> None:
    ran = sublet("migrate", "-f", sublet.file("m.yaml", content))
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "line" in ran.err


def test_an_unknown_dialect_is_refused_with_those_that_exist(sublet: Sublet) -> None:
    ran = sublet("migrate", "-f", "-", "--dialects", "cuda")
    assert ran.code == 2
    assert "kai, all, cluster" in ran.err


def test_a_factor_of_volcano_is_a_whole_number(sublet: Sublet) -> None:
    manifest = pod("p", wanting({"volcano.sh/gpu-memory": 3}))
    told = only(ask(sublet, manifest, more=("--volcano-memory-factor", "10")))
    assert told["containers"]["main"]["memoryMiB"] == 30
    assert ask(sublet, manifest, more=("--volcano-memory-factor", "0")).code == 2


def test_a_kubeconfig_that_is_not_there_is_named_with_the_way_out(sublet: Sublet) -> None:
    ran = sublet("migrate", "--kubeconfig", "absent.conf")
    assert (ran.code, ran.out) == (1, "")
    assert "the file absent.conf does not exist" in ran.err
    assert "--kubeconfig" in ran.err


@pytest.mark.parametrize("text", ["", "[", "- 1\n", "7\n"])
def test_a_file_that_is_no_kubeconfig_is_said_to_be_none(sublet: Sublet, text: str) -> None:
    file = sublet.file("conf", text)
    ran = sublet("migrate", "--kubeconfig", file)
    assert (ran.code, ran.out) == (1, "")
    assert f"{file} is not a kubeconfig. Name one with --kubeconfig" in ran.err
