"""Seccomp: a supervisor hears of each attempt to write by name, before the kernel carries it out.

It is for telling, not for holding: between hearing and doing the name may come to mean another file. What holds is
Landlock and read-only mounts. But only here is it known what was attempted, so that a person can be told.

The filter looks at numbers alone, and passes on: opening for writing, making, renaming and removing names, and
setting modes, owners, times and attributes by name. The rest costs nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from ctypes import c_long, c_ushort, c_void_p

_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _NOTIFY, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.EPERM
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_RECEIVE, _SEND, _STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_TYPES = (0x5412, 0x541C)
"""The requests to a terminal that type into it: its shell would run that after the command has ended."""
_AT_FDCWD = 0xFFFFFF9C
_PATH_MAX = 4096
_PAGE = 4096


LINK = "make a link at"
"""The verb of an attempt to make a symbolic link."""


class CallShape:
    """Where a call has its names: the positions of a folder's descriptor (-1: the current folder) and of the name."""

    def __init__(self, verb: str, names: tuple[tuple[int, int], ...], flags: int, *, makes: bool) -> None:
        self.verb = verb
        self.names = names
        self.flags = flags
        """The position of the flags that say whether it opens for writing; -1 if there are none."""
        self.makes = makes
        """True if it fails by itself where the name exists already."""


def _at(verb: str, *names: tuple[int, int], flags: int = -1, makes: bool = False) -> CallShape:
    return CallShape(verb, names, flags, makes=makes)


_SHAPES: dict[str, CallShape] = {
    "open": _at("write", (-1, 0), flags=1),
    "openat": _at("write", (0, 1), flags=2),
    "creat": _at("write", (-1, 0)),
    "truncate": _at("write", (-1, 0)),
    "mkdir": _at("make", (-1, 0), makes=True),
    "mkdirat": _at("make", (0, 1), makes=True),
    "mknod": _at("make", (-1, 0), makes=True),
    "mknodat": _at("make", (0, 1), makes=True),
    "symlink": _at(LINK, (-1, 1), makes=True),
    "symlinkat": _at(LINK, (1, 2), makes=True),
    "link": _at("make", (-1, 1), makes=True),
    "linkat": _at("make", (2, 3), makes=True),
    "unlink": _at("remove", (-1, 0)),
    "rmdir": _at("remove", (-1, 0)),
    "unlinkat": _at("remove", (0, 1)),
    "rename": _at("rename", (-1, 0), (-1, 1)),
    "renameat": _at("rename", (0, 1), (2, 3)),
    "renameat2": _at("rename", (0, 1), (2, 3)),
    "chmod": _at("change the mode of", (-1, 0)),
    "fchmodat": _at("change the mode of", (0, 1)),
    "fchmodat2": _at("change the mode of", (0, 1)),
    "chown": _at("change the owner of", (-1, 0)),
    "lchown": _at("change the owner of", (-1, 0)),
    "fchownat": _at("change the owner of", (0, 1)),
    "utime": _at("change the times of", (-1, 0)),
    "utimes": _at("change the times of", (-1, 0)),
    "futimesat": _at("change the times of", (0, 1)),
    "utimensat": _at("change the times of", (0, 1)),
    "setxattr": _at("change an attribute of", (-1, 0)),
    "lsetxattr": _at("change an attribute of", (-1, 0)),
    "removexattr": _at("change an attribute of", (-1, 0)),
    "lremovexattr": _at("change an attribute of", (-1, 0)),
}

_NUMBERS: dict[str, tuple[int, int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        317,
        {
            "open": 2, "creat": 85, "truncate": 76, "mkdir": 83, "mknod": 133, "symlink": 88, "link": 86,
            "unlink": 87, "rmdir": 84, "rename": 82, "chmod": 90, "chown": 92, "lchown": 94, "utime": 132,
            "utimes": 235, "openat": 257, "mkdirat": 258, "mknodat": 259, "fchownat": 260, "futimesat": 261,
            "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268, "utimensat": 280,
            "renameat2": 316, "setxattr": 188, "lsetxattr": 189, "removexattr": 197, "lremovexattr": 198,
            "fchmodat2": 452,
        },
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {
            "openat": 56, "truncate": 45, "mkdirat": 34, "mknodat": 33, "symlinkat": 36, "linkat": 37,
            "unlinkat": 35, "renameat": 38, "renameat2": 276, "fchmodat": 53, "fchownat": 54, "utimensat": 88,
            "setxattr": 5, "lsetxattr": 6, "removexattr": 14, "lremovexattr": 15, "fchmodat2": 452,
        },
    ),
}  # fmt: skip
"""For each machine: its name in filters, the number of seccomp itself, and those of the calls."""


_IOCTL = {"x86_64": 16, "aarch64": 29}


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", c_ushort), ("steps", c_void_p)]


class Attempt:
    """A call that waits for an answer."""

    def __init__(self, id: int, pid: int, shape: CallShape, arguments: tuple[int, ...]) -> None:
        self.id = id
        self.pid = pid
        self.shape = shape
        self.arguments = arguments


def _machine() -> str:
    return os.uname().machine


def can_watch() -> bool:
    """Return whether the calls of this machine are known."""
    return _machine() in _NUMBERS


def watch() -> int:
    """Have each attempt of this process, and of all it starts, wait for an answer. Return the listener.

    Raise OSError if the kernel refuses; EBUSY if another supervisor listens already. Privileges must have been given
    up before. Whoever holds the listener must answer: once nobody does, such calls fail.
    """
    _, number, _ = _NUMBERS[_machine()]
    steps = _filter()
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = _FilterProgram(len(steps) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = c_long
    listener = libc.syscall(
        c_long(number), c_long(_SET_MODE_FILTER), c_long(_NEW_LISTENER), ctypes.byref(program)
    )
    if listener < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed), "seccomp")
    return int(listener)


def _filter() -> bytes:
    architecture, _, numbers = _NUMBERS[_machine()]
    opening = {number: _SHAPES[name].flags for name, number in numbers.items() if _SHAPES[name].flags >= 0}
    others = [number for number in numbers.values() if number not in opening]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _NUMBER),
    ]
    for number, flags in opening.items():
        steps += [
            _step(_JUMP_EQUAL, number, 0, 4),
            _step(_LOAD, _ARGUMENTS + 8 * flags),
            _step(_JUMP_SET, _WRITES, 0, 1),
            _step(_RETURN, _NOTIFY),
            _step(_RETURN, _ALLOW),
        ]
    steps += [_step(_JUMP_EQUAL, _IOCTL[_machine()], 0, 2 + 2 * len(_TYPES))]
    steps += [_step(_LOAD, _ARGUMENTS + 8)]
    for request in _TYPES:
        steps += [_step(_JUMP_EQUAL, request, 0, 1), _step(_RETURN, _REFUSE)]
    steps += [_step(_RETURN, _ALLOW)]
    for number in others:
        steps += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _NOTIFY)]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_so, if_not, value)


def next_attempt(listener: int) -> Attempt | None:
    """Return the next attempt; None if its process ended before it could be read."""
    buffer = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    id, pid, _, number, _, _, *arguments = _NOTICE.unpack(buffer)
    return Attempt(id, pid, _shape_of(number), tuple(arguments))


def _shape_of(number: int) -> CallShape:
    _, _, numbers = _NUMBERS[_machine()]
    return next(_SHAPES[name] for name, known in numbers.items() if known == number)


def answer(listener: int, attempt: Attempt, *, refuse: bool) -> None:
    """Let the kernel decide, or refuse the attempt as if the user had no right to it."""
    error, flags = (-errno.EACCES, 0) if refuse else (0, _CONTINUE)
    try:
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(attempt.id, 0, error, flags))
    except OSError as failed:
        if failed.errno != errno.ENOENT:  # it ended, or a signal came first
            raise


def paths_of(listener: int, attempt: Attempt) -> list[str]:
    """Return the names of an attempt as absolute paths, as they were written; empty if its process is gone."""
    try:
        found = [_path_of(attempt, folder, name) for folder, name in attempt.shape.names]
        fcntl.ioctl(
            listener, _STILL_VALID, struct.pack("=Q", attempt.id)
        )  # the pid may be another process's by now
    except (OSError, ValueError):
        return []
    return found


def _path_of(attempt: Attempt, folder: int, name: int) -> str:
    text = os.fsdecode(_text_at(attempt.pid, attempt.arguments[name]))
    if text.startswith("/"):
        return text
    descriptor = attempt.arguments[folder] & 0xFFFFFFFF if folder >= 0 else _AT_FDCWD
    where = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
    return os.path.join(os.readlink(f"/proc/{attempt.pid}/{where}"), text)


def _text_at(pid: int, address: int) -> bytes:
    """Return the text that begins at an address of another process."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        found = b""
        while len(found) < _PATH_MAX and b"\0" not in found:
            # Up to the end of a page: the next one may not exist.
            part = memory.read(_PAGE - (address + len(found)) % _PAGE)
            if not part:
                break
            found += part
    return found.split(b"\0", 1)[0]
