"""A log of checks: lines of JSON that only their user can read, rotated by size."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from takeback.errors import BackendError
from takeback.workflows.record import iso

LOG_BYTES_MAX = 1_000_000
LOGS_KEPT = 5


def log_line(path: str, details: dict[str, Any], at_s: float | None = None) -> None:
    """Append a line with its time to the log. Rotate a full log, and drop the oldest one."""
    line = json.dumps({"at": iso(time.time() if at_s is None else at_s), **details}) + "\n"
    try:
        if os.path.exists(path) and os.path.getsize(path) + len(line) > LOG_BYTES_MAX:
            for number in range(LOGS_KEPT - 1, 0, -1):
                if os.path.exists(f"{path}.{number}"):
                    os.replace(f"{path}.{number}", f"{path}.{number + 1}")
            os.replace(path, f"{path}.1")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(line)
    except OSError as error:
        raise BackendError(f"{path} cannot be written: {error.strerror}; the check was not logged") from error
