"""Reading what an agent wrote, without trusting it to be what it should be."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from takeback.agents.event import Event, Kind

Payload = dict[str, Any]
Env = Mapping[str, str]
NAME_CHARS_MAX = 200


class BadPayload(Exception):
    """This is no event, or lacks what nothing can be done without. It never leaves the dialects."""


def reader(
    kinds: Mapping[str, Kind],
    read: Callable[[Payload, str, Kind, Env], Event],
    *,
    named: str = "hook_event_name",
) -> Callable[[bytes, Env], Event]:
    """What makes an event of what a hook is given. It never raises: what cannot be read is an event too."""

    def read_any(data: bytes, env: Env) -> Event:
        try:
            given = parse(data)
            name = needed(given, named)
            kind = kinds.get(name, Kind.IGNORED)
            return read(given, name, kind, env) if kind is not Kind.IGNORED else Event(kind=kind, name=name)
        except BadPayload as why:
            return _unreadable(data, why)

    return read_any


def parse(data: bytes) -> Payload:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"it is not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise BadPayload("it is not a JSON object")
    return found


def _unreadable(data: bytes, why: BadPayload) -> Event:
    """An event of which only that it came is known, and perhaps its name."""
    try:
        named = parse(data)
    except BadPayload:
        named = {}
    name = words(named, "hook_event_name") or words(named, "event")
    return Event(kind=Kind.UNREADABLE, name=name[:NAME_CHARS_MAX], why=str(why))


def words(payload: Mapping[str, Any], name: str) -> str:
    """A text that may be missing."""
    found = payload.get(name)
    return found if isinstance(found, str) else ""


def needed(payload: Mapping[str, Any], name: str) -> str:
    """A text without which nothing can be done."""
    if not (found := words(payload, name)):
        raise BadPayload(f"it has no {name}")
    return found


def fields(payload: Mapping[str, Any], name: str) -> Payload:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}


def paths(given: Mapping[str, Any], names: Iterable[str], base: str) -> tuple[str, ...]:
    """The paths that these fields hold."""
    return absolute((words(given, name) for name in names), base)


def absolute(found: Iterable[str], base: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(posixpath.join(base, path) for path in found if path))


def alike(tool: str, args: Mapping[str, Any]) -> str:
    """An id for a call that has none: of the tool and what it is given."""
    text = json.dumps([tool, args], sort_keys=True, separators=(",", ":"))
    return f"alike-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def patched(patch: str) -> list[str]:
    """The files that a patch in the format of `apply_patch` names, both sides of a move included."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    return [
        line[len(mark) :].strip() for line in patch.splitlines() for mark in marks if line.startswith(mark)
    ]
