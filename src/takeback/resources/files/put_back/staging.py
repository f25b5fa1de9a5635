"""A folder of our own inside the root, where things are prepared before they take their place.

It is on the same file system as what it replaces, so that one rename puts a finished thing where it belongs. It is
named after its rollback; a later start finds it, and `rescue` decides what in it may be deleted.
"""

from __future__ import annotations

import errno
import os
import stat
import threading

from blake3 import blake3

from takeback.core.codec import text_of
from takeback.ports.content import Contents
from takeback.resources.files.entry import FIFO, FILE, KEPT_ATTRIBUTES, LINK, FileEntry, kind_of
from takeback.resources.files.put_back.writers import Writers, named
from takeback.system import durable as system_durable
from takeback.system import linux
from takeback.system.beneath import FOLDER_FLAGS, RootFolder

FREED_LATER_MAX = 128
FREED_AT_ONCE_MAX = 8
"""For this few, closing takes less time than starting a thread."""

READY = b"ready"
"""Created when everything staged is durable. Without it nothing has been swapped yet."""


def staging_name(rollback: str) -> bytes:
    return b".takeback-" + rollback.encode()


def new_name(path: bytes) -> bytes:
    """Return where the new version of a path is prepared, and where the old one comes out of an exchange."""
    return b"new-" + blake3(path).hexdigest().encode()


def old_name(path: bytes) -> bytes:
    """Return where a path to be removed goes first, so that we can check it."""
    return b"old-" + blake3(path).hexdigest().encode()


class Staging:
    """The staging folder of one rollback."""

    def __init__(self, place: RootFolder, rollback: str) -> None:
        self.place = place
        self.name = staging_name(rollback)
        self.foreign: set[bytes] = set()
        """What is in here and belongs to someone else: never deleted."""
        self._freed: list[int] = []
        self._writers = Writers()
        self.were_open: set[bytes] = set()
        """What someone may have written to since it was checked, without changing a time."""
        os.mkdir(self.name, 0o700, dir_fd=place.fd)
        self.fd = os.open(self.name, FOLDER_FLAGS, dir_fd=place.fd)

    def make(self, name: bytes, entry: FileEntry, contents: Contents, *, durable: bool) -> None:
        """Create a complete new thing under this name; only its place is missing."""
        if entry.kind == LINK:
            os.symlink(entry.content, name, dir_fd=self.fd)
            dress(self.fd, name, entry)
        elif entry.kind == FIFO:
            os.mkfifo(name, 0o600, dir_fd=self.fd)
            dress(self.fd, name, entry)
        else:
            assert entry.kind == FILE
            self._write(name, entry, contents, durable=durable)

    def _write(self, name: bytes, entry: FileEntry, contents: Contents, *, durable: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=self.fd)
        try:
            contents.write(entry.content, entry.size, fd, sparse=entry.sparse)
            _own(fd, None, os.fstat(fd), entry)
            _dress_open(fd, entry)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
            if durable:
                system_durable.fsync(fd)
        finally:
            os.close(fd)

    def ready(self) -> None:
        """Allow the swaps to begin. The file system keeps the order of names, so this needs no sync."""
        os.close(os.open(READY, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self.fd))

    def is_ready(self) -> bool:
        return READY in self.names()

    def names(self) -> list[bytes]:
        return [os.fsencode(name) for name in os.listdir(self.fd)]

    def let_out(self, name: bytes, path: bytes) -> str:
        """Give someone's version that cannot go back to its place a visible name.

        It is never deleted. Return the name.
        """
        for number in range(1, 1000):
            visible = b"takeback-rescued-%d-%s" % (number, path.rpartition(b"/")[2][:200])
            try:
                linux.renameat2(self.fd, name, self.place.fd, visible, linux.RENAME_NOREPLACE)
            except FileExistsError:
                continue
            return text_of(visible)
        raise OSError(errno.EEXIST, "no name is left for a rescued file")

    def is_open_to_others(self, name: bytes) -> bool:
        """Return True if a process has this file open for writing."""
        is_open = self._writers.has(self.fd, name)
        if is_open:
            self.were_open.add(name)
        return is_open

    def let_out_open(self, name: bytes, path: bytes) -> str:
        """Keep what a program has open, because everything it writes from now on goes there.

        Return a text that says so.
        """
        who = named(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_ino)
        visible = self.let_out(name, path)
        return f"{who} has it open and continues to write to it as {visible}"

    def drop(self, name: bytes) -> None:
        # Keep it open: freeing its space, which takes longer than all else that we do to it, then happens later.
        if len(self._freed) < FREED_LATER_MAX:
            self._freed.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd))
        try:
            os.unlink(name, dir_fd=self.fd)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=self.fd)

    def free(self, *, at_once: bool = False) -> None:
        """Free the space of what was deleted, in the background unless someone waits for it."""
        freed, self._freed = self._freed, []
        if at_once or len(freed) <= FREED_AT_ONCE_MAX:
            return _close(freed)
        try:
            threading.Thread(target=_close, args=(freed,), name="freeing room").start()
        except RuntimeError:  # no thread can be started, as when the interpreter is shutting down
            _close(freed)
        return None

    def close(self) -> None:
        """Delete what is left, and the folder."""
        names = self.names()
        for name in names:
            if name != READY and name not in self.foreign:
                self.drop(name)
        if not self.foreign:
            if READY in names:
                self.drop(READY)
            os.rmdir(self.name, dir_fd=self.place.fd)
        os.close(self.fd)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class LeftStaging(Staging):
    """The staging folder that a killed rollback left."""

    def __init__(self, place: RootFolder, rollback: str) -> None:
        self.place = place
        self.name = staging_name(rollback)
        self.foreign = set()
        self._freed = []
        self._writers = Writers()
        self.were_open = set()
        self.fd = os.open(self.name, FOLDER_FLAGS, dir_fd=place.fd)


def left_behind(place: RootFolder, rollback: str) -> LeftStaging | None:
    try:
        return LeftStaging(place, rollback)
    except FileNotFoundError:
        return None


def is_anothers(folder: bytes, rollback: str) -> bool:
    """Return True if another user has taken the name of our folder, as is possible in a shared folder."""
    try:
        place = RootFolder.without_links(folder)
    except OSError:  # it just went; a process that works in it has it open
        return False
    try:
        found = os.stat(staging_name(rollback), dir_fd=place.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        place.close()
    return found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode)


def dress(folder_fd: int, name: bytes, entry: FileEntry) -> None:
    """Give a path the owner, mode, attributes and time of an entry, not following links."""
    path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        found = os.fstat(path_fd)
        if kind_of(found.st_mode) != entry.kind:
            raise OSError(errno.EEXIST, "something else is there now")
        _own(folder_fd, name, found, entry)
        if entry.kind != LINK:
            # The kernel's own name for the open file works even if its mode would not let us open it.
            _dress_open(f"/proc/self/fd/{path_fd}", entry)
    finally:
        os.close(path_fd)
    os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=folder_fd, follow_symlinks=False)


def _own(fd: int, name: bytes | None, found: os.stat_result, entry: FileEntry) -> None:
    """Set the owner of a name in an open folder, or without a name of the open file itself."""
    if (found.st_uid, found.st_gid) == (entry.uid, entry.gid):
        return
    try:
        if name is None:
            os.fchown(fd, entry.uid, entry.gid)
        else:
            os.chown(name, entry.uid, entry.gid, dir_fd=fd, follow_symlinks=False)
    except PermissionError:
        # Only root can change owners. The content still comes back; the verdict reports the difference.
        return


def _dress_open(own: int | str, entry: FileEntry) -> None:
    """Set attributes and mode, in this order: an access list changes the mode, and so does changing the owner."""
    if hasattr(os, "listxattr"):
        _attributes(own, entry)
    if stat.S_IMODE(os.stat(own).st_mode) != entry.mode:
        os.chmod(own, entry.mode)


def _attributes(own: int | str, entry: FileEntry) -> None:
    wanted = dict(entry.xattrs)
    for name in _kept_attributes(own):
        if name not in wanted:
            os.removexattr(own, name)
    for name, value in wanted.items():
        try:
            os.setxattr(own, name, value)
        except PermissionError:
            # Only root can set capabilities. The rest comes back; the verdict reports the difference.
            if not name.startswith(b"security."):
                raise


def _kept_attributes(own: int | str) -> list[bytes]:
    try:
        names = [os.fsencode(name) for name in os.listxattr(own)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise
    return [name for name in names if name.startswith(KEPT_ATTRIBUTES)]
