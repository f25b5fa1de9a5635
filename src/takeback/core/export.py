"""Events for others to read: one JSON object for each, without what looks like a secret; and what is to be undone."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.intents import RESOURCE as OUTBOX
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.memory import keys_of
from takeback.core.record import Record
from takeback.core.values import view, view_of

PREFIX = "io.takeback."
"""Before the name of an event, where events of many programs come together."""


ROLLBACK = "rollback-ended"
DEFERRED = "intent-deferred"
PENDING = "pending"
_INTENT_IS = {
    "intent-delivered": "delivered",
    "intent-died": "dead",
    "intent-revived": PENDING,
    "intent-cancelled": "",
    "intent-dropped": "",
}
"""What an intent is after an event; nothing where there is nothing to be undone any more."""

Place = tuple[str, Target]
"""An action, and a target that it changed."""


class ToUndo(msgspec.Struct, frozen=True):
    """A change that still stands, to be taken back in this order."""

    seq: int
    action: str
    resource: str
    target: str
    before: str
    """The version to put back, as the log names it; empty where the target was not there."""
    after: str
    """The version that stands; of an intent whether it is `pending`, `delivered` or `dead`."""
    root: str = ""
    """Where the target lies, if not in the workspace; of what is remembered, whose it is."""


def type_of(event: e.Event) -> str:
    """The name of an event: `action-began`."""
    return str(type(event).__struct_config__.tag)


def as_line(record: Record) -> dict[str, Any]:
    """An event as `takeback export` prints it. `seq` counts all events of the workspace, without a gap."""
    return {
        "seq": record.seq,
        "at": iso(record.at_us),
        "stream": record.stream,
        "id": record.id or None,
        "type": type_of(record.event),
        "digest": record.digest,
        "event": _shown(record),
    }


def as_cloudevent(record: Record, source: str) -> dict[str, Any]:
    """The same as a CloudEvent 1.0 in JSON; `source` and `id` together are unique in the world."""
    return {
        "specversion": "1.0",
        "id": str(record.seq),
        "source": source,
        "type": PREFIX + type_of(record.event),
        "subject": record.id or record.stream,
        "time": iso(record.at_us),
        "datacontenttype": "application/json",
        "sequence": f"{record.seq:020d}",
        "data": as_line(record),
    }


def undo_list(lines: Iterable[Mapping[str, Any]], run: str = "") -> list[ToUndo]:
    """What exported lines say is still to be undone, latest first: of one run, or of all of them.

    `lines` are all lines of `takeback export`, in order. Read backwards, what a rollback has settled is left out: its
    changes are dealt with, whether they were taken back or kept.
    """
    found: list[ToUndo] = []
    settled: set[Place] = set()
    intents: dict[str, str] = {}
    for line in reversed(list(lines)):
        if line["type"] == ROLLBACK:
            settled |= _settled(line, settled)
        elif line["type"] in _INTENT_IS:
            intents.setdefault(line["event"]["intent"], _INTENT_IS[line["type"]])
        elif run in ("", line["stream"]) and line["stream"] != ids.WORKSPACE:
            made = _deferred(line, intents) if line["type"] == DEFERRED else _made(line)
            found += [one for one in made if _place(one) not in settled]
    return found


def _settled(line: Mapping[str, Any], later: set[Place]) -> set[Place]:
    """What a rollback dealt with, as far as it was not taken back itself: that is what a redo does."""
    rollback, found = line["event"]["rollback"], set()
    for item in line["event"].get("items", ()):
        target = Target(**item["target"])
        if (rollback, target) not in later:
            found |= {(action, target) for action in item.get("settles", ())}
    return found


def _made(line: Mapping[str, Any]) -> Iterator[ToUndo]:
    event = line["event"]
    for change in reversed(event.get("changes", ())):
        target, before, after = (
            Target(**change["target"]),
            _version(change["before"]),
            _version(change["after"]),
        )
        if before != after:
            action = event.get("action") or line["id"]
            yield ToUndo(line["seq"], action, target.resource, target.name, before, after, target.root)


def _deferred(line: Mapping[str, Any], intents: Mapping[str, str]) -> Iterator[ToUndo]:
    """An intent, as far as it was not cancelled or given up."""
    if stands := intents.get(line["id"], PENDING):
        yield ToUndo(line["seq"], line["event"]["action"], OUTBOX, line["id"], "", stands)


def _place(one: ToUndo) -> Place:
    return one.action, Target(one.resource, one.target, one.root)


def _version(version: Mapping[str, Any]) -> str:
    return "" if version["id"] == ABSENT.id else str(version["id"])


def _shown(record: Record) -> Any:
    """All that an event says, as it may be seen."""
    event = record.event
    for field in ("changes", "swaps"):
        if changes := getattr(event, field, ()):
            shown = tuple(_without_secrets(change, record.seq) for change in changes)
            event = msgspec.structs.replace(event, **{field: shown})
    return view(msgspec.to_builtins(event))


def _without_secrets(change: Change, seq: int) -> Change:
    """A value that is remembered under a name like `api_token`, or below one, is none for others."""
    if change.target.resource != MEMORY:
        return change
    names = keys_of(change.target.name)
    before, after = (
        _hidden(change.before, names, "hidden"),
        _hidden(change.after, names, f"hidden, of event {seq}"),
    )
    return msgspec.structs.replace(change, before=before, after=after)


def _hidden(version: Version, names: Sequence[str], called: str) -> Version:
    """A version as it may be seen. A digest of something short can be guessed, so what is hidden has another name."""
    # Of a list that grew, a version may have no value with it: then its name has to tell whether it is a secret.
    given = "?" if version.data is None else version.data
    data = functools.reduce(lambda data, name: view_of(name, data), names, given)
    if not version or data == given:
        return version
    return msgspec.structs.replace(version, id=called, data=data)


def iso(at_us: int) -> str:
    """Return a moment for machines: ISO 8601, UTC."""
    whole, rest = divmod(at_us, 1_000_000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
