"""The objects that a version needs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from takeback.core.change import Version
from takeback.ports.content import Contents
from takeback.resources.git import entry
from takeback.resources.git.format import index_file, place, refs
from takeback.resources.git.format.place import RepositoryLocation
from takeback.resources.git.look.reader import owner

_POINTER = re.compile(rb"[A-Z_]+")
_GITLINK = 0o160000


def objects_of(
    name: bytes, version: Version, where: RepositoryLocation, contents: Contents
) -> tuple[bytes, set[str]]:
    """Return the repository that has the objects of this version, and their names."""
    kind = entry.kind_of(version)
    if kind == entry.REF:
        value = entry.value_of(version)
        return owner(entry.prefix_of(version)), {value} if refs.is_object(value) else set()
    if kind == entry.LOG:
        return owner(entry.prefix_of(version)), refs.objects_in(_text(version, contents))
    folder, _, last = name.rpartition(b"/")
    prefix = owner(folder + b"/" if folder else b"")
    if kind == entry.STASH:
        text = entry.stash_log(version)
        found = refs.objects_in(_text(text, contents)) if text else set()
        return name[: -len(b"refs/stash")], found | ({entry.value_of(version)} - {""})
    if kind == entry.INDEX:
        return prefix, _staged(_text(version, contents), place.hash_name(where.path(prefix)))
    if kind == entry.OPERATION:
        files = entry.operation_files(version).values()
        return prefix, {name for file in files for name in refs.objects_in(_text(file, contents))}
    if kind in (entry.FILE, entry.NOTE) and _POINTER.fullmatch(last):
        return prefix, refs.objects_in(_text(version, contents))
    return prefix, set()


def named_by(versions: Iterable[Version], prefix: bytes) -> list[str]:
    """Return the objects that the refs of one repository name, among these versions."""
    some = [v for v in versions if entry.kind_of(v) == entry.REF and owner(entry.prefix_of(v)) == prefix]
    return [value for value in map(entry.value_of, some) if refs.is_object(value)]


def _staged(data: bytes, hash_name: str) -> set[str]:
    try:
        found = index_file.read(data, hash_name)
    except index_file.NotAnIndex:
        return set()
    # A submodule's commit is in the submodule.
    names = {staged.object for staged in found.entries if staged.mode != _GITLINK}
    return {name for name in names | found.trees if refs.is_object(name)}


def _text(version: Version, contents: Contents) -> bytes:
    found = entry.content_of(version)
    return contents.read(*found) if found else b""
