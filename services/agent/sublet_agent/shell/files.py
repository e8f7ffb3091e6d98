"""Write a file so that a reader sees the old text or the new one, never half of it."""

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Raises OSError where it cannot be written; the old text then stays, and nothing else."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
