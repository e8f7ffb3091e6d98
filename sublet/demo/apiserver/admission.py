"""Calls the mutating webhooks that the stored configurations name, over TLS as the API server does.

CEL is not evaluated. A webhook's matchConditions are answered by predicates that the owner of the server
gives by condition name; a condition without one counts as true, so the webhook is called rather than missed.
"""

import base64
import binascii
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from sublet.demo.apiserver.answers import Refused
from sublet.demo.apiserver.patching import with_operations
from sublet.demo.apiserver.selectors import matches_object
from sublet.kube.kind import Kind
from sublet.kube.port import Json

_FAILED = (aiohttp.ClientError, OSError, TimeoutError, ValueError, binascii.Error, msgspec.DecodeError)

Predicates = Mapping[str, Callable[[Json], bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One write on its way in."""

    kind: Kind
    operation: str
    namespace: str
    name: str
    subresource: str
    obj: Json | None
    old: Json | None
    dry_run: bool
    user: str
    namespace_labels: Mapping[str, str]


@dataclass(slots=True)
class Admission:
    """Runs an object through the webhooks; `session` is open as long as the server is."""

    session: aiohttp.ClientSession
    predicates: Predicates
    service_urls: Mapping[tuple[str, str], str]
    """(namespace, name) of a Service to where it listens, since nothing resolves Services here."""
    trusts: dict[str, ssl.SSLContext] = field(default_factory=dict)

    async def admit(
        self, request: Request, configurations: Sequence[Json], *, default: Callable[[Json], Json]
    ) -> Json | None:
        """The object as the webhooks leave it; Refused when one says no or fails under `Fail`."""
        obj = request.obj
        answered: list[tuple[Json, Json | None]] = []
        webhooks = [each for config in configurations for each in config.get("webhooks") or []]
        for webhook in webhooks:
            if _concerns(webhook, request, obj, self.predicates):
                obj = await self._call(webhook, request, obj, default)
                answered.append((webhook, obj))
        for webhook, left in answered:
            if webhook.get("reinvocationPolicy") == "IfNeeded" and left != obj:
                obj = await self._call(webhook, request, obj, default)
        return obj

    async def _call(
        self, webhook: Json, request: Request, obj: Json | None, default: Callable[[Json], Json]
    ) -> Json | None:
        uid = str(uuid4())
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": _review_request(request, obj, uid),
        }
        try:
            response = await self._post(webhook, review)
            if response.get("uid") != uid:
                raise ValueError(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
            if not response.get("allowed"):
                raise _denial(webhook["name"], response.get("status") or {})
            if obj is None or not response.get("patch"):
                return obj
            if response.get("patchType") != "JSONPatch":
                raise ValueError(f"unsupported patch type {response.get('patchType')!r}")
            return default(with_operations(obj, msgspec.json.decode(base64.b64decode(response["patch"]))))
        except _FAILED as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return obj
            why = f'Internal error occurred: failed calling webhook "{webhook["name"]}": {error!r}'
            raise Refused(500, "InternalError", why) from error

    async def _post(self, webhook: Json, review: Json) -> Json:
        config = webhook["clientConfig"]
        url, server_name = self._address(config)
        limit = aiohttp.ClientTimeout(total=webhook.get("timeoutSeconds", 10))
        async with self.session.post(
            url,
            data=msgspec.json.encode(review),
            headers={"Content-Type": "application/json"},
            params={"timeout": f"{webhook.get('timeoutSeconds', 10)}s"},
            ssl=self._trust(config.get("caBundle", "")),
            server_hostname=server_name,
            timeout=limit,
        ) as answer:
            if answer.status != 200:
                raise ValueError(f"the webhook answered {answer.status}")
            decoded: Json = msgspec.json.decode(await answer.read(), type=dict[str, Any])
        response = decoded.get("response")
        if not isinstance(response, dict):
            raise ValueError("webhook response is absent")
        return response

    def _address(self, config: Json) -> tuple[str, str | None]:
        if "url" in config:
            return config["url"], None
        service = config["service"]
        namespace, name = service["namespace"], service["name"]
        if (namespace, name) not in self.service_urls:
            raise ValueError(f'service "{name}" not found')
        url = self.service_urls[namespace, name].rstrip("/") + service.get("path", "/")
        return url, f"{name}.{namespace}.svc"

    def _trust(self, ca_bundle: str) -> ssl.SSLContext:
        if ca_bundle not in self.trusts:
            pem = base64.b64decode(ca_bundle).decode()
            self.trusts[ca_bundle] = ssl.create_default_context(cadata=pem or None)
        return self.trusts[ca_bundle]


def _concerns(webhook: Json, request: Request, obj: Json | None, predicates: Predicates) -> bool:
    if not any(_rule_matches(rule, request) for rule in webhook.get("rules") or []):
        return False
    # cluster-wide objects have no namespace that a selector could exclude
    if request.kind.namespaced and not matches_object(
        webhook.get("namespaceSelector"), request.namespace_labels
    ):
        return False
    either = [each for each in (obj, request.old) if each is not None]
    selector = webhook.get("objectSelector")
    if not any(matches_object(selector, each["metadata"].get("labels") or {}) for each in either):
        return False
    review = _review_request(request, obj, "")
    return all(
        predicates[condition["name"]](review)
        for condition in webhook.get("matchConditions") or []
        if condition["name"] in predicates
    )


def _rule_matches(rule: Json, request: Request) -> bool:
    resource = "/".join(filter(None, (request.kind.plural, request.subresource)))
    any_resource = {"*/*", f"{request.kind.plural}/*"} | (set() if request.subresource else {"*"})
    scope = "Namespaced" if request.kind.namespaced else "Cluster"
    return (
        {"*", request.operation} & set(rule["operations"]) != set()
        and {"*", request.kind.group} & set(rule["apiGroups"]) != set()
        and {"*", request.kind.version} & set(rule["apiVersions"]) != set()
        and (any_resource | {resource}) & set(rule["resources"]) != set()
        and rule.get("scope", "*") in ("*", scope)
    )


def _review_request(request: Request, obj: Json | None, uid: str) -> Json:
    kind = {"group": request.kind.group, "version": request.kind.version, "kind": request.kind.kind}
    resource = {
        "group": request.kind.group,
        "version": request.kind.version,
        "resource": request.kind.plural,
    }
    return {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **({"subResource": request.subresource} if request.subresource else {}),
        **({"name": request.name} if request.name else {}),
        **({"namespace": request.namespace} if request.namespace else {}),
        "operation": request.operation,
        "userInfo": {"username": request.user, "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": None,
    }


def _denial(name: str, status: Json) -> Refused:
    why = status.get("message") or status.get("reason")
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return Refused(max(400, int(status.get("code") or 0)), str(status.get("reason") or ""), message)
