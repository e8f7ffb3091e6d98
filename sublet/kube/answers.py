"""Turns an answer of the API server that is not 2xx into one of our errors."""

from collections.abc import Mapping

import msgspec

from sublet.kube import errors

RETRY_AFTER_S = 1.0
"""When a 429 does not say how long."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


def refusal(*, code: int, headers: Mapping[str, str], body: bytes, asked: str) -> errors.KubeError:
    """The error for an answer with this code; `asked` says what was asked and starts the message."""
    status = _read_status(body)
    message = f"{asked}: {code} {status.message or body[:200].decode(errors='replace').strip()}"
    if code == 429:
        return errors.Throttled(message, retry_after_s=_retry_after_s(headers), reason=status.reason)
    return _kind_of(code, status.reason)(message, code=code, reason=status.reason)


def _kind_of(code: int, reason: str) -> type[errors.KubeError]:
    match code:
        case 404:
            return errors.NotFound
        case 409:
            return errors.AlreadyExists if reason == "AlreadyExists" else errors.Conflict
        case 410:
            return errors.Expired
        case 401 | 403:
            return errors.Forbidden
        case _ if 400 <= code < 500:
            return errors.Invalid
        case _:
            return errors.Unavailable


def _read_status(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:  # a proxy's HTML page, or nothing
        return _Status()


def _retry_after_s(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("Retry-After", RETRY_AFTER_S)))
    except ValueError:
        return RETRY_AFTER_S
