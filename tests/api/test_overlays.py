"""The API server takes the deployment as it is: every object, every pod of it, and no right too many."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.api.deployment import AGENT, HEALTHD, SCHEDULER, apply
from tests.api.verdicts import assert_allowed
from tests.lab.controlplane import ControlPlane, User
from tests.manifests.rendering import COMPONENTS, KUSTOMIZE, OVERLAYS, added_by, render, reviewed

pytestmark = [pytest.mark.api, pytest.mark.timeout(120)]

# (who, verb, group, resource, namespace, name) that the deployment must and must not grant
GRANTED = [
    (SCHEDULER, "patch", "", "pods", "default", ""),
    (SCHEDULER, "update", "", "secrets", "sublet-system", "sublet-webhook-ca"),
    (SCHEDULER, "get", "", "secrets", "sublet-system", "sublet-decision-key"),
    (SCHEDULER, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "sublet"),
    (HEALTHD, "patch", "", "nodes", "", "n1"),
]
DENIED = [
    (SCHEDULER, "create", "", "pods", "default", ""),
    (SCHEDULER, "create", "", "pods/exec", "default", ""),
    (SCHEDULER, "create", "", "pods/binding", "default", ""),
    (SCHEDULER, "get", "", "secrets", "default", "any"),
    (SCHEDULER, "get", "", "secrets", "sublet-system", "any"),
    (SCHEDULER, "list", "", "secrets", "sublet-system", ""),
    (SCHEDULER, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "another"),
    (SCHEDULER, "get", "", "nodes/proxy", "", "n1"),
    (HEALTHD, "get", "", "pods", "default", ""),
    (HEALTHD, "patch", "", "pods", "default", ""),
    (AGENT, "get", "", "nodes", "", "n1"),
    (AGENT, "get", "", "pods", "sublet-node", ""),
]


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_the_api_server_accepts_an_overlay(installed: ControlPlane, overlay: str) -> None:
    folder = KUSTOMIZE / "overlays" / overlay
    said = await installed.kubectl("apply", "--server-side", "--dry-run=server", "-k", folder, within_s=60)
    assert said.count("serverside-applied") == len(reviewed(overlay))


@pytest.mark.parametrize("component", COMPONENTS)
async def test_the_api_server_accepts_a_component(
    installed: ControlPlane, component: str, tmp_path: Path
) -> None:
    tree = shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    overlay = tree / "overlays" / "trial"
    overlay.mkdir()
    kustomization = {"resources": ["../../base"], "components": [f"../../components/{component}"]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    # a dry run makes no namespace for what comes after it
    for namespace in (one for one in added_by(component) if one["kind"] == "Namespace"):
        await apply(installed, [namespace])
    await installed.kubectl(
        "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=render(overlay), within_s=60
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_every_pod_meets_the_security_level_of_its_namespace(
    installed: ControlPlane, overlay: str
) -> None:
    for workload in reviewed(overlay):
        if workload["kind"] not in ("Deployment", "StatefulSet", "DaemonSet"):
            continue
        template, namespace = workload["spec"]["template"], workload["metadata"]["namespace"]
        asked = workload["spec"].get("volumeClaimTemplates", ())
        claims = [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in asked]
        template["spec"]["volumes"] = [*template["spec"].get("volumes", ()), *claims]
        trial = {"apiVersion": "v1", "kind": "Pod", **template}
        trial["metadata"] = {**template["metadata"], "name": workload["metadata"]["name"]}
        assert_allowed(await installed.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", trial))


@pytest.mark.parametrize("right", GRANTED, ids=str)
async def test_a_needed_right_is_granted(
    installed: ControlPlane, right: tuple[User, str, str, str, str, str]
) -> None:
    assert await _may(installed, *right)


@pytest.mark.parametrize("right", DENIED, ids=str)
async def test_a_right_too_many_is_not(
    installed: ControlPlane, right: tuple[User, str, str, str, str, str]
) -> None:
    assert not await _may(installed, *right)


async def _may(
    plane: ControlPlane, who: User, verb: str, group: str, resource: str, namespace: str, name: str
) -> bool:
    resource, _, subresource = resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": who.name,
            "groups": list(who.groups),
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "namespace": namespace,
                "name": name,
            },
        },
    }
    answer = await plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer.body["status"]["allowed"])


async def test_no_expression_of_a_policy_is_doubted_by_the_type_checker(control_plane: ControlPlane) -> None:
    policies = [entry for entry in reviewed("default") if entry["kind"] == "ValidatingAdmissionPolicy"]
    await apply(control_plane, policies)
    for policy in policies:
        name = policy["metadata"]["name"]
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"

        async def checked(path: str = path) -> bool:
            status = (await control_plane.call("GET", path)).body.get("status", {})
            return bool(status.get("observedGeneration") == 1)

        await control_plane.run.until(f"{name} checked", checked, within_s=30, of="controller-manager")
        status = (await control_plane.call("GET", path)).body["status"]
        assert status.get("typeChecking", {}).get("expressionWarnings", []) == []
