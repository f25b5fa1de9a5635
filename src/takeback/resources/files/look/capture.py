"""Reading what differs into the tree, and its content into the store."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import msgspec

from takeback.core.codec import text_of
from takeback.ports.content import Contents
from takeback.ports.progress import Progress
from takeback.ports.resource import Claims
from takeback.resources.files.entry import (
    FILE,
    FOLDER,
    KEPT_ATTRIBUTES,
    LINK,
    OPAQUE,
    RESTORABLE,
    FileEntry,
    StatKey,
    join,
    key_of,
    kind_of,
    split,
)
from takeback.resources.files.look.scan import Dirty
from takeback.resources.files.look.watch import Watcher
from takeback.resources.files.put_back.room import NO_ROOM
from takeback.resources.files.put_back.writers import mapped, may_be_written
from takeback.resources.files.tree.edits import Edits, row_in
from takeback.resources.files.tree.tree import TreeFolder, TreeRow
from takeback.system.beneath import FILE_FLAGS, FOLDER_FLAGS, OpenFolders, RootFolder

READ_TRIES_MAX = 3
BULK_FILES_MIN = 2_000
RACY_NS = 20_000_000
"""Times on disk advance in ticks of up to 10 ms; a file younger than two of them may change again unnoticed."""

MAPPED_BYTES_MAX = 64 << 20
"""A file that a program writes through a memory mapping is read at each look, unless it is larger than this."""


class ReadJob(msgspec.Struct):
    """A file whose content must be read."""

    into: TreeFolder
    folder: bytes
    path: bytes
    name: bytes
    known: TreeRow | None
    found: os.stat_result


class Capture:
    """One look at the world: brings a tree up to date with it."""

    def __init__(
        self,
        place: RootFolder,
        contents: Contents,
        excluded: Callable[[bytes], bool],
        claims: Claims,
        watcher: Watcher | None,
        progress: Progress,
    ) -> None:
        self.place = place
        self.contents = contents
        self.excluded = excluded
        self.claims = claims
        self.watcher = watcher
        self.progress = progress
        self.stated: dict[bytes, str] = {}
        self.looked_at: set[bytes] = set()
        self.jobs: list[ReadJob] = []
        self.closed: set[bytes] = set()
        """Folders and files that we may not read, and that were not opened since they were closed."""
        self._open_to_others: dict[bytes, int] = {}
        """Files that a program may have had open for writing when they were read, by inode."""
        self.mapped: set[bytes] = set()
        self._described: dict[bytes, StatKey | None] = {}
        """Folders that were looked at in this round, with the key under which each was known before."""
        self.began_ns = time.time_ns()

    def update(self, edits: Edits, dirty: Dirty) -> None:
        """Look at every dirty name again."""
        self.edits, root = edits, edits.root
        self._described.clear()
        with self.place.batch() as opened:
            # A folder comes before those below it, which it may create or forget; and neighbours come together.
            for path in sorted(dirty):
                folder = root.find(path)
                if folder is not None:
                    self._look_into(folder, path, dirty[path], opened)
            self._read_files(opened)

    def whole(self, edits: Edits) -> None:
        """Look at everything, for the first time."""
        self.edits = edits
        found = self._found(self._walk(b"", self.place.open(b""), edits.root))
        some = list(islice(found, BULK_FILES_MIN))
        # A large tree is read while the walk is still going on; its size is not known yet.
        left = self._read_bulk(chain(some, found), 0) if len(some) == BULK_FILES_MIN else some
        with self.place.batch() as opened:
            self._read_each(left, opened)

    def _found(self, walk: Iterable[None]) -> Iterator[ReadJob]:
        """Yield the files that a walk finds, as it goes on."""
        for _ in walk:
            jobs, self.jobs = self.jobs, []
            yield from jobs

    def _look_into(self, folder: TreeFolder, path: bytes, names: set[bytes], opened: OpenFolders) -> None:
        try:
            fd = opened(path)
        except OSError as error:
            # Gone since; the look at the folder above will notice, at the latest next time.
            if isinstance(error, PermissionError) and names != {b""}:
                self.closed.add(path)
            return
        if b"" in names and (path not in self._described or folder.key is None):
            self._describe(folder, path, os.fstat(fd), fd)
        for name in names:
            if name:
                self._look_at(folder, path, name, fd, opened)

    def _enter(self, path: bytes, fd: int, folder: TreeFolder) -> None:
        """Capture a folder that is new to us, and all below it. Closes the descriptor."""
        for _ in self._walk(path, fd, folder):
            pass

    def _walk(self, path: bytes, fd: int, folder: TreeFolder) -> Iterator[None]:
        """Do the same, one folder at a time."""
        try:
            self._fill(path, folder, fd)
        finally:
            os.close(fd)
        yield
        pending = [(join(path, name), below) for name, below in folder.folders.items()]
        while pending:
            here, below = pending.pop()
            try:
                below_fd = self.place.open(here)
            except OSError as error:
                self._state("cannot be opened", here, error)
                if isinstance(error, PermissionError):
                    self.closed.add(here)
                continue
            try:
                self._fill(here, below, below_fd)
            finally:
                os.close(below_fd)
            yield
            pending.extend((join(here, name), inner) for name, inner in below.folders.items())

    def _fill(self, path: bytes, folder: TreeFolder, fd: int) -> None:
        # Watch before listing, so that a file created in between is seen by one of the two.
        if self.watcher is not None:
            self.watcher.watch(path, fd)
        self._describe(folder, path, os.fstat(fd), fd)
        for name in os.listdir(fd):
            self._look_at(folder, path, os.fsencode(name), fd, None)

    def _describe(
        self, folder: TreeFolder, path: bytes, found: os.stat_result, fd: int, *, is_listed: bool = True
    ) -> None:
        """Record the folder's own entry. Unless its names are known as well, the next scan lists them."""
        self.looked_at.add(path)
        self._described.setdefault(path, folder.key)
        if found.st_dev != self.place.device:
            self._state("is on another file system: recorded, but cannot be put back", path)
        key = key_of(found) if is_listed and not self._is_racy(found) else None
        self.edits.describe(folder, path, _entry(found, b"", self._xattrs(fd, path)), key)

    def _look_at(
        self, folder: TreeFolder, here: bytes, name: bytes, fd: int, opened: OpenFolders | None
    ) -> None:
        """Look at one name in an open folder.

        Without `opened`, a new folder is recorded and entered by the caller.
        """
        path = join(here, name)
        if self.excluded(path):
            return
        self.looked_at.add(path)
        try:
            self._look_closer(folder, here, name, path, fd, opened)
        except PermissionError as error:
            # The folder shows its names and no more. What we know about it stays valid.
            if self._described.get(here, folder.key) != key_of(os.fstat(fd)):
                self._state("cannot be looked at", path, error)
                self.closed.add(here)
        except OSError as error:
            # Gone, or not what it was a moment ago; the next look finds out.
            self.edits.drop(folder, path)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
                self._state("cannot be looked at", path, error)

    def _look_closer(
        self, folder: TreeFolder, here: bytes, name: bytes, path: bytes, fd: int, opened: OpenFolders | None
    ) -> None:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        kind = kind_of(found.st_mode)
        if kind == FILE and self.claims.claims(path, fd, found):
            for gone in (path, *self.claims.beside(path)):
                self.edits.drop(folder, gone)
        elif kind == FILE:
            self.jobs.append(ReadJob(folder, here, path, name, folder.files.get(name), found))
        elif kind == FOLDER:
            if opened is not None:
                self._look_at_folder(folder, path, name, fd, opened)
            else:
                self.edits.put_folder(folder, path, TreeFolder(_entry(found), None))
        else:
            if kind not in RESTORABLE:
                self._state("is a socket or device, which is recorded but not restored", path)
            content = os.readlink(name, dir_fd=fd) if kind == LINK else b""
            row = TreeRow(_entry(found, content), key_of(found), self._is_racy(found))
            self.edits.put_file(folder, path, row)

    def _look_at_folder(
        self, folder: TreeFolder, path: bytes, name: bytes, fd: int, opened: OpenFolders
    ) -> None:
        known = folder.folders.get(name)
        try:
            below_fd = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        except OSError as error:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if known is not None and known.key == key_of(found):
                # It was looked into before it was closed.
                return
            self._state("cannot be opened", path, error)
            if isinstance(error, PermissionError):
                self.closed.add(path)
            if known is not None:
                # Still there, but we may not open it: what we know of its content stays, and its mode is visible
                # from outside.
                self.edits.describe(known, path, _entry(found, b"", known.entry.xattrs), None)
            return
        try:
            found = os.fstat(below_fd)
            if known is not None and not self._is_another(known, path, found):
                self._describe(known, path, found, below_fd, is_listed=known.key == key_of(found))
                return
            new = TreeFolder(_entry(found), None)
            self.edits.put_folder(folder, path, new)
            self._enter(path, os.dup(below_fd), new)
        finally:
            # Its content is often looked at next.
            opened.keep(path, below_fd)

    def take_closed(self) -> list[bytes]:
        """Return and clear the closed paths, those above first, because they must be opened first."""
        closed, self.closed = sorted(self.closed), set()
        return closed

    def note_closed(self, path: bytes, found: os.stat_result) -> None:
        """Record the present state of a path that was opened to look into it and is closed again."""
        folder = self.edits.root.find(path)
        above, name = split(path)
        if folder is not None:
            self.edits.describe(folder, path, _entry(found, b"", folder.entry.xattrs), key_of(found))
        elif (around := self.edits.root.find(above)) and (row := around.files.get(name)):
            entry = msgspec.structs.replace(row.entry, mode=found.st_mode & 0o7777)
            self.edits.put_file(around, path, TreeRow(entry, key_of(found)))

    def _is_another(self, known: TreeFolder, path: bytes, found: os.stat_result) -> bool:
        """Return True if this is not the folder that we knew, or one that the watcher lost sight of."""
        if self.watcher is not None and path not in self.watcher:
            return True
        return known.key is not None and known.key.ino != found.st_ino

    def _read_files(self, opened: OpenFolders) -> None:
        """Read the recorded files: in bulk if there are many, and one by one what that left."""
        jobs, self.jobs = self.jobs, []
        if len(jobs) >= BULK_FILES_MIN:
            jobs = self._read_bulk(jobs, len(jobs))
        self._read_each(jobs, opened)

    def _read_each(self, jobs: list[ReadJob], opened: OpenFolders) -> None:
        for job in self.progress("Reading files", jobs, len(jobs)):
            try:
                fd = opened(job.folder)
            except OSError:
                # Gone since it was listed; the next look finds out.
                continue
            row = self._read_file(job, fd)
            if row is None:
                self.edits.drop(job.into, job.path)
            else:
                self.edits.put_file(job.into, job.path, row)
        self._distrust_mapped()

    def _distrust_mapped(self) -> None:
        """Mark files that a program has mapped for writing, to be read again by the next look: no time shows it."""
        files, self._open_to_others = self._open_to_others, {}
        theirs = mapped(set(files.values()))
        for path in (path for path, ino in files.items() if ino in theirs):
            folder, row = self.edits.root.find(split(path)[0]), row_in(self.edits.root, path)
            if folder is None or row is None:
                continue
            if row.entry.size > MAPPED_BYTES_MAX:
                self._state(
                    "is mapped into memory by a program that writes to it, so changes may be noticed late",
                    path,
                )
            else:
                self.mapped.add(path)
                self.edits.put_file(folder, path, msgspec.structs.replace(row, racy=True))

    def _read_bulk(self, jobs: Iterable[ReadJob], total: int) -> list[ReadJob]:
        """Read many files with several processes. Return those that must be read with more care."""
        given: dict[bytes, ReadJob] = {}
        read: set[bytes] = set()

        def sizes() -> Iterator[tuple[bytes, int]]:
            for job in jobs:
                given[job.path] = job
                yield job.path, job.found.st_size

        answers = self.contents.put_many(sizes(), self.place.fd)
        for path, content, file_id, is_plain in self.progress("Reading files", answers, total):
            job = given[path]
            found = job.found
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            # The path may have led elsewhere meanwhile, or the file may be too young to be sure.
            if file_id != seen or self._is_racy(found):
                read.discard(path)
                continue
            by_path = b"/proc/self/fd/%d/%s" % (self.place.fd, path)
            entry = _entry(found, content, () if is_plain else self._xattrs(by_path, path))
            self.edits.put_file(job.into, path, TreeRow(entry, key_of(found)))
            self._open_to_others[path] = found.st_ino
            read.add(path)
        return [job for path, job in given.items() if path not in read]

    def _read_file(self, job: ReadJob, folder_fd: int) -> TreeRow | None:
        path = job.path
        try:
            fd = os.open(job.name, FILE_FLAGS, dir_fd=folder_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._closed_to_us(job, folder_fd, path, error)
        try:
            tries = 1
            while True:
                before = os.fstat(fd)
                if kind_of(before.st_mode) != FILE:
                    return None
                content = self.contents.put(fd, before.st_size)
                entry = _entry(before, content, self._xattrs(fd, path))
                # A write sets the mtime first and the bytes after, so a recent file is read twice.
                racy = self._is_racy(before)
                steady = not racy or self.contents.name(fd, before.st_size) == content
                key = key_of(os.fstat(fd))
                if steady and key == key_of(before):
                    if may_be_written(fd):
                        self._open_to_others[path] = before.st_ino
                    return TreeRow(entry, key, racy)
                if tries == READ_TRIES_MAX:
                    self._state("kept changing while it was read", path)
                    return TreeRow(entry, key, racy=True)
                tries += 1
        except OSError as error:
            return self._closed_to_us(job, folder_fd, path, error)
        finally:
            os.close(fd)

    def _closed_to_us(self, job: ReadJob, folder_fd: int, path: bytes, error: OSError) -> TreeRow | None:
        """Return the row of a file that cannot be read. If it is the one that we knew, its content is still known."""
        what = "was not saved" if error.errno in NO_ROOM else "cannot be read"
        self._state(what, path, error)
        if isinstance(error, PermissionError):
            self.closed.add(path)
        try:
            found = os.stat(job.name, dir_fd=folder_fd, follow_symlinks=False)
        except OSError:
            return None
        key, known = key_of(found), job.known
        if known and known.entry.kind == FILE and known.key and _same_file(key, known.key):
            entry = _entry(found, known.entry.content, known.entry.xattrs)
            return TreeRow(entry, key, racy=True)
        opaque = _entry(found, f"{key.ino}:{key.size}:{key.mtime_ns}".encode())
        return TreeRow(msgspec.structs.replace(opaque, kind=OPAQUE), key, racy=True)

    def _xattrs(self, file: int | bytes, path: bytes) -> tuple[tuple[bytes, bytes], ...]:
        if not hasattr(os, "listxattr"):
            return ()
        try:
            found = os.listxattr(file)
            if not found:
                return ()
            names = map(os.fsencode, found)
            kept = sorted(name for name in names if name.startswith(KEPT_ATTRIBUTES))
            return tuple((name, os.getxattr(file, name)) for name in kept)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA):
                self._state("has attributes that cannot be read", path, error)
            return ()

    def _is_racy(self, found: os.stat_result) -> bool:
        return found.st_ctime_ns >= self.began_ns - RACY_NS

    def _state(self, what: str, path: bytes, error: OSError | None = None) -> None:
        why = f" ({error.strerror})" if error else ""
        self.stated[path] = f"{text_of(path) or '.'} {what}{why}"


def _same_file(key: StatKey, known: StatKey) -> bool:
    """Return True if the bytes are the same, as far as that can be known without reading them."""
    return (key.ino, key.size, key.mtime_ns) == (known.ino, known.size, known.mtime_ns)


def _entry(
    found: os.stat_result, content: bytes = b"", xattrs: tuple[tuple[bytes, bytes], ...] = ()
) -> FileEntry:
    kind = kind_of(found.st_mode)
    size = found.st_size if kind == FILE else 0
    mode = found.st_mode & 0o7777
    sparse = size > 0 and found.st_blocks * 512 < size
    return FileEntry(
        kind, mode, found.st_uid, found.st_gid, found.st_mtime_ns, size, content, xattrs, sparse=sparse
    )
