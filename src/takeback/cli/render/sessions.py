"""An agent's open session: its prompt, its running calls, and what it has changed so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from takeback.cli.render.history import counted, is_folder, run_data, what
from takeback.cli.text import ago, plural
from takeback.core import events as e
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.lifecycle import Life


def sessions(history: History) -> list[RecordedRun]:
    """Return agents' open sessions that have done something."""
    return [run for run in history.open_runs() if run.began.detached and (run.actions or run.steps)]


def is_call_running(history: History) -> bool:
    """Return True if a call of a session is running."""
    return any(_running(history, run) for run in sessions(history))


def telling_changes(changes: list[Change]) -> list[Change]:
    """Leave out folders, unless nothing else has changed."""
    return [change for change in changes if not is_folder(change)] or changes


def session_lines(history: History, run: RecordedRun, so_far: Sequence[str]) -> list[str]:
    """Return lines about a session, with its prompt and its running calls; `so_far` names what they have changed."""
    done = [history.actions[id] for id in run.actions if history.actions[id].is_tool]
    changes = [change for action in done for change in action.changes]
    who = (
        f"Thread {run.id} ({run.began.name})" if run.began.thread else f"Session {run.id} of {run.began.name}"
    )
    answers = sum(action.as_tool.tool == e.ANSWER for action in done)
    line = f"{who} is open, begun {ago(run.began_us)}: {plural(len(done) - answers, 'call')}"
    line += f", {plural(answers, 'answer')}" if answers else ""
    lines = [f"{line}, changed {counted(changes)}" if changes else line]
    if step := _prompt(run):
        state = "working on" if step.life is Life.OPEN else "done with"
        prompt = "turn" if run.began.thread else "prompt"
        lines.append(f"  {state} {prompt} {step.id}, {ago(step.began_us)}: {one_line(step.name, 60)}")
    running = _running(history, run)
    lines += [f"  running {a.id}, begun {ago(a.began_us)}: {what(history, a)}" for a in running]
    if running and so_far:
        lines += ["  so far, not yet recorded:", *(f"  {line}" for line in so_far)]
    return lines


def session_data(history: History, run: RecordedRun, so_far: Sequence[Change]) -> dict[str, Any]:
    step, running = _prompt(run), _running(history, run)
    return run_data(run) | {
        "session": run.began.session,
        "prompt": {"id": step.id, "name": step.name, "state": step.life.value, "ref": step.ref}
        if step
        else None,
        "running": [action.id for action in running],
        "changed_so_far": [str(change.target) for change in so_far] if running else [],
    }


def _prompt(run: RecordedRun) -> RecordedStep | None:
    return next(reversed(run.steps.values()), None)


def _running(history: History, run: RecordedRun) -> list[RecordedAction]:
    return [action for action in history.open_actions() if action.stream == run.id]
