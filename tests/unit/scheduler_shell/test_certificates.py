"""The webhook's certificates: shared by replicas, rotated without a moment of distrust, renewed in place."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sublet_scheduler.shell import authority, secret
from sublet_scheduler.shell.authority import Authority, Pair
from sublet_scheduler.shell.certs import CA_SECRET, CONFIGURATION, Certificates, load
from sublet_scheduler.shell.trust import LINGER

from sublet.demo.apiserver.server import serve_api
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import MUTATING_WEBHOOKS, NAMESPACES, SECRETS
from sublet.model.errors import BadRequest

NAME = "scheduler.test.svc"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def unix_ms(self) -> int:
        return int(self.now.timestamp() * 1000)


@pytest.fixture
async def kube() -> AsyncIterator[KubeClient]:
    async with serve_api() as api, open_client(api.access) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "sublet-system"}})
        entry = {"url": "https://127.0.0.1:1/mutate"}
        webhooks = [{"name": name, "clientConfig": entry} for name in ("a.sublet.dev", "b.sublet.dev")]
        body = {"metadata": {"name": CONFIGURATION}, "webhooks": webhooks}
        await client.create(MUTATING_WEBHOOKS, body)
        yield client


def certificates(kube: KubeClient, clock: Clock) -> Certificates:
    names = (NAME, "127.0.0.1")
    return Certificates(kube, namespace="sublet-system", names=names, unix_ms=clock.unix_ms, settle_s=0)


async def bundles(kube: KubeClient) -> list[bytes]:
    configuration = await kube.get(MUTATING_WEBHOOKS, CONFIGURATION)
    return [base64.b64decode(one["clientConfig"]["caBundle"]) for one in configuration["webhooks"]]


async def handshake(server: ssl.SSLContext, trusted: bytes) -> None:
    """One TLS connection whose client trusts only `trusted`, as strictly as newer Pythons do."""
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=NAME)
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_trusts_the_published_bundle_can_connect(kube: KubeClient) -> None:
    served = certificates(kube, Clock())
    await served.check()
    assert served.trusted
    for bundle in await bundles(kube):
        await handshake(served.context, bundle)


async def test_two_replicas_serve_under_one_bundle(kube: KubeClient) -> None:
    clock = Clock()
    first, second = certificates(kube, clock), certificates(kube, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(first.check())
        group.create_task(second.check())
    await first.check()
    [bundle, _] = await bundles(kube)
    await handshake(first.context, bundle)
    await handshake(second.context, bundle)


async def test_a_bundle_that_somebody_took_away_is_put_back(kube: KubeClient) -> None:
    served = certificates(kube, Clock())
    await served.check()
    before = await bundles(kube)
    configuration = await kube.get(MUTATING_WEBHOOKS, CONFIGURATION)
    configuration["webhooks"][1]["clientConfig"]["caBundle"] = ""
    await kube.update(MUTATING_WEBHOOKS, configuration)
    await served.check()
    assert await bundles(kube) == before


async def test_a_new_authority_is_trusted_beside_the_old_one_until_all_replicas_serve_under_it(
    kube: KubeClient,
) -> None:
    clock = Clock()
    first, second = certificates(kube, clock), certificates(kube, clock)
    await first.check()
    await second.check()
    [before, _] = await bundles(kube)
    await kube.delete(SECRETS, CA_SECRET, namespace="sublet-system")
    await first.check()
    [both, _] = await bundles(kube)
    await handshake(first.context, both)
    await handshake(second.context, both)  # it did not look yet

    clock.now += LINGER / 2
    await second.check()
    assert await bundles(kube) == [both, both]
    clock.now += LINGER
    await first.check()
    [after, _] = await bundles(kube)
    assert both.startswith(after)
    assert before not in after
    await handshake(second.context, after)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(second.context, before)


async def test_what_is_no_certificate_in_a_bundle_is_replaced_at_once(kube: KubeClient) -> None:
    configuration = await kube.get(MUTATING_WEBHOOKS, CONFIGURATION)
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(b"nonsense").decode()
    await kube.update(MUTATING_WEBHOOKS, configuration)
    served = certificates(kube, Clock())
    await served.check()
    [first, second] = await bundles(kube)
    assert first == second
    await handshake(served.context, first)


async def test_without_the_webhook_configuration_the_certificate_is_not_trusted(kube: KubeClient) -> None:
    await kube.delete(MUTATING_WEBHOOKS, CONFIGURATION)
    served = certificates(kube, Clock())
    await served.check()
    assert not served.trusted


async def test_the_next_signer_was_trusted_before_it_signs(kube: KubeClient) -> None:
    clock = Clock()
    served = certificates(kube, clock)
    await served.check()
    [before, _] = await bundles(kube)
    raw = await kube.get(SECRETS, CA_SECRET, namespace="sublet-system")
    old = authority.from_secret({k: base64.b64decode(v) for k, v in raw["data"].items()})
    new = authority.rotated(old, clock.now + 366 * DAY)
    assert new.current == old.following
    assert old.following.cert in before
    assert old.current.cert in new.bundle

    stored = secret.Shared(data=authority.to_secret(new), version=raw["metadata"]["resourceVersion"])
    await secret.replace(kube, CA_SECRET, namespace="sublet-system", data=stored.data, version=stored.version)
    await served.check()
    await handshake(served.context, before)


def test_nothing_rotates_in_the_first_year() -> None:
    made = authority.new_authority(NOW)
    assert authority.rotated(made, NOW + 364 * DAY) is made
    assert authority.rotated(made, NOW + 366 * DAY) is not made


def test_an_authority_survives_its_secret() -> None:
    made = authority.new_authority(NOW)
    assert authority.from_secret(authority.to_secret(made)) == made


def test_a_secret_with_a_foreign_key_is_refused() -> None:
    made, other = authority.new_authority(NOW), authority.new_authority(NOW)
    mixed = Authority(current=Pair(cert=made.current.cert, key=other.current.key), following=made.following)
    with pytest.raises(BadRequest, match="do not belong together"):
        authority.from_secret(authority.to_secret(mixed))


async def test_a_pair_that_does_not_fit_leaves_the_live_context_serving() -> None:
    now = datetime.now(UTC)
    made = authority.new_authority(now)
    live = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    good, other = (authority.sign_leaf(made, [NAME], now) for _ in range(2))
    load(live, good)
    with pytest.raises(ssl.SSLError):
        load(live, Pair(cert=good.cert, key=other.key))
    await handshake(live, made.bundle)


async def test_the_decision_key_is_made_once_and_shared(kube: KubeClient) -> None:
    keys = {await secret.decision_key(kube, namespace="sublet-system") for _ in range(2)}
    assert len(keys) == 1
    assert len(keys.pop()) == secret.KEY_BYTES
