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
import struct
import time
from contextlib import suppress
from ctypes import c_char_p, c_int, c_long, c_uint, c_uint64, c_ulong, c_void_p

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR_NUMBER = 442  # on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY, _NODEV = 1, 4
_BUSY_WAIT_S, _BUSY_POLL_S = 10.0, 0.01
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CAPABILITY_VERSION = 0x20080522
_TELLING = 5
"""How many names at the end of a path tell one folder of state from another."""

NETWORKS = ("full", "loopback", "none")
"""What a network namespace lets a process reach. The loopback in there is private: no server outside answers."""


class Layer:
    """A folder that is shown with changes of its own on top; `place` itself stays as it is."""

    def __init__(self, place: str, upper: str, work: str) -> None:
        self.place = place
        self.upper = upper
        self.work = work


class Isolation:
    """What a process sees once it is inside."""

    def __init__(
        self,
        *,
        layers: tuple[Layer, ...] = (),
        bound: tuple[tuple[str, str], ...] = (),
        protected: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
        network: str = "full",
        read_only: bool = True,
        as_root: bool = False,
    ) -> None:
        self.layers = layers
        """Folders with private changes, in any order."""
        self.bound = bound
        """Folders that are shown in the place of others, writable: what, and where."""
        self.protected = protected
        """Files and folders that cannot be written although a place above them can."""
        self.hidden = hidden
        """Sockets that nothing inside can reach."""
        self.network = network
        self.read_only = read_only
        """True if everything else cannot be written."""
        self.as_root = as_root
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
    fds: dict[str, int] = {}
    try:
        _open(wanted, fds)
        _mount_all(wanted, fds)
    finally:
        for fd in fds.values():
            os.close(fd)
    if wanted.network == "loopback":
        _raise_loopback()
    if not wanted.as_root and uid:
        give_up_capabilities()
    os.chdir(here)  # the folder that this process was in is below what is mounted there now


def _open(wanted: Isolation, fds: dict[str, int]) -> None:
    """Open every folder before anything is mounted, because a mount may hide it; and after the mounts are our own."""
    layers = [path for layer in wanted.layers for path in (layer.place, layer.upper, layer.work)]
    for path in (*layers, *(what for what, _ in wanted.bound)):
        if path not in fds:
            fds[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    for path in _mounted_below(wanted):
        with suppress(OSError):  # another mount hides it, here as outside
            fds[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)


def _mounted_below(wanted: Isolation) -> list[str]:
    """Return the places below our layers at which something is mounted: an overlay shows only what is under that."""
    if not wanted.layers:
        return []
    from takeback.system import mounts  # starting a command in the sandbox does not need it

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
            _set_attributes(place, set_=0 if place.startswith("/proc") else _NODEV, clear=_RDONLY)
        if os.path.isdir("/dev/shm") and "/dev/shm" not in own:
            _mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
    for place in wanted.protected:
        _mount(place, place, "", _MS_BIND | _MS_REC, "")
        _set_attributes(place, set_=_RDONLY, recursive=True)
    for place in wanted.hidden:
        try:
            _mount(os.devnull, place, "", _MS_BIND, "")
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES):  # it is gone, or not reachable anyway
                raise


def _explained(error: OSError, place: str) -> OSError:
    """Return a refusal with its usual reason: only root may look under what is mounted."""
    from takeback.system import mounts  # starting a command in the sandbox does not need it

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
    import socket  # only some processes have a network of their own

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        name = b"lo".ljust(16, b"\0")
        found = fcntl.ioctl(asked, _SIOCGIFFLAGS, name + bytes(16))
        flags = struct.unpack_from("h", found, 16)[0] | _IFF_UP
        fcntl.ioctl(asked, _SIOCSIFFLAGS, name + struct.pack("h", flags).ljust(16, b"\0"))


def give_up_capabilities() -> None:
    """Give up what a user namespace, or being root, grants: files that are closed to their owner stay closed."""
    _set_capabilities(bytes(24))


_OF_THE_MACHINE = (9, 12, 16, 17, 19, 20, 21, 22, 25, 26, 27, 30, 32, 33, 34, 35, 38, 39, 40)
"""What root may do to the whole machine: administer it and its network, load modules, trace, make devices, reboot,
set the clock, and the like. Root keeps its rights to files, which mounts and Landlock limit, and to its processes."""
_DROP_FROM_BOUNDS = 24


def give_up_the_machine() -> None:
    """Give up, as root, what concerns the whole machine rather than files."""
    for number in _OF_THE_MACHINE:
        _libc().prctl(_DROP_FROM_BOUNDS, number, 0, 0, 0)  # an older kernel does not know every one
    with open("/proc/self/status", "rb") as status:
        had = next(int(line.split()[1], 16) for line in status if line.startswith(b"CapPrm:"))
    kept = had & ~sum(1 << number for number in _OF_THE_MACHINE)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    _set_capabilities(struct.pack("6I", low, low, 0, high, high, 0))


def _set_capabilities(sets: bytes) -> None:
    head = _CapabilityHead(_CAPABILITY_VERSION, 0)
    if _libc().capset(ctypes.byref(head), ctypes.create_string_buffer(sets, len(sets))):
        raise _error("giving up capabilities")


def namespace_of(pid: int | str = "self") -> str:
    """Return the name of the mount namespace of a process; empty if it is gone or not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def inside(namespace: str, bound: tuple[str, str]) -> list[int]:
    """Return the living processes in a mount namespace, if this folder is bound in this place there, or in any.

    The kernel gives the name of a namespace that is gone to another one, so the name alone proves nothing.
    """
    every = os.listdir("/proc") if namespace else []
    found = sorted(int(name) for name in every if name.isdigit() and namespace_of(name) == namespace)
    return found if found and _is_bound(found[0], bound) else []


def _is_bound(pid: int, bound: tuple[str, str]) -> bool:
    from takeback.system import mounts  # starting a command in the sandbox does not need it

    what, where = (os.fsencode(path) for path in bound)
    try:
        found = mounts.every(pid)
    except OSError:
        return False
    # The paths of sources begin where their file system does, and a view may be inside another: compare their ends.
    tail = b"/" + b"/".join(what.split(b"/")[-_TELLING:])
    return any(mount.place == (where or mount.place) and mount.source.endswith(tail) for mount in found)


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


def why_refused() -> str:
    """Return why a process may not have namespaces here; empty if it may. Overlays are another question."""
    global _refused
    if _refused is None:
        _refused = _tried()
    return _refused


_refused: str | None = None


def _tried() -> str:
    if not hasattr(_libc(), "unshare"):
        return "this platform has no namespaces"
    child = os.fork()
    if not child:
        flags = _NEWNS | _NEWNET | (0 if os.geteuid() == 0 else _NEWUSER)
        code = errno.EPERM
        try:
            code = ctypes.get_errno() if _libc().unshare(c_int(flags)) else 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"the kernel refuses a namespace: {os.strerror(code)}" if code else ""


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
