"""Paths outside the workspace, as far as an action names them.

They are looked at while such an action runs, and when something is taken back, but not in between. Each is looked
at and put back from the folder around it, by the same code as the files of the workspace.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import path_of, text_of
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import BackendError, ContentGone, CorruptionError
from takeback.ports.content import BlobStore, Contents, StoredContent, WhyGone, pruned
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress
from takeback.ports.resource import Swap, Swapped, Traits
from takeback.resources.files.entry import FILE, FOLDER, OPAQUE, FileEntry, entry_of, join, split, version_of
from takeback.resources.files.outside.scope import OutsideScope, Picture, Scope, decode, encode
from takeback.resources.files.put_back.foresight import merge_files
from takeback.resources.files.put_back.staging import is_anothers
from takeback.resources.files.resource import Files, file_text, state_of, tree_of
from takeback.resources.files.tree.tree import reach_content, same
from takeback.system import crash_points
from takeback.system.beneath import RootFolder

NAME = "outside"
MARKED = crash_points.crash_point("outside-marked")

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_RESCUED = "takeback-rescued-"

UNKNOWN = version_of(FileEntry(OPAQUE, 0, 0, 0, 0, 0))
"""The version of something that cannot be looked at now. It equals nothing that was ever recorded."""

T = TypeVar("T")


class FolderClosed(BackendError):
    """The folder around a path outside the workspace cannot be opened."""


class NoClaims:
    """A `Claims` under which all files are captured as files."""

    def claims(self, _path: bytes, _folder_fd: int, _found: os.stat_result) -> bool:
        return False

    def beside(self, _path: bytes) -> Iterable[bytes]:
        return ()

    def again(self) -> Iterable[bytes]:
        return ()

    def leaves_out(self, _path: bytes) -> bool:
        return False

    def holds(self, _folder: bytes) -> bool:
        return False

    def forget(self) -> None:
        """Do nothing: there is nothing to forget."""

    def rules(self) -> str:
        return ""


class Outside:
    """Paths outside the workspace. One thread of one process at a time, under the workspace's lock."""

    name = NAME
    traits = Traits(of_the_tree=False)

    def __init__(
        self,
        state: Path,
        blobs: BlobStore,
        contents: Contents,
        *,
        claimed: Callable[[], Collection[bytes]],
        generation: Callable[[], int],
        progress: Progress,
        why_gone: WhyGone = pruned,
    ) -> None:
        """`claimed` returns paths outside the workspace that another resource captures: guarded databases."""
        self._workspace = state.name
        self._notes = state / "outside"
        self._blobs = blobs
        self._contents = contents
        self._claimed = claimed
        self._generation = generation
        self._why_gone = why_gone
        self._progress = progress
        self._looked_at = self._view = OutsideScope()

    # The present

    def attend(
        self, places: Iterable[str], targets: Iterable[Target], more: Iterable[str], single: Iterable[Target]
    ) -> None:
        """Set what the next mark looks at: what has been in view, and what is added to it."""
        self._looked_at = OutsideScope(frozenset(map(path_of, places)), _paths(targets))
        here = self._looked_at
        self._view = OutsideScope(here.places.union(map(path_of, more)), here.paths | _paths(single))

    def mark(self) -> Mark:
        """Look at what is in view, and store it."""
        view, entries = self._view, dict[bytes, FileEntry]()
        stated: list[str] = []
        evidence = ""
        scopes = view.scopes()
        for scope in scopes:
            try:
                with self._opened(scope) as files:
                    if files is None:
                        continue
                    seen = files.mark()
                    if scope.places or scope.starts:
                        files.remember()
                    found = {scope.outer(path): _outward(entry, scope) for path, entry in files.entries()}
            except FolderClosed as error:
                stated.append(error.message)
                view = view.without(scope)
                continue
            entries |= {path: entry for path, entry in found.items() if view.covers(path)}
            stated += [f"{text_of(scope.folder)}: {text}" for text in seen.stated]
            evidence = evidence or seen.evidence
        self._tidy(scopes)
        state = self._blobs.put(encode(view, self._looked_at, entries))
        self._blobs.sync()
        crash_points.reach(MARKED)
        return Mark(self.name, state_of(state), evidence, tuple(stated))

    def again(self, mark: Mark) -> Mark:
        """Look once more at what a mark looked at."""
        self._looked_at = self._view = self._picture(mark).view
        return self.mark()

    def settled(self, mark: Mark) -> None:
        """Do nothing: nothing is kept from one mark to the next except on disk."""

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Look at the present, because no one has looked since the action ended."""
        return self.read(targets)

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        found: dict[Target, Version] = {}
        for scope, some in _scoped({target: target for target in targets}):
            try:
                with self._opened(scope) as files:
                    now = files.read(_inner(target, scope) for target in some) if files else {}
            except FolderClosed:
                found |= dict.fromkeys(some, UNKNOWN)
                continue
            found |= {target: _outer(now.get(_inner(target, scope), ABSENT), scope) for target in some}
        return found

    def changed_at(self, target: Target) -> int:
        """Return when a path last changed; if it is gone, when the folder around it did."""
        path, name = split(path_of(target.name))
        while True:
            try:
                with _folder(path or b"/") as fd:
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False) if name else os.fstat(fd)
                    return found.st_ctime_ns
            except OSError as error:
                if error.errno not in _NOT_THERE or not path:
                    return 0
            if name:
                name = b""
            else:
                path = split(path)[0]

    def audit(self) -> list[Finding]:
        """Return nothing: what was not looked at since an action ended may have changed, and that is not a fault."""
        return []

    def remember(self) -> None:
        """Do nothing: each mark has already done so."""

    def close(self) -> None:
        """Do nothing: nothing is held open between two looks."""

    # The past

    def keeps(self, mark: Mark) -> bool:
        return self._blobs.has(tree_of(mark.state))

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        """Return what differs among the paths that were in view all the time."""
        before, after = self._picture(since), self._picture(until)
        then, now, still = before.view, after.view, after.looked_at
        differing = [
            path
            for path in before.entries.keys() | after.entries.keys()
            if not same(before.entries.get(path), after.entries.get(path))
            and then.covers(path)
            and now.covers(path)
            and still.covers(path)
        ]
        found = [
            Change(
                Target(self.name, text_of(path)),
                version_of(before.entries.get(path)),
                version_of(after.entries.get(path)),
            )
            for path in differing
        ]
        return sorted(found, key=lambda change: change.target)

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        live: set[bytes] = set()
        for number, mark in enumerate(marks):
            # An interrupted clean-up may have removed part of an earlier one.
            with suppress(*(ContentGone,) if number else ()):
                picture = self._picture(mark)
                live.add(tree_of(mark.state))
                for entry in picture.entries.values():
                    reach_content(entry, self._contents, live, gone)
        return live

    def contents(self, marks: Iterable[Mark]) -> Iterator[StoredContent]:
        """Yield the content of every file in these marks; some of it more than once."""
        for mark in marks:
            for path, entry in self._picture(mark).entries.items():
                if entry.kind == FILE:
                    yield StoredContent(text_of(path), entry.content, entry.size)

    def text(self, version: Version) -> bytes | None:
        try:
            return file_text(self._contents, version)
        except CorruptionError:
            # Pruned or damaged: there is nothing to show. `verify --deep` reports which.
            return None

    def _picture(self, mark: Mark) -> Picture:
        return decode(self._blobs.get(tree_of(mark.state)), mark.state)

    # Taking back

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return merge_files(self._contents, mine, base, goal)

    def tell(self, _change: Change, *, back: bool) -> str:
        return ""

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        found: dict[Target, tuple[Do, str]] = {}
        staying = _paths(target for target in kept if target.resource == self.name)
        for scope, some in _scoped({swap.target: swap for swap in swaps}):
            try:
                found |= self._foresee(scope, some, staying)
            except FolderClosed as error:
                found |= dict.fromkeys(some, (Do.CONFLICT, error.message))
        return found

    def _foresee(
        self, scope: Scope, swaps: Mapping[Target, Swap], staying: Iterable[bytes]
    ) -> dict[Target, tuple[Do, str]]:
        with self._opened(scope) as files:
            if files is None:
                why = f"{text_of(scope.folder)}, the folder around it, is gone"
                return {target: (Do.CONFLICT, why) for target, swap in swaps.items() if swap.goal}
            around = [_target(path) for path in map(scope.inner, staying) if path]
            inner = files.foresee([_inner_swap(swap, scope) for swap in swaps.values()], around)
        named = {target: _inner(target, scope) for target in swaps}
        found = {target: inner[name] for target, name in named.items() if name in inner}
        return found | _still_held({target: swap for target, swap in swaps.items() if target not in found})

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        """Put each path back from the folder around it. Another workspace may use the same rollback id there."""
        results: dict[Target, Swapped] = {}
        for scope, some in _scoped({swap.target: swap for swap in swaps}):
            try:
                with self._opened(scope) as files:
                    done = self._swap(files, scope, some, f"{rollback}-{self._workspace}")
            except FolderClosed as error:
                done = [Swapped(s.target, Did.FAILED, s.present, False, error.message) for s in some.values()]
            results |= {swapped.target: swapped for swapped in done}
        return [results[swap.target] for swap in swaps]

    def _swap(
        self, files: Files | None, scope: Scope, swaps: Mapping[Target, Swap], rollback: str
    ) -> list[Swapped]:
        if files is None:
            why = f"{text_of(scope.folder)}, the folder around it, is gone"
            return [
                Swapped(target, Did.FAILED, ABSENT, False, why)
                if swap.goal
                else Swapped(target, Did.REMOVED, ABSENT, True)
                for target, swap in swaps.items()
            ]
        if is_anothers(scope.folder, rollback):
            why = f"another user has taken the name of Takeback's own folder in {text_of(scope.folder)}"
            return [Swapped(t, Did.FAILED, swap.present, False, why) for t, swap in swaps.items()]
        inner = {_inner(target, scope): target for target in swaps}
        done = files.swap([_inner_swap(swap, scope) for swap in swaps.values()], rollback, fresh=False)
        return [
            msgspec.structs.replace(
                swapped,
                target=inner[swapped.target],
                now=_outer(swapped.now, scope),
                why=swapped.why.replace(_RESCUED, f"{text_of(scope.outer(b''))}{_RESCUED}"),
            )
            for swapped in done
        ]

    # Folders

    @contextmanager
    def _opened(self, scope: Scope) -> Iterator[Files | None]:
        """Yield what a scope shows; None if its folder is gone, or something else has its name."""
        try:
            place = RootFolder.without_links(scope.folder)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise FolderClosed(
                    f"{text_of(scope.folder)} cannot be opened: {error.strerror}",
                    hint="if it is yours, `chmod u+rwx` opens it again",
                ) from error
            yield None
            return
        notes = self._notes / scope.id
        self._notes.mkdir(0o700, exist_ok=True)
        notes.mkdir(0o700, exist_ok=True)
        files = Files(
            place,
            notes,
            self._blobs,
            self._contents,
            excluded=scope.excluded(self._claimed()),
            claims=NoClaims(),
            generation=self._generation,
            watching=False,
            progress=self._progress,
            why_gone=self._why_gone,
        )
        try:
            yield files
        finally:
            files.close()
            with suppress(OSError):
                notes.rmdir()

    def _tidy(self, scopes: Sequence[Scope]) -> None:
        """Remove what is known about scopes that are no longer looked at, unless something is still open in one."""
        with suppress(FileNotFoundError):
            for name in set(os.listdir(self._notes)) - {scope.id for scope in scopes}:
                folder = self._notes / name
                if not (folder / "doors").exists():
                    (folder / "files.index").unlink(missing_ok=True)
                    with suppress(OSError):
                        folder.rmdir()


def _still_held(swaps: Mapping[Target, Swap]) -> dict[Target, tuple[Do, str]]:
    """Return folders that should go and contain something that was not looked at, since no action made it."""
    going = {path_of(target.name) for target, swap in swaps.items() if not swap.goal}
    found = {}
    for target, swap in swaps.items():
        present, goal, path = entry_of(swap.present), entry_of(swap.goal), path_of(target.name)
        if present is None or present.kind != FOLDER or (goal is not None and goal.kind == FOLDER):
            continue
        with suppress(OSError), _folder(path) as fd:
            names = [name for name in map(os.fsencode, os.listdir(fd)) if join(path, name) not in going]
            if names:
                do = Do.KEEP if goal is None else Do.CONFLICT
                found[target] = do, f"it still contains {text_of(min(names))}, which stays"
    return found


@contextmanager
def _folder(path: bytes) -> Iterator[int]:
    place = RootFolder.without_links(path)
    try:
        yield place.fd
    finally:
        place.close()


def _paths(targets: Iterable[Target]) -> frozenset[bytes]:
    return frozenset(path_of(target.name) for target in targets)


def _scoped(things: Mapping[Target, T]) -> Iterator[tuple[Scope, dict[Target, T]]]:
    """Group things by the folder from which each is seen."""
    for scope in OutsideScope(paths=_paths(things)).scopes():
        inside = {target: scope.inner(path_of(target.name)) for target in things}
        yield scope, {target: things[target] for target, path in inside.items() if path in scope.paths}


def _target(path: bytes) -> Target:
    return Target(Files.name, text_of(path))


def _inner(target: Target, scope: Scope) -> Target:
    return _target(scope.inner(path_of(target.name)))


def _inner_swap(swap: Swap, scope: Scope) -> Swap:
    def inner(version: Version) -> Version:
        entry = entry_of(version)
        if entry is None or not entry.group:
            return version
        return version_of(msgspec.structs.replace(entry, group=scope.inner(entry.group)))

    return Swap(
        _inner(swap.target, scope),
        inner(swap.present),
        inner(swap.goal),
        swap.choice,
        overwrites_others=swap.overwrites_others,
    )


def _outer(version: Version, scope: Scope) -> Version:
    entry = entry_of(version)
    return version if entry is None or not entry.group else version_of(_outward(entry, scope))


def _outward(entry: FileEntry, scope: Scope) -> FileEntry:
    """Return an entry with an absolute path for its link group, because another scope has another folder."""
    return msgspec.structs.replace(entry, group=scope.outer(entry.group)) if entry.group else entry
