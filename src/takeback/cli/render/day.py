"""The tree of a day as lines that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from takeback.cli.render.history import counted
from takeback.cli.text import cells, clock, date, fitted, padded, paint, plural
from takeback.core.change import Change, Target
from takeback.core.listing import ListPlace
from takeback.workspace.describe import verb
from takeback.workspace.describe.day import DayNode, StateNote, Tone, changed_names, telling_changes

GAP = 2
WIDTH_LEAST = 60
NOTES_MAX = 24
"""A longer note takes a line of its own."""
WHO_MAX = 18
TEXT_LEAST = 24
"""A text of this length is not cut to make room for what stands beside it."""
_COLOURS: dict[Tone, dict[str, Any]] = {
    Tone.BAD: {"fg": "red"},
    Tone.BACK: {"fg": "blue"},
    Tone.CARE: {"fg": "yellow"},
    Tone.PLAIN: {},
}
_HEADS = ("session", "thread", "run")
_PARTS = ("prompt", "turn", "step")


class DayRow(NamedTuple):
    """One line before it is laid out."""

    node: DayNode
    depth: int
    time: str
    lead: str
    """Who, and the id."""
    text: str
    notes: tuple[StateNote, ...]
    changed: tuple[str, ...]
    """What was changed, by names, or in numbers; the first are shown if there is not room for all."""
    instead: tuple[str, ...] = ()
    """The same for a text that is cut, and may not show the name of the file any more."""

    @property
    def state(self) -> str:
        return ", ".join(note.text for note in self.notes)


def changes_named(nodes: Sequence[DayNode]) -> Iterator[Change]:
    """Yield the changes that a tree names; those of a whole session are only counted."""
    for node in nodes:
        if node.kind not in _HEADS:
            yield from node.changes
        yield from changes_named(node.below)


def day_lines(
    nodes: Sequence[DayNode], places: Mapping[Target, ListPlace], *, width: int, now_us: int
) -> list[str]:
    """Return the lines of a tree, oldest first, none wider than `width`, or than the least width.

    `places` says how much each change matters, so that what matters is named first.
    """
    width = max(width, WIDTH_LEAST)
    rows = list(_rows(nodes, places))
    right = min(max((cells(", ".join(row.changed)) for row in rows), default=0), max(width * 3 // 10, 16))
    short = [cells(row.state) for row in rows if cells(row.state) <= NOTES_MAX]
    columns = _Columns(width, min(max(short, default=0), max(width // 5, 17)), right)
    lines: list[str] = []
    shown = date(now_us)
    for row in rows:
        if (day := date(row.node.at_us)) != shown:
            lines.append(paint(day, bold=True))
            shown = day
        lines += _laid_out(row, columns)
    return lines


# Rows


def _rows(nodes: Sequence[DayNode], places: Mapping[Target, ListPlace]) -> Iterator[DayRow]:
    who = min(max((cells(node.who) for node in nodes), default=0), WHO_MAX)
    id = max((len(node.id) for node in nodes), default=0)
    last = ""
    for node in nodes:
        lead = f"{padded(fitted(node.who, who), who)}{' ' * GAP}{node.id.ljust(id)}"
        for row in _tree(node, 0, lead, places):
            time = clock(row.node.at_us)
            yield row._replace(time="" if time == last and row.depth else time)
            last = time


def _tree(node: DayNode, depth: int, lead: str, places: Mapping[Target, ListPlace]) -> Iterator[DayRow]:
    if not (node.continued and node.kind in _PARTS):
        names = _changed(node, places)
        did = _did(node)
        yield DayRow(node, depth, "", lead, _text(node), node.notes, (did,) if did else names, names)
    ids = max((len(below.id) for below in node.below), default=0)
    for below in node.below:
        yield from _tree(below, depth + 1, " " * (GAP * (depth + 1)) + below.id.ljust(ids), places)


def _text(node: DayNode) -> str:
    if node.kind in _HEADS and node.continued:
        return f"{node.kind}, continued"
    if node.kind == "session" and node.below and node.below[0].what == node.what:
        return node.kind  # its first prompt stands right below
    if node.kind in ("session", "prompt", "turn"):
        return f'{node.kind} "{node.what}"' if node.what else f"{node.kind} unknown"
    if node.kind in (*_HEADS, *_PARTS):
        return f"{node.kind} {node.what}"
    return f"{node.who}: {node.what}" if node.who.count(":") else node.what


def _changed(node: DayNode, places: Mapping[Target, ListPlace]) -> tuple[str, ...]:
    if node.continued or node.kind == "folded":
        return ()
    if node.kind in _HEADS:
        made = [change for change in telling_changes(node.changes) if change.target.resource != "calls"]
        made_in = counted(made).replace("things in git", "in git").replace("thing in git", "in git")
        numbers = [plural(node.calls, "call") if node.calls else "", *made_in.split(", ")]
        return tuple(filter(None, numbers))
    return tuple(changed_names(node.changes, places))


def _did(node: DayNode) -> str:
    """Return what was done to the one file that a call is about, such as `created`; or ""."""
    every = telling_changes(node.changes)
    is_named = len(every) == 1 and node.what.partition(" ")[2] == every[0].target.said
    return verb(every[0]) if node.kind == "action" and is_named else ""


# Laying out


class _Columns(NamedTuple):
    """Where the state and the changes of a row begin, and how much room they have."""

    width: int
    middle: int
    right: int

    def state_at(self, state: int, *, changed: bool) -> int:
        """Return where a state of this length begins: in its column, or before it if it is longer."""
        return min(self.at_middle, (self.at_right - GAP if changed else self.width) - state)

    @property
    def at_right(self) -> int:
        return self.width - self.right

    @property
    def at_middle(self) -> int:
        return self.at_right - (GAP if self.right else 0) - self.middle


def _laid_out(row: DayRow, columns: _Columns) -> list[str]:
    """Return a row as lines: state and changes stand beside the text, or below it if it needs their room."""
    begin = f"{row.time:5}{' ' * GAP}{row.lead}{' ' * GAP}"
    at, whole = cells(begin), cells(row.text)
    names, state = bool(row.changed), cells(row.state)
    at_state = columns.state_at(state, changed=names)
    # A long state must not cut the text; one that fits its column may cut a long one.
    needed = min(whole, TEXT_LEAST) if at_state == columns.at_middle else whole
    beside = state > 0 and at + needed + GAP <= at_state
    names = names and at + (0 if beside else min(whole, TEXT_LEAST)) + GAP <= columns.at_right
    end = at_state - GAP if beside else columns.at_right - GAP if names else columns.width
    text = fitted(row.text, end - at)
    line = _styled(row.time, dim=True) + begin[len(row.time) :] + _styled(text, **_look(row))
    used = at + cells(text)
    if beside:
        line += " " * (at_state - used) + _painted(row.notes)
        used = at_state + state
    changed = row.changed if text == row.text else row.instead
    if names:
        start = columns.width - cells(", ".join(changed))
        # Names begin before their column only if all of them then fit; numbers use what room there is.
        if start < used + GAP:
            start = used + GAP if row.node.kind in _HEADS else columns.at_right
        start = min(columns.at_right, start)
        line += " " * (start - used) + _some(row, changed, columns.width - start)
    lines = [line.rstrip()]
    if row.notes and not beside:
        lines += _wrapped(row.notes, at, columns.width)
    if row.changed and not names:
        lines.append(" " * at + _some(row, changed, columns.width - at))
    return lines


def _styled(text: str, **style: Any) -> str:
    return paint(text, **style) if text and style else text


def _look(row: DayRow) -> dict[str, Any]:
    if row.node.kind in _HEADS:
        return {"bold": True}
    if row.node.kind == "folded" or any(note.text == "taken back" for note in row.notes):
        return {"dim": True}
    return {}


def _painted(notes: Iterable[StateNote]) -> str:
    return ", ".join(_styled(note.text, **_COLOURS[note.tone]) for note in notes)


def _wrapped(notes: Sequence[StateNote], indent: int, width: int) -> Iterator[str]:
    """Yield notes on lines of their own, under the text that they are about. None of them is cut."""
    some: list[StateNote] = []
    for note in notes:
        if some and indent + cells(", ".join(n.text for n in (*some, note))) > width:
            yield " " * indent + _painted(some) + ","
            some = []
        some.append(note)
    yield " " * indent + _painted(some)


def _some(row: DayRow, names: Sequence[str], most: int) -> str:
    """Return as many names as there is room for, and how many there are besides; of numbers, the first."""
    if not names:
        return ""
    in_numbers = row.node.kind in _HEADS
    for count in range(len(names), 0, -1):
        more = ", …" if in_numbers else f" +{len(names) - count:,}"
        more = more if count < len(names) else ""
        if cells(text := ", ".join(names[:count]) + more) <= most:
            return text
    more = f" +{len(names) - 1:,}" if len(names) > 1 else ""
    return fitted(names[0], most - len(more), keep_end="/" in names[0]) + more
