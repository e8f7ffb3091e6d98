"""Of several replicas the one that has the Lease judges; one that loses it ends and starts anew."""

import asyncio
import secrets
import socket

from sublet.kube.lease import Elector
from sublet.kube.port import Kube
from sublet.runtime.clock import unix_ms
from sublet_healthd.shell.store import Superseded

LEASE = "sublet-healthd"


class Leadership:
    """`won` is set once this process has the Lease."""

    def __init__(self, kube: Kube, *, namespace: str) -> None:
        self.won = asyncio.Event()
        self._elector = Elector(
            kube,
            name=LEASE,
            namespace=namespace,
            identity=f"{socket.gethostname()}-{secrets.token_hex(4)}",
            unix_ms=unix_ms,
        )

    async def run(self) -> None:
        """Raises Superseded when the Lease is lost: nothing may be written from then on."""
        await self._elector.lead(self._lead)
        raise Superseded(f"the lease {LEASE} is lost", hint="This process ends and starts anew")

    async def _lead(self, _term: int) -> None:
        self.won.set()
        await asyncio.Event().wait()
