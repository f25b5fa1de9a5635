"""Knowing the tree: what was last seen of it, and how later changes are found.

There are three ways, from cheap to thorough: the watcher reports what was touched; a scan compares times and sizes;
or everything is read. Each falls back to the next if it cannot be trusted, and every mark says which one proved it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from takeback.ports.resource import Claims
from takeback.resources.files.entry import FOLDER, FileEntry, StatKey, split
from takeback.resources.files.look import watch
from takeback.resources.files.look.capture import Capture
from takeback.resources.files.look.closed_folders import Doors
from takeback.resources.files.look.scan import Dirty, scan, scan_below, touched
from takeback.resources.files.look.watch import Watcher
from takeback.resources.files.tree import tree as trees
from takeback.resources.files.tree.cache import TreeCache, load_index, save_index
from takeback.resources.files.tree.deltas import Before, Deltas
from takeback.resources.files.tree.edits import Edits, all_linked, differences, other_names, row_in
from takeback.resources.files.tree.tree import Difference, TreeFolder
from takeback.system.beneath import RootFolder
from takeback.system.processes import no_collection

AUDIT_S = 300
STATED_MAX = 50

WATCHED, SCANNED, READ, LAYERED = "watcher", "scan", "every file read", "upper layer"


class TreeObserver:
    """What is known about the tree under a root. `tree` is the name of what was last seen."""

    def __init__(
        self,
        place: RootFolder,
        doors: Doors,
        cache: Path,
        *,
        capture: Callable[[Watcher | None], Capture],
        put: trees.Put,
        has: Callable[[bytes], bool],
        generation: Callable[[], int],
        rules: str,
        claims: Claims,
        watching: bool,
        upper: Path | None = None,
    ) -> None:
        """`upper` is the layer with all changes, if the tree is that of a view."""
        self.place = place
        self._upper = upper
        self._doors = doors
        self.tree = b""
        self._stated: dict[bytes, str] = {}
        self.linked: set[bytes] = set()
        self._mapped: set[bytes] = set()
        """Files that a program writes through a memory mapping, which the watcher does not report."""
        self._cache = cache
        self._capture = capture
        self._put = put
        self._has = has
        self._generation = generation
        self._trusted = -1
        self._own_rules = rules
        self._claims = claims
        self._watching = watching
        self._watcher: Watcher | None = None
        self._audited = 0.0
        self._root: TreeFolder | None = None
        self._deltas = Deltas()
        self._touched: Before = {}
        """What was touched since the tree was last stored, whatever became of that look."""
        self._is_saved = False
        """Whether the next process would find in the cache just what is known here."""
        self._since = b""
        self._before: Before = {}
        """What was there before the changes since the last recorded mark."""

    @property
    def known(self) -> TreeFolder:
        """The tree as it was last looked at."""
        if self._root is None:
            self.look()
        assert self._root is not None
        return self._root

    @property
    def stated(self) -> tuple[str, ...]:
        """Texts about what is not covered."""
        texts = sorted(self._stated.values())
        more = len(texts) - STATED_MAX
        return (*texts[:STATED_MAX], f"and {more:,} more paths") if more > 0 else tuple(texts)

    def key(self, path: bytes) -> StatKey | None:
        row = row_in(self.known, path)
        return row.key if row else None

    def look(self) -> str:
        """Bring what is known up to date with the world. Return how that was proved."""
        if self._generation() != self._trusted:
            # The store was cleaned since: the content that we know may no longer be stored.
            self.forget()
        if self._root is None and not self._load():
            return self._first_look()
        if self._upper is not None:
            dirty = self._with_more(touched(self._upper, self.place, self.known))
            self._update(self._with_other_names(dirty))
            return LAYERED
        if self._watcher is not None and time.monotonic() - self._audited > AUDIT_S:
            return self._audit(self._watcher)
        if self._watcher is not None:
            drained = self._watcher.drain()
            if not drained.lost:
                self._update(self._with_more(drained.dirty))
                return WATCHED
            self._stop_watching()
        self._start_watching()
        self._update(scan(self.place, self.known))
        return SCANNED

    def look_at(self, paths: Iterable[bytes]) -> None:
        """Look at these paths again, whatever their times say; and at what the watcher reports by now."""
        dirty = self._with_more(self._watcher.drain().dirty) if self._watcher is not None else {}
        for path in paths:
            folder, name = split(path)
            if self.known.find(folder) is not None:
                dirty.setdefault(folder, set()).add(name)
        self._update(dirty)

    def settled(self, tree: bytes) -> None:
        """Count changes from this tree on, which has been recorded."""
        if tree == self.tree:
            self._since, self._before = tree, {}

    def between(self, start: bytes, end: bytes) -> Iterator[Difference] | None:
        """Return what changed from one tree to another, if that is what was just observed; otherwise None."""
        if (start, end) != (self._since, self.tree):
            return None
        return differences(self.known, self._before)

    def remember(self) -> None:
        """Save what is known for the next process, unless that is what the last one saved."""
        if self._root is not None and self.tree and not self._is_saved:
            index = TreeCache(self.tree, self._root, self._trusted, self._rules, self._stated, self._deltas)
            save_index(self._cache, index)
            self._is_saved = True

    def close(self) -> None:
        self._stop_watching()
        self.place.close()

    def forget(self) -> None:
        """Forget everything: the next look reads all files."""
        self._stop_watching()
        self._is_saved = False
        self._root, self.tree, self._since, self._before = None, b"", b"", {}
        self._deltas, self._touched = Deltas(), {}
        self.linked, self._stated = set(), {}
        self._trusted = self._generation()

    def _first_look(self) -> str:
        self._claims.forget()
        self._begin_watching()
        self._root = TreeFolder(FileEntry(FOLDER, 0, 0, 0, 0, 0), None)
        capture, edits = self._capture(self._watcher), Edits(self._root, self._touched)
        with no_collection():
            capture.whole(edits)
            self._look_behind(capture, edits)
            self._finish(capture, edits)
        self._before = {}
        return READ

    def _load(self) -> bool:
        """Load what the last process knew."""
        index = load_index(self._cache)
        if index is None or not self._has(index.tree):
            return False
        if (index.generation, index.rules) != (self._trusted, self._rules):
            # Content may be gone, or files that were left out now belong to the tree.
            return False
        self.tree, self._root, self._stated = index.tree, index.root, index.stated
        self._deltas, self._touched = index.deltas, {}
        self._since, self._before = index.tree, {}
        self.linked = all_linked(index.root)
        self._is_saved = True
        return True

    @property
    def _rules(self) -> str:
        """The rules by which paths belong to the tree or are left out."""
        return f"{self._own_rules}\n{self._claims.rules()}"

    def _update(self, dirty: Dirty) -> None:
        for path in self._claims.again():
            folder, name = split(path)
            dirty.setdefault(folder, set()).add(name)
        if not dirty:
            return
        self._is_saved = False
        capture, edits = self._capture(self._watcher), Edits(self.known, self._touched)
        capture.update(edits, dirty)
        self._look_behind(capture, edits)
        if fresh := edits.linked - self.linked:
            capture.update(edits, other_names(self.known, fresh))
        self._finish(capture, edits)

    def _look_behind(self, capture: Capture, edits: Edits) -> None:
        """Look into the user's own paths that are closed even to them: once, and again when they change."""
        if not capture.closed:
            return
        try:
            while closed := capture.take_closed():
                capture.update(edits, self._behind(closed, capture))
        finally:
            found = self._doors.close()
        for path, now in found.items():
            capture.note_closed(path, now)

    def _behind(self, closed: list[bytes], capture: Capture) -> Dirty:
        dirty: Dirty = {}
        for path in closed:
            try:
                self._doors.open(path)
            except OSError:
                # Not ours to open: it is already stated that it cannot be looked into.
                continue
            capture.stated.pop(path, None)
            above, name = split(path)
            dirty.setdefault(above, set()).add(name)
            if (known := self.known.find(path)) is not None:
                for here, names in scan_below(self.place, path, known).items():
                    dirty.setdefault(here, set()).update(names)
        return dirty

    def _finish(self, capture: Capture, edits: Edits) -> None:
        self.linked = edits.group_links(self.linked | edits.linked)
        # A statement about a path that was looked at again is replaced, or no longer true.
        for path in capture.looked_at:
            self._stated.pop(path, None)
        self._stated.update(capture.stated)
        self._mapped = (self._mapped - capture.looked_at) | capture.mapped
        self.tree = self._deltas.store(self.known, self._touched, self._put)
        self._before = self._touched | self._before
        self._touched = {}

    # The watcher

    def _begin_watching(self) -> None:
        if not self._watching or self._upper is not None:
            return
        if why := watch.supported(self.place.fd):
            self._distrust(why)
        else:
            self._watcher = Watcher(self.place.root)
            self._audited = time.monotonic()

    def _start_watching(self) -> None:
        """Watch what is known; the scan that follows sees earlier writes."""
        self._begin_watching()
        for path, _ in self.known.walk() if self._watcher is not None else ():
            try:
                fd = self.place.open(path)
            except OSError:
                continue
            try:
                if self._watcher is not None:
                    self._watcher.watch(path, fd)
            finally:
                os.close(fd)

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            if "limit" in self._watcher.lost:
                self._distrust(self._watcher.lost)
            self._watcher.close()
            self._watcher = None

    def _distrust(self, why: str) -> None:
        """Scan from now on, and say so in every mark."""
        self._watching = self._is_saved = False
        self._stated[b"/"] = f"the watcher is not used: {why}"

    def _audit(self, watcher: Watcher) -> str:
        """Look at everything even though the watcher claims to know. What it missed once, it may miss again."""
        drained = watcher.drain()
        self._update(self._with_more(drained.dirty))
        believed = self.tree
        self._update(scan(self.place, self.known))
        # A write after the drain is not a miss: the watcher has it by now.
        late = watcher.drain()
        self._audited = time.monotonic()
        if self.tree != believed and not late.dirty and not drained.lost and not late.lost:
            self._distrust("it missed a change that a scan found")
            self._stop_watching()
        else:
            self._update(self._with_more(late.dirty))
        return SCANNED

    def _with_more(self, dirty: Dirty) -> Dirty:
        """Add what the watcher does not report: a folder's mtime, and writes through a name that is not watched."""
        for names in dirty.values():
            names.add(b"")
        for path in self._mapped:
            folder, name = split(path)
            dirty.setdefault(folder, set()).add(name)
        for path in self.linked:
            folder, name = split(path)
            if name not in dirty.get(folder, ()) and not self._is_untouched(folder, name, self.key(path)):
                dirty.setdefault(folder, set()).add(name)
        return dirty

    def _with_other_names(self, dirty: Dirty) -> Dirty:
        """Add all names of a file of which one is looked at: a view has another device each time it is entered."""
        keys = {path: key for path in self.linked if (key := self.key(path))}
        numbers = {key.ino for path, key in keys.items() if split(path)[1] in dirty.get(split(path)[0], ())}
        for path in (path for path, key in keys.items() if key.ino in numbers):
            folder, name = split(path)
            dirty.setdefault(folder, set()).add(name)
        return dirty

    def _is_untouched(self, folder: bytes, name: bytes, key: StatKey | None) -> bool:
        try:
            with self.place.folder(folder) as fd:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return False
        return key is not None and (found.st_ctime_ns, found.st_ino) == (key.ctime_ns, key.ino)
