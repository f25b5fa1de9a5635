"""What a killed rollback left in its staging folder, and what of it belongs to someone else.

Before the folder was ready nothing had been swapped: everything in it is ours and goes. Afterwards a staged name
may hold what came out of an exchange, not yet checked. If that is neither the version we meant to replace nor the
one we meant to put there, it is a human's, and goes back where it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from takeback.core.change import Target
from takeback.ports.content import Contents
from takeback.ports.resource import Swap
from takeback.resources.files.entry import (
    FILE,
    FOLDER,
    LINK,
    OPAQUE,
    FileEntry,
    entry_of,
    join,
    kind_of,
    path_of_target,
    split,
)
from takeback.resources.files.put_back.staging import LeftStaging, left_behind, new_name, old_name
from takeback.resources.files.tree.deltas import StoredTree
from takeback.resources.files.tree.tree import Get, TreeFolder, entry_in, same
from takeback.system import linux
from takeback.system.beneath import FILE_FLAGS, RootFolder


class Rescued(msgspec.Struct):
    """What was found of an interrupted rollback: whether there was one, and what turned out to be others'."""

    interrupted: bool = False
    kept: Mapping[Target, str] = {}
    written: Mapping[Target, str] = {}
    """Versions that were replaced, and are kept because a program continues to write to them."""

    def is_half_done(self, was: FileEntry | None, now: FileEntry | None, goal: FileEntry | None) -> bool:
        """Return True if this is what the rollback was making, and only mode, attributes or times are missing.

        Or all of it: if a folder gives way to a file, or a file to a folder, one goes before the other comes.
        """
        if not self.interrupted or goal is None:
            return False
        if now is None:
            return was is not None and FOLDER in (was.kind, goal.kind)
        return now.kind == goal.kind and (now.kind == FOLDER or now.content == goal.content)


def rescue(place: RootFolder, rollback: str, swaps: Sequence[Swap], contents: Contents) -> Rescued:
    """Clear the staging folder of an interrupted rollback."""
    staging = left_behind(place, rollback)
    if staging is None:
        return Rescued()
    kept, written = dict[Target, str](), dict[Target, str]()
    if staging.is_ready():
        paths = {swap.target: path_of_target(swap.target) for swap in swaps}
        for swap in swaps:
            known = {_print(entry_of(version)) for version in (swap.present, swap.goal)}
            for name in (new_name(paths[swap.target]), old_name(paths[swap.target])):
                # Check this first: a file that no one can write to any more stays as it is found after that.
                is_open = staging.is_open_to_others(name)
                if _looked_at(staging.fd, name, contents) not in (None, *known):
                    kept[swap.target] = _give_back(place, staging, name, paths[swap.target], known, contents)
                elif is_open:
                    written[swap.target] = staging.let_out_open(name, paths[swap.target])
    staging.close()
    staging.free()
    return Rescued(True, kept, written)


def calm(place: RootFolder, known: TreeFolder, tree: bytes, swaps: Sequence[Swap], get: Get) -> None:
    """Restore the mtime of folders that the interrupted attempt only passed through.

    Skip a folder if anything in it, other than the swapped paths, differs from `tree`.
    """
    paths = {path_of_target(swap.target) for swap in swaps}
    state = StoredTree(tree, get)
    for path in {b"", *(split(swapped)[0] for swapped in paths)} - paths:
        was, now = state.entry(path), known.find(path)
        if was is None or was.kind != FOLDER or now is None or now.entry.mtime_ns == was.mtime_ns:
            continue
        then = state.folder(path)
        others = [name for name in now.names() | set(then) if join(path, name) not in paths]
        if all(_is_same(then.get(name), entry_in(now, name)) for name in others):
            # A folder's mtime is not worth failing for.
            with suppress(OSError), place.folder(path) as fd:
                os.utime(fd, ns=(os.fstat(fd).st_atime_ns, was.mtime_ns))


def _is_same(then: FileEntry | None, now: FileEntry | None) -> bool:
    """Compare two entries. A folder below changes independently: its existence is enough."""
    folders = then is not None and now is not None and then.kind == now.kind == FOLDER
    return folders or same(then, now)


Print = tuple[str, bytes]
"""Kind and content, which show whose version something is."""


def _print(entry: FileEntry | None) -> Print:
    return (entry.kind, entry.content) if entry is not None else ("", b"")


def _looked_at(folder_fd: int, name: bytes, contents: Contents) -> Print | None:
    """Return what is there; None if nothing. An unreadable file matches no known version."""
    try:
        found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = kind_of(found.st_mode)
    if kind == LINK:
        return kind, os.readlink(name, dir_fd=folder_fd)
    if kind != FILE:
        return kind, b""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
    except OSError:
        return OPAQUE, b""
    try:
        return kind, contents.put(fd, found.st_size)
    finally:
        os.close(fd)


def _give_back(
    place: RootFolder, staging: LeftStaging, name: bytes, path: bytes, known: set[Print], contents: Contents
) -> str:
    """Put a human's version back where it came from, or under a visible name. Return a text that says which."""
    why = "it was changed while it was being taken back"
    folder, own = split(path)
    try:
        with place.folder(folder) as fd:
            there = _looked_at(fd, own, contents)
            if there not in (None, *known):
                return f"{why}, twice; the first of these versions is kept as {staging.let_out(name, path)}"
            flags = linux.RENAME_EXCHANGE if there else linux.RENAME_NOREPLACE
            linux.renameat2(staging.fd, name, fd, own, flags)
    except OSError:
        return f"{why}; that version is kept as {staging.let_out(name, path)}"
    if _looked_at(staging.fd, name, contents) not in (None, *known):
        return f"{why}, twice; the last of these versions is kept as {staging.let_out(name, path)}"
    return f"{why}; that version was put back"
