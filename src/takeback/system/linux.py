"""Linux functions that Python's `os` does not offer: thin wrappers over libc.

Each raises OSError with the kernel's error number and the path. The module can be imported anywhere; a missing
function raises ENOSYS, and `available()` says so in advance.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_long, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

RENAME_NOREPLACE = 1
"""Fail with FileExistsError rather than replace what is there."""
RENAME_EXCHANGE = 2
"""Swap the two in one step; both must exist."""

# On Linux they are the flags of open(); their values differ between architectures.
IN_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
IN_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)

# The number is the same for every architecture that was added after the list became common. Only 64-bit
# Pythons are here: a 32-bit one on a 64-bit kernel counts differently.
_RENAMEAT2_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276}

# Room for the struct of any architecture. Only its first field is read, which is a word on all but s390x;
# there the result is an unknown number, which is not trusted.
_STATFS_BYTES = 256

_OPENAT2_NUMBER = 437  # on every architecture
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08

_Function = Callable[..., int]


def _load() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _bind(name: str, *types: Any) -> _Function | None:
    function = getattr(_libc, name, None)
    if function is not None:
        function.argtypes = types
        function.restype = c_int
    return function


def _bind_renameat2_number() -> _Function | None:
    """Return the system call itself, for a libc (older musl) that has no function for it."""
    number = _RENAMEAT2_NUMBERS.get(os.uname().machine) if _libc and sys.maxsize > 2**32 else None
    syscall = getattr(_libc, "syscall", None)
    if number is None or syscall is None:
        return None
    syscall.restype = c_long

    def call(old_dir_fd: int, old: bytes, new_dir_fd: int, new: bytes, flags: int) -> int:
        numbers = c_long(number), c_long(old_dir_fd), c_long(new_dir_fd), c_long(flags)
        result: int = syscall(numbers[0], numbers[1], c_char_p(old), numbers[2], c_char_p(new), numbers[3])
        return result

    return call


class _How(ctypes.Structure):
    _fields_ = [("flags", c_uint64), ("mode", c_uint64), ("resolve", c_uint64)]


def _bind_openat2() -> _Function | None:
    # A separate handle: these argument types must not apply to other system calls.
    syscall = getattr(_load(), "syscall", None)
    if syscall is None or sys.maxsize <= 2**32:
        return None
    syscall.restype = c_long
    syscall.argtypes = c_long, c_long, c_char_p, c_void_p, c_long
    call: _Function = syscall
    return call


_libc = _load()
_openat2 = _bind_openat2()
_renameat2 = _bind("renameat2", c_int, c_char_p, c_int, c_char_p, c_uint) or _bind_renameat2_number()
_syncfs = _bind("syncfs", c_int)
_fstatfs = _bind("fstatfs", c_int, c_void_p)
_inotify_init1 = _bind("inotify_init1", c_int)
_inotify_add_watch = _bind("inotify_add_watch", c_int, c_char_p, c_uint32)
_inotify_rm_watch = _bind("inotify_rm_watch", c_int, c_int)


def available() -> bool:
    """Return whether every function of this module can be called. A file system may still refuse one."""
    return None not in (
        _renameat2,
        _syncfs,
        _fstatfs,
        _inotify_init1,
        _inotify_add_watch,
        _inotify_rm_watch,
    )


def _error(path: bytes | None = None, path2: bytes | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path, None, path2)


def _missing(name: str) -> OSError:
    return OSError(errno.ENOSYS, f"{name} is not available on this platform")


def renameat2(old_dir_fd: int, old: bytes, new_dir_fd: int, new: bytes, flags: int) -> None:
    """Rename relative to two open folders. EINVAL means that the file system does not support the flag."""
    if _renameat2 is None:
        raise _missing("renameat2")
    if _renameat2(old_dir_fd, old, new_dir_fd, new, flags) != 0:
        raise _error(old, new)


def syncfs(fd: int) -> None:
    """Make everything written to the file system of this fd survive a power cut."""
    if _syncfs is None:
        raise _missing("syncfs")
    if _syncfs(fd) != 0:
        raise _error()


def fs_type(fd: int) -> int:
    """Return the magic number of the file system that this fd is on.

    Taken from the fd and not from the mount table, which does not list btrfs subvolumes by device.
    """
    if _fstatfs is None:
        raise _missing("fstatfs")
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _fstatfs(fd, buffer) != 0:
        raise _error()
    return c_long.from_buffer(buffer).value & 0xFFFFFFFF


def inotify_init1(flags: int) -> int:
    """Return a new queue of events, as an fd."""
    if _inotify_init1 is None:
        raise _missing("inotify")
    fd = _inotify_init1(flags)
    if fd < 0:
        raise _error()
    return fd


def inotify_add_watch(fd: int, path: bytes, mask: int) -> int:
    """Watch what is at this path. Return the number of the watch, which is the same for the same inode."""
    if _inotify_add_watch is None:
        raise _missing("inotify")
    watch = _inotify_add_watch(fd, path, mask)
    if watch < 0:
        raise _error(path)
    return watch


def inotify_rm_watch(fd: int, watch: int) -> None:
    """End a watch. EINVAL means that the kernel has already ended it."""
    if _inotify_rm_watch is None:
        raise _missing("inotify")
    if _inotify_rm_watch(fd, watch) != 0:
        raise _error()


def open_beneath(dir_fd: int, path: bytes, flags: int) -> int:
    """Open a path of any depth in one call, through no symbolic link; -1 if that fails or is not available."""
    if _openat2 is None:
        return -1
    how = _How(flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    return _openat2(_OPENAT2_NUMBER, dir_fd, path, ctypes.addressof(how), ctypes.sizeof(how))
