"""What a call changed, by names that a person knows: `build: 61 files`, `main → 3fa9c1e`, `app.db`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from takeback.core.change import Change, Target
from takeback.core.codec import printable
from takeback.core.listing import ListLine, ListPlace, Rank, is_folder, lines_of, listed
from takeback.resources.git import entry
from takeback.resources.git.format.refs import is_object
from takeback.resources.git.minor import MINOR
from takeback.resources.git.words import short

FOLDER_LEAST = 4
"""So many files below one folder are named by that folder."""
_FOLLOWS = re.compile(MINOR)
_WORKTREE = re.compile(r"worktrees/([^/]+)/gitdir")


def is_upkeep(change: Change) -> bool:
    """Return whether a change follows from others, or is git's own upkeep, such as the index after `git status`."""
    if change.target.resource == "git" and _FOLLOWS.search(change.target.name):
        return True
    return change.before == change.after and (change.target.resource == "git" or is_folder(change))


def telling(changes: Iterable[Change]) -> list[Change]:
    """Return the changes that say what happened, each target once; none if all of them are upkeep."""
    found = {change.target: change for change in changes if not is_upkeep(change)}
    plain = [change for change in found.values() if not is_folder(change)]
    return plain or list(found.values())


def names(changes: Iterable[Change], places: Mapping[Target, ListPlace]) -> list[str]:
    """Return what was changed, by name, in the order of all lists; many files of one folder as that folder."""
    # A call to another system is named by what it did, not by its key.
    every = {c.target: c for c in telling(changes) if c.target.resource != "calls"}
    lines = lines_of(listed(change, places) for change in every.values())
    found: list[str] = []
    for rank, some in groupby(lines, key=lambda line: line.rank):
        if rank is Rank.GIT:
            found += _of_git([every[line.targets[0]] for line in some])
        else:
            found += _of_rank(list(some))
    return list(dict.fromkeys(found))


def _of_git(changes: Sequence[Change]) -> list[str]:
    # A branch that moves takes the index and HEAD with it: they say no more.
    refs = [c for c in changes if _is_ref(c)]
    return [_git(c) for c in (*refs, *(c for c in changes if not _is_ref(c) and not (refs and _is_index(c))))]


def _of_rank(lines: Sequence[ListLine]) -> list[str]:
    whole = [printable(f"{line.name}: {len(line.targets):,} files") for line in lines if line.is_folded]
    single = [line.name for line in lines if not line.is_folded]
    if lines[0].rank in (Rank.FILE, Rank.GENERATED):
        return [*_of_files(single), *whole]
    return [printable(name) for name in single]


def _is_ref(change: Change) -> bool:
    return change.target.resource == "git" and change.target.name.split("/", 1)[0] in ("refs", "HEAD")


def _is_index(change: Change) -> bool:
    return change.target.resource == "git" and change.target.name.endswith("index")


def _git(change: Change) -> str:
    name = short(change.target.name)
    if found := _WORKTREE.fullmatch(name):
        name = f"worktree {found[1]}"
    if not change.after:
        return f"{name} removed"
    value = entry.value_of(change.after)
    if entry.kind_of(change.after) != entry.REF:
        return "stash" if name.endswith("stash") else name
    return f"{name} → {value[:7] if is_object(value) else short(value.removeprefix('ref: '))}"


def _of_files(paths: Sequence[str]) -> list[str]:
    """Name files one by one, and those of a folder with many by the folder."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.partition("/")[0] if "/" in path else "", []).append(path)
    found = []
    for folder, inside in folders.items():
        if folder and len(inside) >= FOLDER_LEAST:
            found.append(printable(f"{_common(inside)}: {len(inside):,} files"))
        else:
            found += [printable(path) for path in inside]
    return sorted(found, key=lambda name: (name.endswith(" files"), name))


def _common(paths: Sequence[str]) -> str:
    """Return the deepest folder that all of these paths are below."""
    split = [path.split("/")[:-1] for path in paths]
    shared = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)
