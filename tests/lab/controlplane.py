"""A real Kubernetes control plane on loopback, for as long as a test needs it.

plane = ControlPlane()
await plane.start("apiserver")  # or "control-plane": with scheduler and controller-manager
await plane.kubectl("get", "nodes")  # as cluster admin, or as_=User("jane", ("developers",))
plane.kubeconfig(service_account("sublet-system", "sublet-scheduler"))
await plane.stop()
"""

import json
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tests.lab import binaries
from tests.lab.pki import Pki
from tests.lab.programs import LabError, Run, finish, free_port

Level = Literal["apiserver", "control-plane"]
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks: a name and its groups, as the API server will see them."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return re.sub(r"[^a-z0-9.-]", "_", self.name.lower())


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def body(self) -> dict[str, Any]:
        """The object, or the Status with its message."""
        found: dict[str, Any] = json.loads(self.text)
        return found


ADMIN = User("admin", ("system:masters",))


def service_account(namespace: str, name: str) -> User:
    """The identity of pods that run as this service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


class ControlPlane:
    """etcd, kube-apiserver and, at the level "control-plane", kube-scheduler and kube-controller-manager.

    Ports are free ones, files lie in the run's own folder, so several stand side by side. Extra flags go
    to the program they are named after.
    """

    def __init__(
        self,
        *,
        apiserver_args: Sequence[str] = (),
        scheduler_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
    ) -> None:
        self._apiserver_args = apiserver_args
        self._scheduler_args = scheduler_args
        self._controller_manager_args = controller_manager_args
        self._level: Level = "apiserver"
        self.run = Run()
        self.pki = Pki(self.run.folder / "pki")
        self.etcd_port = free_port()
        self.port = free_port()
        self.url = f"https://{_LOOPBACK}:{self.port}"
        self._token_keys = self.pki.key_pair("sa")
        self._kubeconfigs: dict[User, Path] = {}
        self._contexts: dict[User, ssl.SSLContext] = {}

    async def start(self, level: Level = "apiserver") -> None:
        """Start everything of this level and wait until it answers.

        Raises:
            LabError: something did not come up; nothing is left running.
        """
        self._level = level
        try:
            await self.start_etcd()
            await self.start_apiserver()
            if level == "control-plane":
                await self.start_scheduler()
                await self.start_controller_manager()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self.run.close()

    def kubeconfig(self, user: User = ADMIN) -> Path:
        """The file with which a client is this user."""
        if user not in self._kubeconfigs:
            name = f"{user.file_name}-{len(self._kubeconfigs)}"
            self._kubeconfigs[user] = self.pki.kubeconfig(
                name, url=self.url, user=user.name, groups=user.groups
            )
        return self._kubeconfigs[user]

    def ssl_context(self, user: User = ADMIN) -> ssl.SSLContext:
        """TLS as this user, who trusts this control plane alone."""
        if user not in self._contexts:
            name = f"{user.file_name}-tls-{len(self._contexts)}"
            certificate, key = self.pki.client(name, user=user.name, groups=user.groups)
            context = ssl.create_default_context(cafile=str(self.pki.ca))
            context.load_cert_chain(certificate, key)
            self._contexts[user] = context
        return self._contexts[user]

    async def kubectl(
        self, *words: str | Path, as_: User = ADMIN, stdin: str = "", within_s: float = 30
    ) -> str:
        """Run kubectl and return what it printed; LabError, with its complaint, when it fails."""
        config = self.kubeconfig(as_)
        return await finish(
            binaries.binary("kubectl"), "--kubeconfig", config, *words, stdin=stdin, within_s=within_s
        )

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        as_: User = ADMIN,
        content_type: str = "application/json",
    ) -> Answer:
        """Ask the API server for a path such as /api/v1/nodes, as this user; every status is an answer."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.request(
                method,
                f"{self.url}{path}",
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type},
                ssl=self.ssl_context(as_),
            ) as answer,
        ):
            return Answer(answer.status, await answer.text())

    async def start_etcd(self) -> None:
        own, peer = f"http://{_LOOPBACK}:{self.etcd_port}", f"http://{_LOOPBACK}:{free_port()}"
        self.run.start(
            "etcd",
            [
                binaries.binary("etcd"),
                "--name=lab",
                f"--data-dir={self.run.folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={own}",
                f"--advertise-client-urls={own}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=lab={peer}",
            ],
        )

    async def start_apiserver(self) -> None:
        serving, serving_key = self.pki.server(
            "apiserver",
            hosts=(
                _LOOPBACK,
                "localhost",
                "10.96.0.1",
                "kubernetes.default.svc",
                "kubernetes.default",
                "kubernetes",
            ),
        )
        kubelet, kubelet_key = self.pki.client(
            "apiserver-kubelet", user="apiserver", groups=("system:masters",)
        )
        proxy, proxy_key = self.pki.client("front-proxy", user="front-proxy")
        token_public, token_private = self._token_keys
        flags = [
            f"--etcd-servers=http://{_LOOPBACK}:{self.etcd_port}",
            f"--bind-address={_LOOPBACK}",
            f"--advertise-address={_LOOPBACK}",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",  # a loopback address may not stand in an Endpoints object
            f"--tls-cert-file={serving}",
            f"--tls-private-key-file={serving_key}",
            f"--client-ca-file={self.pki.ca}",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={token_public}",
            f"--service-account-signing-key-file={token_private}",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--allow-privileged=true",
            "--profiling=false",
            f"--kubelet-client-certificate={kubelet}",
            f"--kubelet-client-key={kubelet_key}",
            f"--kubelet-certificate-authority={self.pki.ca}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--requestheader-client-ca-file={self.pki.ca}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy}",
            f"--proxy-client-key-file={proxy_key}",
        ]
        if self._level == "apiserver":  # nobody makes service accounts there, so pods could not name one
            flags.append("--disable-admission-plugins=ServiceAccount")
        self.run.start("apiserver", [binaries.binary("kube-apiserver"), *flags, *self._apiserver_args])
        await self.run.until("apiserver ready", self._answers("/readyz"), within_s=90, of="apiserver")

    async def start_scheduler(self) -> None:
        await self._start_component("scheduler", self._scheduler_args)

    async def start_controller_manager(self) -> None:
        flags = [
            f"--service-account-private-key-file={self._token_keys[1]}",
            f"--root-ca-file={self.pki.ca}",
            "--use-service-account-credentials=true",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            *self._controller_manager_args,
        ]
        await self._start_component("controller-manager", flags)
        account = self._answers("/api/v1/namespaces/default/serviceaccounts/default")
        await self.run.until("default service account", account, within_s=60, of="controller-manager")

    async def _start_component(self, name: str, flags: Sequence[str]) -> None:
        config = self.kubeconfig(User(f"system:kube-{name}"))
        port = free_port()
        self.run.start(
            name,
            [
                binaries.binary(f"kube-{name}"),
                f"--kubeconfig={config}",
                f"--authentication-kubeconfig={config}",
                f"--authorization-kubeconfig={config}",
                f"--bind-address={_LOOPBACK}",
                f"--secure-port={port}",
                "--leader-elect=false",
                *flags,
            ],
        )

        async def healthy() -> bool:
            return await _healthy(f"https://{_LOOPBACK}:{port}/healthz")

        await self.run.until(f"{name} healthy", healthy, within_s=60, of=name)

    def _answers(self, path: str) -> Callable[[], Awaitable[bool]]:
        async def answers() -> bool:
            try:
                return (await self.call("GET", path)).ok
            except (aiohttp.ClientError, TimeoutError):
                return False

        return answers


async def _healthy(url: str) -> bool:
    """Whether a GET answers 200; the server's self-made certificate is not looked at."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
            session.get(url, ssl=False) as answer,
        ):
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


__all__ = ["ADMIN", "Answer", "ControlPlane", "LabError", "Level", "User", "service_account"]
