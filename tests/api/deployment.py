"""Installs the deployment's API objects on a real API server, and the users that the policy tests act as."""

import json
from typing import Any

from tests.lab.controlplane import ADMIN, ControlPlane, User, service_account
from tests.manifests.rendering import reviewed

JANE = User("jane", ("developers",))
SCHEDULER = service_account("sublet-system", "sublet-scheduler")
HEALTHD = service_account("sublet-system", "sublet-healthd")
AGENT = service_account("sublet-node", "sublet-agent")
KUBE_SCHEDULER = User("system:kube-scheduler")
REPLICASETS = service_account("kube-system", "replicaset-controller")

_DEVELOPER: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "lab-developer"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pods", "pods/status", "pods/binding", "bindings"],
                "verbs": ["*"],
            }
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "lab-developer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lab-developer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}],
    },
]
# applied last: once it denies, every policy before it does too
_LAST_POLICY: list[dict[str, Any]] = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "zz-last"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'last'", "message": "in force"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "zz-last"},
        "spec": {"policyName": "zz-last", "validationActions": ["Deny"]},
    },
]


async def apply(plane: ControlPlane, entries: list[dict[str, Any]]) -> None:
    """Server-side apply as cluster admin."""
    listed = {"apiVersion": "v1", "kind": "List", "items": entries}
    await plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed), within_s=60)


async def install(plane: ControlPlane) -> None:
    """Install what the API server itself acts on, but for the webhook, which nobody serves here."""
    left_out = ("MutatingWebhookConfiguration", "Deployment", "StatefulSet", "DaemonSet")
    entries = [entry for entry in reviewed("default") if entry["kind"] not in left_out]
    await apply(plane, [entry for entry in entries if entry["kind"] == "Namespace"])
    await apply(plane, [entry for entry in entries if entry["kind"] != "Namespace"] + _DEVELOPER)
    await apply(plane, _LAST_POLICY)

    async def in_force() -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}}
        answer = await plane.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", body, as_=ADMIN)
        return not answer.ok

    await plane.run.until("admission policies in force", in_force, within_s=30, of="apiserver")
