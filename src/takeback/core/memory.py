"""The memory of a run as targets: each value in its nested dictionaries is a target with a path.

A path is a JSON pointer. So two writers of different keys do not touch the same target, and taking one back
leaves the other. A list is one value: its order is its meaning.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Entry, Target, Version
from takeback.core.codec import digest

RESOURCE = "memory"

_encoder = msgspec.json.Encoder(order="sorted")


def pointer(*keys: str) -> str:
    """Return the path of nested keys."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def keys_of(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def flatten(value: Any, at: str = "") -> dict[str, Any]:
    """Return the values of a nested dictionary by their paths. An empty dictionary is a value."""
    if not isinstance(value, dict) or (not value and at):
        return {at: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found.update(flatten(item, at + pointer(key)))
    return found


def unflatten(values: dict[str, Any]) -> dict[str, Any]:
    """Return the nested dictionary of these paths and values."""
    whole: dict[str, Any] = {}
    for path, value in sorted(values.items()):
        place = whole
        *above, last = keys_of(path)
        for key in above:
            # An undo may bring back a value where another action has created a dictionary since: the dictionary wins.
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[last] = copy.deepcopy(value)
    return whole


def version(value: Any) -> Version:
    return Version(digest(_encoder.encode(value)), data=value)


def changes(run: str, before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    """Return the changes from one state of a run's memory to another."""
    return tuple(
        _change(Target(RESOURCE, path, run), old, new)
        for path in sorted(before.keys() | after.keys())
        if (old := version(before[path]) if path in before else ABSENT)
        != (new := version(after[path]) if path in after else ABSENT)
    )


# A list that grows is not recorded again with each item: a version may instead hold a splice of the one before.
# A value is never a non-empty dictionary, so a non-empty dictionary is a splice.

LONG = 8
_NULL = version(None)


def _change(target: Target, old: Version, new: Version) -> Change:
    """Return a change with both values, or with a splice if little of a long list changed."""
    was, now = old.data, new.data
    if not isinstance(was, list) or not isinstance(now, list) or len(was) < LONG:
        return Change(target, old, new)
    same = _alike(was, now)
    rest = min(len(was), len(now)) - same
    tail = min(_alike(was[::-1], now[::-1]), rest)
    drop, add = len(was) - same - tail, now[same : len(now) - tail]
    splice = {"at": same, "drop": drop, "add": add}
    # In Python 1 == True, so check that the splice produces exactly the new value.
    if 2 * (drop + len(add)) > len(was) or version(spliced(was, splice)) != new:
        return Change(target, old, new)
    return Change(target, Version(old.id), Version(new.id, data=splice))


def _alike(one: list[Any], other: list[Any]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def spliced(value: list[Any], how: Any) -> list[Any]:
    """Return the value with a splice applied."""
    return [*value[: how["at"]], *how["add"], *value[how["at"] + how["drop"] :]]


def is_whole(version: Version) -> bool:
    """Return whether a version contains its value."""
    if version.data is None:
        return version == _NULL
    return not isinstance(version.data, dict) or not version.data


def value_after(timeline: Sequence[Entry], n: int, current: Any) -> Any:
    """Return the value after the n-th change of a target. `current` is the value after the change before it."""
    change = timeline[n].change
    if is_whole(change.after):
        return change.after.data
    follows = n > 0 and timeline[n - 1].change.after == change.before
    return spliced(current if follows else value_of(change.before, timeline[:n]), change.after.data)


def value_of(version: Version, timeline: Sequence[Entry]) -> Any:
    """Return the value of a version, found in the timeline of its target; KeyError if it is not there."""
    if is_whole(version):
        return version.data
    value: Any = None
    for n, entry in enumerate(timeline):
        if entry.change.before == version and is_whole(entry.change.before):
            return entry.change.before.data
        value = value_after(timeline, n, value) if entry.change.after else None
        if entry.change.after == version:
            return value
    raise KeyError(version.id)
