"""Everything the API server says that is not the wanted object, as metav1.Status."""

from collections.abc import Sequence
from typing import Any

from sublet.kube.kind import Kind
from sublet.kube.port import Json


class Refused(Exception):
    """Ends a request with this code and Status."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Json | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.retry_after_s = retry_after_s

    def status(self) -> Json:
        details: Json = dict(self.details or {})
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        return body | ({"details": details} if details else {})


def success(kind: Kind, name: str, uid: str = "", *, code: int = 200) -> Json:
    details = _details(kind, name) | ({"uid": uid} if uid else {})
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return status | ({"code": code} if code != 200 else {})


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{_plural(kind)} "{name}" not found', details=_details(kind, name))


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> Refused:
    message = f'{_plural(kind)} "{name}" already exists'
    return Refused(409, "AlreadyExists", message, details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str, *, of: str = "") -> Refused:
    what = f"{kind.plural}/{of}" if of else _plural(kind)
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return Refused(409, "Conflict", message, details=_details(kind, name))


def stale(kind: Kind, name: str) -> Refused:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, complaints: Sequence[str]) -> Refused:
    """422, each complaint in the form `path: what is wrong`."""
    causes = [
        {"reason": "FieldValueInvalid", "field": field, "message": why}
        for field, _, why in (complaint.partition(": ") for complaint in complaints)
    ]
    listed = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
    message = f'{kind.kind} "{name}" is invalid: {listed}'
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Refused(422, "Invalid", message, details=details)


def unprocessable(why: str) -> Refused:
    return Refused(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def bad_request(why: str) -> Refused:
    return Refused(400, "BadRequest", why)


def expired(why: str) -> Refused:
    return Refused(410, "Expired", why)


def unsupported(content_type: str) -> Refused:
    message = (
        f"the body of the request was in an unknown format: {content_type!r}; this server reads JSON, "
        "as kubectl apply and kubectl create -f send it"
    )
    return Refused(415, "UnsupportedMediaType", message)


def _plural(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _details(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {})
