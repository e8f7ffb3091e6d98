"""Elects one leader among the replicas by a Lease object of the API server.

A holder proves itself by writing the Lease; others wait until they have seen no write for the whole lease by
their own monotonic clock, so that clocks of different machines are never compared. The work of a leader is
cancelled well before anybody else may start, whatever fails. The term is the fence: it grows each time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from sublet.kube.errors import AlreadyExists, KubeError, NotFound
from sublet.kube.kind import LEASES
from sublet.kube.port import Json, Kube

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How fast leadership moves; `give_up_s` must leave the work time to stop within `lease_s`."""

    lease_s: float = 5.0
    renew_s: float = 1.0
    give_up_s: float = 3.0


class _Displaced(Exception):
    """The lease that we renew is no longer ours."""


class Elector:
    """Competes for one Lease under one identity."""

    def __init__(
        self,
        kube: Kube,
        *,
        name: str,
        namespace: str,
        identity: str,
        unix_ms: Callable[[], int],
        times: LeaseTimes | None = None,
    ) -> None:
        self._kube = kube
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._unix_ms = unix_ms
        self._times = times or LeaseTimes()
        self._seen_version = ""
        self._seen_at_s = 0.0
        self._term = 0
        self.holder = ""
        """Who held the lease when it was last read; for messages, never for decisions."""

    async def lead(self, work: Callable[[int], Awaitable[None]]) -> None:
        """Wait for the lease, then run `work(term)`; return when leadership is lost or the work is done.

        `work` is cancelled when no renewal succeeded for `give_up_s`. When it ends in any other way, our own
        cancelling included, the lease is released so that a successor need not wait.
        """
        won_s = await self._win()
        term = self._term
        log.info("lease.taken", lease=self._name, identity=self._identity, term=term)
        lost = False

        async def renewing(leading: asyncio.Task[None]) -> None:
            nonlocal lost
            await self._renew_until_lost(won_s)
            lost = True
            log.error("lease.lost", lease=self._name, identity=self._identity, term=term)
            leading.cancel()

        async def leading() -> None:
            await work(term)

        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(leading(), name=f"leading-{term}")
                renewal = group.create_task(renewing(task), name=f"renewing-{term}")
                task.add_done_callback(lambda _: renewal.cancel())
        finally:
            if not lost:
                await self._release()

    async def _win(self) -> float:
        """Try until the lease is ours; the time at which the winning try began."""
        while True:
            began_s = _monotonic_s()
            if await self._try_once(within_s=self._times.give_up_s):
                return began_s
            await asyncio.sleep(self._times.renew_s)

    async def _renew_until_lost(self, success_s: float) -> None:
        """Return `give_up_s` after the last success began, or when the lease is seen to be taken."""
        while True:
            await asyncio.sleep(min(self._times.renew_s, max(0.0, self._left_s(success_s))))
            began_s = _monotonic_s()
            left_s = self._left_s(success_s)
            if left_s <= 0:
                return
            try:
                if await self._try_once(within_s=left_s, renewing=True):
                    success_s = began_s
            except _Displaced:
                return

    def _left_s(self, success_s: float) -> float:
        return success_s + self._times.give_up_s - _monotonic_s()

    async def _try_once(self, *, within_s: float, renewing: bool = False) -> bool:
        """Read the lease and write it if it is ours or free; any failure is a failed try."""
        try:
            async with asyncio.timeout(within_s):
                return await self._read_and_write(renewing=renewing)
        except (KubeError, TimeoutError) as error:
            log.warning("lease.try_failed", lease=self._name, identity=self._identity, error=repr(error))
            return False

    async def _read_and_write(self, *, renewing: bool) -> bool:
        try:
            lease = await self._kube.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            if renewing:
                raise _Displaced from None
            return await self._create()
        spec = lease.get("spec") or {}
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at_s = version, _monotonic_s()
        self.holder = spec.get("holderIdentity") or ""
        term = int(spec.get("leaseTransitions") or 0)
        # by term too: another process may carry the same identity
        ours = self.holder == self._identity and term == self._term
        if renewing:
            if not ours:
                raise _Displaced
            wanted = self._spec(term)
        else:
            lease_s = float(spec.get("leaseDurationSeconds") or self._times.lease_s)
            if self.holder and not ours and _monotonic_s() < self._seen_at_s + lease_s:
                return False
            wanted = self._spec(max(term, self._term) + 1) | {"acquireTime": self._stamp()}
        self._took(await self._kube.update(LEASES, lease | {"spec": spec | wanted}))
        return True

    async def _create(self) -> bool:
        body: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(self._term + 1) | {"acquireTime": self._stamp()},
        }
        try:
            self._took(await self._kube.create(LEASES, body))
        except AlreadyExists:
            return False
        return True

    def _took(self, lease: Json) -> None:
        self._seen_version, self._seen_at_s = lease["metadata"]["resourceVersion"], _monotonic_s()
        self._term = int(lease["spec"]["leaseTransitions"])
        self.holder = self._identity

    def _spec(self, term: int) -> Json:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.lease_s)),
            "leaseTransitions": term,
            "renewTime": self._stamp(),
        }

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._unix_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _release(self) -> None:
        """Tell the others at once that we are done; if that fails they wait out the lease."""
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._times.renew_s):
                lease = await self._kube.get(LEASES, self._name, namespace=self._namespace)
                spec = lease["spec"]
                if (spec.get("holderIdentity"), spec.get("leaseTransitions")) == (self._identity, self._term):
                    freed = spec | {"holderIdentity": "", "renewTime": self._stamp()}
                    await self._kube.update(LEASES, lease | {"spec": freed})
                    log.info("lease.released", lease=self._name, term=self._term)


def _monotonic_s() -> float:
    return asyncio.get_running_loop().time()
