"""Names a Unix socket for gRPC, which otherwise says nothing of use about a path that is too long."""

import os
from pathlib import Path

from sublet.model.errors import BadRequest

MOST_BYTES = 107
"""What Linux keeps of a socket's path (sun_path without its end)."""


def target(path: Path) -> str:
    """The socket as gRPC addresses it. Raises BadRequest where no socket can have that path."""
    size = len(os.fsencode(path))
    if size > MOST_BYTES:
        raise BadRequest(
            f"the socket {path} would have a path of {size} bytes, and Linux takes {MOST_BYTES}",
            hint="Set SUBLET_KUBELET_DIR to a shorter path, such as a symbolic link to the folder",
        )
    return f"unix:{path}"
