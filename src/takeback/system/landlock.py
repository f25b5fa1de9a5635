"""Landlock: a process gives up writing anywhere but below the folders that it names, for itself and all it starts.

No rights are needed for this, and nothing takes it back. Landlock says nothing about modes, owners, times and
attributes; a read-only mount does. A process that is restricted cannot mount or unmount any more.
"""

from __future__ import annotations

import ctypes
import os
import stat
from ctypes import c_int, c_long, c_uint64

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _PARENT_DEATH_SIGNAL = 38, 1

_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE_DEVICES = 1 << 6 | 1 << 11
"""Making a device is allowed nowhere: a device of root reaches a disk past every rule about files."""
_MAKE = 0b1111111 << 6 & ~_MAKE_DEVICES
"""Making a folder, a file, a socket, a pipe or a link."""
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_SIGNALS = 2

LEAST = 3
"""The first version that also keeps a file from being emptied."""
NETWORK = 4
"""The first version with rules for TCP."""
SIGNALS = 6
"""The first version that keeps signals from processes outside."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", c_uint64), ("network", c_uint64), ("scoped", c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", c_uint64), ("parent", c_int)]


def version() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none or it is switched off."""
    return max(0, int(_call(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def restrict(writable: tuple[str, ...], *, tcp: bool = True) -> None:
    """Let this process write only below these paths, and without `tcp` neither listen nor connect by TCP.

    It can signal only processes that it started. A path that does not exist allows nothing. Raise OSError if the
    kernel refuses.
    """
    found = version()
    access = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE | _REFER | _TRUNCATE
    network = 0 if tcp or found < NETWORK else _BIND_TCP | _CONNECT_TCP
    wanted = _Ruleset(access | _MAKE_DEVICES, network, _SCOPE_SIGNALS if found >= SIGNALS else 0)
    size = ctypes.sizeof(wanted) if found >= SIGNALS else 16 if found >= NETWORK else 8
    rules = _call(_CREATE_RULESET, ctypes.byref(wanted), size, 0)
    if rules < 0:
        raise _error("Landlock")
    try:
        for path in writable:
            _allow(rules, path, access)
        keep_privileges()
        if _call(_RESTRICT_SELF, rules, 0):
            raise _error("Landlock")
    finally:
        os.close(rules)


def keep_privileges() -> None:
    """Gain no privileges from programs that would grant them, such as sudo: the kernel requires this first."""
    if _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _error("no new privileges")


def end_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    if _libc().prctl(_PARENT_DEATH_SIGNAL, 9, 0, 0, 0):
        raise _error("ending with its parent")


def _allow(rules: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # there is nothing to write to
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        rule = _PathBeneath(access if is_folder else access & (_WRITE_FILE | _TRUNCATE), fd)
        if _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0):
            raise _error(path)
    finally:
        os.close(fd)


def _libc() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
        _loaded.syscall.restype = c_long
    return _loaded


_loaded: ctypes.CDLL | None = None


def _call(number: int, *arguments: object) -> int:
    given = [c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(_libc().syscall(c_long(number), *given))


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
