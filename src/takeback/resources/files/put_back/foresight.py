"""What a swap would meet, known before anything is written; and merging two versions of a file."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeGuard

import msgspec

from takeback.core.change import Target, Version
from takeback.core.codec import text_of
from takeback.core.merge import merge
from takeback.core.rollback import Do
from takeback.errors import ContentGone
from takeback.ports.content import BlobStore, Contents, WhyGone, pruned
from takeback.ports.resource import Swap
from takeback.resources.files.entry import (
    FILE,
    FOLDER,
    FileEntry,
    entry_of,
    is_opaque,
    join,
    path_of_target,
    split,
    version_of,
)
from takeback.resources.files.tree.tree import TreeFolder, entry_in

MERGE_BYTES_MAX = 16 << 20
DIGEST_BYTES = 32
NOT_KEPT = "what is there now could not be saved (unreadable, or too large for the disk), so it would be lost"


def foresee(
    root: TreeFolder,
    swaps: Sequence[Swap],
    kept: Collection[Target],
    blobs: BlobStore,
    why_gone: WhyGone = pruned,
) -> Mapping[Target, tuple[Do, str]]:
    """Simulate the swaps on the tree as it is now."""
    holding = {split(path_of_target(target))[0] for target in kept}
    goals = {path_of_target(swap.target): entry_of(swap.goal) for swap in swaps}
    missing = blobs.missing(entry.content[:DIGEST_BYTES] for entry in goals.values() if _is_file(entry))
    found: dict[Target, tuple[Do, str]] = {}
    for swap in swaps:
        path = path_of_target(swap.target)
        goal = goals[path]
        if swap.present == swap.goal and path in holding:
            # Only its mtime would change, to a time when it did not contain what stays in it.
            found[swap.target] = (Do.ALREADY, "")
        elif swap.overwrites_others and is_opaque(swap.present):
            found[swap.target] = (Do.CONFLICT, NOT_KEPT)
        elif problem := _room(root, path, goal, goals) or _content(goal, swap.present, missing, why_gone):
            found[swap.target] = problem
    return found


def _room(
    root: TreeFolder, path: bytes, goal: FileEntry | None, goals: Mapping[bytes, FileEntry | None]
) -> tuple[Do, str] | None:
    here = root.find(path)
    if here is not None and path and (goal is None or goal.kind != FOLDER):
        staying = [name for name in here.names() if goals.get(join(path, name), here) is not None]
        if staying:
            do = Do.KEEP if goal is None else Do.CONFLICT
            return do, f"it still contains {text_of(min(staying))}, which stays"
    above = split(path)[0]
    if goal is not None and above:
        parent = goals[above] if above in goals else entry_in(root, above)
        if parent is not None and parent.kind != FOLDER:
            return Do.CONFLICT, f"{text_of(above)} is no longer a folder"
    return None


def _is_file(entry: FileEntry | None) -> TypeGuard[FileEntry]:
    return entry is not None and entry.kind == FILE


def _content(
    goal: FileEntry | None, present: Version, missing: AbstractSet[bytes], why_gone: WhyGone
) -> tuple[Do, str] | None:
    """Return a conflict if the content that is needed was removed."""
    if not _is_file(goal) or goal.content[:DIGEST_BYTES] not in missing:
        return None
    if (now := entry_of(present)) is not None and now.content == goal.content:
        return None
    return Do.CONFLICT, why_gone(goal.content)


def merge_files(contents: Contents, mine: Version, base: Version, goal: Version) -> Version | str:
    """Merge three whole text files. Return the merged version, or why that is impossible."""
    entries = [entry_of(version) for version in (mine, base, goal)]
    files = [entry for entry in entries if entry is not None and entry.kind == FILE]
    if len(files) < 3:
        return "it cannot be merged: not all three versions are files"
    if max(entry.size for entry in files) > MERGE_BYTES_MAX:
        return "it is too large to be merged"
    try:
        ours, root, theirs = (contents.read(entry.content, entry.size) for entry in files)
    except ContentGone:
        return "it cannot be merged: the content of a version is no longer kept"
    merged = merge(root, ours, theirs)
    if merged.data is None:
        lines = ", ".join(_lines(overlap.our_lines) for overlap in merged.conflicts)
        return (
            f"you and the agent both changed {lines}" if lines else "it is not text, so it cannot be merged"
        )
    entry = msgspec.structs.replace(
        files[0],
        content=contents.put_bytes(merged.data),
        size=len(merged.data),
        mtime_ns=time.time_ns(),
        group=b"",
    )
    return version_of(entry)


def _lines(numbers: tuple[int, int]) -> str:
    first, last = numbers
    return f"line {first}" if last <= first else f"lines {first} to {last}"
