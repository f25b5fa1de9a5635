"""Reading an agent's input, without trusting its form."""

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
    """The input is not an event, or a necessary field is missing. Never leaves the dialects."""


def reader(
    kinds: Mapping[str, Kind],
    read: Callable[[Payload, str, Kind, Env], Event],
    *,
    named: str = "hook_event_name",
) -> Callable[[bytes, Env], Event]:
    """Return a function that turns a hook's input into an event. It never raises: unreadable input is an event,
    too."""

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
    """Return an unreadable event, with its name if possible."""
    try:
        named = parse(data)
    except BadPayload:
        named = {}
    name = words(named, "hook_event_name") or words(named, "event")
    return Event(kind=Kind.UNREADABLE, name=name[:NAME_CHARS_MAX], why=str(why))


def words(payload: Mapping[str, Any], name: str) -> str:
    """Return a text, or "" if it is missing."""
    found = payload.get(name)
    return found if isinstance(found, str) else ""


def needed(payload: Mapping[str, Any], name: str) -> str:
    """Return a necessary text. Raise BadPayload if it is missing."""
    if not (found := words(payload, name)):
        raise BadPayload(f"it has no {name}")
    return found


def fields(payload: Mapping[str, Any], name: str) -> Payload:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}


def paths(given: Mapping[str, Any], names: Iterable[str], base: str) -> tuple[str, ...]:
    """Return the paths in these fields."""
    return absolute((words(given, name) for name in names), base)


def absolute(found: Iterable[str], base: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(posixpath.join(base, path) for path in found if path))


def alike(tool: str, args: Mapping[str, Any]) -> str:
    """Return an id for a call that has none, derived from the tool and its arguments."""
    text = json.dumps([tool, args], sort_keys=True, separators=(",", ":"))
    return f"alike-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def patched(patch: str) -> list[str]:
    """Return the files that a patch in the format of `apply_patch` names, including both sides of a move."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    return [
        line[len(mark) :].strip() for line in patch.splitlines() for mark in marks if line.startswith(mark)
    ]
