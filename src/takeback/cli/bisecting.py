"""A search for the call that broke something, as people and machines see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from takeback.cli.context import CommandContext
from takeback.cli.render.history import change_data, what
from takeback.cli.text import ago, iso, plural
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction
from takeback.workspace.describe import actor_of
from takeback.workspace.past.bisect import Bisected, Bisection, BisectListener, KnownTrial, State
from takeback.workspace.workspace import Workspace

DIFF_LINES_MAX = 40
NAMES_MAX = 6


class BisectProgress(BisectListener):
    """One line that grows with each trial: `24 calls between 09:12 and now …  12: ok  18: fails`."""

    def __init__(self, session: CommandContext) -> None:
        self._session = session
        self._is_open = False
        self.search: Bisection | None = None

    def began(self, states: Sequence[State], known: int) -> None:
        assert self.search is not None
        calls = plural(len(states) - 1, "call")
        again = f" going on with {plural(known, 'known result')} …" if known else ""
        self._say(
            f"{calls} between {self.search.good.name} and {self.search.bad.name}; testing in private views …{again}"
        )

    def tried(self, number: int, trial: KnownTrial) -> None:
        self._say(f"  {number}: {trial.trial.value}")

    def _say(self, text: str) -> None:
        if not self._session.json:
            self._is_open = True
            click.echo(text, nl=False)

    def done(self) -> None:
        if self._is_open:
            click.echo()
            self._is_open = False


def bisected_lines(workspace: Workspace, found: Bisected) -> list[str]:
    """Return what was found, with its diff and what to do about it."""
    if (action := found.first_bad) is None:
        return _unclear(workspace, found.suspects)
    lines = [f"{_named(workspace, action)} ({', '.join(_about(workspace, action))})"]
    text = str(workspace.diff(action.id)).splitlines()
    lines += [f"    {line}" for line in text[:DIFF_LINES_MAX]]
    if len(text) > DIFF_LINES_MAX:
        lines.append(f"    … {plural(len(text) - DIFF_LINES_MAX, 'more line')}")
    return [*lines, f"  see it   takeback diff {action.id}        {_way_back(action)}"]


def bisected_data(workspace: Workspace, search: Bisection, found: Bisected) -> dict[str, Any]:
    action = found.first_bad
    data: dict[str, Any] = {
        "first_bad": action.id if action else None,
        "runs": found.runs,
        "calls": len(found.states) - 1,
        "good": search.good.name,
        "bad": search.bad.name,
        "suspects": [one.id for one in found.suspects],
        "trials": [
            {
                "moment": found.states[number].moment.name,
                "result": trial.trial.value,
                "exit_code": trial.code,
                "why": trial.why or None,
            }
            for number, trial in found.tried.items()
        ],
    }
    if action is None:
        return data
    return data | {
        "actor": _who(action),
        "name": what(workspace.history, action),
        "at": iso(action.began_us),
        "step": action.as_tool.step or None,
        "prompt": workspace.past.prompt(action) or None,
        "changed": [change_data(change) for change in action.changes],
    }


def _named(workspace: Workspace, action: RecordedAction) -> str:
    if action.kind == "outside":
        return f"You broke it, {action.id}: {what(workspace.history, action)}"
    return f"{action.id} broke it: {what(workspace.history, action)}"


def _about(workspace: Workspace, action: RecordedAction) -> list[str]:
    prompt = workspace.past.prompt(action)
    said = f'prompt "{one_line(prompt, 60)}"' if prompt else ""
    return [text for text in (_who(action), said, ago(action.began_us)) if text]


def _who(action: RecordedAction) -> str:
    return "you" if action.kind == "outside" else actor_of(action)


def _way_back(action: RecordedAction) -> str:
    if action.kind == "outside":
        names = sorted(str(change.target) for change in action.changes)[:1]
        return f'take back just that   takeback restore "before {action.id}" --path {names[0]}'
    return f"take back just that   takeback undo {action.id}"


def _unclear(workspace: Workspace, suspects: Sequence[RecordedAction]) -> list[str]:
    """Return what is left where states between could not be tried."""
    lines = ["One of these broke it; the states between them could not be tried:"]
    shown = [f"  {action.id}  {what(workspace.history, action)}" for action in suspects[:NAMES_MAX]]
    more = len(suspects) - len(shown)
    return [*lines, *shown, *([f"  … and {more} more"] if more else [])]
