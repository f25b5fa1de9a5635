"""A folder of our own inside the root, where things are made ready before they take their place.

It is on the same file system as what it replaces, so that one rename puts a finished thing where it belongs. It is
named after its rollback; a later start finds it, and `rescue` tells what in it may be thrown away.
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
"""Of so few it takes less than starting a thread does."""

READY = b"ready"
"""Made when everything staged is durable. Without it nothing has been swapped yet."""


def staging_name(rollback: str) -> bytes:
    return b".takeback-" + rollback.encode()


def new_name(path: bytes) -> bytes:
    """Where the new version of a path is made ready, and where the old one comes out of an exchange."""
    return b"new-" + blake3(path).hexdigest().encode()


def old_name(path: bytes) -> bytes:
    """Where a path that is to be removed goes first, so that we can look at it."""
    return b"old-" + blake3(path).hexdigest().encode()


class Staging:
    """The staging folder of one rollback."""

    def __init__(self, place: RootFolder, rollback: str) -> None:
        self.place = place
        self.name = staging_name(rollback)
        self.foreign: set[bytes] = set()
        """What is in here and somebody else's: never thrown away."""
        self._freed: list[int] = []
        self._writers = Writers()
        self.were_open: set[bytes] = set()
        """What somebody may have written to, without moving a time, since it was looked at."""
        os.mkdir(self.name, 0o700, dir_fd=place.fd)
        self.fd = os.open(self.name, FOLDER_FLAGS, dir_fd=place.fd)

    def make(self, name: bytes, entry: FileEntry, contents: Contents, *, durable: bool) -> None:
        """A complete new thing under this name, with everything but its place."""
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
        """From here the swaps may begin. The file system keeps the order of names, so this needs no sync."""
        os.close(os.open(READY, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self.fd))

    def is_ready(self) -> bool:
        return READY in self.names()

    def names(self) -> list[bytes]:
        return [os.fsencode(name) for name in os.listdir(self.fd)]

    def let_out(self, name: bytes, path: bytes) -> str:
        """Somebody's version that cannot go back to its place gets a visible one, and is never thrown away."""
        for number in range(1, 1000):
            visible = b"takeback-rescued-%d-%s" % (number, path.rpartition(b"/")[2][:200])
            try:
                linux.renameat2(self.fd, name, self.place.fd, visible, linux.RENAME_NOREPLACE)
            except FileExistsError:
                continue
            return text_of(visible)
        raise OSError(errno.EEXIST, "there is no name left for a rescued file")

    def is_open_to_others(self, name: bytes) -> bool:
        """Whether anybody has this file open for writing."""
        is_open = self._writers.has(self.fd, name)
        if is_open:
            self.were_open.add(name)
        return is_open

    def let_out_open(self, name: bytes, path: bytes) -> str:
        """Keep what a program has open, since all that it writes from now on goes there; says so."""
        who = named(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_ino)
        visible = self.let_out(name, path)
        return f"{who} has it open for writing, and goes on writing to what is now {visible}"

    def drop(self, name: bytes) -> None:
        # As long as somebody has it open its room is not freed, which takes longer than all else that we do to it.
        if len(self._freed) < FREED_LATER_MAX:
            self._freed.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd))
        try:
            os.unlink(name, dir_fd=self.fd)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=self.fd)

    def free(self, *, at_once: bool = False) -> None:
        """Free the room of what was thrown away, while others go on unless they wait for it."""
        freed, self._freed = self._freed, []
        if at_once or len(freed) <= FREED_AT_ONCE_MAX:
            return _close(freed)
        try:
            threading.Thread(target=_close, args=(freed,), name="freeing room").start()
        except RuntimeError:  # no thread can be had, as when the interpreter is about to end
            _close(freed)
        return None

    def close(self) -> None:
        """Throw away what is left, and the folder."""
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
    """Whether another user has taken the name of our folder, as they can where all users share one."""
    try:
        place = RootFolder.without_links(folder)
    except OSError:  # it went in this moment; who works in it has it open
        return False
    try:
        found = os.stat(staging_name(rollback), dir_fd=place.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        place.close()
    return found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode)


def dress(folder_fd: int, name: bytes, entry: FileEntry) -> None:
    """Give a path the owner, mode, attributes and time of an entry, through no link."""
    path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        found = os.fstat(path_fd)
        if kind_of(found.st_mode) != entry.kind:
            raise OSError(errno.EEXIST, "something else is there now")
        _own(folder_fd, name, found, entry)
        if entry.kind != LINK:
            # The kernel's own name of the open file reaches it even where its mode would not let us open it.
            _dress_open(f"/proc/self/fd/{path_fd}", entry)
    finally:
        os.close(path_fd)
    os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=folder_fd, follow_symlinks=False)


def _own(fd: int, name: bytes | None, found: os.stat_result, entry: FileEntry) -> None:
    """Give a name in an open folder, or without one the open file itself, the owner of an entry."""
    if (found.st_uid, found.st_gid) == (entry.uid, entry.gid):
        return
    try:
        if name is None:
            os.fchown(fd, entry.uid, entry.gid)
        else:
            os.chown(name, entry.uid, entry.gid, dir_fd=fd, follow_symlinks=False)
    except PermissionError:
        # Only root gives files away. The content comes back all the same; the verdict tells the difference.
        return


def _dress_open(own: int | str, entry: FileEntry) -> None:
    """Attributes and mode, in this order: an access list changes the mode, and giving a file away too."""
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
            # What a program may do is given by root alone. The rest comes back; the verdict tells the difference.
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
