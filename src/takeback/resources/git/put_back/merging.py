"""Removing only what an agent did, if someone else wrote as well."""

from __future__ import annotations

from collections import Counter

from takeback.core.change import ABSENT, Version
from takeback.core.merge import merge
from takeback.ports.content import Contents
from takeback.resources.git import entry
from takeback.resources.git.format import index_file, refs
from takeback.resources.git.put_back import index_merge, lost_objects

CHANGED = ""
"""There is no more to say than that it was changed since."""
MERGE_BYTES_MAX = 16 << 20


def merged(contents: Contents, mine: Version, base: Version, goal: Version) -> Version | str:
    """Apply the difference between `base` and `goal` to `mine`; or return why that is impossible."""
    kind = entry.kind_of(mine or base or goal)
    if kind == entry.LOG:
        return _log(contents, mine, base, goal)
    if kind == entry.NOTE:
        return mine
    if kind == entry.OBJECTS:
        return lost_objects.merged(contents, mine, base, goal)
    if kind == entry.STASH:
        return _stash(contents, mine, base, goal)
    if kind == entry.INDEX and mine and base and goal:
        return _index(contents, mine, base, goal)
    if kind == entry.FILE and mine and base and goal:
        return _file(contents, mine, base, goal)
    return CHANGED


def _log(contents: Contents, mine: Version, base: Version, goal: Version) -> Version:
    """Return the log without the lines that the agent added.

    If that is impossible it stays as it is: it only informs.
    """
    lines = _without(_lines(contents, mine), _lines(contents, base), _lines(contents, goal))
    if lines is None or not mine:
        return mine
    data = b"".join(lines)
    return entry.log(mine.data[1], contents.put_bytes(data), len(data), entry.prefix_of(mine))


def _without(mine: list[bytes], base: list[bytes], goal: list[bytes]) -> list[bytes] | None:
    """Return mine without what base has and goal lacks; None if goal has something that base lacks."""
    if Counter(goal) - Counter(base):
        return None
    leaving = Counter(base) - Counter(goal)
    if leaving - Counter(mine):
        return None
    kept = []
    for line in mine:
        if leaving[line]:
            leaving[line] -= 1
        else:
            kept.append(line)
    return kept


def _stash(contents: Contents, mine: Version, base: Version, goal: Version) -> Version | str:
    """Keep the human's stashes, remove the agent's, and bring those that the agent dropped back below them."""
    ours, old, new = (_stash_lines(contents, version) for version in (mine, base, goal))
    added = [line for line in new if line not in old]
    gone = [line for line in old if line not in new]
    if any(line not in ours for line in gone):
        return CHANGED
    lines = added + [line for line in ours if line not in gone]
    if not lines:
        return ABSENT
    # Each line starts with the value at which the one before it ended.
    data, last = b"", b"0" * len(lines[0].partition(b" ")[0])
    for line in lines:
        _, _, rest = line.partition(b" ")
        data += last + b" " + rest
        last = rest.partition(b" ")[0]
    mode = next(v.data[2] for v in (mine, base, goal) if v)
    text = entry.log(mode, contents.put_bytes(data), len(data))
    return entry.stash(last.decode(), text)


def _stash_lines(contents: Contents, version: Version) -> list[bytes]:
    text = entry.stash_log(version) if version else None
    return _lines(contents, text or ABSENT)


def _lines(contents: Contents, version: Version) -> list[bytes]:
    found = entry.content_of(version)
    return contents.read(*found).splitlines(keepends=True) if found else []


def _index(contents: Contents, mine: Version, base: Version, goal: Version) -> Version | str:
    texts = [contents.read(*found) for v in (mine, base, goal) if (found := entry.content_of(v))]
    data = index_merge.merged(*texts)
    if data is None:
        return CHANGED
    name, content = index_file.digest(data, index_merge.hash_of(data)), contents.put_bytes(data)
    return entry.index(name, mine.data[1], content, len(data), mine.data[4])


def _file(contents: Contents, mine: Version, base: Version, goal: Version) -> Version | str:
    found = [entry.content_of(version) for version in (base, mine, goal)]
    if any(item is None or item[1] > MERGE_BYTES_MAX for item in found):
        return CHANGED
    texts = [contents.read(*item) for item in found if item]
    if all(refs.loose(text) is not None for text in texts):
        return CHANGED
    result = merge(*texts)
    if result.data is None:
        return CHANGED
    return entry.file(mine.data[1], contents.put_bytes(result.data), len(result.data))
