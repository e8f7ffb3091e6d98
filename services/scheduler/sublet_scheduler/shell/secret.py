"""Secrets that all replicas share: whoever is first makes them, the others read the winner's."""

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sublet.kube.errors import AlreadyExists, NotFound
from sublet.kube.kind import SECRETS
from sublet.kube.port import Json, Kube
from sublet.model.errors import BadRequest

DECISION_KEY_SECRET = "sublet-decision-key"  # noqa: S105 - a name
KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A secret as read; `version` guards its next update."""

    data: Mapping[str, bytes]
    version: str


async def get_or_create(
    kube: Kube, name: str, *, namespace: str, make: Callable[[], Mapping[str, bytes]]
) -> Shared:
    """The secret `name`, made with `make` if there is none. Raises KubeError."""
    try:
        return _read(await kube.get(SECRETS, name, namespace=namespace))
    except NotFound:
        body = _body(name, namespace, make())
    try:
        return _read(await kube.create(SECRETS, body))
    except AlreadyExists:
        return _read(await kube.get(SECRETS, name, namespace=namespace))


async def replace(
    kube: Kube, name: str, *, namespace: str, data: Mapping[str, bytes], version: str
) -> Shared:
    """Write it over the one at `version`. Raises Conflict where somebody else was faster."""
    body = _body(name, namespace, data)
    body["metadata"]["resourceVersion"] = version
    return _read(await kube.update(SECRETS, body))


async def decision_key(kube: Kube, *, namespace: str) -> bytes:
    """The key that signs decisions. Raises KubeError, and BadRequest where the secret holds no such key."""
    shared = await get_or_create(
        kube,
        DECISION_KEY_SECRET,
        namespace=namespace,
        make=lambda: {"key": secrets.token_bytes(KEY_BYTES)},
    )
    key = shared.data.get("key", b"")
    if len(key) < KEY_BYTES:
        raise BadRequest(
            f"the secret {namespace}/{DECISION_KEY_SECRET} holds no key of {KEY_BYTES} bytes",
            hint="Delete it while no pod is released; a new one is made",
        )
    return key


def _body(name: str, namespace: str, data: Mapping[str, bytes]) -> Json:
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _read(secret: Json) -> Shared:
    try:
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    except binascii.Error as error:
        raise BadRequest(f"the secret {secret['metadata']['name']} is not base64: {error}") from error
    return Shared(data=data, version=secret["metadata"]["resourceVersion"])
