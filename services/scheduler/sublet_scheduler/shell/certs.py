"""The webhook's certificate: signed in memory by the shared CA, renewed in place, trusted by the API server.

No file, no restart: a new leaf is loaded into the live TLS context, and the caBundle of the webhook
configuration is put right whenever it differs. No pod is refused for it: who signs is trusted before it does,
and for a while after it did.
"""

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from sublet.kube.errors import Conflict, KubeError, NotFound
from sublet.kube.kind import MUTATING_WEBHOOKS
from sublet.kube.port import JsonPatch, Kube
from sublet.model.errors import BadRequest
from sublet_scheduler.shell import authority, secret
from sublet_scheduler.shell.authority import Authority, Pair
from sublet_scheduler.shell.trust import Trust

log = structlog.get_logger()

CA_SECRET = "sublet-webhook-ca"  # noqa: S105 - a name
CONFIGURATION = "sublet"
"""The MutatingWebhookConfiguration of the manifests."""
RENEW = timedelta(days=authority.LEAF_DAYS / 3)
"""A leaf is renewed when so much of its life is left."""
SETTLE_S = 2.0
"""From a new caBundle until every API server goes by it."""


class Certificates:
    """Keeps `context` able to serve; `trusted` says whether the API server can verify it now."""

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        names: Sequence[str],
        unix_ms: Callable[[], int],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._names = tuple(names)
        self._unix_ms = unix_ms
        self._settle_s = settle_s
        self._trust = Trust()
        self._leaf: Pair | None = None
        self._signer = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.trusted = False

    async def check(self) -> None:
        """Put everything right that is due. Raises KubeError, and BadRequest for an unreadable CA secret."""
        now = datetime.fromtimestamp(self._unix_ms() / 1000, UTC)
        current = await self._authority(now)
        self.trusted = await self._publish(current.bundle, now)
        another = self._signer != current.current.cert
        if self._leaf is None or another or self._leaf.expires - now < RENEW:
            if self._leaf is not None and another:
                await asyncio.sleep(self._settle_s)
            leaf = authority.sign_leaf(current, self._names, now)
            load(self.context, leaf)
            self._leaf, self._signer = leaf, current.current.cert
            log.info("certificate.renewed", names=self._names, expires=leaf.expires.isoformat())

    async def run(self, *, every_s: float) -> None:
        """Check for ever."""
        while True:
            try:
                await self.check()
            except (KubeError, BadRequest) as error:
                log.warning("certificate.check_failed", error=str(error))
            await asyncio.sleep(every_s)

    async def _authority(self, now: datetime) -> Authority:
        shared = await secret.get_or_create(
            self._kube,
            CA_SECRET,
            namespace=self._namespace,
            make=lambda: authority.to_secret(authority.new_authority(now)),
        )
        found = authority.from_secret(shared.data)
        wanted = authority.rotated(found, now)
        if wanted is found:
            return found
        try:
            shared = await secret.replace(
                self._kube,
                CA_SECRET,
                namespace=self._namespace,
                data=authority.to_secret(wanted),
                version=shared.version,
            )
        except Conflict:
            return found  # another replica rotated; the next check reads its result
        log.info("authority.rotated", expires=wanted.current.expires.isoformat())
        return authority.from_secret(shared.data)

    async def _publish(self, bundle: bytes, now: datetime) -> bool:
        """Whether the webhook configuration trusts `bundle` in the end."""
        try:
            configuration = await self._kube.get(MUTATING_WEBHOOKS, CONFIGURATION)
        except NotFound:
            log.warning("webhook_configuration.missed", name=CONFIGURATION)
            return False
        webhooks = configuration.get("webhooks") or ()
        present = [_decoded(webhook["clientConfig"].get("caBundle")) for webhook in webhooks]
        wanted = self._trust.wanted(bundle, present, now)
        operations: list[dict[str, object]] = []
        for at, webhook in enumerate(webhooks):
            if present[at] != wanted[at]:
                path, text = f"/webhooks/{at}", base64.b64encode(wanted[at]).decode()
                operations += [
                    {"op": "test", "path": f"{path}/name", "value": webhook["name"]},
                    {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": text},
                ]
        if operations:
            await self._kube.patch(MUTATING_WEBHOOKS, CONFIGURATION, JsonPatch(operations))
            log.info("webhook_configuration.trusted", name=CONFIGURATION, webhooks=len(operations) // 2)
        return True


def _decoded(bundle: str | None) -> bytes:
    try:
        return base64.b64decode(bundle or "")
    except binascii.Error:
        return b""


def load(live: ssl.SSLContext, leaf: Pair) -> None:
    """Give a context that is in use a new certificate; new handshakes get it.

    A pair that does not fit would leave the live context broken, so a scratch one tries it first.
    """
    scratch = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in (scratch, live):
        # the module takes paths only; a file in memory keeps the key off every disk
        descriptor = os.memfd_create("leaf")
        try:
            os.write(descriptor, leaf.cert + leaf.key)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
