"""Composing targets from the files of a repository: all of them, or those with a touched file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from takeback.core.change import ABSENT, Version
from takeback.core.codec import text_of
from takeback.resources.git import entry
from takeback.resources.git.look import scan
from takeback.resources.git.look.manifest import Targets

_STASH, _STASH_LOG, _OBJECTS = b"refs/stash", b"logs/refs/stash", b"objects"


class GitFileRow(msgspec.Struct, array_like=True, gc=False):
    """The content of one file, and its purpose."""

    area: str
    prefix: bytes
    version: Version


class Said(msgspec.Struct, array_like=True):
    """The content of a repository's files, and how it is stored."""

    rows: dict[bytes, GitFileRow]
    packed: dict[bytes, dict[bytes, Version]]
    """The packed refs of each repository, by its prefix."""
    parts: list[bytes]


# The same thousands of names recur with each ref that moves.
_text = lru_cache(maxsize=1 << 16)(text_of)


def compose(said: Said, stores: dict[bytes, Version]) -> Targets:
    """Return the targets that these files form: packed refs below loose ones, a stash or operation as one target."""
    found = {prefix + _OBJECTS: version for prefix, version in stores.items()}
    for some in said.packed.values():
        found.update(some)
    operations: dict[bytes, dict[bytes, Version]] = {}
    for name, row in said.rows.items():
        if row.area == scan.OPERATION:
            _add_to(operations, name, row)
        elif row.area != scan.PACKED:
            found[name] = row.version
    for name, files in operations.items():
        found[name] = entry.operation(files)
    for prefix in {*said.packed, *(row.prefix for row in said.rows.values())}:
        stash = _stash(found.get(prefix + _STASH, ABSENT), found.get(prefix + _STASH_LOG, ABSENT))
        for name, version in zip((prefix + _STASH, prefix + _STASH_LOG), stash, strict=True):
            found[name] = version
            if not version:
                del found[name]
    return {_text(name): version for name, version in found.items()}


def compose_again(
    targets: Targets, said: Said, stores: dict[bytes, Version], touched: Iterable[scan.RepositoryFile]
) -> Targets:
    """Update `targets` for these files, which were read again or are gone.

    Return the changed targets, ABSENT if they are gone.
    """
    found: dict[bytes, Version] = {}
    operations: dict[bytes, dict[bytes, Version]] = {}
    for one in touched:
        if one.area == scan.OPERATION:
            operations[_operation(one.name, one.prefix)] = {}
        elif one.name in (one.prefix + _STASH, one.prefix + _STASH_LOG):
            names = (one.prefix + _STASH, one.prefix + _STASH_LOG)
            found.update(zip(names, _stash(*(_at(said, stores, n, one.prefix) for n in names)), strict=True))
        elif one.area != scan.PACKED:
            found[one.name] = _at(said, stores, one.name, one.prefix)
    if operations:
        for name, row in said.rows.items():
            if row.area == scan.OPERATION and _operation(name, row.prefix) in operations:
                _add_to(operations, name, row)
        found |= {name: entry.operation(files) if files else ABSENT for name, files in operations.items()}
    return _apply(targets, {_text(name): version for name, version in found.items()})


def _apply(targets: Targets, found: Targets) -> Targets:
    changed = {n: v for n, v in found.items() if not v.alike(targets.get(n, ABSENT))}
    for name, version in changed.items():
        if version:
            targets[name] = version
        else:
            del targets[name]
    return changed


def _at(said: Said, stores: dict[bytes, Version], name: bytes, prefix: bytes) -> Version:
    """Return the content of one file; otherwise the packed ref with that name, or the objects stored there."""
    row = said.rows.get(name)
    if row is not None and row.area not in (scan.PACKED, scan.OPERATION):
        return row.version
    packed = said.packed.get(prefix, {}).get(name)
    if packed is None and name.endswith(_OBJECTS):
        return stores.get(name[: -len(_OBJECTS)], ABSENT)
    return packed or ABSENT


def _stash(top: Version, text: Version) -> tuple[Version, Version]:
    """Return the stash and its log as targets: normally a single one."""
    log = text if entry.kind_of(text) == entry.LOG else None
    if entry.kind_of(top) == entry.REF:
        top = entry.stash(entry.value_of(top), log)
    elif log is not None:
        top = entry.stash("", log)
    return top, ABSENT if log is not None else text


def _operation(name: bytes, prefix: bytes) -> bytes:
    return prefix + name[len(prefix) :].partition(b"/")[0]


def _add_to(operations: dict[bytes, dict[bytes, Version]], name: bytes, row: GitFileRow) -> None:
    if entry.kind_of(row.version) == entry.FILE:
        folder = _operation(name, row.prefix)
        operations.setdefault(folder, {})[name[len(folder) + 1 :]] = row.version
