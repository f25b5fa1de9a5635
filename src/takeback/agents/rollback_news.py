"""News for an agent after a human took something back, so that it does not rely on files that are gone.

The agent gets the news once, with the answer to the next event of its session that can carry it. A file in the state
folder records this before the answer is sent. If the answer is lost, the client repeats the event, and gets the news
again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from takeback.agents.event import Event
from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, Change, Target
from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.listing import ListedChange, ListPlace, lines_of, listed_back, shortened
from takeback.system import crash_points
from takeback.system.durable import replace
from takeback.workspace.describe import item_said
from takeback.workspace.workspace import Workspace

TOLD = crash_points.crash_point("agent-told")

FILE = "told.json"
KEPT_MAX = 500
NAMES_MAX = 12
NAME_CHARS_MAX = 120
NAMES_CHARS_MAX = 1000
ROLLBACKS_MAX = 4
CHARS_MAX = 2000
EARLIER = "as before a change of yours"
READ_AGAIN = "Read files again before you rely on them or edit them."

_BEGINNINGS = {
    "undo": "The user took back what you did",
    "redo": "The user brought back what had been taken back",
    "restore": "The user restored the workspace to an earlier checkpoint",
}
_GONE = (e.Did.REMOVED, e.Did.CANCELLED)
_STAYED = (e.Did.KEPT, e.Did.CONFLICT, e.Did.FAILED, e.Did.UNVERIFIABLE)


def news(opened: Workspace, key: str, event: Event) -> str:
    """Return what was taken back of this agent's work and was not reported to it yet, as text."""
    history = opened.history
    runs, last = history.runs_of_key(key), next(history.rollbacks(), None)
    if not runs or last is None or last.seq < ids.seq_of(runs[0]):
        return ""
    with opened.lock.held():
        marks = _read(opened)
        name, now = f"{key} {event.actor}", f"{event.name} {event.call or event.prompt}"
        since, upto, at = marks.get(name, (runs[0], runs[0], ""))
        since = since if at == now else upto
        fresh = _since(history, since, runs, event)
        if not fresh:
            return ""
        marks.pop(name, None)
        marks[name] = (since, fresh[-1].rollback.id, now)
        kept = dict(list(marks.items())[-KEPT_MAX:])
        replace(opened.state / FILE, json.dumps(kept).encode())
    crash_points.reach(TOLD)
    changed = (Change(item.target, ABSENT, ABSENT) for one in fresh for item in one.items)
    return said(history, fresh, opened.places(changed))


class News(NamedTuple):
    """A rollback, and its items that concern one agent."""

    rollback: RecordedAction
    items: list[e.Item]
    of: list[RecordedAction]


def _since(history: History, id: str, runs: Sequence[str], event: Event) -> list[News]:
    """Return the completed rollbacks after this id that concern the agent of an event, oldest first."""
    found: list[News] = []
    for rollback in history.rollbacks():
        if rollback.seq <= ids.seq_of(id):
            break
        behind = [(item, list(_behind(history, item.settles))) for item in rollback.items]
        mine = [(item, of) for item, of in behind if any(_is_mine(action, runs, event) for action in of)]
        if rollback.life is Life.DONE and mine:
            found.append(News(rollback, [item for item, _ in mine], [a for _, of in mine for a in of]))
    return found[::-1]


def _behind(history: History, named: Iterable[str]) -> Iterator[RecordedAction]:
    """Yield these actions; for a rollback among them, the actions that it was about."""
    for action in (history.actions[id] for id in named):
        if action.is_rollback:
            yield from _behind(history, {id for item in action.items for id in item.settles})
        else:
            yield action


def _is_mine(action: RecordedAction, runs: Iterable[str], event: Event) -> bool:
    """Return True if the action is of this session, and of this subagent if the event is a subagent's."""
    return action.stream in runs and (not event.actor or action.actor.endswith(f":{event.actor}"))


def said(history: History, fresh: Sequence[News], places: Mapping[Target, ListPlace]) -> str:
    """Return the present state of each path, once, in a few sentences of bounded length: what matters first."""
    told = _net(fresh)
    older, latest = told[:-ROLLBACKS_MAX], told[-ROLLBACKS_MAX:]
    made = {change.target: change for one in fresh for change in one.rollback.changes}
    sentences = [
        _sentence(history, kind, EARLIER, _listed(items, kind, made, places))
        for kind in _BEGINNINGS
        if (items := [item for one, some in older if one.rollback.kind == kind for item in some])
    ]
    sentences += [
        _sentence(
            history,
            one.rollback.kind,
            f"as before {_clock(one)}",
            _listed(items, one.rollback.kind, made, places),
        )
        for one, items in latest
    ]
    text = " ".join(sentences)
    return f"{text if len(text) <= CHARS_MAX else text[: CHARS_MAX - 1] + '…'} {READ_AGAIN}"


def _net(fresh: Sequence[News]) -> list[tuple[News, list[e.Item]]]:
    """Return each rollback with the items that it decided last. What a later one left alone still counts."""
    last: dict[Target, tuple[int, e.Item]] = {}
    for number, one in enumerate(fresh):
        for item in _notable(one):
            if item.did not in _STAYED or item.target not in last:
                last[item.target] = (number, item)
    words: dict[int, list[e.Item]] = {}
    for number, item in last.values():
        words.setdefault(number, []).append(item)
    return [(fresh[number], words[number]) for number in sorted(words)] or [(fresh[-1], [])]


def _clock(one: News) -> str:
    return time.strftime("%H:%M", time.localtime(min(action.began_us for action in one.of) / 1e6))


def _listed(
    items: Iterable[e.Item], kind: str, made: Mapping[Target, Change], places: Mapping[Target, ListPlace]
) -> list[tuple[e.Item, ListedChange]]:
    """Return these items, each with its place in a list."""
    return [
        (item, listed_back(made.get(item.target) or Change(item.target, ABSENT, ABSENT), places, kind))
        for item in items
    ]


def _sentence(history: History, kind: str, before: str, items: Sequence[tuple[e.Item, ListedChange]]) -> str:
    state = "again as you had left it" if kind == "redo" else before
    states: dict[str, list[ListedChange]] = {"are": [], "gone": [], "merged": [], "stayed": []}
    for item, one in items:
        became = "gone" if item.did in _GONE else "stayed" if item.did in _STAYED else "are"
        states["merged" if item.did is e.Did.MERGED else became].append(one)
    names = {item.target: item_said(history, item) for item, _ in items}
    parts = [
        _part(states["are"], names, f"is {state}", f"are {state}"),
        _part(states["gone"], names, "no longer exists", "no longer exist"),
        _part(states["merged"], names, "has only your part taken out", "have only your part taken out"),
        _part(states["stayed"], names, "stays as it is", "stay as they are"),
    ]
    return f"{_BEGINNINGS[kind]}: {'; '.join(filter(None, parts)) or 'nothing had changed'}."


def _notable(one: News) -> list[e.Item]:
    """Return the items worth reporting: not those where only a time was restored."""
    made = {change.target: change for change in one.rollback.changes}
    return [
        item
        for item in one.items
        if item.did is not e.Did.ALREADY
        and not ((change := made.get(item.target)) and change.before == change.after)
    ]


def _part(some: Sequence[ListedChange], names: Mapping[Target, str], one: str, many: str) -> str:
    if not some:
        return ""
    lines, left = shortened(lines_of(some), NAMES_MAX)
    while len(lines) > 1 and sum(len(line.name) for line in lines) > NAMES_CHARS_MAX:
        left += len(lines.pop().targets)  # a model has to read all of it
    shown = [
        _name(f"{x.name} ({len(x.targets):,} files)" if x.is_folded else names[x.targets[0]]) for x in lines
    ]
    shown += [f"{left:,} more"] if left else []
    text = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
    return f"{text} {one if len(shown) == 1 else many}"


def _name(text: str) -> str:
    """Return a name on one line, since a model reads it."""
    line = " ".join(text.split())
    return line if len(line) <= NAME_CHARS_MAX else line[: NAME_CHARS_MAX - 1] + "…"


def _read(opened: Workspace) -> dict[str, tuple[str, str, str]]:
    """Return what was reported to which agent. With a damaged file, news is only repeated."""
    try:
        found = json.loads((opened.state / FILE).read_bytes())
        return {str(name): (str(since), str(upto), str(at)) for name, (since, upto, at) in found.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}
