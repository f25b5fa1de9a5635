"""What a call changed, by names that a person knows: `build: 61 files`, `main → 3fa9c1e`, `app.db`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from takeback.core.change import Change
from takeback.core.codec import printable
from takeback.resources.git import entry
from takeback.resources.git.format.refs import is_object
from takeback.resources.git.minor import MINOR
from takeback.resources.git.words import short

FOLDER_LEAST = 4
"""So many files below one folder are named by that folder."""
_FOLLOWS = re.compile(MINOR)
_FILES = ("files", "outside")
_ORDER = ("git", "sqlite", "postgres", "outbox", "memory")


def is_folder(change: Change) -> bool:
    """Return whether a change is that of a folder itself."""
    return change.target.resource in _FILES and (change.after or change.before).id.startswith("d:")


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


def names(changes: Iterable[Change]) -> list[str]:
    """Return what was changed, by name: what is not a file first, and many files of one folder as that folder."""
    every = telling(changes)
    # A call to another system is named by what it did, not by its key.
    others = sorted((c for c in every if c.target.resource not in (*_FILES, "calls")), key=_place)
    # A branch that moves takes the index and HEAD with it: they say no more.
    refs = [c for c in others if _is_ref(c)]
    told = refs + [c for c in others if not _is_ref(c) and not (refs and _is_index(c))]
    files = [change for change in every if change.target.resource in _FILES]
    found = [_name(change) for change in told]
    return list(dict.fromkeys([*found, *_of_files([c.target.said for c in files])]))


def _place(change: Change) -> tuple[int, str]:
    resource = change.target.resource
    return _ORDER.index(resource) if resource in _ORDER else len(_ORDER), change.target.name


def _is_ref(change: Change) -> bool:
    return change.target.resource == "git" and change.target.name.split("/", 1)[0] in ("refs", "HEAD")


def _is_index(change: Change) -> bool:
    return change.target.resource == "git" and change.target.name.endswith("index")


def _name(change: Change) -> str:
    if change.target.resource == "git":
        return _git(change)
    return printable(change.target.said)


def _git(change: Change) -> str:
    name = short(change.target.name)
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
