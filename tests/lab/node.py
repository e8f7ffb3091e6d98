"""A real node on loopback: a kubelet and a containerd of their own, in their own mount namespace and cgroups.

node = Node(plane, number=1)                 # the node "127.0.0.1"; number=2 is "127.0.0.2"
await node.start()                           # until the node is Ready
await node.stop_kubelet(); await node.start_kubelet()
await node.reboot()                          # all containers die at once, another boot id
await node.stop()

Seen from outside, the kubelet's sockets are in `node.kubelet_dir`, below `device-plugins` and
`pod-resources`, and CDI specs are read from `node.cdi_dir`. Seen from a pod on the node they lie where they
always do: the node's folders are mounted over /var/lib/kubelet, /var/run/cdi and /var/lib/sublet there.
"""

import asyncio
import os
import shutil
import uuid
from pathlib import Path
from string import Template

import aiohttp

from tests.lab import binaries
from tests.lab.clearing import end_marked
from tests.lab.controlplane import ControlPlane, User
from tests.lab.programs import LabError, finish, free_port

_TEMPLATES = Path(__file__).parent / "templates"
_MARK = "LAB_NODE"
_CGROUPS = Path("/sys/fs/cgroup")
# the node's own folder -> where programs on the node look for it
_MOUNTED = {
    "kubelet": Path("/var/lib/kubelet"),
    "cdi": Path("/run/cdi"),
    "state": Path("/var/lib/sublet"),
    "cni-cache": Path("/var/lib/cni"),
    "containerd-run": Path("/run/containerd"),
}
_LOST_AT_BOOT = ("cdi", "containerd-run", "containerd-state")  # below /run, which is in memory


class Node:
    """One node, named by the loopback address it has."""

    def __init__(
        self, plane: ControlPlane, *, number: int = 1, kubelet_version: str = binaries.KUBERNETES
    ) -> None:
        self.plane = plane
        self.name = self.address = f"127.0.0.{number}"
        self.folder = plane.run.folder / f"n{number}"
        self.kubelet_dir = self.folder / "kubelet"
        self.cdi_dir = self.folder / "cdi"
        self.state_dir = self.folder / "state"
        self.boot_id_file = self.folder / "boot_id"
        self.cgroup = f"{plane.run.name}-{number}"
        self.port = free_port(self.address)
        self._health_port = free_port(self.address)
        self._kubelet, self._containerd = f"kubelet-{number}", f"containerd-{number}"
        self._kubelet_binary = binaries.binary("kubelet", version=kubelet_version)
        self._socket = self.folder / "containerd.sock"
        self._number = number

    async def start(self) -> None:
        """Start containerd and kubelet; returns when the API server shows the node Ready."""
        self._write_files()
        await self._start_containerd()
        for name in ("pause", "busybox"):
            await self.import_image(binaries.image(name))
        await self.start_kubelet()

    async def stop(self) -> None:
        await self.stop_kubelet()
        await self.plane.run.stop(self._containerd)
        await asyncio.to_thread(end_marked, self._mark_entry, cgroups=self.cgroup)

    async def start_kubelet(self) -> None:
        user, group = f"system:node:{self.name}", "system:nodes"
        words: list[str | Path] = [
            self._kubelet_binary,
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.plane.kubeconfig(User(user, (group,)))}",
            f"--hostname-override={self.name}",
            "--root-dir=/var/lib/kubelet",
            f"--cert-dir={self.folder / 'kubelet-pki'}",
        ]
        before = await self._heartbeat()
        self._run_program(self._kubelet, self.on_node(*words))

        async def healthy() -> bool:
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                    session.get(f"http://{self.address}:{self._health_port}/healthz") as answer,
                ):
                    return answer.status == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        async def ready() -> bool:
            beat = await self._heartbeat()
            return beat is not None and beat != before

        await self.plane.run.until(f"kubelet {self.name} healthy", healthy, within_s=60, of=self._kubelet)
        await self.plane.run.until(f"node {self.name} Ready", ready, within_s=60, of=self._kubelet)

    async def stop_kubelet(self) -> None:
        """The kubelet alone: containers run on."""
        await self.plane.run.stop(self._kubelet)

    async def kill_kubelet(self) -> None:
        """As a crash would end it."""
        await self.plane.run.kill(self._kubelet)

    async def reboot(self) -> None:
        """Everything on the node dies at once; containerd and kubelet come back, with another boot id."""
        await self.plane.run.kill(self._kubelet)
        await self.plane.run.kill(self._containerd)
        await asyncio.to_thread(end_marked, self._mark_entry, cgroups=self.cgroup)
        for lost in _LOST_AT_BOOT:
            for entry in (self.folder / lost).iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self._new_boot()
        await self._start_containerd()
        await self.start_kubelet()

    def on_node(self, *words: str | Path) -> list[str | Path]:
        """The command that runs this one in the node's mount namespace."""
        pid = self.plane.run.pid(self._containerd)
        return ["nsenter", "-t", str(pid), "-m", f"--wd={self.folder}", "--", *words]

    async def ctr(self, *words: str | Path, within_s: float = 30) -> str:
        """containerd's own client, in the namespace of the kubelet's containers."""
        command = [binaries.binary("ctr"), "-a", self._socket, "-n", "k8s.io", *words]
        return await finish(*command, within_s=within_s)

    async def import_image(self, archive: Path) -> None:
        await self.ctr("images", "import", archive, within_s=120)

    @property
    def _mark_entry(self) -> str:
        return f"{_MARK}={self.folder}"

    def _run_program(self, name: str, command: list[str | Path]) -> None:
        # containerd starts its shim by name
        path = f"{binaries.binary('containerd').parent}:{os.environ['PATH']}"
        self.plane.run.start(name, command, env={"PATH": path, _MARK: str(self.folder)}, cwd=self.folder)

    async def _start_containerd(self) -> None:
        mounts = [f"mount --bind {self.folder / own} {target}" for own, target in _MOUNTED.items()]
        start = f"exec {binaries.binary('containerd')} -c {self.folder / 'containerd.toml'} -l warn"
        script = " && ".join(["mount --make-rshared /", *mounts, start])
        self._run_program(
            self._containerd, ["unshare", "-m", "--propagation", "private", "--", "sh", "-c", script]
        )

        async def answers() -> bool:
            try:
                return "Server:" in await self.ctr("version")
            except LabError:
                return False

        await self.plane.run.until(f"containerd {self.name}", answers, within_s=30, of=self._containerd)

    async def _heartbeat(self) -> str | None:
        """When the node was last reported Ready, None while it is not."""
        node = await self.plane.call("GET", f"/api/v1/nodes/{self.name}")
        if not node.ok:
            return None
        for condition in node.body["status"].get("conditions", ()):
            if condition["type"] == "Ready" and condition["status"] == "True":
                return str(condition["lastHeartbeatTime"])
        return None

    def _write_files(self) -> None:
        for target in _MOUNTED.values():
            target.mkdir(parents=True, exist_ok=True)
        own = (*_MOUNTED, "cni", "pod-logs", "volume-plugins", "kubelet-pki", "opt")
        for name in own:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        certificate, key = self.plane.pki.server(
            f"kubelet-{self._number}",
            hosts=(self.address,),
            user=f"system:node:{self.name}",
            groups=("system:nodes",),
        )
        words = {
            "node": str(self.folder),
            "address": self.address,
            "port": str(self.port),
            "health_port": str(self._health_port),
            "cgroup": self.cgroup,
            "ca": str(self.plane.pki.ca),
            "certificate": str(certificate),
            "key": str(key),
            "bridge": self.cgroup,
            "subnet": _subnet(self.cgroup),
            "pause": "lab.local/pause:1",
        }
        for template in _TEMPLATES.iterdir():
            place = self.folder / ("cni" if template.suffix == ".conflist" else "") / template.name
            place.write_text(Template(template.read_text()).substitute(words))
        self._make_cgroup()
        self._new_boot()

    def _new_boot(self) -> None:
        self.boot_id_file.write_text(f"{uuid.uuid4()}\n")

    def _make_cgroup(self) -> None:
        if (_CGROUPS / "cgroup.controllers").exists():
            for controller in (_CGROUPS / "cgroup.controllers").read_text().split():
                (_CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
            (_CGROUPS / self.cgroup).mkdir(exist_ok=True)
            return
        for hierarchy in _CGROUPS.iterdir():
            if hierarchy.is_dir() and not hierarchy.is_symlink():
                (hierarchy / self.cgroup).mkdir(exist_ok=True)
        for value in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset is empty and would take no process
            whole = _CGROUPS / "cpuset" / value
            (whole.parent / self.cgroup / value).write_text(whole.read_text())


def _subnet(name: str) -> str:
    """A /24 of 10.64.0.0/10 for the pods of this node, hardly ever the one of another run."""
    number = uuid.uuid5(uuid.NAMESPACE_DNS, name).int
    return f"10.{64 + number % 64}.{number // 64 % 256}.0/24"
