"""Errors by what the caller should do about them."""


class SubletError(Exception):
    """Base of every error this project raises on purpose.

    The message says what happened, with the offending value; `hint` says what to do about it.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}. {self.hint}" if self.hint else text


class BadRequest(SubletError):
    """Input that no retry makes right: the one who wrote it must change it."""


class Unavailable(SubletError):
    """Something outside did not answer in time; the outcome is unclear, try again."""


class Conflict(SubletError):
    """Somebody else wrote first: read again and decide anew."""


class NotFound(SubletError):
    """What was asked for does not exist."""


class LoopEnded(SubletError):
    """A loop that runs for ever has returned."""
