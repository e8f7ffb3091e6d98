"""AdmissionReview v1 as the API server sends it, and the answers to it."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from sublet.model.reasons import Refusal

WARNING_CHARACTERS = 250


class _UserInfo(msgspec.Struct):
    username: str = ""


class _Kind(msgspec.Struct):
    kind: str = ""


class Request(msgspec.Struct):
    """What is about to be stored. `namespace` is right where the object's own may be missing."""

    uid: str
    operation: str = ""
    namespace: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo, name="userInfo")
    object: dict[str, Any] | None = None
    dry_run: bool | None = msgspec.field(default=None, name="dryRun")


class _Review(msgspec.Struct):
    request: Request


_decode = msgspec.json.Decoder(_Review).decode


def read_review(body: bytes) -> Request:
    """Raises msgspec.DecodeError where `body` is no AdmissionReview."""
    return _decode(body).request


def allow(uid: str, patch: Sequence[dict[str, Any]] = (), *, warning: str = "") -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(list(patch))).decode()
    if warning:
        response["warnings"] = [warning[:WARNING_CHARACTERS]]
    return _answer(response)


def deny(uid: str, refusal: Refusal) -> bytes:
    """A no that no retry turns into a yes; the API server shows the message to the user."""
    status = {"code": 403, "reason": "Forbidden", "message": str(refusal)}
    return _answer({"uid": uid, "allowed": False, "status": status})


def _answer(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
