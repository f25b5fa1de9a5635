"""Files as a resource: everything under the root, whatever changed it."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from takeback import faults
from takeback.core.change import Change, Target, Version
from takeback.core.codec import text_of
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import CorruptionError
from takeback.ports import BlobStore, Contents, Finding, Swap, Swapped, Traits
from takeback.resources.files import tree as trees
from takeback.resources.files import watch
from takeback.resources.files.capture import Capture, Progress
from takeback.resources.files.edits import Before, Edits, all_linked, differences, other_names
from takeback.resources.files.entry import (
    FILE,
    FOLDER,
    LINK,
    Entry,
    Key,
    change_of,
    entry_of,
    join,
    key_of,
    path_of_target,
    split,
    version_of,
)
from takeback.resources.files.foresight import foresee, merge_files
from takeback.resources.files.index import Index, load_index, save_index
from takeback.resources.files.place import FILE_FLAGS, Place
from takeback.resources.files.rescue import rescue
from takeback.resources.files.restore import Restorer, Work
from takeback.resources.files.scan import Dirty, scan
from takeback.resources.files.tree import Folder, Row, entry_in
from takeback.resources.files.watch import Watcher

AUDIT_S = 300
NODES_KEPT = 4096

MARKED = faults.crash_point("files-marked")


class Files:
    """The tree under a root. One thread of one process at a time, under the workspace's lock."""

    name = "files"
    traits = Traits(exact=True, detects_drift=True)

    def __init__(
        self,
        root: Path,
        state: Path,
        blobs: BlobStore,
        contents: Contents,
        *,
        excluded: Callable[[bytes], bool],
        watching: bool = False,
        progress: Progress = lambda files, size: None,
    ) -> None:
        self._place = Place(root)
        self._cache = state / "files.index"
        self._blobs = blobs
        self._contents = contents
        self._excluded = excluded
        self._progress = progress
        self._watching = watching
        self._watcher: Watcher | None = None
        self._distrust = ""
        self._audited = 0.0
        self._nodes: OrderedDict[bytes, bytes] = OrderedDict()
        self._root: Folder | None = None
        self._tree = b""
        self._before: Before = {}
        self._since = b""
        self._linked: set[bytes] = set()
        self._stated: tuple[str, ...] = ()

    # The present

    def mark(self) -> Mark:
        """Look at the world, and keep it."""
        evidence = self._look()
        self._blobs.sync()
        faults.reach(MARKED)
        return Mark(self.name, state_of(self._tree), evidence, self._stated)

    def remember(self) -> None:
        """Keep what is known for the next process."""
        if self._root is not None and self._tree:
            save_index(self._cache, Index(self._tree, self._root, self._stated))

    def audit(self) -> list[Finding]:
        """Read every file again and compare it with what is believed of it, whatever its times say."""
        self._look()
        findings = []
        for path, folder in self._known.walk():
            for name, row in folder.files.items():
                if row.entry.kind == FILE and not self._is_as_believed(path, name, row):
                    place = text_of(join(path, name))
                    findings.append(Finding(place, "its bytes changed although its size and times did not"))
        return findings

    def _is_as_believed(self, path: bytes, name: bytes, row: Row) -> bool:
        try:
            with self._place.folder(path) as folder_fd:
                fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
        except OSError:
            # Gone or closed to us since the look: that is drift, not a lie of the disk.
            return True
        try:
            before = key_of(os.fstat(fd))
            content = self._contents.put(fd, before.size)
            return content == row.entry.content or before != row.key
        finally:
            os.close(fd)

    def counted(self) -> tuple[int, int]:
        """How many files there are, and how many bytes."""
        sizes = [row.entry.size for _, folder in self._known.walk() for row in folder.files.values()]
        return len(sizes), sum(sizes)

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Look at these paths again."""
        wanted = {target: path_of_target(target) for target in targets}
        dirty: Dirty = {}
        for path in wanted.values():
            folder, name = split(path)
            dirty.setdefault(folder, set()).add(name)
        self._update({folder: names for folder, names in dirty.items() if self._known.find(folder)})
        return {target: version_of(entry_in(self._known, path)) for target, path in wanted.items()}

    def _look(self) -> str:
        """Bring what is known up to date with the world; returns how that was proved."""
        if self._root is None and not self._load():
            return self._first_look()
        assert self._root is not None
        if self._watcher is not None and time.monotonic() - self._audited < AUDIT_S:
            drained = self._watcher.drain()
            if not drained.lost:
                self._update(self._with_more(drained.dirty))
                return "watcher"
            self._stop_watching(drained.lost)
        if self._watcher is not None:
            return self._audit()
        self._start_watching()
        self._update(scan(self._place, self._root))
        return "scan"

    def _first_look(self) -> str:
        self._begin_watching()
        capture = self._capture()
        self._root = Folder(Entry(FOLDER, 0, 0, 0, 0, 0), None)
        edits = Edits(self._root, {})
        capture.whole(edits)
        self._finish(capture, edits)
        return "every file read"

    def _audit(self) -> str:
        """Look at everything although the watcher says that it knows. What it missed, it may miss again."""
        assert self._root is not None and self._watcher is not None
        drained = self._watcher.drain()
        self._update(self._with_more(drained.dirty))
        known = self._tree
        self._update(scan(self._place, self._root))
        # What was written after the draining is no miss: the watcher has it by now.
        late = self._watcher.drain().dirty
        self._audited = time.monotonic()
        if self._tree != known and not late and not drained.lost:
            self._stop_watching("it missed a change that a scan found")
        else:
            self._update(self._with_more(late))
        return "scan"

    @property
    def _known(self) -> Folder:
        """The tree as it was last looked at."""
        if self._root is None:
            self._look()
        assert self._root is not None
        return self._root

    def settled(self, mark: Mark) -> None:
        """This mark is recorded: what changes from now on is counted from it."""
        if tree_of(mark.state) == self._tree:
            self._since, self._before = self._tree, {}

    def _load(self) -> bool:
        """Go on from what the last process knew."""
        index = load_index(self._cache)
        if index is None or not self._blobs.has(index.tree):
            return False
        self._tree, self._root, self._stated = index.tree, index.root, index.stated
        self._since, self._before = index.tree, {}
        self._linked = all_linked(index.root)
        return True

    def _capture(self) -> Capture:
        return Capture(self._place, self._contents, self._excluded, self._watcher, self._progress)

    def _update(self, dirty: Dirty) -> None:
        if not dirty:
            return
        capture, edits = self._capture(), Edits(self._known, self._before)
        capture.update(edits, dirty)
        if fresh := edits.linked - self._linked:
            capture.update(edits, other_names(self._known, fresh))
        self._finish(capture, edits)

    def _finish(self, capture: Capture, edits: Edits) -> None:
        self._linked = edits.group_links(self._linked | edits.linked)
        gone = {text.split(" ")[0] for text in capture.stated}
        self._stated = tuple([*(t for t in self._stated if t.split(" ")[0] not in gone), *capture.stated])[
            -50:
        ]
        self._tree = trees.store(self._known, self._put)

    def _key(self, path: bytes) -> Key | None:
        folder, name = split(path)
        above = self._known.find(folder)
        row = above.files.get(name) if above is not None else None
        return row.key if row else None

    # The past

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        start, end = tree_of(since.state), tree_of(until.state)
        if start == self._since and end == self._tree:
            found = differences(self._known, self._before)
        else:
            found = trees.diff(start, end, self._get)
        return sorted((change_of(*difference) for difference in found), key=lambda change: change.target)

    def entry_at(self, mark: Mark, path: bytes) -> Entry | None:
        return trees.lookup(tree_of(mark.state), path, self._get)

    def blobs(self, marks: Iterable[Mark]) -> set[bytes]:
        """Every blob that these marks need, nodes and contents."""
        live: set[bytes] = set()
        for mark in marks:
            trees.reach(tree_of(mark.state), self._get, self._contents, live)
        return live

    def text(self, version: Version) -> bytes | None:
        """What a version of a path reads as: a file's content, a link's text."""
        entry = entry_of(version)
        if entry is None or entry.kind not in (FILE, LINK):
            return None
        return entry.content if entry.kind == LINK else self._contents.read(entry.content, entry.size)

    def _get(self, name: bytes) -> bytes:
        data = self._nodes.get(name)
        if data is None:
            data = self._blobs.get(name)
            self._keep(name, data)
        return data

    def _put(self, data: bytes) -> bytes:
        name = self._blobs.put(data)
        self._keep(name, data)
        return name

    def _keep(self, name: bytes, data: bytes) -> None:
        self._nodes[name] = data
        if len(self._nodes) > NODES_KEPT:
            self._nodes.popitem(last=False)

    # Taking back

    def changed_at(self, target: Target) -> int:
        """For a path that is gone, its folder tells."""
        path = path_of_target(target)
        if key := self._key(path):
            return key.ctime_ns
        while path and self._known.find(path) is None:
            path = split(path)[0]
        try:
            with self._place.folder(path) as fd:
                return os.fstat(fd).st_ctime_ns
        except OSError:
            return 0

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return merge_files(self._contents, mine, base, goal)

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        return foresee(self._known, swaps, kept, self._blobs)

    def swap(self, swaps: Sequence[Swap], rollback: str) -> Sequence[Swapped]:
        rescued = rescue(self._place, rollback, swaps, self._contents)
        now = self.read(swap.target for swap in swaps)
        results: dict[Target, Swapped] = {}
        works: dict[Target, Work] = {}
        for swap in swaps:
            target, present = swap.target, now[swap.target]
            path = path_of_target(target)
            entry, goal = entry_in(self._known, path), entry_of(swap.goal)
            if target in rescued.kept:
                results[target] = Swapped(target, Did.CONFLICT, present, True, rescued.kept[target])
            elif present.alike(swap.goal):
                results[target] = Swapped(target, Did.RESTORED if goal else Did.REMOVED, present, True)
            elif present == swap.present or rescued.is_half_done(entry, goal):
                works[target] = Work(path, entry, goal, self._key(path))
            else:
                why = "it was changed since the plan was made"
                results[target] = Swapped(target, Did.CONFLICT, present, True, why)
        if works:
            batch = list(works.values())
            Restorer(self._place, self._contents, rollback, self._standing(batch)).run(batch)
            results.update(self._verified(works, {swap.target: swap.goal for swap in swaps}))
        return [results[swap.target] for swap in swaps]

    def _standing(self, works: Sequence[Work]) -> dict[bytes, bytes]:
        """For each group of links a member that is not being put back, and is as it should be."""
        wanted = {work.goal.group: work.goal.id for work in works if work.goal}
        moving = {work.path for work in works}
        found = {}
        for path in sorted(self._linked - moving):
            entry = entry_in(self._known, path)
            if entry is not None and wanted.get(entry.group, entry.id) == entry.id:
                found[entry.group] = path
        return found

    def _verified(
        self, works: Mapping[Target, Work], goals: Mapping[Target, Version]
    ) -> dict[Target, Swapped]:
        """Read every path again, from the disk, and compare it with what was promised."""
        now = self.read(works)
        results = {}
        for target, work in works.items():
            did, why, goal = work.did or Did.FAILED, work.why, goals[target]
            verified = (
                now[target].alike(goal) if did in (Did.RESTORED, Did.REMOVED) else did is not Did.FAILED
            )
            if not verified and not why:
                why = _difference(entry_of(now[target]), entry_of(goal))
            results[target] = Swapped(target, did, now[target], verified, why)
        return results

    # The watcher

    def _begin_watching(self) -> None:
        if not self._watching or self._distrust:
            return
        self._distrust = watch.supported(self._place.fd)
        if not self._distrust:
            self._watcher = Watcher(self._place.root)
            self._audited = time.monotonic()

    def _start_watching(self) -> None:
        """Watch what is known; the scan that follows sees what was written before."""
        self._begin_watching()
        if self._watcher is None or self._root is None:
            return
        for path, _ in self._root.walk():
            try:
                fd = self._place.open(path)
            except OSError:
                continue
            try:
                self._watcher.watch(path, fd)
            finally:
                os.close(fd)

    def _stop_watching(self, why: str) -> None:
        if self._watcher is not None:
            self._watcher.close()
        self._watcher = None
        if "missed" in why or "limit" in why:
            self._distrust = why
            self._stated = (*self._stated, f"the watcher is not used: {why}")

    def _with_more(self, dirty: Dirty) -> Dirty:
        """What the watcher does not say: a folder's own time, and writes through a name that nobody watches."""
        for names in dirty.values():
            names.add(b"")
        for path in self._linked:
            folder, name = split(path)
            if name in dirty.get(folder, ()):
                continue
            key = self._key(path)
            try:
                with self._place.folder(folder) as fd:
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                same = key is not None and found.st_ctime_ns == key.ctime_ns and found.st_ino == key.ino
            except OSError:
                same = False
            if not same:
                dirty.setdefault(folder, set()).add(name)
        return dirty

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self._place.close()


def state_of(tree: bytes) -> str:
    return f"b3:{tree.hex()}"


def tree_of(state: str) -> bytes:
    if not state.startswith("b3:"):
        raise CorruptionError(f"{state!r} is not the name of a tree")
    return bytes.fromhex(state[3:])


def _difference(now: Entry | None, goal: Entry | None) -> str:
    """What is still not as it was, in words."""
    if now is None or goal is None:
        return "it is gone" if now is None else "it is still there"
    names = [
        field
        for field in ("kind", "mode", "uid", "gid", "mtime_ns", "xattrs", "group")
        if getattr(now, field) != getattr(goal, field)
    ]
    if now.content != goal.content and goal.kind != "d":
        names.insert(0, "content")
    return f"its {' and '.join(names)} could not be restored"
