"""Moments: points of the history that a person names in one argument.

A moment is a position in the journal: what was recorded up to there is before it, everything else after it. What the
workspace looked like then is what Takeback saw when it last looked before that position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from takeback.core import ids
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.event_base import Mark
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.postings import END, Flag, Topic, every
from takeback.core.seats import TREE
from takeback.errors import UsageError

WAYS = (
    'a moment is a checkpoint (c3), "before a4" or "after s7" of an action, a step or a run, a time (14:02, '
    '"2h ago", "yesterday 18:00", 2026-01-31T14:02), or last-clean'
)
LAST_CLEAN = "last-clean"
BEFORE, AFTER = "before", "after"

_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_UNIT = "s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?"
_ONE_LENGTH = rf"([0-9]{{1,6}}) ?({_UNIT})"
_LENGTH = re.compile(_ONE_LENGTH)
_AGO = re.compile(rf"(?:{_ONE_LENGTH} ?)+(?: ?ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAYS = {"today": 0, "yesterday": 1}


class AtId(msgspec.Struct, frozen=True):
    """A checkpoint; or `before` or `after` something with an id. A bare id of anything else names no moment yet."""

    id: str
    side: str = ""


class AtTime(msgspec.Struct, frozen=True):
    at_us: int
    text: str


class LastClean(msgspec.Struct, frozen=True):
    """The last checkpoint before the first change that still stands."""


class NotAMoment(UsageError):
    """The text does not have the form of a moment."""


Spoken = AtId | AtTime | LastClean


class Moment(msgspec.Struct, frozen=True):
    """A point of the history, found."""

    name: str
    """As a person named it: `c3`, `before a4`, `2h ago`."""
    position: int
    """The last record that is not after it."""
    look: int
    """The last record whose look at the workspace shows it: the beginning of an action shows what was before it."""
    exact: str = ""
    """Its name for later, where `name` would mean another moment tomorrow."""

    @property
    def typed(self) -> str:
        """The name as one word of a command line. Nothing that is not an id begins like one."""
        return self.name if ids.is_id(self.name) else f'"{self.exact or self.name}"'


# What a person typed


def parse(text: str, now_us: int, zone: tzinfo) -> Spoken:
    """Return what a person means. Raise UsageError, which says what a moment may be, if that is nothing."""
    words = text.split()
    plain = " ".join(words)
    if plain == LAST_CLEAN:
        return LastClean()
    if ids.is_id(text):
        return AtId(text)
    if len(words) == 2 and words[0] in (BEFORE, AFTER):
        if not ids.is_id(words[1]):
            raise _refusal(f"{words[1]!r} is not an id, so {plain!r} is not a moment", WAYS)
        return AtId(words[1], words[0])
    found = AtTime(time_of(text, now_us, zone), plain)
    if found.at_us > now_us:
        hint = f'do you mean "yesterday {plain}"?' if _CLOCK.fullmatch(plain) else WAYS
        raise _refusal(f"{plain} is still to come", hint)
    return found


def is_spoken(text: str, now_us: int, zone: tzinfo) -> bool:
    """Return whether this has the form of a moment, whether or not there is one."""
    try:
        parse(text, now_us, zone)
    except NotAMoment:
        return False
    except UsageError:
        return True
    return True


def time_of(text: str, now_us: int, zone: tzinfo) -> int:
    """Return a time in microseconds since 1970: `14:02`, `2h ago`, `2h`, `yesterday 18:00`, `today`, or ISO."""
    plain = " ".join(text.lower().split())
    if _AGO.fullmatch(plain):
        lengths = [int(number) * _SECONDS[unit[0]] for number, unit in _LENGTH.findall(plain)]
        return now_us - sum(lengths) * 1_000_000
    today = datetime.fromtimestamp(now_us / 1e6, zone).replace(tzinfo=None)
    day, _, clock = plain.partition(" ")
    day, clock = (day, clock or "0:00") if day in _DAYS else ("today", plain)
    if found := _CLOCK.fullmatch(clock):
        hour, minute, second = (int(part or 0) for part in found.groups())
        if hour > 23 or minute > 59 or second > 59:
            raise _refusal(f"{clock} is not a time of day", WAYS)
        wanted = today - timedelta(days=_DAYS[day])
        wall = wanted.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return _instant(wall, zone, text)
    try:
        written = datetime.fromisoformat(text.strip())
        return _us(written) if written.tzinfo else _instant(written, zone, text)
    except (ValueError, OverflowError):
        raise NotAMoment(f"{text!r} is not a moment; nothing was changed", hint=WAYS) from None


def _instant(wall: datetime, zone: tzinfo, text: str) -> int:
    """Return the instant of a time on the wall. Clocks that are set forward or back leave out or repeat an hour."""
    first, second = wall.replace(tzinfo=zone), wall.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return _us(first)
    if first.astimezone(UTC) > second.astimezone(UTC):
        raise _refusal(f"there was no {text}: the clocks were set forward then", WAYS)
    twice = " and ".join(one.astimezone(UTC).isoformat(timespec="seconds") for one in (first, second))
    raise _refusal(f"{text} came twice, because the clocks were set back", f"say which: {twice}")


def _us(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def said(at_us: int, zone: tzinfo) -> str:
    """Return a time as a person reads it, and as it may be typed again."""
    return datetime.fromtimestamp(at_us / 1e6, zone).replace(tzinfo=None).isoformat(" ")


# Where it is in the journal


def moment_of(history: History, spoken: AtId) -> Moment:
    """Return the moment at which something with an id begins or ends."""
    kind, seq = ids.parse(spoken.id)
    name = f"{spoken.side} {spoken.id}".strip()
    if spoken.id in history.checkpoints:
        at = seq - (spoken.side == BEFORE)
        return Moment(name, at, at)
    known: RecordedAction | RecordedRun | RecordedStep | None = history.actions.get(spoken.id)
    known = known or history.runs.get(spoken.id) or _step(history, spoken.id)
    if known is None:
        raise _refusal(f"there is no {ids.KINDS[kind]} {spoken.id}", "`takeback log` lists what there is")
    if not spoken.side:
        raise _refusal(
            f"{spoken.id} is {_a(ids.KINDS[kind])}, which has a beginning and an end",
            f'say "before {spoken.id}" or "after {spoken.id}"',
        )
    if spoken.side == AFTER:
        at = _end(history, known)
        return Moment(name, at, at)
    first = _first_in(history, known)
    if first is None:
        return Moment(name, seq - 1, seq - 1)
    _refuse_unseen(history, first)
    shows = first.kind != "outside" and is_looked(first.began.marks)
    return Moment(name, first.seq - 1, first.seq - (not shows))


def position_at(history: History, spoken: AtTime, when: Callable[[int], int]) -> int:
    """Return the last record that is not later than a time; `when` says when a record was written.

    Between two records before which the clock was set back, times only rise.
    """
    last, setbacks = history.seq, history.setbacks
    found = []
    for start, end in zip([1, *setbacks], [*(seq - 1 for seq in setbacks), last], strict=True):
        if when(start) <= spoken.at_us and (end == last or spoken.at_us < when(end)):
            found.append(start - 1 + bisect_right(range(start, end + 1), spoken.at_us, key=when))
    if not found:
        first = datetime.fromtimestamp(when(1) // 1_000_000, UTC)
        raise _refusal(
            f"nothing had been recorded yet at {spoken.text}",
            f"the first record is of {first:%Y-%m-%dT%H:%M:%SZ}",
        )
    if len(found) > 1:
        raise _refusal(
            f"{spoken.text} came {len(found)} times, because the clock of the machine was set back",
            'name an action instead: "before a4"; `takeback log` lists them',
        )
    return found[0]


def last_clean(history: History) -> Moment:
    """Return the last checkpoint before the first change of an action that still stands."""
    first = history.first_flagged(Flag.UNDOABLE)
    before = first.seq if first else END
    found = next(history.postings.newest(every(Topic.CHECKPOINTS), below=before), 0)
    if not found:
        raise _refusal(
            f"there is no checkpoint before {first.id}, the first action whose changes still stand"
            if first
            else "there is no checkpoint yet",
            f'"before {first.id}" is a moment too' if first else "`takeback save` takes one",
        )
    return moment_of(history, AtId(ids.make(ids.CHECKPOINT, found)))


def look_before(history: History, seq: int) -> int:
    """Return the last record before another in which somebody looked at the files, or 0."""
    return next(history.postings.newest(every(Topic.LOOKS), below=seq), 0)


def _step(history: History, id: str) -> RecordedStep | None:
    run = history.run_of_step(id) if id[:1] == ids.STEP else ""
    return history.runs[run].steps[id] if run else None


def _end(history: History, known: RecordedAction | RecordedRun | RecordedStep) -> int:
    """Return the record with which something ended."""
    if known.life in (Life.OPEN, Life.BACKGROUND):
        raise _refusal(
            f"{known.id} has not ended yet, so there is no moment after it",
            f'"before {known.id}" is one',
        )
    if isinstance(known, RecordedAction):
        _refuse_unseen(history, known)
    return known.ended


def _first_in(history: History, known: RecordedAction | RecordedRun | RecordedStep) -> RecordedAction | None:
    """Return the action with which something begins: the first that was looked around, or may have written."""
    if isinstance(known, RecordedAction):
        return known
    inside = known.actions if isinstance(known, RecordedRun) else history.actions_in(known.id)
    actions = (history.actions[id] for id in inside)
    return next((one for one in actions if is_looked(one.began.marks) or one.writes_files), None)


def _refuse_unseen(history: History, action: RecordedAction) -> None:
    """Raise UsageError if the action is a part of another, and nobody looked at the workspace around it."""
    run = history.runs.get(action.stream)
    is_part = bool(action.as_tool.parent) or (run is not None and not run.began.detached)
    if action.is_tool and is_part and not is_looked(action.began.marks):
        around = action.as_tool.step or action.as_tool.parent or action.stream
        raise _refusal(
            f"nobody looked at the files around {action.id}, so it is unknown what they were like then",
            f'name what it is a part of: "before {around}". tb.run(checkpoint="action") looks around each call',
        )


def is_looked(marks: Iterable[Mark]) -> bool:
    """Return whether somebody looked at the files."""
    return any(mark.resource == TREE for mark in marks)


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeio" else f"a {word}"


def _refusal(message: str, hint: str) -> UsageError:
    return UsageError(f"{message}; nothing was changed", hint=hint)
