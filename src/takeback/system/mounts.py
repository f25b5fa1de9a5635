"""What is mounted where, as the kernel tells a process."""

from __future__ import annotations

import re
from typing import NamedTuple

_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mount of a process: its number, its device, which part of that is mounted, and where."""

    number: bytes
    device: bytes
    source: bytes
    place: bytes


def every(pid: int | str = "self") -> list[Mount]:
    """Return the mounts that a process sees, the oldest first. Raise OSError if it is gone or not ours to see."""
    found = []
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        for line in file:
            number, _, device, source, place, *_ = line.split(b" ")
            found.append(Mount(number, device, _unquoted(source), _unquoted(place)))
    return found


def below(folder: bytes) -> list[Mount]:
    """Return what is mounted at a folder or below it; nothing on a platform that does not tell."""
    inside = folder.rstrip(b"/") + b"/"
    try:
        return [mount for mount in every() if (mount.place + b"/").startswith(inside)]
    except FileNotFoundError:
        return []


def _unquoted(text: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), text)
