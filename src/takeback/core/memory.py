"""What a run remembers, as targets: a dictionary is a place, everything else in it is a value with a path.

A path is a JSON pointer. So two writers of different keys do not touch the same target, and taking one back
leaves the other. A list is one value: its order is its meaning.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import digest

RESOURCE = "memory"

_encoder = msgspec.json.Encoder(order="sorted")


def pointer(*keys: str) -> str:
    """The path of nested keys."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def keys_of(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def flatten(value: Any, at: str = "") -> dict[str, Any]:
    """The values of a nested dictionary by their paths. An empty dictionary is a value."""
    if not isinstance(value, dict) or (not value and at):
        return {at: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found.update(flatten(item, at + pointer(key)))
    return found


def unflatten(values: dict[str, Any]) -> dict[str, Any]:
    """The nested dictionary that these paths and values make."""
    whole: dict[str, Any] = {}
    for path, value in sorted(values.items()):
        place = whole
        *above, last = keys_of(path)
        for key in above:
            # An undo may bring back a value where another action has made a place since: the place wins.
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[last] = copy.deepcopy(value)
    return whole


def version(value: Any) -> Version:
    return Version(digest(_encoder.encode(value)), data=value)


def changes(run: str, before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    """How one state of a run's memory differs from another."""
    return tuple(
        Change(Target(RESOURCE, path, run), old, new)
        for path in sorted(before.keys() | after.keys())
        if (old := version(before[path]) if path in before else ABSENT)
        != (new := version(after[path]) if path in after else ABSENT)
    )
