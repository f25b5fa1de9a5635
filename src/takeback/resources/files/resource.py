"""Files as a resource: everything under the root, whatever changed it."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeVar

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import text_of
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import CorruptionError, NoRoom
from takeback.ports.content import BlobStore, Contents, StoredContent, WhyGone, pruned
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress
from takeback.ports.resource import Claims, Swap, Swapped, Traits
from takeback.resources.files.entry import (
    FILE,
    FOLDER,
    LINK,
    OPAQUE,
    FileEntry,
    change_of,
    entry_of,
    join,
    path_of_target,
    split,
    version_of,
)
from takeback.resources.files.look.capture import Capture
from takeback.resources.files.look.closed_folders import Doors
from takeback.resources.files.look.exclude import WORKFLOW_RULE
from takeback.resources.files.look.observer import TreeObserver
from takeback.resources.files.look.proof import unlike
from takeback.resources.files.put_back.foresight import foresee, merge_files
from takeback.resources.files.put_back.rescue import Rescued, calm, rescue
from takeback.resources.files.put_back.restore import File, FileRestorer, PathRestore, Standing
from takeback.resources.files.put_back.room import RESERVE_BYTES, Frugal, Reserve
from takeback.resources.files.tree import deltas
from takeback.resources.files.tree.tree import entry_in
from takeback.system import crash_points
from takeback.system.beneath import RootFolder
from takeback.system.processes import no_collection

NODES_KEPT = 4096
NODE_PACKED_FROM_BYTES = 1024

T = TypeVar("T")

MARKED = crash_points.crash_point("files-marked")


class Files:
    """The tree under a root. One thread of one process at a time, under the workspace's lock."""

    name = "files"
    traits = Traits()

    def __init__(
        self,
        root: Path | RootFolder,
        state: Path,
        blobs: BlobStore,
        contents: Contents,
        *,
        excluded: Callable[[bytes], bool],
        stated: Sequence[str] = (),
        claimed: Callable[[], Sequence[str]] = tuple,
        claims: Claims,
        generation: Callable[[], int],
        watching: bool,
        progress: Progress,
        reserve: Reserve | None = None,
        why_gone: WhyGone = pruned,
        upper: Path | None = None,
    ) -> None:
        """`reserve` is the space to give up when the disk is full; `upper` has all changes of a view."""
        self._reserve = reserve
        self._why_gone = why_gone
        self._frugal: Frugal | None = None
        self._place = place = root if isinstance(root, RootFolder) else RootFolder(root)
        self._blobs = blobs
        self._contents = contents
        self._progress = progress
        self._stated = tuple(stated)
        self._claimed = claimed
        self._claims = claims
        self._excluded = excluded
        self._nodes: OrderedDict[bytes, bytes] = OrderedDict()
        self._doors = doors = Doors(place, state / "doors")
        self._observer = TreeObserver(
            place,
            doors,
            state / "files.index",
            capture=lambda watcher: Capture(
                place, self._frugal or contents, excluded, claims, watcher, progress
            ),
            put=self._put,
            has=blobs.has,
            generation=generation,
            rules="\n".join([WORKFLOW_RULE, *stated]),
            claims=claims,
            watching=watching,
            upper=upper,
        )

    # The present

    def mark(self) -> Mark:
        """Look at the world, and store it."""
        self._doors.recover()
        evidence = self._looked(self._look_and_keep)
        crash_points.reach(MARKED)
        stated = (*self._stated, *self._claimed(), *self._observer.stated)
        return Mark(self.name, state_of(self._observer.tree), evidence, stated)

    def _look_and_keep(self) -> str:
        evidence = self._observer.look()
        self._blobs.sync()
        return evidence

    def _looked(self, look: Callable[[], T]) -> T:
        """Return what a look finds. On a full disk, look once more, and store only what there is space for."""
        try:
            found = self._kept_or_forgotten(look)
        except NoRoom:
            if self._reserve is None:
                raise
            self._reserve.release()
            room = max(0, self._reserve.free() - RESERVE_BYTES // 2) // 2
            self._frugal = Frugal(self._contents, self._blobs, room)
            try:
                return self._kept_or_forgotten(look)
            finally:
                self._frugal = None
        if self._reserve is not None:
            self._reserve.hold()
        return found

    def _kept_or_forgotten(self, look: Callable[[], T]) -> T:
        """Forget what was seen and stored if the look is interrupted, for whatever reason."""
        try:
            return look()
        except BaseException:
            self._observer.forget()
            raise

    def settled(self, mark: Mark) -> None:
        self._observer.settled(tree_of(mark.state))

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        known = self._observer.known
        return {target: version_of(entry_in(known, path_of_target(target))) for target in targets}

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Look at these paths again, and return their versions."""
        wanted = {target: path_of_target(target) for target in targets}
        self._look_again(wanted.values())
        return {target: version_of(entry_in(self._observer.known, path)) for target, path in wanted.items()}

    def _look_again(self, paths: Iterable[bytes]) -> None:
        wanted = list(paths)
        self._looked(lambda: self._observer.look_at(wanted))

    def changed_at(self, target: Target) -> int:
        """Return when a path last changed; if it is gone, when its folder did."""
        path = path_of_target(target)
        if key := self._observer.key(path):
            return key.ctime_ns
        while path and self._observer.known.find(path) is None:
            path = split(path)[0]
        try:
            with self._place.folder(path) as fd:
                return os.fstat(fd).st_ctime_ns
        except OSError:
            return 0

    def counted(self) -> tuple[int, int]:
        """Return how many files there are, and how many bytes."""
        folders = [folder for _, folder in self._observer.known.walk()]
        sizes = [row.entry.size for folder in folders for row in folder.files.values()]
        return len(sizes), sum(sizes)

    def entries(self) -> Iterator[tuple[bytes, FileEntry]]:
        """Yield every known path except the root."""
        for path, folder in self._observer.known.walk():
            if path:
                yield path, folder.entry
            for name, row in folder.files.items():
                yield join(path, name), row.entry

    def audit(self) -> list[Finding]:
        """Read every file again and compare it with its recorded content, whatever its times say."""
        self._looked(self._observer.look)
        what = "its bytes changed although its size and times did not"
        paths = unlike(self._place, self._observer.known, self._contents, self._progress)
        return [Finding(text_of(path), what) for path in paths]

    def remember(self) -> None:
        """Save what is known for the next process."""
        self._observer.remember()

    def close(self) -> None:
        self._observer.close()

    # The past

    def keeps(self, mark: Mark) -> bool:
        return self._blobs.has(tree_of(mark.state))

    def at(self, mark: Mark, target: Target) -> Version:
        """Return what a path was at a mark. Only the folders above it are read."""
        return version_of(deltas.lookup(tree_of(mark.state), path_of_target(target), self._get))

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        start, end = tree_of(since.state), tree_of(until.state)
        found = self._observer.between(start, end)
        if found is None:
            found = deltas.diff(start, end, self._get)
        return sorted(
            (change_of(*difference) for difference in found if not self._is_now_left_out(*difference)),
            key=lambda change: change.target,
        )

    def _is_now_left_out(self, path: bytes, before: FileEntry | None, after: FileEntry | None) -> bool:
        """Return True for an empty file that has become something which nobody captures: it must stay as it is."""
        return (_is_empty(before) or _is_empty(after)) and self._claims.leaves_out(path)

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        """Return every blob that these marks need, nodes and contents; the latest is first, and must be complete."""
        return deltas.reach((tree_of(mark.state) for mark in marks), self._get, self._contents, gone)

    def contents(self, marks: Iterable[Mark]) -> Iterator[StoredContent]:
        """Yield the content of every file in these marks; some of it more than once."""
        for path, entry in deltas.files((tree_of(mark.state) for mark in marks), self._get):
            if entry.kind == FILE:
                yield StoredContent(text_of(path), entry.content, entry.size)

    def text(self, version: Version) -> bytes | None:
        try:
            return file_text(self._contents, version)
        except CorruptionError:
            # Pruned or damaged: there is nothing to show. `verify --deep` reports which.
            return None

    def _get(self, name: bytes) -> bytes:
        data = self._nodes.get(name)
        if data is None:
            data = self._blobs.get(name)
            self._keep(name, data)
        return data

    def _put(self, data: bytes) -> bytes:
        # A small node is mostly digests, which do not compress.
        name = self._blobs.put(data, packed=len(data) > NODE_PACKED_FROM_BYTES)
        self._keep(name, data)
        return name

    def _keep(self, name: bytes, data: bytes) -> None:
        self._nodes[name] = data
        if len(self._nodes) > NODES_KEPT:
            self._nodes.popitem(last=False)

    # Taking back

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return merge_files(self._contents, mine, base, goal)

    def tell(self, change: Change, *, back: bool) -> str:
        return ""

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        if self._reserve is not None:
            # The rollback is recorded before anything is removed.
            self._reserve.release_if_tight()
        found = dict(foresee(self._observer.known, swaps, kept, self._blobs, self._why_gone))
        for swap in swaps:
            if self._excluded(path_of_target(swap.target)):
                found[swap.target] = (Do.CONFLICT, "it is now excluded, so it is no longer looked at")
        return found

    @no_collection()  # of very many files
    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        rescued = self._rescue(swaps, rollback)
        # Whatever their times say: a write through a mapping changes none. A write after this look is noticed as
        # well, because each exchange checks what came out.
        self._look_again(path_of_target(swap.target) for swap in swaps)
        results: dict[Target, Swapped] = {}
        works: dict[Target, PathRestore] = {}
        for swap in swaps:
            target, path = swap.target, path_of_target(swap.target)
            entry, goal = entry_in(self._observer.known, path), entry_of(swap.goal)
            present = version_of(entry)
            if target in rescued.kept:
                results[target] = Swapped(target, Did.CONFLICT, present, True, rescued.kept[target])
            elif swap.shares_place and entry is None and goal and self._place.has(path):
                why = "what was in its place before is still there"
                results[target] = Swapped(target, Did.FAILED, present, False, why)
            elif swap.shares_place and goal is None and _is_empty(entry):
                # Keep this very file, because programs may have it open: the resource that comes next fills it.
                results[target] = Swapped(target, Did.REMOVED, ABSENT, True)
            elif present.alike(swap.goal):
                results[target] = Swapped(target, Did.RESTORED if goal else Did.REMOVED, present, True)
            elif (
                present == swap.present
                or rescued.is_half_done(entry_of(swap.present), entry, goal)
                or (swap.shares_place and not swap.present and _is_empty(entry))
            ):
                works[target] = PathRestore(path, entry, goal, self._observer.key(path))
            else:
                why = "it was changed since the plan was made"
                results[target] = Swapped(target, Did.CONFLICT, present, True, why)
        if works:
            batch = list(works.values())
            self._restore(batch, rollback)
            if late := [work for work in batch if work.lacks_room]:
                # The removals have freed some space.
                for work in late:
                    work.begin_again()
                self._restore(late, rollback)
            results.update(self._verified(works, {swap.target: swap.goal for swap in swaps}))
        if not fresh and since is not None and self.keeps(since):
            self.mark()
            calm(self._place, self._observer.known, tree_of(since.state), swaps, self._get)
        for target, why in rescued.written.items():
            results[target] = msgspec.structs.replace(results[target], why=results[target].why or why)
        opened = {swap.target for swap in swaps if _opens(swap)}
        return [msgspec.structs.replace(results[swap.target], opened=swap.target in opened) for swap in swaps]

    def _restore(self, works: list[PathRestore], rollback: str) -> None:
        others = self._standing(works)
        FileRestorer(self._place, self._contents, rollback, others, self._doors, self._progress).run(works)

    def _rescue(self, swaps: Sequence[Swap], rollback: str) -> Rescued:
        """Return what an earlier attempt left behind, before the folders that it had opened are closed again."""
        try:
            return rescue(self._place, rollback, swaps, self._contents)
        except PermissionError:
            self._doors.open(b"")
            return rescue(self._place, rollback, swaps, self._contents)
        finally:
            self._doors.recover()

    def _standing(self, works: Sequence[PathRestore]) -> Standing:
        """Return the names, of files with several names, that are not being put back."""
        wanted = {work.goal.group: work.goal.id for work in works if work.goal}
        moving = {work.path for work in works}
        paths, files = dict[bytes, bytes](), dict[File, bytes]()
        for path in sorted(self._observer.linked - moving):
            entry, key = entry_in(self._observer.known, path), self._observer.key(path)
            if entry is not None and key is not None:
                files[key.dev, key.ino] = entry.group or b"/" + path
                if wanted.get(entry.group, entry.id) == entry.id:
                    paths[entry.group] = path
        return Standing(paths, files)

    def _verified(
        self, works: Mapping[Target, PathRestore], goals: Mapping[Target, Version]
    ) -> dict[Target, Swapped]:
        """Read every path again, from the disk, and compare it with its goal."""
        self._look_again(work.path for work in works.values())
        results = {}
        for target, work in works.items():
            present, goal = entry_in(self._observer.known, work.path), work.goal
            now = version_of(present)
            did, why = work.did or Did.FAILED, work.why
            promised = did in (Did.RESTORED, Did.REMOVED)
            same = now.alike(goals[target]) or (now == goals[target] and self._claims.holds(work.path))
            verified = same if promised else did is not Did.FAILED
            if (
                present is not None
                and present.kind == OPAQUE
                and goal is not None
                and present.mode == goal.mode
            ):
                did, why = (
                    Did.UNVERIFIABLE,
                    "it was put back, but this user may not read it, so it cannot be verified",
                )
            elif not verified and not why:
                why = _difference(present, goal)
            elif verified and did is Did.REMOVED and work.present and work.present.kind == OPAQUE and not why:
                why = "its content was never saved, so it cannot be brought back"
            results[target] = Swapped(target, did, now, verified, why)
        return results


def file_text(contents: Contents, version: Version) -> bytes | None:
    """Return a version of a path as text: a file's content, a link's target."""
    entry = entry_of(version)
    if entry is None or entry.kind not in (FILE, LINK):
        return None
    return entry.content if entry.kind == LINK else contents.read(entry.content, entry.size)


def _opens(swap: Swap) -> bool:
    """Return whether a folder gets back the rights that it had: it may have been closed to us meanwhile."""
    goal = entry_of(swap.goal)
    present = entry_of(swap.present) if goal is not None and goal.kind == FOLDER else None
    if present is None or goal is None or present.kind != FOLDER:
        return False
    return (present.mode, present.uid, present.gid) != (goal.mode, goal.uid, goal.gid)


def _is_empty(entry: FileEntry | None) -> bool:
    return entry is not None and entry.kind == FILE and not entry.size


def state_of(tree: bytes) -> str:
    return f"b3:{tree.hex()}"


def tree_of(state: str) -> bytes:
    if not state.startswith("b3:"):
        raise CorruptionError(f"{state!r} is not the name of a tree")
    return bytes.fromhex(state[3:])


_WORDS = {"kind": "kind", "mode": "mode", "uid": "owner", "gid": "group owner", "mtime_ns": "time"} | {
    "xattrs": "attributes",
    "group": "link to the same file",
}


def _difference(now: FileEntry | None, goal: FileEntry | None) -> str:
    """Return a text about what is still not as it was."""
    if now is None or goal is None:
        return "it is gone" if now is None else "it is still there"
    names = [word for field, word in _WORDS.items() if getattr(now, field) != getattr(goal, field)]
    if now.content != goal.content and goal.kind != FOLDER:
        names.insert(0, "content")
    return f"its {' and '.join(names)} could not be restored"
