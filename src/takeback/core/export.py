"""Events as JSON objects for other programs, with secrets redacted; and the list of what is still to be undone."""

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
"""The prefix of event names where events of many programs come together."""


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
"""The state of an intent after an event; empty if nothing is left to undo."""

Place = tuple[str, Target]
"""An action, and a target that it changed."""


class ToUndo(msgspec.Struct, frozen=True):
    """A change that still stands, to be taken back in this order."""

    seq: int
    action: str
    resource: str
    target: str
    before: str
    """The version to put back, as the log names it; empty if the target did not exist."""
    after: str
    """The version that stands; for an intent, `pending`, `delivered` or `dead`."""
    root: str = ""
    """The place of the target if it is outside the workspace; for memory, the run."""


def type_of(event: e.Event) -> str:
    """Return the name of an event: `action-began`."""
    return str(type(event).__struct_config__.tag)


def as_line(record: Record) -> dict[str, Any]:
    """Return an event as `takeback export` prints it. `seq` counts all events of the workspace, without a gap."""
    return {
        "seq": record.seq,
        "at": iso(record.at_us),
        "stream": record.stream,
        "id": record.id or None,
        "type": type_of(record.event),
        "digest": record.digest,
        "event": _shown(record),
    } | ({"compacted": iso(record.compacted_us)} if record.compacted_us else {})


def as_cloudevent(record: Record, source: str) -> dict[str, Any]:
    """Return an event as a CloudEvent 1.0 in JSON; `source` and `id` together are globally unique."""
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
    """Return the changes of one run, or of all runs, that are still to be undone, latest first.

    `lines` are all lines of `takeback export`, in order. They are read backwards. Changes that a rollback settled
    are left out, whether it took them back or kept them.
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
    """Return what a rollback settled, without the items that a redo brought back."""
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
    """Yield an intent unless it was cancelled or dropped."""
    if stands := intents.get(line["id"], PENDING):
        yield ToUndo(line["seq"], line["event"]["action"], OUTBOX, line["id"], "", stands)


def _place(one: ToUndo) -> Place:
    return one.action, Target(one.resource, one.target, one.root)


def _version(version: Mapping[str, Any]) -> str:
    return "" if version["id"] == ABSENT.id else str(version["id"])


def _shown(record: Record) -> Any:
    """Return all fields of an event, with secrets redacted."""
    event = record.event
    for field in ("changes", "swaps"):
        if changes := getattr(event, field, ()):
            shown = tuple(_without_secrets(change, record.seq) for change in changes)
            event = msgspec.structs.replace(event, **{field: shown})
    return view(msgspec.to_builtins(event))


def _without_secrets(change: Change, seq: int) -> Change:
    """Return the change without memory values stored under, or below, a name like `api_token`."""
    if change.target.resource != MEMORY:
        return change
    names = keys_of(change.target.name)
    before, after = (
        _hidden(change.before, names, "hidden"),
        _hidden(change.after, names, f"hidden, of event {seq}"),
    )
    return msgspec.structs.replace(change, before=before, after=after)


def _hidden(version: Version, names: Sequence[str], called: str) -> Version:
    """Return a version that may be shown. The digest of a short secret can be guessed, so it is replaced too."""
    # A version of a list that grew may have no value with it: then only its name says whether it is a secret.
    given = "?" if version.data is None else version.data
    data = functools.reduce(lambda data, name: view_of(name, data), names, given)
    if not version or data == given:
        return version
    return msgspec.structs.replace(version, id=called, data=data)


def iso(at_us: int) -> str:
    """Return a moment for machines: ISO 8601, UTC."""
    whole, rest = divmod(at_us, 1_000_000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
