"""Rules that every reviewed manifest keeps."""

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sublet.bus.layout import LAYOUT
from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import NATIVE_NAME
from tests.manifests.rendering import KUSTOMIZE, OVERLAYS, reviewed

SCHEDULER = "system:serviceaccount:sublet-system:sublet-scheduler"
HEALTHD = "system:serviceaccount:sublet-system:sublet-healthd"

# (account, namespace or everywhere, API group, resource, names) -> verbs; no other right is given
RIGHTS = {
    ("sublet-scheduler", "*", "", "pods", ()): {"get", "list", "watch", "patch", "delete"},
    ("sublet-scheduler", "*", "", "pods/status", ()): {"patch"},
    ("sublet-scheduler", "*", "", "nodes", ()): {"get", "list", "watch", "patch"},
    ("sublet-scheduler", "*", "", "nodes/status", ()): {"patch"},
    ("sublet-scheduler", "*", "", "namespaces", ()): {"get", "list", "watch"},
    ("sublet-scheduler", "*", "", "resourcequotas", ()): {"list", "watch"},
    ("sublet-scheduler", "*", "", "pods/eviction", ()): {"create"},
    ("sublet-scheduler", "*", "", "events", ()): {"create", "patch"},
    ("sublet-scheduler", "*", "batch", "jobs", ()): {"get"},
    ("sublet-scheduler", "*", "resource.k8s.io", "resourceslices", ()): {"list"},
    ("sublet-scheduler", "*", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ()): {
        "list",
        "watch",
    },
    ("sublet-scheduler", "*", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ("sublet",)): {
        "get",
        "patch",
    },
    ("sublet-scheduler", "sublet-system", "", "secrets", ()): {"create"},
    ("sublet-scheduler", "sublet-system", "", "secrets", ("sublet-webhook-ca", "sublet-decision-key")): {
        "get",
        "update",
        "watch",
    },
    ("sublet-scheduler", "sublet-system", "coordination.k8s.io", "leases", ()): {"create"},
    ("sublet-scheduler", "sublet-system", "coordination.k8s.io", "leases", ("sublet-scheduler",)): {
        "get",
        "update",
        "patch",
        "watch",
    },
    ("sublet-healthd", "*", "", "nodes", ()): {"get", "list", "watch", "patch"},
    ("sublet-healthd", "*", "", "nodes/status", ()): {"patch"},
    ("sublet-healthd", "*", "", "events", ()): {"create", "patch"},
    ("sublet-healthd", "*", "", "namespaces", ("kube-system",)): {"get"},
    ("sublet-healthd", "sublet-system", "coordination.k8s.io", "leases", ()): {"create"},
    ("sublet-healthd", "sublet-system", "coordination.k8s.io", "leases", ("sublet-healthd",)): {
        "get",
        "update",
        "patch",
        "watch",
    },
}

HOST_PATHS = {
    "default": {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources",
        "/var/run/cdi",
        "/etc/cdi",
        "/var/lib/sublet",
        "/sys/fs/cgroup",
        "/dev",
        "/",
        "/var/lib/amd-metrics-exporter",
    },
    "simulated": {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources",
        "/var/run/cdi",
        "/var/lib/sublet",
        "/sys/fs/cgroup",
    },
}

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def of_kind(overlay: str, *kinds: str) -> list[dict[str, Any]]:
    return [entry for entry in reviewed(overlay) if entry["kind"] in kinds]


def pods(overlay: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for workload in of_kind(overlay, "Deployment", "StatefulSet", "DaemonSet"):
        yield workload["metadata"]["name"], workload["spec"]["template"]["spec"]


@every_overlay
def test_every_container_is_probed_and_confined(overlay: str) -> None:
    for name, pod in pods(overlay):
        for container in pod["containers"]:
            assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= container.keys(), name
            allowed = container["securityContext"]
            assert allowed["readOnlyRootFilesystem"] is True, name
            assert allowed.get("privileged") or allowed["allowPrivilegeEscalation"] is False, name
            assert allowed.get("privileged") or allowed["capabilities"] == {"drop": ["ALL"]}, name


@every_overlay
def test_only_the_agent_runs_as_root(overlay: str) -> None:
    for name, pod in pods(overlay):
        if name != "sublet-agent":
            assert pod["securityContext"]["runAsNonRoot"] is True, name
            assert not pod.get("hostPID"), name
        assert not pod.get("hostNetwork"), name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name


@every_overlay
def test_no_service_links_are_injected(overlay: str) -> None:
    """They would be unknown settings: SUBLET_SCHEDULER_SERVICE_HOST and friends."""
    assert all(pod["enableServiceLinks"] is False for _, pod in pods(overlay))


@every_overlay
def test_only_scheduler_and_healthd_carry_a_token(overlay: str) -> None:
    carriers = {name for name, pod in pods(overlay) if pod["automountServiceAccountToken"]}
    assert carriers == {"sublet-scheduler", "sublet-healthd"}
    for account in of_kind(overlay, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


@every_overlay
def test_every_pod_has_a_critical_priority(overlay: str) -> None:
    for name, pod in pods(overlay):
        expected = "system-node-critical" if name == "sublet-agent" else "system-cluster-critical"
        assert pod["priorityClassName"] == expected


@every_overlay
def test_every_image_has_a_version(overlay: str) -> None:
    for name, pod in pods(overlay):
        for container in pod["containers"]:
            _, _, tag = container["image"].partition(":")
            assert tag not in ("", "latest"), name


@every_overlay
def test_only_the_agent_sees_the_host_and_no_more_of_it_than_reviewed(overlay: str) -> None:
    for name, pod in pods(overlay):
        seen = {volume["hostPath"]["path"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
        assert seen == (HOST_PATHS[overlay] if name == "sublet-agent" else set()), name


@every_overlay
def test_a_service_never_runs_twice(overlay: str) -> None:
    for deployment in of_kind(overlay, "Deployment"):
        assert deployment["spec"]["replicas"] == 1
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}


@every_overlay
def test_rights_are_those_of_the_table_and_no_others(overlay: str) -> None:
    roles = {
        (role["kind"], role["metadata"].get("namespace", "*"), role["metadata"]["name"]): role["rules"]
        for role in of_kind(overlay, "Role", "ClusterRole")
    }
    given: dict[tuple[str, str, str, str, tuple[str, ...]], set[str]] = {}
    for binding in of_kind(overlay, "RoleBinding", "ClusterRoleBinding"):
        place = binding["metadata"].get("namespace", "*")
        [subject] = binding["subjects"]
        assert subject["namespace"] == "sublet-system"
        for rule in roles[binding["roleRef"]["kind"], place, binding["roleRef"]["name"]]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    right = (subject["name"], place, group, resource, tuple(rule.get("resourceNames", ())))
                    given.setdefault(right, set()).update(rule["verbs"])
    assert given == RIGHTS


@every_overlay
def test_webhook_and_policies_exclude_the_same_namespaces(overlay: str) -> None:
    excluded = [
        expression["values"]
        for selector in (
            *(hook["namespaceSelector"] for hook in webhooks(overlay)),
            policy(overlay, "sublet-excluded-namespaces")["spec"]["matchConstraints"]["namespaceSelector"],
            policy(overlay, "sublet-claims")["spec"]["matchConstraints"]["namespaceSelector"],
        )
        for expression in selector["matchExpressions"]
        if expression["key"] == "kubernetes.io/metadata.name"
    ]
    assert len(excluded) == 5
    assert all(values == excluded[0] for values in excluded)
    assert {"kube-system", "sublet-system", "sublet-node"} <= set(excluded[0])


@every_overlay
def test_a_pod_that_is_ours_waits_for_the_webhook_and_no_other_does(overlay: str) -> None:
    assert {
        hook["name"]: (hook["failurePolicy"], hook["sideEffects"], hook["clientConfig"]["service"]["path"])
        for hook in webhooks(overlay)
    } == {
        "claims.sublet.dev": ("Fail", "NoneOnDryRun", "/mutate"),
        "foreign.claims.sublet.dev": ("Fail", "NoneOnDryRun", "/mutate"),
        "foreign-elsewhere.claims.sublet.dev": ("Ignore", "None", "/mutate-elsewhere"),
    }
    assert all("caBundle" not in hook["clientConfig"] for hook in webhooks(overlay))


@every_overlay
def test_every_policy_denies_and_fails_closed(overlay: str) -> None:
    policies = of_kind(overlay, "ValidatingAdmissionPolicy")
    bindings = of_kind(overlay, "ValidatingAdmissionPolicyBinding")
    assert {entry["metadata"]["name"] for entry in policies} == {
        entry["spec"]["policyName"] for entry in bindings
    }
    assert all(entry["spec"]["failurePolicy"] == "Fail" for entry in policies)
    assert all(entry["spec"]["validationActions"] == ["Deny"] for entry in bindings)


@every_overlay
def test_policies_and_webhook_use_the_names_of_the_contract(overlay: str) -> None:
    """A name in an expression that the code does not know guards nothing."""
    foreign = [dialect for dialect in dialects.ALL if dialect.name != NATIVE_NAME]
    known = {
        *(name for dialect in dialects.ALL for name in dialect.resources),
        *(name for dialect in foreign for name in dialect.resource_prefixes),
        *(name for dialect in foreign for name in dialect.claiming_annotations),
        *(name for dialect in foreign for name in dialect.result_keys),
        *(name for dialect in foreign for name in dialect.result_prefixes),
        *(name for dialect in foreign for name in dialect.result_labels),
        *keys.RESERVED_ANNOTATIONS,
        keys.SLOT,
        keys.GATE,
        keys.CLAIMED_LABEL,
        keys.PREFIX,
        keys.SUBDOMAINS,
        keys.NODE_CONDITION,
        SCHEDULER,
        HEALTHD,
        "",
        "system:node:",
        "kubernetes.io/config.mirror",
        "DisruptionTarget",
        "none/",
        *keys.MARKED_PREFIXES,
    }
    used = {literal for text in expressions(overlay) for literal in re.findall(r"'([^']*)'", text)}
    assert used == known


def webhooks(overlay: str) -> list[dict[str, Any]]:
    [configuration] = of_kind(overlay, "MutatingWebhookConfiguration")
    found: list[dict[str, Any]] = configuration["webhooks"]
    return found


def policy(overlay: str, name: str) -> dict[str, Any]:
    [found] = [
        entry for entry in of_kind(overlay, "ValidatingAdmissionPolicy") if entry["metadata"]["name"] == name
    ]
    return found


def expressions(overlay: str) -> Iterator[str]:
    """Every CEL expression of the webhook and the policies."""
    for hook in webhooks(overlay):
        for condition in hook["matchConditions"]:
            yield condition["expression"]
    for entry in of_kind(overlay, "ValidatingAdmissionPolicy"):
        spec = entry["spec"]
        for part in (*spec.get("matchConditions", ()), *spec.get("variables", ()), *spec["validations"]):
            yield part["expression"]


def test_the_bus_server_accepts_its_configuration() -> None:
    server = Path(sysconfig.get_path("scripts"), "nats-server")
    command = [str(server), "-t", "-c", str(KUSTOMIZE / "base" / "nats" / "nats.conf")]
    tried = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
    assert tried.returncode == 0, tried.stderr


@every_overlay
def test_the_bus_has_room_for_its_streams_and_buckets(overlay: str) -> None:
    """JetStream sets their sizes aside when they are made, and refuses the one that would be too much; one
    that two services make at the same moment counts twice for a while."""
    [limit] = re.findall(r"max_file_store: (\d+)GB", (KUSTOMIZE / "base" / "nats" / "nats.conf").read_text())
    needed = sum(stream.max_bytes for stream in LAYOUT.streams)
    needed += sum(bucket.max_bytes for bucket in LAYOUT.buckets)
    needed += max([one.max_bytes for one in LAYOUT.streams] + [one.max_bytes for one in LAYOUT.buckets])
    assert needed <= int(limit) * 2**30
    [nats] = of_kind(overlay, "StatefulSet")
    claimed = [
        claim["spec"]["resources"]["requests"]["storage"]
        for claim in nats["spec"].get("volumeClaimTemplates", ())
    ]
    lent = [
        volume["emptyDir"]["sizeLimit"]
        for volume in nats["spec"]["template"]["spec"]["volumes"]
        if "emptyDir" in volume
    ]
    [room] = [*claimed, *lent]
    assert int(room.removesuffix("Gi")) > int(limit)
