"""What the API server may answer other than yes, sorted by what the caller should do next."""

from sublet.model import errors


class KubeError(errors.SubletError):
    """Base of all answers of the API server that are not the wanted one."""

    def __init__(self, message: str, *, hint: str = "", code: int = 0, reason: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        """HTTP status; 0 when there was no answer."""
        self.reason = reason
        """`reason` of the metav1.Status, such as `AlreadyExists`; empty when there was none."""


class NotFound(KubeError, errors.NotFound):
    """404: there is no such object; whoever wanted it gone has what he wanted."""


class Conflict(KubeError, errors.Conflict):
    """409: somebody else was faster, or the object is in the wrong state; read again and decide anew."""


class AlreadyExists(Conflict):
    """409 on create: the name is taken."""


class Invalid(KubeError, errors.BadRequest):
    """400, 422 and kin: the same request will never succeed on this object.

    A JSON patch whose `test` failed comes back as this too, so after a guarded patch read the object.
    """


class Forbidden(KubeError):
    """401 or 403: our identity may not do this, or an admission policy or webhook said no."""


class Expired(KubeError):
    """410: the list or watch position is too old; list again from the start."""


class Throttled(KubeError):
    """429: come back after `retry_after_s`; for an eviction it means a disruption budget says no for now."""

    def __init__(
        self, message: str, *, retry_after_s: float, hint: str = "", code: int = 429, reason: str = ""
    ) -> None:
        super().__init__(message, hint=hint, code=code, reason=reason)
        self.retry_after_s = retry_after_s


class Unavailable(KubeError, errors.Unavailable):
    """No answer, or a 5xx: the outcome is unclear, so read the object before trying again."""
