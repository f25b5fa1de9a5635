"""Putting targets of a repository back, each as a compare-and-swap under git's own locks. No hook is run.

Removals come first, so that a branch `a` can take the place of a branch `a/b`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from takeback.core.change import ABSENT, Version
from takeback.core.events import Did
from takeback.errors import TakebackError
from takeback.ports.content import Contents
from takeback.resources.git import entry
from takeback.resources.git.format import locks, place, refs
from takeback.resources.git.format.locks import GitLock
from takeback.resources.git.format.place import RepositoryLocation
from takeback.resources.git.look.reader import Reader
from takeback.resources.git.look.scan import OWN
from takeback.system import crash_points, durable

REMOVED = crash_points.crash_point("git-ref-removed")
HALF_STASHED = crash_points.crash_point("git-stash-half")
HALF_OPERATION = crash_points.crash_point("git-operation-half")

_STANDING = frozenset(
    {b"refs", b"refs/heads", b"refs/tags", b"objects", b"info", b"hooks", b"logs", b"branches"}
)
"""Folders of a repository that stay when they are empty."""


class TargetRestore(msgspec.Struct):
    """One target to put back, and the result."""

    name: bytes
    present: Version
    goal: Version
    did: Did | None = None
    why: str = ""

    @property
    def kind(self) -> str:
        return entry.kind_of(self.goal or self.present)

    @property
    def is_head(self) -> bool:
        """Whether it is the HEAD of a repository, without which there is no repository."""
        return self.kind == entry.REF and self.name == entry.prefix_of(self.any_version) + b"HEAD"

    @property
    def any_version(self) -> Version:
        return self.goal or self.present


class GitRestorer:
    """Carries out the swaps of one rollback."""

    def __init__(self, reader: Reader, contents: Contents, *, again: bool) -> None:
        """With `again` an earlier attempt was interrupted, so that a target may be half done."""
        self._reader = reader
        self._contents = contents
        self._again = again
        self._place = reader.place
        self._swap: dict[str, Callable[[TargetRestore], None]] = {
            entry.REF: self._ref,
            entry.FILE: self._file,
            entry.NOTE: self._file,
            entry.LINK: self._file,
            entry.INDEX: self._file,
            entry.LOG: self._log,
            entry.STASH: self._stash,
            entry.OPERATION: self._operation,
        }

    def run(self, works: Sequence[TargetRestore]) -> None:
        gone = [work for work in works if not work.goal]
        self._remove_refs([work for work in gone if work.kind == entry.REF])
        rest = [work for work in gone if work.kind != entry.REF] + [work for work in works if work.goal]
        for work in rest:
            self._guarded(work, self._swap[work.kind])
        self.tidy(works)

    def _guarded(self, work: TargetRestore, do: Callable[[TargetRestore], None]) -> None:
        """Run `do`. A failure is recorded and does not stop the others."""
        try:
            do(work)
        except TakebackError as error:
            work.did, work.why = Did.FAILED, error.message
        except OSError as error:
            work.did, work.why = Did.FAILED, f"the system refused it: {error.strerror or error}"

    def _stands(self, work: TargetRestore) -> bool:
        """Look once more, under the lock. Return False, with a conflict, if it changed."""
        now = self._reader.target(work.name, work.any_version)
        if now == work.present or now == work.goal:
            return True
        work.did, work.why = Did.CONFLICT, "it was changed since the plan was made"
        return False

    def _held(self, name: bytes) -> GitLock:
        folder = self._place.root if name == place.LINK else self._place.folder
        os.makedirs(folder, exist_ok=True)
        return GitLock(folder, self._place.path(name))

    def _content(self, version: Version) -> bytes:
        found = entry.content_of(version)
        return self._contents.read(*found) if found else b""

    # Refs

    def _remove_refs(self, works: Sequence[TargetRestore]) -> None:
        """Remove refs together, so that the packed refs are written only once."""
        held: list[tuple[TargetRestore, GitLock]] = []
        try:
            for work in works:
                lock = self._held(work.name)
                self._guarded(work, lambda _, lock=lock: lock.take())  # type: ignore[misc]
                if work.did is None and self._stands(work):
                    held.append((work, lock))
                else:
                    lock.drop()
            for prefix in {entry.prefix_of(work.present) for work, _ in held}:
                some = [work for work, _ in held if entry.prefix_of(work.present) == prefix]
                for work in some[:1]:
                    self._guarded(work, lambda _, p=prefix, s=some: self._unpack(p, [w.name for w in s]))  # type: ignore[misc]
                    for other in some[1:] if work.did else ():
                        other.did, other.why = work.did, work.why
            for work, _ in held:
                if work.did is None:
                    self._guarded(work, self._remove_loose)
        finally:
            for _, lock in held:
                lock.drop()

    def _unpack(self, prefix: bytes, names: Iterable[bytes]) -> None:
        """Remove refs from the packed ones.

        This comes first, because removing a loose ref would uncover a packed one.
        """
        packed = prefix + b"packed-refs"
        leaving = {name[len(prefix) :] for name in names if name in self._reader.packed(prefix)}
        if not leaving:
            return
        with locks.held(self._place.folder, self._place.path(packed)) as lock:
            with open(self._place.path(packed), "rb") as file:
                data = file.read()
            lock.replace(refs.without(data, leaving))

    def _remove_loose(self, work: TargetRestore) -> None:
        _unlink(self._place.path(work.name))
        crash_points.reach(REMOVED)
        work.did = Did.REMOVED

    def _ref(self, work: TargetRestore) -> None:
        lock = self._held(work.name)
        lock.take()
        try:
            if self._stands(work):
                lock.replace(refs.as_loose(entry.value_of(work.goal)))
                work.did = Did.RESTORED
        finally:
            lock.drop()

    # Files

    def _file(self, work: TargetRestore) -> None:
        lock = self._held(work.name)
        lock.take()
        try:
            if not self._stands(work):
                return
            if not work.goal:
                _unlink(lock.path)
            elif work.kind == entry.LINK:
                _unlink(lock.path)
                os.symlink(entry.link_text(work.goal), lock.path)
            else:
                mtime_ns = work.goal.data[4] if work.kind == entry.INDEX else 0
                lock.replace(self._content(work.goal), work.goal.data[1], mtime_ns)
            work.did = Did.RESTORED if work.goal else Did.REMOVED
        finally:
            lock.drop()

    def _log(self, work: TargetRestore) -> None:
        """Put back a log, which the lock of its ref guards."""
        lock = self._held(self._ref_of(work))
        lock.take()
        try:
            if self._stands(work):
                self._write_log(lock, work.name, work.goal)
                work.did = Did.RESTORED if work.goal else Did.REMOVED
        finally:
            lock.drop()

    def _ref_of(self, work: TargetRestore) -> bytes:
        prefix = entry.prefix_of(work.any_version)
        return prefix + work.name[len(prefix) + len(b"logs/") :]

    def _write_log(self, lock: GitLock, name: bytes, goal: Version) -> None:
        path = self._place.path(name)
        if goal:
            lock.put_beside(path, self._content(goal), goal.data[1])
        else:
            _unlink(path)

    def _stash(self, work: TargetRestore) -> None:
        """Put back a ref and its log, which holds the list.

        After a kill in between, one of the two is already at its goal.
        """
        lock = self._held(work.name)
        lock.take()
        try:
            if not (self._is_half_stashed(work) or self._stands(work)):
                return
            prefix = work.name[: -len(b"refs/stash")]
            text = entry.stash_log(work.goal) if work.goal else None
            self._write_log(lock, prefix + b"logs/refs/stash", text or ABSENT)
            crash_points.reach(HALF_STASHED)
            if value := entry.value_of(work.goal):
                lock.replace(refs.as_loose(value))
            else:
                self._unpack(prefix, [work.name])
                _unlink(lock.path)
            work.did = Did.RESTORED if work.goal else Did.REMOVED
        finally:
            lock.drop()

    def _is_half_stashed(self, work: TargetRestore) -> bool:
        if not self._again:
            return False
        now = self._reader.target(work.name, work.any_version)
        parts = [_stash_parts(version) for version in (now, work.present, work.goal)]
        return all(parts[0][i] in (parts[1][i], parts[2][i]) for i in (0, 1))

    def _operation(self, work: TargetRestore) -> None:
        """Put back an operation, under the lock of the index, which every operation needs."""
        folder = self._place.path(work.name)
        new, old = (
            os.path.join(self._place.folder, OWN + word + work.name.replace(b"/", b"-"))
            for word in (b"new-", b"old-")
        )
        lock = self._held(os.path.join(os.path.dirname(work.name), b"index"))
        lock.take()
        try:
            # The present folder was moved away, and the earlier one is not there yet.
            half_done = self._again and os.path.isdir(old) and not os.path.isdir(folder)
            if not half_done and not self._stands(work):
                return
            shutil.rmtree(new, ignore_errors=True)
            for name, version in entry.operation_files(work.goal).items() if work.goal else ():
                _write(os.path.join(new, name), self._content(version), version.data[1])
            if os.path.isdir(folder):
                shutil.rmtree(old, ignore_errors=True)
                os.rename(folder, old)
            crash_points.reach(HALF_OPERATION)
            if work.goal:
                os.rename(new, folder)
            shutil.rmtree(old, ignore_errors=True)
            work.did = Did.RESTORED if work.goal else Did.REMOVED
        finally:
            lock.drop()

    # Afterwards

    def tidy(self, works: Sequence[TargetRestore]) -> None:
        """Remove folders that are now empty, as git would; recreate what a repository needs; and sync."""
        for work in works:
            if work.did is Did.REMOVED and work.name != place.LINK:
                remove_above(self._place, work.name)
                if work.kind == entry.LOG:
                    # Its lock may have created the folder of a ref that does not exist.
                    remove_above(self._place, self._ref_of(work))
            elif work.did is Did.RESTORED and work.is_head:
                prefix = work.name[: -len(b"HEAD")]
                for name in (
                    (b"refs",) if b"worktrees/" in prefix else (b"refs/heads", b"refs/tags", b"objects")
                ):
                    os.makedirs(self._place.path(prefix + name), exist_ok=True)
        for folder in {os.path.dirname(self._place.path(work.name)) for work in works}:
            if os.path.isdir(folder):
                durable.sync_folder(folder)


def remove_above(where: RepositoryLocation, name: bytes) -> None:
    """Remove the empty folders above a file that is gone."""
    while (name := name.rpartition(b"/")[0]) and name not in _STANDING:
        try:
            os.rmdir(where.path(name))
        except OSError:
            return


def left(work: TargetRestore, contents: Contents, root: Path) -> str:
    """Return a note about what stays: a worktree's folder outside the workspace is not ours to remove."""
    if work.goal or not re.search(rb"(^|/)worktrees/[^/]+/gitdir$", work.name):
        return ""
    found = entry.content_of(work.present)
    folder = os.path.dirname(contents.read(*found).strip()) if found else b""
    if folder.startswith(os.fsencode(root) + b"/") or not os.path.isdir(folder):
        return ""
    return f"its folder {os.fsdecode(folder)} is outside the workspace, and stays"


def _stash_parts(version: Version) -> tuple[str, str]:
    return (entry.value_of(version), str(version.data[3])) if version else ("", "")


def _unlink(path: bytes) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _write(path: bytes, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        durable.write_all(fd, data)
        os.fchmod(fd, mode)
        durable.fsync(fd)
    finally:
        os.close(fd)
