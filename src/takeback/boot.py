"""Which boot of the machine this is: what is told by numbers that count from there holds for it alone."""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def boot_id() -> str:
    """Nothing where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
