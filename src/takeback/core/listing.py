"""Lists of changes for people: what matters comes first, and a folder that changed as a whole is one line.

Every surface that lists changes uses these two functions: `lines_of` orders and folds, `shortened` leaves out what
is too much. Values in, values out: whether a file is tracked, ignored or generated is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec

from takeback.core.change import Change, Target

FOLD_MIN = 4
"""A folder with fewer changed files than this is not folded: their names take no more room."""
SHOWN = 8
"""So many lines of each rank are shown unless all are wanted."""

PATHS = ("files", "outside")


class Rank(IntEnum):
    """How much a change matters to a person: the lower, the more."""

    GIT = 0
    DATABASE = 1
    ELSEWHERE = 2
    """In another system: a call, an intent."""
    FILE = 3
    """A file that git tracks, or might: it is new and not ignored."""
    IGNORED = 4
    """A single file that git ignores, such as `.env`: it exists nowhere else."""
    MEMORY = 5
    GENERATED = 6
    """What a program makes again: dependencies, build products, caches."""


_RANKS = {
    "git": Rank.GIT,
    "sqlite": Rank.DATABASE,
    "postgres": Rank.DATABASE,
    "calls": Rank.ELSEWHERE,
    "outbox": Rank.ELSEWHERE,
    "memory": Rank.MEMORY,
}


class ListPlace(msgspec.Struct, frozen=True, gc=False):
    """The rank of a target; of something generated, also the folder that is generated as a whole."""

    rank: Rank = Rank.FILE
    home: str = ""


_BY_RESOURCE = {resource: ListPlace(rank) for resource, rank in _RANKS.items()}
_FILE = ListPlace()


def place_of(target: Target) -> ListPlace:
    """Return the place of a target by its resource alone."""
    return _BY_RESOURCE.get(target.resource, _FILE)


class ListedChange(msgspec.Struct, frozen=True, gc=False):
    """One change in a list."""

    target: Target
    place: ListPlace
    is_folder: bool = False
    is_whole: bool = False
    """True if the target came or went, so that a folder did so with all that is in it."""
    is_lost: bool = False
    """True for a deletion: unless it is generated, its line is never left out."""


def listed(change: Change, places: Mapping[Target, ListPlace]) -> ListedChange:
    """Return a change as one of a list."""
    was, is_now = bool(change.before), bool(change.after)
    return _listed(change, places, is_whole=was != is_now, is_lost=was and not is_now)


def _listed(
    change: Change, places: Mapping[Target, ListPlace], *, is_whole: bool, is_lost: bool
) -> ListedChange:
    target = change.target
    place = places.get(target) or place_of(target)
    return ListedChange(target, place, is_folder(change), is_whole, is_lost)


def listed_back(change: Change, places: Mapping[Target, ListPlace], kind: str) -> ListedChange:
    """Return a change that a rollback of this kind makes, as one of a list.

    It is about a loss if an agent deleted the target and this brings it back; or if the rollback itself deletes what
    was there before: a redo deletes again what an agent had, and a restore removes your own files too.
    """
    was, is_now = bool(change.before), bool(change.after)
    is_lost = kind != ("redo" if is_now else "undo")
    return _listed(change, places, is_whole=was != is_now, is_lost=was != is_now and is_lost)


def is_folder(change: Change) -> bool:
    """Return True if the change is about a folder itself."""
    return change.target.resource in PATHS and (change.after or change.before).id.startswith("d:")


class ListLine(msgspec.Struct, frozen=True):
    """One line of a list: one target, or a folder with the files in it that changed."""

    rank: Rank
    name: str
    targets: tuple[Target, ...]
    folders: int = 0
    """In how many folders the files are; 0 if the line is one target."""
    is_lost: bool = False

    @property
    def is_folded(self) -> bool:
        return self.folders > 0

    @property
    def said(self) -> str:
        """The line for people: `app.py`, or `node_modules: 2,220 files in 111 folders`."""
        if not self.is_folded:
            return self.name
        within = f" in {self.folders:,} folders" if self.folders > 1 else ""
        return f"{self.name}: {len(self.targets):,} files{within}"


def lines_of(every: Iterable[ListedChange], *, folding: bool = True) -> list[ListLine]:
    """Return the lines of a list, what matters most first. Without `folding`, each target has its own line.

    A folder is folded if it came or went as a whole, or is generated. What is ignored is never folded: `.env` is in
    no other place. A folder is mentioned only if nothing in it is.
    """
    items = list(every)
    above = _folders_above(item.target for item in items)
    told = [item for item in items if not (item.is_folder and _key(item.target) in above)]
    if not folding:
        return [_alone(item) for item in sorted(told, key=_order)]
    roots = _Roots(_key(item.target) for item in items if item.is_folder and item.is_whole)
    groups: dict[tuple[Rank, str, str, str], list[ListedChange]] = {}
    lines: list[ListLine] = []
    for item in sorted(told, key=_order):
        if root := _root_of(item, roots):
            group = (item.place.rank, item.target.resource, item.target.root, root)
            groups.setdefault(group, []).append(item)
        else:
            lines.append(_alone(item))
    for (rank, resource, place, root), some in groups.items():
        files = [item for item in some if not item.is_folder]
        if len(files) < FOLD_MIN:
            lines += [_alone(item) for item in some]
            continue
        folders = {item.target.name.rpartition("/")[0] for item in files}
        name = str(Target(resource, root, place))
        lost = any(item.is_lost for item in files)
        lines.append(ListLine(rank, name, tuple(item.target for item in files), len(folders), lost))
    return sorted(lines, key=lambda line: (line.rank, line.name))


def shortened(lines: Iterable[ListLine], most: int = SHOWN) -> tuple[list[ListLine], int]:
    """Return at most so many lines of each rank, and how many targets are left out.

    A deletion is left out only if it is of something generated.
    """
    shown: list[ListLine] = []
    counts = dict.fromkeys(Rank, 0)
    left = 0
    for line in lines:
        needed = line.is_lost and line.rank is not Rank.GENERATED
        if needed or counts[line.rank] < most:
            shown.append(line)
            counts[line.rank] += not needed
        else:
            left += len(line.targets)
    return shown, left


def _alone(item: ListedChange) -> ListLine:
    target = item.target
    name = f"{target.said}/" if item.is_folder else target.said
    return ListLine(item.place.rank, name, (target,), is_lost=item.is_lost)


def _order(item: ListedChange) -> tuple[Rank, Target]:
    return item.place.rank, item.target


def _key(target: Target) -> tuple[str, str]:
    return target.root, target.name


def _folders_above(targets: Iterable[Target]) -> set[tuple[str, str]]:
    """Return all folders that contain one of these paths."""
    above: set[tuple[str, str]] = set()
    for target in targets:
        if target.resource not in PATHS and target.resource != "sqlite":
            continue
        folder = target.name.rpartition("/")[0]
        while (target.root, folder) not in above:  # up to the root, whose name is empty
            above.add((target.root, folder))
            folder = folder.rpartition("/")[0]
    return above


class _Roots:
    """Finds the topmost folder that came or went as a whole, and contains a path."""

    def __init__(self, whole: Iterable[tuple[str, str]]) -> None:
        self._whole = set(whole)
        self._known: dict[tuple[str, str], str] = {}

    def above(self, root: str, name: str) -> str:
        folder = name.rpartition("/")[0]
        if not folder:
            return ""
        found = self._known.get((root, folder))
        if found is None:
            found = self.above(root, folder) or (folder if (root, folder) in self._whole else "")
            self._known[root, folder] = found
        return found


def _root_of(item: ListedChange, roots: _Roots) -> str:
    """Return the folder of which an item is a part; empty if it stands for itself."""
    if item.target.resource not in PATHS or item.place.rank is Rank.IGNORED:
        return ""
    if item.place.rank is Rank.GENERATED:
        return item.place.home
    return roots.above(item.target.root, item.target.name)
