"""Putting paths back, so that no power cut, kill or concurrent writer can lose anyone's work.

    prepare everything in a staging folder → sync → swap each into its place → folders' modes and times → sync

Each swap is an atomic exchange, after which we check what came out. If it is not what we meant to replace, someone
wrote at the last instant: it is exchanged back and reported. So their version is never lost, not even between our
look and our write. A path that fails is reported and does not stop the others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from takeback.core.codec import text_of
from takeback.core.events import Did
from takeback.errors import CorruptionError
from takeback.ports.content import Contents
from takeback.ports.progress import Progress
from takeback.resources.files.entry import FILE, FOLDER, RESTORABLE, FileEntry, StatKey, depth, key_of, split
from takeback.resources.files.look.closed_folders import Doors
from takeback.resources.files.put_back.room import NO_ROOM
from takeback.resources.files.put_back.staging import Staging, dress, new_name, old_name
from takeback.system import crash_points, durable, linux
from takeback.system.beneath import FILE_FLAGS, OpenFolders, RootFolder

SYNC_ONE_BY_ONE_MAX = 8

STAGED = crash_points.crash_point("restore-staged")
READY = crash_points.crash_point("restore-ready")
SWAPPED = crash_points.crash_point("restore-swapped")
REMOVED = crash_points.crash_point("restore-removed")
DRESSED = crash_points.crash_point("restore-dressed")


_WORDS: dict[int | None, str] = {
    errno.EXDEV: "it is on another file system than the folder that it is put back from"
}


class FileRestorer:
    """One batch of paths to put back."""

    def __init__(
        self,
        place: RootFolder,
        contents: Contents,
        rollback: str,
        standing: Standing,
        doors: Doors,
        progress: Progress,
    ) -> None:
        self.place = place
        self.standing = standing
        self.contents = contents
        self.rollback = rollback
        self.progress = progress
        self._doors = doors
        self._open = OpenFolders(place)
        self._before: dict[bytes, os.stat_result] = {}
        self._dressed: set[File] = set()
        """Files that stayed in place and got another mode, time or attributes from us."""

    def run(self, works: list[PathRestore]) -> None:
        """Put each path back; every work then records what was done."""
        for work in works:
            if work.goal is not None and work.goal.kind not in RESTORABLE:
                work.fail("it was a socket, a device or unreadable, so it cannot be recreated")
        staging = self._make_staging(works)
        if staging is None:
            return
        # If this is interrupted, the staging folder stays: a later start checks what is in it.
        try:
            self._stage(staging, works)
            self._remove(staging, works)
            self._make_folders(works)
            self._put_in_place(staging, works)
            self._dress_in_place(works)
            self._clear(staging, works)
            self._dress_folders(works, staging)
            self._doors.close()
            self._sync_folders()
        finally:
            self._open.close()
            staging.free(at_once=any(work.lacks_room for work in works))
        for work in works:
            if work.did is None:
                work.did = Did.RESTORED if work.goal is not None else Did.REMOVED

    def _make_staging(self, works: list[PathRestore]) -> Staging | None:
        made: list[Staging] = []
        try:
            self._retry_closed(b"", lambda _fd: made.append(Staging(self.place, self.rollback)))
        except OSError as error:
            for work in _open(works):
                work.fail(f"nothing can be written in {text_of(self.place.root)}: {error.strerror}")
            self._open.close()
            return None
        return made[0]

    def _stage(self, staging: Staging, works: list[PathRestore]) -> None:
        choose_links(_open(works), self.standing)
        few = len(works) <= SYNC_ONE_BY_ONE_MAX
        new = [
            work
            for work in _open(works)
            if work.goal and work.goal.kind != FOLDER and not work.in_place and work.link_to is None
        ]
        for work in self.progress("Preparing files", new, len(new)):
            with _Blamed(work):
                assert work.goal is not None
                staging.make(new_name(work.path), work.goal, self.contents, durable=few)
                work.staged = new_name(work.path)
        crash_points.reach(STAGED)
        if not few:
            self._sync_all()
        staging.ready()
        crash_points.reach(READY)

    def _remove(self, staging: Staging, works: list[PathRestore]) -> None:
        """Remove what must go, or make way for another kind; the deepest first."""
        gone = [w for w in _open(works) if w.present is not None and _must_go(w.present, w.goal)]
        gone.sort(key=lambda work: work.depth, reverse=True)
        for work in self.progress("Removing files", gone, len(gone)):
            with _Blamed(work):
                folder, name = split(work.path)
                self._retry_closed(folder, partial(self._remove_one, staging, work, name))
                crash_points.reach(REMOVED)

    def _remove_one(self, staging: Staging, work: PathRestore, name: bytes, fd: int) -> None:
        assert work.present is not None
        if work.present.kind == FOLDER:
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if work.goal is None:
                    work.fail("it still contains what others put there", Did.KEPT)
                else:
                    work.fail("a folder with others' files is in its place", Did.CONFLICT)
            return
        trash = old_name(work.path)
        linux.renameat2(fd, name, staging.fd, trash, linux.RENAME_NOREPLACE)
        if not self._is_still(staging, work, trash):
            self._give_back(staging, work, trash, fd, name)

    def _make_folders(self, works: list[PathRestore]) -> None:
        new = [w for w in _open(works) if w.goal and w.goal.kind == FOLDER and not w.in_place]
        for work in sorted(new, key=lambda work: work.depth):
            with _Blamed(work):
                folder, name = split(work.path)
                self._retry_closed(folder, partial(_mkdir, name))

    def _put_in_place(self, staging: Staging, works: list[PathRestore]) -> None:
        ready = [work for work in _open(works) if work.staged or work.link_to is not None]
        for work in self.progress("Putting files back", ready, len(ready)):
            with _Blamed(work):
                if work.link_to is not None:
                    self._stage_link(staging, work)
                folder, name = split(work.path)
                self._retry_closed(folder, partial(self._swap, staging, work, name))
                crash_points.reach(SWAPPED)

    def _stage_link(self, staging: Staging, work: PathRestore) -> None:
        assert work.link_to is not None
        name = new_name(work.path)
        folder, leader = split(work.link_to)

        def link(fd: int) -> None:
            os.link(leader, name, src_dir_fd=fd, dst_dir_fd=staging.fd, follow_symlinks=False)

        self._insist(folder, self._reach(folder), link)
        work.staged = name

    def _swap(self, staging: Staging, work: PathRestore, name: bytes, fd: int) -> None:
        present = work.present if work.present and not _must_go(work.present, work.goal) else None
        if present is None:
            try:
                return linux.renameat2(staging.fd, work.staged, fd, name, linux.RENAME_NOREPLACE)
            except FileExistsError:
                return work.fail("someone created it again while it was being taken back", Did.CONFLICT)
        mine = key_of(os.stat(work.staged, dir_fd=staging.fd, follow_symlinks=False))
        linux.renameat2(staging.fd, work.staged, fd, name, linux.RENAME_EXCHANGE)
        if not self._is_still(staging, work, work.staged):
            self._give_back(staging, work, work.staged, fd, name, mine)

    def _give_back(
        self,
        staging: Staging,
        work: PathRestore,
        staged: bytes,
        fd: int,
        name: bytes,
        mine: StatKey | None = None,
    ) -> None:
        """Return what came out to its place, or give it its own name: someone wrote it at the last instant.

        The same for what comes out then, if it is not `mine`.
        """
        why = "it was changed while it was being taken back"
        staging.foreign.add(staged)
        try:
            flags = linux.RENAME_NOREPLACE if mine is None else linux.RENAME_EXCHANGE
            linux.renameat2(staging.fd, staged, fd, name, flags)
        except OSError:
            why += f", twice; the first of these versions is kept as {staging.let_out(staged, work.path)}"
        else:
            if mine and not self._is_ours(staging.fd, staged, mine):
                why += f", twice; the last of these versions is kept as {staging.let_out(staged, work.path)}"
        staging.foreign.discard(staged)
        work.fail(why, Did.CONFLICT)

    def _clear(self, staging: Staging, works: list[PathRestore]) -> None:
        """Keep what was replaced if a program that has it open wrote to it meanwhile, or still can.

        The rest is deleted with the staging folder.
        """
        for work in _open(works):
            for name in _replaced(work):
                if not self._is_another_name(work.key):
                    with suppress(FileNotFoundError):
                        self._let_out_written(staging, work, name)

    def _let_out_written(self, staging: Staging, work: PathRestore, name: bytes) -> None:
        # Check this first: a file that no one can write to any more stays as it is found after that.
        is_open = staging.is_open_to_others(name)
        if not self._is_still(staging, work, name, asked=True):
            visible = staging.let_out(name, work.path)
            work.why = f"a program was still writing to it; that is kept as {visible}"
        elif is_open:
            work.why = staging.let_out_open(name, work.path)

    def _is_still(self, staging: Staging, work: PathRestore, name: bytes, *, asked: bool = False) -> bool:
        """Return True if what came out is what we meant to replace. Also detects writes that change no time.

        `asked` means that the caller has just asked whether a program has it open.
        """
        if not self._is_ours(staging.fd, name, work.key):
            return False
        if work.present is None or work.present.kind != FILE:
            return True
        if not asked:
            staging.is_open_to_others(name)
        if name not in staging.were_open:
            return True
        try:
            fd = os.open(name, FILE_FLAGS, dir_fd=staging.fd)
        except PermissionError:
            return True  # closed to us: its times must do, and it is kept while someone has it open
        try:
            return self.contents.name(fd, os.fstat(fd).st_size) == work.present.content
        finally:
            os.close(fd)

    def _is_another_name(self, key: StatKey | None) -> bool:
        """Return True if a file that came out is still in its place under another name, where we changed it."""
        return key is not None and (key.dev, key.ino) in self._dressed

    def _is_ours(self, fd: int, name: bytes, key: StatKey | None) -> bool:
        """Return True if what came out is what we meant to replace. A rename changes only the ctime."""
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        return (
            key is not None
            and found.st_ino == key.ino
            and found.st_size == key.size
            and found.st_mtime_ns == key.mtime_ns
            and found.st_mode == key.mode
        )

    def _dress_in_place(self, works: list[PathRestore]) -> None:
        for work in _open(works):
            if work.in_place and work.key is not None:  # a folder has none
                with _Blamed(work):
                    folder = split(work.path)[0]
                    self._insist(folder, self._reach(folder), partial(self._dress_one, work))

    def _dress_one(self, work: PathRestore, fd: int) -> None:
        assert work.goal is not None and work.key is not None
        file, name = (work.key.dev, work.key.ino), split(work.path)[1]
        # Another name of a file that we have already changed shows our own work, not someone else's.
        if file in self._dressed or self._is_ours(fd, name, work.key):
            dress(fd, name, work.goal)
            self._dressed.add(file)
        else:
            work.fail("it was changed while it was being taken back", Did.CONFLICT)

    def _dress_folders(self, works: list[PathRestore], staging: Staging) -> None:
        """Set mode and time of folders last, the deepest first: any work inside changes the time."""
        goals = {work.path: work for work in _open(works) if work.goal and work.goal.kind == FOLDER}
        for path in sorted({*goals, *self._before}, key=depth, reverse=True):
            if not path:
                staging.close()
            if work := goals.get(path):
                with _Blamed(work):
                    self._dress_folder(work)
            else:
                with suppress(OSError):  # we have removed it, or somebody else has just now
                    self._undisturb(path)
        crash_points.reach(DRESSED)

    def _dress_folder(self, work: PathRestore) -> None:
        goal = work.goal
        assert goal is not None
        folder, name = split(work.path)
        if work.path:
            self._insist(folder, self._reach(folder), lambda fd: dress(fd, name, goal))
        else:
            dress(self.place.fd, b".", goal)
        self._doors.forget(work.path)

    def _undisturb(self, path: bytes) -> None:
        """Restore the times of a folder that we only worked in."""
        before = self._before[path]
        os.utime(self._open(path), ns=(before.st_atime_ns, before.st_mtime_ns))

    def _sync_all(self) -> None:
        crash_points.reach("disk-sync")
        linux.syncfs(self.place.fd)

    def _sync_folders(self) -> None:
        """Make the new names durable: one by one if they are few, otherwise with the whole file system."""
        if len(self._before) > SYNC_ONE_BY_ONE_MAX:
            return self._sync_all()
        for path in self._before:
            with suppress(FileNotFoundError, NotADirectoryError):  # we have removed it
                durable.fsync(self._open(path))
        return None

    def _touch(self, path: bytes) -> int:
        """Open a folder that we are going to change something in."""
        fd = self._reach(path)
        if path not in self._before:
            self._before[path] = os.fstat(fd)
        return fd

    def _reach(self, path: bytes) -> int:
        """Open a folder, opening the user's own closed folders on the way for the time of this batch."""
        try:
            return self._open(path)
        except PermissionError:
            self._unlock(path)
            return self._open(path)

    def _unlock(self, path: bytes) -> None:
        """Open a folder and those above it, as far as they are closed: one may let us read it, but not pass."""
        if path:
            self._unlock(split(path)[0])
        with suppress(PermissionError):  # it is open already, or not for us to open
            self._doors.open(path)

    def _retry_closed(self, folder: bytes, do: Callable[[int], object]) -> None:
        """Change something in a folder."""
        self._insist(folder, self._touch(folder), do)

    def _insist(self, folder: bytes, fd: int, do: Callable[[int], object]) -> None:
        """Do something in a folder; if it is the user's own and write-protected, open it first."""
        try:
            do(fd)
        except PermissionError:
            self._doors.open(folder)
            do(fd)


class _Blamed:
    """Assigns a system error, or damaged content, to the path that met it."""

    def __init__(self, work: PathRestore) -> None:
        self.work = work

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, OSError):
            self.work.lacks_room = error.errno in NO_ROOM
            self.work.fail(_WORDS.get(error.errno) or error.strerror or str(error))
        elif isinstance(error, CorruptionError):
            self.work.fail(error.message)
        else:
            return False
        return True


def _mkdir(name: bytes, fd: int) -> None:
    os.mkdir(name, 0o700, dir_fd=fd)


def _open(works: Iterable[PathRestore]) -> list[PathRestore]:
    return [work for work in works if work.did is None]


def _replaced(work: PathRestore) -> Iterator[bytes]:
    """Yield the names in the staging folder under which the replaced version may have come out."""
    if work.staged:
        yield work.staged
    if work.present is not None and _must_go(work.present, work.goal):
        yield old_name(work.path)


def _must_go(present: FileEntry, goal: FileEntry | None) -> bool:
    """Return True if the old must leave before the new can come: an exchange does not turn a folder into a file."""
    return goal is None or (present.kind == FOLDER) != (goal.kind == FOLDER)


File = tuple[int, int]
"""A file, whatever names it has: its device and inode."""


class Standing(msgspec.Struct, frozen=True):
    """Paths that are not being put back, of files with several names."""

    paths: Mapping[bytes, bytes] = {}
    """For each group one path that belongs to it and is as it should be."""
    files: Mapping[File, bytes] = {}
    """The group to which each file belongs."""


def choose_links(works: Sequence[PathRestore], standing: Standing) -> None:
    """Join paths that were one file, and separate paths that were not."""
    staying: dict[File, dict[bytes, list[PathRestore]]] = {}
    groups: dict[bytes, list[PathRestore]] = {}
    for work in works:
        if work.goal is None:
            continue
        if work.goal.group:
            groups.setdefault(work.goal.group, []).append(work)
        if work.in_place and work.key is not None:
            # A path that was its own file forms its own group.
            kind = work.goal.group or b"/" + work.path
            staying.setdefault((work.key.dev, work.key.ino), {}).setdefault(kind, []).append(work)
    for file, kinds in staying.items():
        # The file stays with names that are not being put back, otherwise with the largest group.
        keeps = standing.files.get(file) or max(kinds, key=lambda kind: len(kinds[kind]))
        for kind, members in kinds.items():
            for work in members if kind != keeps else ():
                work.apart = True
    for group, members in groups.items():
        _link(members, standing.paths.get(group))


def _link(members: list[PathRestore], leader_path: bytes | None) -> None:
    leader = None
    if leader_path is None:
        # It is in its place before its links come: it stays there, or is the first of them to be put back.
        leader = next((work for work in members if work.in_place), members[0])
    for work in members:
        same_file = leader and work.key and leader.key and work.in_place and work.key.ino == leader.key.ino
        if work is not leader and not same_file:
            work.link_to = leader.path if leader else leader_path


class PathRestore(msgspec.Struct):
    """One path to put back. `key` is that of the present version, as it was just looked at.

    `link_to` is a path that it becomes a link to; `apart` says that it must not stay a link to others.
    """

    path: bytes
    present: FileEntry | None
    goal: FileEntry | None
    key: StatKey | None
    staged: bytes = b""
    link_to: bytes | None = None
    apart: bool = False
    did: Did | None = None
    why: str = ""
    lacks_room: bool = False

    @property
    def in_place(self) -> bool:
        """Whether the file can stay, and only its mode, attributes or times change."""
        old, new = self.present, self.goal
        return (
            old is not None
            and new is not None
            and old.kind == new.kind
            and (old.kind == FOLDER or (old.content == new.content and self.link_to is None))
            and not self.apart
        )

    @property
    def depth(self) -> int:
        return depth(self.path)

    def begin_again(self) -> None:
        self.did, self.why, self.lacks_room = None, "", False
        self.staged, self.link_to, self.apart = b"", None, False

    def fail(self, why: str, did: Did = Did.FAILED) -> None:
        self.did, self.why = did, why
