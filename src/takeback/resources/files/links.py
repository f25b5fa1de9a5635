"""Which of the paths on their way back are one file, and which must not stay one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from takeback.resources.files.entry import FOLDER
from takeback.resources.files.work import Work

File = tuple[int, int]
"""A file, whatever names it has: its device and its number there."""


class Standing(msgspec.Struct, frozen=True):
    """Paths that are not being put back, of files that have several names."""

    paths: Mapping[bytes, bytes] = {}
    """For each group one that belongs to it, and is as it should be."""
    files: Mapping[File, bytes] = {}
    """Which file is that of which group."""


def choose_links(works: Sequence[Work], standing: Standing) -> None:
    """Paths that were one file become one again, and paths that were not are taken apart."""
    staying: dict[File, dict[bytes, list[Work]]] = {}
    groups: dict[bytes, list[Work]] = {}
    for work in works:
        if work.goal is None or work.goal.kind == FOLDER:
            continue
        if work.goal.group:
            groups.setdefault(work.goal.group, []).append(work)
        if work.in_place and work.key is not None:
            # A path that was a file of its own is the only one of its kind.
            kind = work.goal.group or b"/" + work.path
            staying.setdefault((work.key.dev, work.key.ino), {}).setdefault(kind, []).append(work)
    for file, kinds in staying.items():
        # The file stays with those who have it and are not being put back, else with most of the others.
        keeps = standing.files.get(file) or max(kinds, key=lambda kind: len(kinds[kind]))
        for kind, members in kinds.items():
            for work in members if kind != keeps else ():
                work.apart = True
    for group, members in groups.items():
        _link(members, standing.paths.get(group))


def _link(members: list[Work], leader_path: bytes | None) -> None:
    leader = None
    if leader_path is None:
        leader = next((work for work in members if work.in_place), members[0])
    for work in members:
        same_file = leader and work.key and leader.key and work.in_place and work.key.ino == leader.key.ino
        if work is not leader and not same_file:
            work.link_to = leader.path if leader else leader_path
