"""`takeback show`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.intent import show_intent
from takeback.cli.life import show_file, show_moment
from takeback.cli.options import ids_of
from takeback.cli.render.history import (
    action_data,
    change_data,
    checkpoint_data,
    run_data,
    telling,
    what,
    what_step,
)
from takeback.cli.render.listing import change_lines
from takeback.cli.render.runs import (
    approval_data,
    approval_lines,
    call_line,
    calls_of,
    changes_of_step,
    is_session,
    mark_lines,
    run_line,
    state_data,
    state_lines,
    step_changed,
    ways_on,
)
from takeback.cli.text import ago, fit, plural
from takeback.core import ids
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.core.entities import Approval, Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.events import ActionBegan
from takeback.core.history import History
from takeback.core.selection import why_compacted
from takeback.errors import UsageError
from takeback.workspace.describe import (
    RunSnapshot,
    actor_of,
    is_call,
    kind_of_run,
    line_of,
    notes_of,
    run_of,
    short,
    step_undone,
    waits_for_a_decision,
)
from takeback.workspace.workspace import Workspace

LINES_MAX = 50

Found = RecordedAction | RecordedRun | RecordedStep | Approval | Checkpoint


@click.command("show", cls=TakebackCommand)
@click.argument("id", metavar="ID | ID:FILE", shell_complete=ids_of("everything"))
@click.option("--all", "everything", is_flag=True, help=f"List everything, not only {LINES_MAX} of each kind")
@click.pass_obj
def command(session: CommandContext, id: str, everything: bool) -> None:
    """Show everything that was recorded about one id, or a file as it was

    ID is a run, a step, an action, a request for approval, an intent or a checkpoint. For anything inside a run, this
    also shows the state of the run at that moment: its steps, its calls with their results, its requests and its
    memory.

    ID:FILE writes exactly the bytes that FILE had after ID. In place of ID there may be any moment, with or without a
    file: `takeback show "2h ago:src/app.py"`.
    """
    with session.workspace() as workspace:
        named, path = workspace.past.split(id)
        if path:
            return show_file(session, workspace, named, path)
        if not ids.is_id(named) and workspace.past.is_moment(named):
            return show_moment(session, workspace, named)
        kind, _ = ids.parse(id)
        if kind == ids.INTENT and (queued := workspace.outbox.get(id)):
            return show_intent(session, workspace, queued)
        history = workspace.history
        found = _find(history, id)
        if found is None:
            raise UsageError(f"there is no {ids.KINDS[kind]} {id}", hint="`takeback log` lists them")
        states = [state for state in workspace.states_at(id) if _says_something(state)]
        if session.json:
            data = _data(workspace, history, found)
            return session.data(
                data | {"then": [state_data(state, workspace.result_view) for state in states]}
            )
        most = 0 if everything else LINES_MAX
        lines = _lines(workspace, history, found, most)
        for state in states:
            lines += _lines_of_state(workspace, state, found, most)
        if isinstance(found, RecordedRun) and waits_for_a_decision(history, found):
            lines += [f"  {way.does.ljust(13)} {way}" for way in ways_on(history, found)]
    for line in fit(lines):
        session.line(line)


def _find(history: History, id: str) -> Found | None:
    found = history.actions.get(id) or history.runs.get(id) or history.checkpoints.get(id)
    if found or id in history.approvals:
        return found or history.approvals[id]
    run = run_of(history, id)
    return history.runs[run].steps[id] if run else None


def _says_something(state: RunSnapshot) -> bool:
    return state.run.is_listed or bool(state.memory)


def _data(workspace: Workspace, history: History, found: Found) -> dict[str, object]:
    if isinstance(found, RecordedRun):
        return run_data(found)
    if isinstance(found, Checkpoint):
        return checkpoint_data(found)
    if isinstance(found, Approval):
        return approval_data(found)
    if isinstance(found, RecordedStep):
        run = history.runs[run_of(history, found.id)]
        return {
            "id": found.id,
            "kind": "step",
            "name": found.name,
            "run": run.id,
            "state": found.life.value,
            "ref": found.ref,
            "taken_back": step_undone(history, found) == "taken back",
            "body": found.body,
            "calls": [action.id for action in calls_of(history, run, found.id)],
            "changed": [change_data(change) for change in changes_of_step(history, run, found)],
        }
    data = action_data(history, found) | {"changed": [change_data(change) for change in found.changes]}
    if isinstance(found.began, ActionBegan) and is_call(history, found):
        data |= {"arguments": found.began.arguments, "result": workspace.result_view(found), "why": found.why}
    return data


def _lines(workspace: Workspace, history: History, found: Found, most: int) -> list[str]:
    if isinstance(found, RecordedRun):
        return _lines_of_run(history, found)
    if isinstance(found, Approval):
        return approval_lines(found)
    if isinstance(found, Checkpoint):
        named = f' "{found.taken.message}"' if found.taken.message else ""
        lines = [f"{found.id}  checkpoint{named}, {ago(found.at_us)}"]
        if found.compacted_us:
            return [*lines, f"  {why_compacted(found.compacted_us)}"]
        return lines + mark_lines(found.taken.marks, found.id)
    if isinstance(found, RecordedStep):
        run = history.runs[run_of(history, found.id)]
        changed = step_changed(history, run, found)
        lines = [f"{found.id}  {what_step(history, found)}"]
        lines.append(f"  of {kind_of_run(run)} {run.id}{f': {changed}' if changed else ''}")
        lines += [
            f"  {call_line(history, action, workspace.result_view)}"
            for action in calls_of(history, run, found.id)
        ]
        return lines + _changes(workspace, changes_of_step(history, run, found), most)
    lines = _lines_of_action(history, found)
    if found.why:
        lines.append(f"  {found.why}")
    if found.compacted_us:
        lines.append(f"  {why_compacted(found.compacted_us)}: what it changed is not known any more")
    if isinstance(found.began, ActionBegan):
        lines += [f"  captured outside the workspace: {place}" for place in found.began.outside]
        lines += [f"  not captured: {text}" for text in found.began.uncaptured]
    if is_call(history, found) and (value := workspace.result_view(found)) is not None:
        lines.append(f"  returned {short(value)}")
    return lines + _changes(workspace, [entry.change for entry in found.made], most)


def _lines_of_action(history: History, action: RecordedAction) -> list[str]:
    """Return what an action was, whole, what became of it, who did it and in which prompt."""
    by = f"by {actor_of(action)}, {ago(action.began_us)}"
    run = history.runs.get(action.stream)
    if run is None or not is_session(run) or action.kind != "action":
        return [f"{action.id}  {what(history, action)}  {by}"]
    lines = [f"{action.id}  {line_of(history, action)}"]
    step = run.steps.get(action.as_tool.step)
    notes = notes_of(history, action)
    lines.append(f"  {', '.join([by, *notes])}")
    asked = f'prompt {step.id} "{one_line(step.name, 60)}", ' if step else ""
    return [*lines, f"  {asked}session {run.id}"]


def _lines_of_state(workspace: Workspace, state: RunSnapshot, found: Found, most: int) -> list[str]:
    """Return how the run stood at that moment. The many calls of a coding agent's session are only counted."""
    run = state.run
    if isinstance(found, RecordedRun):
        return state_lines(state, workspace.result_view, most)
    if most and is_session(run) and not state.memory:
        calls = plural(len(calls_of(state.history, run)), "call")
        return [
            f"By then session {run.id} had {plural(len(run.steps), 'prompt')} and {calls}; --all lists them"
        ]
    head = f"{kind_of_run(run)} {run.id} ({run.began.name}) at that moment:"
    return [head[0].upper() + head[1:], *state_lines(state, workspace.result_view, most)]


def _lines_of_run(history: History, run: RecordedRun) -> list[str]:
    lines = [run_line(history, run)]
    more = [
        f"by {run.began.actor}" if run.began.actor else "",
        f"key {run.began.key}" if run.began.key else "",
    ]
    more.append(f"attempt {run.began.generation}" if run.began.generation > 1 else "")
    if any(more):
        lines.append(f"  {', '.join(filter(None, more))}")
    if run.why:
        lines.append(f"  {run.why}")
    if not run.steps:
        lines += [f"  {id}  {what(history, history.actions[id])}" for id in run.actions]
    return lines


def _changes(workspace: Workspace, changes: Sequence[Change], most: int) -> list[str]:
    """Return what was changed; without `most`, every path."""
    shown = telling(changes) if most else changes
    return change_lines(
        shown, workspace.places(shown), workspace.tell, everything=not most, most=most or len(shown)
    )
