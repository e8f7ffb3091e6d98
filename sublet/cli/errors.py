"""What makes a command end with 2: input that cannot be read, said with the place where it stands."""

from sublet.model.errors import BadRequest


class Unreadable(BadRequest):
    """A file, or a part of it, that is not what it should be."""

    def __init__(
        self, message: str, *, source: str, document: int = 0, line: int = 0, hint: str = ""
    ) -> None:
        where = [f"document {document}"] if document else []
        where += [f"line {line}"] if line else []
        place = f"{source}: {', '.join(where)}" if where else source
        super().__init__(f"{place}: {message}", hint=hint)
