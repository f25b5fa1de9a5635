"""Names that changed, reported by the kernel as it happens, so that a look costs only what changed.

The kernel puts an event into our queue before the system call that caused it returns. So everything that a writer
did before we are called, even a process that ended long ago, is in the queue when `drain` looks: draining is a
barrier.

An event names a watch and an entry in its folder. Only we know which path that is, so a folder that is moved or
removed is forgotten with all below it, and its name is reported in its parent. The caller does the rest:

/- A reported name that is a folder and not `in` the watcher is walked completely. Each folder is watched first and
then listed; what happens in between is seen twice, which is harmless, and never missed.
- A folder is watched before those below it, through an fd that was opened after its parent was watched and is not
  kept across a `drain`.

A watcher never guesses. Whenever it may have missed something it is `lost`, says why, and stays lost: the caller
scans, and creates a new one. It misses by nature, and the caller must know that: stores through a mapping before it
is closed, and writes through another hard link, whether outside the tree or removed while open. On an overlay, it
also misses writes to the layers from outside.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import weakref
from termios import FIONREAD

import msgspec

from takeback.resources.files.entry import join, split
from takeback.system import linux, mounts

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _ISDIR = 0x1000000, 0x40000000

# What is requested, and why not more:
# - MODIFY reports writes and truncation at once, by any process that keeps a file open; CLOSE_WRITE reports a file
#   that was written through a mapping (linkers and databases do that), for which there is no MODIFY.
# - ATTRIB reports mode, owner, times, attributes; for a folder itself it comes without a name.
# - DELETE_SELF is left out: IGNORED comes unasked when a watched folder is gone. MOVE_SELF is left out: the parent
#   reports MOVED_FROM, and each `drain` checks whether the root is still in its place, which also shows what no event
#   reports (a folder above it moved, it was removed while a process has it open).
# - DONT_FOLLOW must be left out: the path is the kernel's link to an fd, which leads to that very folder whatever
#   its name is by now.
# - EXCL_UNLINK is left out: it would save some events of removed files, but relies on names in the kernel's cache
#   that a file system may drop for its own reasons.
_MASK = _MODIFY | _CLOSE_WRITE | _ATTRIB | _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _ONLYDIR

_LEAVES = _MOVED_FROM | _DELETE | _MOVED_TO  # MOVED_TO replaced the folder that was there before
_OWN = _UNMOUNT | _OVERFLOW | _IGNORED  # about the watch or the queue, not about an entry

_event = struct.Struct("iIII").unpack_from
_EVENT_BYTES = 16

_TRUSTED = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
}
_ELSEWHERE = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb",
    0x01021997: "9p",
    0x65735546: "fuse",
    0x00C36400: "ceph",
    0x5346414F: "afs",
    0x0BD00BD0: "lustre",
    0x01161970: "gfs2",
    0x7461636F: "ocfs2",
    0x786F4256: "vboxsf",
}

_MOUNTS = "/proc/self/mountinfo"


class Drained(msgspec.Struct, frozen=True):
    """What happened since the last time.

    For each folder that is still watched, the names touched in it; the empty name is the folder itself. If `lost`
    has a reason, `dirty` is empty and meaningless: only a scan can tell.
    """

    dirty: dict[bytes, set[bytes]]
    lost: str = ""


class _Lost(Exception):
    """The watcher may have missed something; the message says why."""


def limit() -> int:
    """Return how many folders this user may watch, in all processes together; 0 if unknown."""
    try:
        with open("/proc/sys/fs/inotify/max_user_watches", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def supported(root_fd: int) -> str:
    """Return why events cannot be trusted for the file system of this fd; empty if they can."""
    if not linux.available():
        return "this platform has no inotify"
    try:
        kind = linux.fs_type(root_fd)
    except OSError as error:
        return f"the type of the file system is unknown ({error.strerror})"
    if kind in _TRUSTED:
        return ""
    if kind in _ELSEWHERE:
        return f"on {_ELSEWHERE[kind]} other machines can write without an event on this one"
    return f"a file system of type 0x{kind:x} is not known to report every change"


def _mounts_below(root: bytes) -> frozenset[tuple[bytes, bytes, bytes]]:
    """Return what is mounted at the root or below it: the mount's number, its device, its path."""
    return frozenset((mount.number, mount.device, mount.place) for mount in mounts.below(root))


class Watcher:
    """Watches the folders of a tree. Used by one thread at a time, and only in the process that created it."""

    def __init__(self, root: bytes) -> None:
        """Never raises for what the machine cannot do; then `lost` says why."""
        self.root = os.path.realpath(root)
        self.lost = ""
        self._queue = self._mounts_fd = -1
        self._root_key: tuple[int, int] | None = None
        self._devices: set[int] = set()
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._below: dict[bytes, set[bytes]] = {}
        _live.add(self)
        try:
            self._open()
        except OSError as error:
            self._lose(_explain(error))

    def _open(self) -> None:
        self._queue = linux.inotify_init1(linux.IN_NONBLOCK | linux.IN_CLOEXEC)
        # Open first, then read: a mount in between is reported once more.
        self._mounts_fd = os.open(_MOUNTS, os.O_RDONLY)
        self._mounts = _mounts_below(self.root)
        self._poll = select.poll()
        self._poll.register(self._queue, select.POLLIN)
        self._poll.register(self._mounts_fd, select.POLLPRI)

    def __contains__(self, folder: object) -> bool:
        """Return True if the folder at this path is watched."""
        return folder in self._watches

    def watch(self, folder: bytes, fd: int) -> bool:
        """Watch the folder that this fd is open on, under its path from the root (empty for the root itself).

        May be repeated. Return False if the watcher is lost.
        """
        if self.lost:
            return False
        try:
            self._add(folder, fd)
        except _Lost as reason:
            self._lose(str(reason))
        except OSError as error:
            self._lose(_explain(error))
        return not self.lost

    def drain(self) -> Drained:
        """Take everything out of the queue that was there when this was called.

        Not what arrives while it works: a writer that never rests could keep it busy for ever.
        """
        dirty: dict[bytes, set[bytes]] = {}
        try:
            if not self.lost:
                for fd, _ in self._poll.poll(0):
                    if fd == self._queue:
                        self._read(dirty)
                    else:
                        self._check_mounts()
                self._check_root()
        except _Lost as reason:
            self._lose(str(reason))
        except OSError as error:
            self._lose(_explain(error))
        return Drained({}, self.lost) if self.lost else Drained(dirty)

    def close(self) -> None:
        """Close the watcher. May be repeated."""
        self._lose("the watcher was closed")

    def __del__(self) -> None:
        self._release()

    # Watches

    def _add(self, folder: bytes, fd: int) -> None:
        parent, _ = split(folder)
        if folder and parent not in self._watches:
            # It was found at a new path while the caller still uses the old one. Rare, and a scan settles it.
            raise _Lost(f"the folder that contains {_shown(folder)} moved during the look")
        state = os.fstat(fd)
        if state.st_dev not in self._devices:
            # Something else may be mounted below the root.
            if reason := supported(fd):
                raise _Lost(f"{_shown(folder)}: {reason}")
            self._devices.add(state.st_dev)
        watch = linux.inotify_add_watch(self._queue, b"/proc/self/fd/%d" % fd, _MASK)
        known = self._paths.get(watch)
        if known == folder:
            return
        if known is not None:
            self._leave(known, watch, state)
        if folder in self._watches:
            self._forget(folder)  # another folder was here; the event of its removal is still in the queue
        self._paths[watch] = folder
        self._watches[folder] = watch
        if folder:
            self._below.setdefault(parent, set()).add(folder)
        else:
            self._root_key = state.st_dev, state.st_ino

    def _leave(self, known: bytes, watch: int, state: os.stat_result) -> None:
        """Forget the other path of a watched folder, if it moved. Raise _Lost if the folder has two paths."""
        try:
            there = os.lstat(join(self.root, known))
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there and (there.st_dev, there.st_ino) == (state.st_dev, state.st_ino):
            raise _Lost(f"{_shown(known)} is mounted at a second path in the same tree")
        # The move is still in the queue and will be reported later. The watch itself has its new path.
        del self._paths[watch], self._watches[known]
        self._forget(known)

    def _forget(self, folder: bytes) -> None:
        """Drop the watches of a folder and of all below it."""
        self._below.get(split(folder)[0], set()).discard(folder)
        pending = [folder]
        while pending:
            path = pending.pop()
            pending.extend(self._below.pop(path, ()))
            watch = self._watches.pop(path, None)
            if watch is not None:
                del self._paths[watch]
                self._unwatch(watch)

    def _unwatch(self, watch: int) -> None:
        try:
            linux.inotify_rm_watch(self._queue, watch)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the folder is gone, and the kernel ended its watch
                raise

    # Events

    def _read(self, dirty: dict[bytes, set[bytes]]) -> None:
        (pending,) = struct.unpack("i", fcntl.ioctl(self._queue, FIONREAD, bytes(4)))
        left = False
        while pending > 0:
            # Never less than a whole event: the kernel returns those that fit, and the count includes at least one.
            data = os.read(self._queue, pending)
            pending -= len(data)
            left |= self._note(data, dirty)
        if left:
            # Events of a folder before it left are covered by what its parent reports.
            for folder in dirty.keys() - self._watches.keys():
                del dirty[folder]

    def _note(self, data: bytes, dirty: dict[bytes, set[bytes]]) -> bool:
        """Sort events by folder. Return True if a folder left."""
        paths, left, at, end = self._paths, False, 0, len(data)
        while at < end:
            watch, mask, _, name_bytes = _event(data, at)
            start = at + _EVENT_BYTES
            at = start + name_bytes
            if mask & _OVERFLOW:
                raise _Lost("the kernel's event queue overflowed")
            folder = paths.get(watch)
            if folder is None:
                continue  # forgotten while its last events were in the queue
            if mask & _OWN:
                folder, name = self._parent_of_ended(folder, mask)
            else:
                name = data[start:at].rstrip(b"\0")
            if folder in dirty:
                dirty[folder].add(name)
            else:
                dirty[folder] = {name}
            if mask & _IGNORED or (mask & _ISDIR and mask & _LEAVES):
                left = True
                self._forget(join(folder, name))
        return left

    def _parent_of_ended(self, folder: bytes, mask: int) -> tuple[bytes, bytes]:
        if mask & _UNMOUNT:
            raise _Lost(f"the file system of {_shown(folder)} was unmounted")
        if not folder:
            raise _Lost("the watched folder was removed")
        return split(folder)

    def _check_root(self) -> None:
        if self._root_key is None:
            return
        try:
            state = os.stat(self.root)
        except OSError as error:
            raise _Lost(f"the watched folder is gone ({error.strerror})") from error
        if (state.st_dev, state.st_ino) != self._root_key:
            raise _Lost("another folder is in place of the watched one")

    def _check_mounts(self) -> None:
        # No event reports that a mount covered a folder; then we would watch what is no longer visible.
        if _mounts_below(self.root) != self._mounts:
            raise _Lost("a file system was mounted or unmounted in the tree")

    # The end

    def _lose(self, reason: str) -> None:
        self.lost = self.lost or reason
        self._paths.clear()
        self._watches.clear()
        self._below.clear()
        self._release()

    def _release(self) -> None:
        fds = self._queue, self._mounts_fd
        self._queue = self._mounts_fd = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)


def _explain(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"the limit of {limit()} watches is reached (fs.inotify.max_user_watches)"
    if error.errno == errno.EMFILE:
        return "the limit of watchers or of open files is reached (fs.inotify.max_user_instances, ulimit -n)"
    return f"watching failed: {error.strerror}"


def _shown(folder: bytes) -> str:
    return os.fsdecode(folder) or "."


_live: weakref.WeakSet[Watcher] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Lose all watchers in a forked child: the queue is the parent's, which would miss events read here."""
    for watcher in list(_live):
        watcher._lose("the watcher belongs to the parent of this forked process")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
