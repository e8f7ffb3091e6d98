"""`sublet migrate` finds pod templates in custom resources, which only a real API server has."""

from typing import Any

import pytest

from sublet.cli.migrate.live import read_cluster
from sublet.cli.migrate.report import document, report
from sublet.contract.dialects.interface import Options
from sublet.kube.access import Access
from sublet.kube.client import open_client
from sublet.kube.errors import NotFound
from sublet.kube.kind import CUSTOM_RESOURCES, Kind
from tests.builders import container, pod
from tests.lab.controlplane import ControlPlane

pytestmark = [pytest.mark.api, pytest.mark.timeout(120)]

TRAININGS = Kind(group="test.sublet.dev", version="v1", plural="trainings", kind="Training", namespaced=True)


async def test_a_custom_resource_with_a_pod_template_is_a_workload(
    api_server: ControlPlane,
) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"template": free}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": TRAININGS.plural, "singular": "training", "kind": TRAININGS.kind}
    definition: dict[str, Any] = {
        "metadata": {"name": f"{TRAININGS.plural}.{TRAININGS.group}"},
        "spec": {"group": TRAININGS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    async with open_client(Access(url=api_server.url, tls=api_server.ssl_context())) as kube:
        await kube.create(CUSTOM_RESOURCES, definition)
        try:
            training = {
                "apiVersion": TRAININGS.api_version,
                "kind": TRAININGS.kind,
                "metadata": {"name": "t", "namespace": "default"},
                "spec": {"template": {"spec": pod("x", container(nvidia=2))["spec"]}},
            }

            odd = {**training, "metadata": {"name": "odd", "namespace": "default"}}
            odd["spec"] = {"template": {"spec": {"containers": ["no container"]}}}

            async def created() -> bool:
                try:
                    await kube.create(TRAININGS, training, namespace="default")
                except NotFound:  # it is not served yet
                    return False
                return True

            await api_server.run.until("custom resources are served", created, within_s=30)
            await kube.create(TRAININGS, odd, namespace="default")
            found = document(report(await read_cluster(kube), Options()))
        finally:
            await kube.delete(CUSTOM_RESOURCES, definition["metadata"]["name"])
    [one] = [one for one in found["workloads"] if one["kind"] == TRAININGS.kind]
    assert (one["kind"], one["name"], one["outcome"]) == ("Training", "t", "ready")
    assert one["containers"]["main"]["cards"] == 2
