"""Which of the paths on their way back are one file, and which must not stay one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from takeback.resources.files.entry import FOLDER
from takeback.resources.files.work import Work


def choose_links(works: Sequence[Work], standing: Mapping[bytes, bytes]) -> None:
    """Paths that were one file become one again, and paths that were not are taken apart.

    `standing` gives for each group a path that belongs to it and is not being put back.
    """
    now: dict[bytes, list[Work]] = {}
    then: dict[bytes, list[Work]] = {}
    for work in works:
        if work.goal is None or work.goal.kind == FOLDER:
            continue
        if work.goal.group:
            then.setdefault(work.goal.group, []).append(work)
        elif work.present is not None and work.present.group:
            now.setdefault(work.present.group, []).append(work)
    for group, members in now.items():
        # One of them may keep the file, unless somebody else has it.
        for work in members if group in standing else members[1:]:
            work.apart = True
    for group, members in then.items():
        _link(members, standing.get(group))


def _link(members: list[Work], leader_path: bytes | None) -> None:
    leader = None
    if leader_path is None:
        leader = next((work for work in members if work.in_place), members[0])
    for work in members:
        same_file = leader and work.key and leader.key and work.in_place and work.key.ino == leader.key.ino
        if work is not leader and not same_file:
            work.link_to = leader.path if leader else leader_path
