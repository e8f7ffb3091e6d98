"""Which pods the API server asks the webhook about, and what happens to them while nobody answers."""

import asyncio
import base64
import itertools
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
import yaml
from aiohttp import web

from sublet.contract import keys
from tests.api.deployment import apply
from tests.api.pods import Object, Pods, claiming, pod
from tests.api.verdicts import assert_allowed
from tests.lab import binaries
from tests.lab.controlplane import ControlPlane, User
from tests.lab.programs import free_port
from tests.manifests.rendering import KUSTOMIZE, reviewed

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

_numbers = itertools.count(1)
CLAIM, ELSEWHERE = "/mutate", "/mutate-elsewhere"
A_NVIDIA_GPU = pod(limits={keys.NVIDIA_GPU: "1"})


def of_daemonset(limits: dict[str, str] | None = None, env: str = "NVIDIA_VISIBLE_DEVICES") -> Object:
    """A pod that a DaemonSet made, with a variable."""
    made = pod(limits=limits)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds-1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    made["spec"]["containers"][0]["env"] = [{"name": env, "value": "all"}]
    return made


A_VARIABLE_ALONE = pod()
A_VARIABLE_ALONE["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
ASKED = {
    "a native claim": (pod(limits={keys.GPU: "1"}), "default", [CLAIM]),
    "a native claim of an init container": (pod(init_limits={keys.GPU_MEMORY: "1"}), "default", [CLAIM]),
    "a wish alone": (pod(annotations={keys.CARD_MODELS: "A100"}), "default", [CLAIM]),
    "forged cards": (pod(annotations={keys.cards_annotation("main"): "GPU-1"}), "default", [CLAIM]),
    "the label alone": (pod(labels={keys.CLAIMED_LABEL: "true"}), "default", [CLAIM]),
    "a false mirror pod": (
        pod(limits={keys.GPU: "1"}, node="n1", annotations={"kubernetes.io/config.mirror": "x"}),
        "default",
        [CLAIM],
    ),
    "a foreign claim in a managed namespace": (A_NVIDIA_GPU, "managed", [CLAIM]),
    "gpushare in a managed namespace": (pod(limits={keys.ALIYUN_GPU_MEM: "2"}), "managed", [CLAIM]),
    "Volcano in a managed namespace": (pod(limits={keys.VOLCANO_VGPU_NUMBER: "1"}), "managed", [CLAIM]),
    "a partition in a managed namespace": (pod(limits={"nvidia.com/mig-1g.5gb": "1"}), "managed", [CLAIM]),
    "KAI in a managed namespace": (pod(annotations={"gpu-fraction": "0.5"}), "managed", [CLAIM]),
    "KAI elsewhere": (pod(annotations={"gpu-fraction": "0.5"}), "default", [ELSEWHERE]),
    "a forged variable": (
        pod(annotations={keys.variable_annotation("GPU", "main"): "x"}),
        "default",
        [CLAIM],
    ),
    "a foreign claim elsewhere": (A_NVIDIA_GPU, "default", [ELSEWHERE]),
    "both spellings elsewhere": (
        pod(limits={keys.GPU: "1", keys.NVIDIA_GPU: "1"}),
        "default",
        [CLAIM, ELSEWHERE],
    ),
    "no claim": (pod(limits={"cpu": "1"}, annotations={"team": "blue"}), "default", []),
    "no claim in a managed namespace": (pod(), "managed", []),
    "another vendor's resource": (pod(limits={"example.com/gpu": "1"}), "managed", []),
    "cards named in variables by a DaemonSet": (of_daemonset(), "managed", [CLAIM]),
    "capabilities named by a DaemonSet": (of_daemonset(env="NVIDIA_DRIVER_CAPABILITIES"), "managed", [CLAIM]),
    "cards named by a DaemonSet elsewhere": (of_daemonset(), "default", []),
    "a DaemonSet without such variables": (of_daemonset(env="PATH"), "managed", []),
    "a DaemonSet that claims": (of_daemonset({keys.NVIDIA_GPU: "1"}), "managed", [CLAIM]),
    "cards named in variables by others": (A_VARIABLE_ALONE, "managed", []),
    "anything in an excluded namespace": (claiming(), "kube-system", []),
}


@dataclass(slots=True)
class Recorder:
    """Answers every review with yes, and remembers what it was asked."""

    reviews: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.append((request.path, review["request"]))
        response = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.reviews]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def hooked(port: int) -> Iterator[ControlPlane]:
    """An API server of its own with the reviewed webhook configuration, pointed at a port of this machine."""
    binaries.require(*binaries.API_SERVER)
    plane = ControlPlane()
    asyncio.run(_start(plane, port))
    yield plane
    asyncio.run(plane.stop())


async def _start(plane: ControlPlane, port: int) -> None:
    await plane.start("apiserver")
    bundle = base64.b64encode(plane.pki.ca.read_bytes()).decode()
    [configuration] = [
        entry for entry in reviewed("default") if entry["kind"] == "MutatingWebhookConfiguration"
    ]
    configuration["webhooks"].append(_of_daemonsets(configuration["webhooks"][0]))
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    managed = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "managed", "labels": {keys.MANAGE_LABEL: "true"}},
    }
    await apply(plane, [managed, configuration])
    trial = pod(limits={keys.GPU: "1"})

    async def in_force() -> bool:
        answer = await plane.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", trial)
        return not answer.ok

    await plane.run.until("webhook in force", in_force, within_s=30, of="apiserver")


def _of_daemonsets(first: Object) -> Object:
    """The entry of the component daemonset-cards, with the namespaces that the first entry leaves out."""
    component = yaml.safe_load((KUSTOMIZE / "components/daemonset-cards/kustomization.yaml").read_text())
    [operation] = yaml.safe_load(component["patches"][0]["patch"])
    hook: Object = operation["value"]
    [excluded] = first["namespaceSelector"]["matchExpressions"]
    hook["namespaceSelector"]["matchExpressions"][0] = excluded
    return hook


@pytest.fixture
async def webhook(hooked: ControlPlane, port: int) -> AsyncIterator[Recorder]:
    recorder = Recorder()
    app = web.Application()
    app.router.add_post("/{path:.*}", recorder.answer)
    certificate, key = hooked.pki.server("webhook", hosts=("127.0.0.1",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    yield recorder
    assert runner.server is not None
    for connection in runner.server.connections:  # kept alive by the API server
        if connection.transport is not None:
            connection.transport.abort()
    await runner.cleanup()


@pytest.fixture
def pods(hooked: ControlPlane) -> Pods:
    return Pods(hooked, _numbers)


@pytest.mark.parametrize(("wanted", "namespace", "paths"), ASKED.values(), ids=ASKED.keys())
async def test_only_pods_that_are_ours_reach_the_webhook(
    pods: Pods, webhook: Recorder, wanted: dict[str, object], namespace: str, paths: list[str]
) -> None:
    assert_allowed(await pods.create(wanted, namespace=namespace))
    assert webhook.paths == paths


async def test_a_mirror_pod_is_nobodys_business(pods: Pods, webhook: Recorder, hooked: ControlPlane) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mirror-node"}}
    uid = (await hooked.call("POST", "/api/v1/nodes", node)).body["metadata"]["uid"]
    mirror = pod(limits={keys.GPU: "1"}, node="mirror-node", annotations={"kubernetes.io/config.mirror": "x"})
    mirror["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "mirror-node", "uid": uid, "controller": True}
    ]
    assert_allowed(await pods.create(mirror, as_=User("system:node:mirror-node", ("system:nodes",))))
    assert webhook.paths == []


async def test_a_dry_run_is_told_as_one(hooked: ControlPlane, webhook: Recorder) -> None:
    trial = pod(limits={keys.GPU: "1"})
    assert_allowed(await hooked.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", trial))
    assert [review["dryRun"] for _, review in webhook.reviews] == [True]


async def test_while_the_webhook_is_down_only_pods_that_claim_are_refused(pods: Pods) -> None:
    for unasked in (pod(), A_NVIDIA_GPU):
        assert_allowed(await pods.create(unasked))
    for wanted, namespace in ((pod(limits={keys.GPU: "1"}), "default"), (A_NVIDIA_GPU, "managed")):
        refused = await pods.create(wanted, namespace=namespace)
        assert refused.status == 500
        assert "failed calling webhook" in refused.body["message"]
        assert "claims.sublet.dev" in refused.body["message"]
