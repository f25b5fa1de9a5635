"""What the file system itself calls a directory, whatever its path.

An inode's number is used again after it was freed. The handle that the kernel gives to file servers holds the
number's generation too, so two directories never have the same one.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_HANDLE_BYTES = 128
_AT_FDCWD = -100


class _Handle(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint),
        ("kind", ctypes.c_int),
        ("data", ctypes.c_ubyte * _HANDLE_BYTES),
    )


def identity(path: Path) -> str:
    """Device and handle of a directory; empty where it is not there or the file system gives no handles."""
    try:
        device = os.stat(path).st_dev
        ask = ctypes.CDLL(None, use_errno=True).name_to_handle_at
    except (OSError, AttributeError):
        return ""
    handle, mount = _Handle(size=_HANDLE_BYTES), ctypes.c_int()
    if ask(_AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0):
        return ""
    return f"{device}:{handle.kind}:{bytes(handle.data[: handle.size]).hex()}"
