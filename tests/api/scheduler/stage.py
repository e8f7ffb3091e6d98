"""The scheduler as a process, with its service account's rights, asked about pods by a real API server.

The deployment's roles, policies and webhook configuration are in force, the bus is a real nats-server; agents
are what a test says in their name, nodes are objects only.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from sublet.demo.natsserver import nats_server_program
from tests import builders
from tests.api.deployment import SCHEDULER, apply
from tests.lab.controlplane import Answer, ControlPlane
from tests.lab.programs import free_port
from tests.manifests.rendering import with_components

Json = dict[str, Any]
RESERVATION_S = 3.0
RATIOS = "- {nodeSelector: {ratio: four}, cpu: 4, memory: 1Gi}"
BALLAST_IMAGE = "lab.local/pause:1"
IN_FORCE = (
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
NATS, SERVICE = "nats", "sublet-scheduler"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_TRIAL = builders.pod("trial", builders.container(gpu=1))


@dataclass(slots=True)
class Stage:
    plane: ControlPlane
    nats_port: int = field(default_factory=free_port)
    webhook_port: int = field(default_factory=free_port)
    probe_port: int = field(default_factory=free_port)

    @property
    def nats_url(self) -> str:
        return f"nats://127.0.0.1:{self.nats_port}"

    async def start(self) -> None:
        """All in force and Ready; pods that other tests left are gone."""
        await self.delete_allpods_path()
        rendered = with_components("ballast", "placeholders")
        [configuration] = [one for one in rendered if one["kind"] == "MutatingWebhookConfiguration"]
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self.webhook_port}{path}"}
        await apply(self.plane, [one for one in rendered if one["kind"] == "Namespace"])
        await apply(self.plane, [one for one in rendered if one["kind"] in IN_FORCE])
        self.start_nats()
        self.start_scheduler()
        await self.ready()

        async def asked() -> bool:
            return (await self._try()).ok

        await self.plane.run.until("webhook in force", asked, within_s=30, of=SERVICE)

    async def stop(self) -> None:
        """Leave the API server as it was."""
        await self.delete_allpods_path()
        await self.plane.call("DELETE", f"{CONFIGURATIONS}/sublet")

        async def unasked() -> bool:
            return "sublet-claims" in (await self._try()).text

        await self.plane.run.until("webhook out of force", unasked, within_s=30)
        await self.plane.run.stop(SERVICE)
        await self.plane.run.stop(NATS)

    def start_nats(self) -> None:
        words = [
            "-a",
            "127.0.0.1",
            "-p",
            str(self.nats_port),
            "-js",
            "-sd",
            str(self.plane.run.folder / NATS),
        ]
        self.plane.run.start(NATS, [nats_server_program(), *words])

    def start_scheduler(self) -> None:
        ratios = self.plane.run.folder / "ratios.yaml"
        ratios.write_text(RATIOS)
        settings = {
            "SUBLET_RATIOS": str(ratios),
            "SUBLET_BALLAST_IMAGE": BALLAST_IMAGE,
            "SUBLET_BALLAST_WAIT_S": "60",
            "SUBLET_PLACEHOLDERS": "20",
            "SUBLET_PLACEHOLDER_AFTER_S": "1",
            "SUBLET_NATS_URL": self.nats_url,
            "SUBLET_KUBECONFIG": str(self.plane.kubeconfig(SCHEDULER)),
            "SUBLET_PROBE_HOST": "127.0.0.1",
            "SUBLET_PROBE_PORT": str(self.probe_port),
            "SUBLET_WEBHOOK_HOST": "127.0.0.1",
            "SUBLET_WEBHOOK_PORT": str(self.webhook_port),
            "SUBLET_WEBHOOK_NAMES": "127.0.0.1",
            "SUBLET_RESERVATION_S": str(RESERVATION_S),
            "SUBLET_HEARTBEAT_FRESH_S": "600",
            "SUBLET_DRAIN_S": "0",
        }
        self.plane.run.start(SERVICE, [sys.executable, "-m", "sublet_scheduler"], env=settings)

    async def is_ready(self) -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"http://127.0.0.1:{self.probe_port}/readyz") as answer,
            ):
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def ready(self) -> None:
        await self.plane.run.until("scheduler ready", self.is_ready, within_s=30, of=SERVICE)

    async def delete_allpods_path(self) -> None:
        listed = (await self.plane.call("GET", "/api/v1/pods")).body["items"]
        for namespace in {pod["metadata"]["namespace"] for pod in listed}:
            await self.plane.call("DELETE", pods_path(namespace), {"gracePeriodSeconds": 0})

    async def _try(self) -> Answer:
        return await self.plane.call("POST", f"{pods_path('default')}?dryRun=All", _TRIAL)


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
