"""Namespaces of the kernel: a process sees its own mounts and its own network, and nobody else does.

A process that enters cannot come back, so callers fork first. It must have one thread. Root needs no user
namespace, and overlays then support renamed folders and hard links; anybody else gets a user namespace in which
only their own user and group exist.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import c_char_p, c_int, c_long, c_uint, c_uint64, c_ulong, c_void_p

import msgspec

from takeback.system import mounts

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR_NUMBER = 442  # on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY = 1
_BUSY_WAIT_S, _BUSY_POLL_S = 10.0, 0.01
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CAPABILITY_VERSION = 0x20080522
_TELLING = 5
"""How many names at the end of a path tell one folder of state from another."""

NETWORKS = ("full", "loopback", "none")
"""What a network namespace lets a process reach. The loopback in there is private: no server outside answers."""


class Layer(msgspec.Struct, frozen=True):
    """A folder that is shown with changes of its own on top; `place` itself stays as it is."""

    place: str
    upper: str
    work: str


class Isolation(msgspec.Struct, frozen=True):
    """What a process sees once it is inside."""

    layers: tuple[Layer, ...] = ()
    """Folders with private changes, in any order."""
    bound: tuple[tuple[str, str], ...] = ()
    """Folders that are shown in the place of others, writable: what, and where."""
    network: str = "full"
    read_only: bool = True
    """True if everything else cannot be written."""
    as_root: bool = False
    """True to do without a user namespace, which only root may."""


class _Attributes(ctypes.Structure):
    _fields_ = [("set", c_uint64), ("clear", c_uint64), ("propagation", c_uint64), ("user", c_uint64)]


class _CapabilityHead(ctypes.Structure):
    _fields_ = [("version", c_uint), ("pid", c_int)]


def enter(wanted: Isolation) -> None:
    """Move this process into namespaces of its own. Raise OSError with what the kernel refused.

    After an error the process may be half inside, so it should end.
    """
    flags = _NEWNS | (0 if wanted.as_root else _NEWUSER) | (0 if wanted.network == "full" else _NEWNET)
    here, uid, gid = os.getcwd(), os.geteuid(), os.getegid()
    if _libc().unshare(c_int(flags)):
        raise _error("a namespace of its own")
    if not wanted.as_root:
        _keep_names(uid, gid)
    # Nothing that is mounted here may appear outside.
    _mount("", "/", "", _MS_REC | _MS_PRIVATE, "")
    with _opened(wanted) as fds:
        _mount_all(wanted, fds)
    if wanted.network == "loopback":
        _raise_loopback()
    if not wanted.as_root and uid:
        give_up_capabilities()
    os.chdir(here)  # the folder that this process was in is below what is mounted there now


@contextmanager
def _opened(wanted: Isolation) -> Iterator[dict[str, int]]:
    """Open every folder before anything is mounted, because a mount may hide it; and after the mounts are our own."""
    layers = [path for layer in wanted.layers for path in (layer.place, layer.upper, layer.work)]
    fds: dict[str, int] = {}
    try:
        for path in (*layers, *(what for what, _ in wanted.bound)):
            if path not in fds:
                fds[path] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for path in _mounted_below(wanted):
            with suppress(OSError):  # another mount hides it, here as outside
                fds[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
        yield fds
    finally:
        for fd in fds.values():
            os.close(fd)


def _mounted_below(wanted: Isolation) -> list[str]:
    """Return the places below our layers at which something is mounted: an overlay shows only what is under that."""
    own = {layer.place for layer in wanted.layers} | {where for _, where in wanted.bound}
    found = {
        os.fsdecode(mount.place)
        for layer in wanted.layers
        for mount in mounts.below(os.fsencode(layer.place))
    }
    return sorted(
        place for place in found - own if not any(_is_below(place, where) for _, where in wanted.bound)
    )


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _mount_all(wanted: Isolation, fds: dict[str, int]) -> None:
    def held(path: str) -> str:
        return f"/proc/self/fd/{fds[path]}"

    # Without a user namespace renamed folders and hard links stay what they are; the kernel offers that to root only.
    how = "redirect_dir=on,index=on,metacopy=off" if wanted.as_root else "userxattr"
    overlays = {
        layer.place: (
            "overlay",
            "overlay",
            0,
            f"lowerdir={held(layer.place)},upperdir={held(layer.upper)},workdir={held(layer.work)},{how}",
        )
        for layer in wanted.layers
    }
    bound = {where: (held(what), "", _MS_BIND | _MS_REC, "") for what, where in wanted.bound}
    # What others mounted there is shown as it is, and cannot be written.
    shown = {path: (held(path), "", _MS_BIND | _MS_REC, "") for path in _mounted_below(wanted) if path in fds}
    own = overlays | bound
    every = shown | own
    # Those above first: a folder below another one is then mounted into it.
    places = sorted(every, key=lambda path: path.count("/"))
    for place in places:
        source, kind, flags, data = every[place]
        try:
            _mount(source, place, kind, flags, data)
        except OSError as error:
            if error.errno != errno.EINVAL or wanted.as_root or place not in overlays:
                raise
            raise _explained(error, place) from error
    if wanted.read_only:
        _set_attributes("/", set_=_RDONLY, recursive=True)
        for place in ("/proc", *own):
            _set_attributes(place, clear=_RDONLY)
        if os.path.isdir("/dev/shm"):
            _mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")


def _explained(error: OSError, place: str) -> OSError:
    """Return a refusal with its usual reason: only root may look under what is mounted."""
    found = [
        path for mount in mounts.below(os.fsencode(place)) if (path := os.fsdecode(mount.place)) != place
    ]
    if not found:
        return error
    why = f"only root has overlays of a folder below which something is mounted: {found[0]}"
    return OSError(error.errno, why, place)


def _keep_names(uid: int, gid: int) -> None:
    """Keep our own user and group in a user namespace; nobody else exists there."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        name = b"lo".ljust(16, b"\0")
        found = fcntl.ioctl(asked, _SIOCGIFFLAGS, name + bytes(16))
        flags = struct.unpack_from("h", found, 16)[0] | _IFF_UP
        fcntl.ioctl(asked, _SIOCSIFFLAGS, name + struct.pack("h", flags).ljust(16, b"\0"))


def give_up_capabilities() -> None:
    """Give up what a user namespace, or being root, grants: files that are closed to their owner stay closed."""
    head = _CapabilityHead(_CAPABILITY_VERSION, 0)
    if _libc().capset(ctypes.byref(head), ctypes.create_string_buffer(24)):
        raise _error("giving up capabilities")


def namespace_of(pid: int | str = "self") -> str:
    """Return the name of the mount namespace of a process; empty if it is gone or not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def inside(namespace: str, bound: tuple[str, str]) -> list[int]:
    """Return the living processes in a mount namespace, if this folder is bound in this place there.

    The kernel gives the name of a namespace that is gone to another one, so the name alone proves nothing.
    """
    found = members(namespace)
    return found if found and _is_bound(found[0], bound) else []


def members(namespace: str) -> list[int]:
    """Return the living processes in a mount namespace of this name."""
    every = os.listdir("/proc") if namespace else []
    return sorted(int(name) for name in every if name.isdigit() and namespace_of(name) == namespace)


def _is_bound(pid: int, bound: tuple[str, str]) -> bool:
    what, where = (os.fsencode(path) for path in bound)
    try:
        found = mounts.every(pid)
    except OSError:
        return False
    # The paths of sources begin where their file system does, and a view may be inside another: compare their ends.
    tail = b"/" + b"/".join(what.split(b"/")[-_TELLING:])
    return any(mount.place == where and mount.source.endswith(tail) for mount in found)


def join(pid: int) -> None:
    """Move this process into the namespaces of another one. Raise OSError if the kernel refuses."""
    here = os.getcwd()
    # The user first, which allows the others; and only those that are not ours already, which nothing would allow.
    every = ("user", "net", "mnt")
    kinds = [k for k in every if os.readlink(f"/proc/self/ns/{k}") != os.readlink(f"/proc/{pid}/ns/{k}")]
    fds = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for fd in fds:
        if _libc().setns(c_int(fd), c_int(0)):
            raise _error("the namespace of another process")
        os.close(fd)
    if "user" in kinds and os.geteuid():
        give_up_capabilities()
    os.chdir(here)


def _libc() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
        _loaded.mount.argtypes = c_char_p, c_char_p, c_char_p, c_ulong, c_char_p
        _loaded.syscall.restype = c_long
    return _loaded


_loaded: ctypes.CDLL | None = None


def _mount(source: str, place: str, kind: str, flags: int, data: str) -> None:
    given = [os.fsencode(text) or None for text in (source, place, kind)]
    until = time.monotonic() + _BUSY_WAIT_S
    while _libc().mount(*given, flags, os.fsencode(data) or None):
        error = _error(place)
        # The kernel takes the mounts of a process that has just ended down a moment later.
        if error.errno != errno.EBUSY or time.monotonic() > until:
            raise error
        time.sleep(_BUSY_POLL_S)


def _set_attributes(place: str, *, set_: int = 0, clear: int = 0, recursive: bool = False) -> None:
    wanted = _Attributes(set_, clear, 0, 0)
    result = _libc().syscall(
        c_long(_MOUNT_SETATTR_NUMBER),
        c_long(_AT_FDCWD),
        c_char_p(os.fsencode(place)),
        c_long(_AT_RECURSIVE if recursive else 0),
        c_void_p(ctypes.addressof(wanted)),
        c_long(ctypes.sizeof(wanted)),
    )
    if result:
        raise _error(place)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
