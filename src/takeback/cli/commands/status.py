"""`takeback status`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import click

from takeback.agents import clients, hook_tampering
from takeback.cli.context import CommandContext, TakebackCommand, find_modules_at
from takeback.cli.render.history import is_worth_a_row, run_data, what
from takeback.cli.render.intents import outbox_lines
from takeback.cli.render.runs import (
    approval_data,
    approval_lines,
    standing_data,
    standing_lines,
    waits_for_a_decision,
    way_to_settle,
)
from takeback.cli.render.sessions import (
    is_call_running,
    session_data,
    session_lines,
    sessions,
    telling_changes,
)
from takeback.cli.text import ago, iso, plural
from takeback.core.change import Change
from takeback.core.entities import Approval, RecordedAction, RecordedRun
from takeback.core.events import Did, Item, RollbackBegan
from takeback.core.history import History
from takeback.core.ids import seq_of
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.selection import last_action
from takeback.errors import RunBusy, UsageError
from takeback.settings import environment, toml
from takeback.system.processes import is_alive
from takeback.workspace.describe import in_doubt
from takeback.workspace.locate import find_root, registry_of_user
from takeback.workspace.lost_history import Lost
from takeback.workspace.opening import find_workspace, lost_at
from takeback.workspace.store.journal import held_unopened
from takeback.workspace.trusted_settings import Held
from takeback.workspace.workspace import Workspace

RUNS_SHOWN = 5
IDS_SHOWN = 3


@click.command("status", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """Show how things stand"""
    workspace = find_workspace(".")
    if workspace is None:
        return _not_yet(session)
    session.opened.append(workspace)
    find_modules_at(workspace.root)  # the checks of calls in doubt are functions of the project
    with workspace:
        workspace.recover_if_idle()
        history = workspace.history
        waiting = workspace.approvals() if history.approvals else []
        outbox = {state.value: count for state, count in workspace.outbox.counts().items()}
        so_far = _changed_so_far(workspace)
        tampered = hook_tampering.warnings(workspace)
        workspace.notices += tampered
        elsewhere, gone = _elsewhere(workspace), workspace.lost
        held, notice = _holding(lambda: workspace.parts.trusted.held)
        workspace.notices += [notice] if notice else []
    if session.json:
        data = _data(history, waiting)
        data["outbox"] = outbox
        data["sessions"] = [session_data(history, run, so_far) for run in sessions(history)]
        data["sits_in"] = elsewhere or str(workspace.root)
        data["settings"] = _settings_data(held)
        data["lost"] = _lost_data(gone)
        return session.data({"protected": True, "root": str(workspace.root), "warnings": tampered, **data})
    if elsewhere:
        session.line(
            f"This workspace sits in {elsewhere}. Nothing is recorded here; `takeback log` reads it."
        )
    root = "" if elsewhere else str(workspace.root)
    for line in [*_lines(root, history, waiting, so_far), *outbox_lines(outbox)]:
        session.line(line)


def _lost_data(gone: Lost | None) -> dict[str, object] | None:
    """The history that the workspace had before, if that is gone."""
    return {"since": iso(gone.since_us), "state": str(gone.state), "hint": gone.hint} if gone else None


def _settings_data(held: Held) -> dict[str, object]:
    """What of takeback.toml does not hold, and why."""
    return {
        "changed_by": held.since or None,
        "not_accepted": [{"setting": one.name, "value": one.shown, "does": one.does} for one in held.pending],
    }


def _holding(read: Callable[[], Held]) -> tuple[Held, str]:
    """Return the settings that hold, and what a human has to know of them: a mistake there hides nothing else."""
    try:
        held = read()
    except UsageError as error:
        return Held(toml.Config()), f"{error.message}. {error.hint}" if error.hint else error.message
    return held, held.notice


def _elsewhere(workspace: Workspace) -> str:
    """Where the workspace sits, if that is not here."""
    seats, seat = workspace.journal.seats, workspace.history.moves.seat
    return seat.place.said if seats and seat and seat.place.id != seats.place.id else ""


def _changed_so_far(workspace: Workspace) -> list[Change]:
    """What has changed since the last record, if a call is running that may have done it."""
    if not is_call_running(workspace.history):
        return []
    try:
        return telling_changes(workspace.drift())
    except RunBusy:
        return []


def _not_yet(session: CommandContext) -> None:
    """Nothing is recorded here. Where hooks wait for an agent, that begins by itself."""
    registry = registry_of_user()
    here, root = os.getcwd(), find_root(".", registry)
    held, notice = _holding(lambda: held_unopened(registry.state_of(root), root))
    gone = lost_at(".")
    waiting = [] if environment.is_too_wide(root) else clients.hooked(root, environment.home_folder())
    if session.json:
        data = {"root": here, "hooks": waiting, "settings": _settings_data(held), "lost": _lost_data(gone)}
        return session.data({"protected": False, **data})
    if gone:
        session.line(f"{gone}.")
        session.line(f"  {gone.hint}")
    if notice:
        click.echo(f"takeback: {notice}", err=True)
    if waiting:
        titles = " and ".join(clients.CLIENTS[agent].title for agent in waiting)
        session.line(f"Nothing is recorded of {here} yet. The hooks for {titles} begin with the first event.")
        return session.line(f"  see that they work   takeback doctor {waiting[0]}")
    session.line(f"{here} is not protected yet.")
    session.line("  begin             takeback init   or   takeback run -- COMMAND")
    session.line("  a coding agent    takeback install AGENT")


def _data(history: History, waiting: list[Approval]) -> dict[str, object]:
    checkpoint = next(reversed(history.checkpoints.values()), None)
    return {
        "events": history.seq,
        "actions": sum(action.is_tool for action in history.actions.values()),
        "undo_would_take_back": list(last_action(history).actions),
        "unknown": [action.id for action in _unknown_effects(history)],
        "checkpoint": {"id": checkpoint.id, "at": iso(checkpoint.at_us)} if checkpoint else None,
        "remaining": [
            {"target": str(item.target), "did": item.did.value, "why": item.why}
            for item in (_remaining(history) or (None, []))[1]
        ],
        "in_doubt": [action.id for action in _unknown(history)],
        "background": [action.id for action in history.open_actions(Life.BACKGROUND)],
        "open_actions": [action.id for action in history.open_actions()],
        "runs": [
            *(run_data(run) for run in _going_on(history)),
            *(standing_data(history, run) for run in _standing(history)),
        ],
        "approvals": [approval_data(approval) for approval in waiting],
    }


def _lines(root: str, history: History, waiting: list[Approval], so_far: Sequence[Change]) -> list[str]:
    """Of a workspace that sits in this root; without one it sits elsewhere, and nothing can be done to it here."""
    done = plural(sum(action.is_tool for action in history.actions.values()), "action")
    lines = [f"{root} is protected: {done} recorded." if root else f"{done} recorded there."]
    if root and (chosen := last_action(history)):
        action = history.actions[chosen.actions[0]]
        lines.append(
            f"`takeback undo` would take back {action.id}: {what(history, action)}, {ago(action.began_us)}."
        )
    if unknown := _unknown_effects(history):
        names = ", ".join(action.id for action in unknown[-IDS_SHOWN:])
        last = f"the last are {names}" if len(unknown) > 1 else names
        count = plural(len(unknown), "action has", "actions have")
        lines.append(f"{count} an unknown effect ({last}): whether they did anything elsewhere is not known.")
    if checkpoint := next(reversed(history.checkpoints.values()), None):
        message = f' "{checkpoint.taken.message}"' if checkpoint.taken.message else ""
        lines.append(f"Last checkpoint {checkpoint.id}{message}, {ago(checkpoint.at_us)}.")
    lines += [
        f"It is unknown whether {action.id} happened: {what(history, action)}.  {way_to_settle(action.id)}"
        for action in _unknown(history)
    ]
    if remaining := _remaining(history):
        action, items = remaining
        lines.append(f"The last {action.kind} ({action.id}) is incomplete. Not as before:")
        lines += [f"  {item.target.said}: {item.why or item.did}" for item in items[:10]]
        lines.append(f"  {_way_on(history, action, items)}")
    lines += [line for run in sessions(history) for line in session_lines(history, run, so_far)]
    programs = [run for run in _going_on(history) if not run.began.detached]
    lines += [f"Run {run.id} is at work, begun {ago(run.began_us)}: {run.began.name}" for run in programs]
    if idle := _last_without_effect(history):
        lines.append(
            f"Run {idle.id} was interrupted {ago(idle.ended_us)} and had changed nothing: {idle.began.name}"
        )
    standing = _standing(history)
    if standing:
        lines.append(f"{plural(len(standing), 'run waits', 'runs wait')} for you:")
        lines += [f"  {line}" for run in standing[-RUNS_SHOWN:] for line in standing_lines(history, run)]
        if len(standing) > RUNS_SHOWN:
            lines.append(f"  … {len(standing) - RUNS_SHOWN} more; `takeback resume` lists them")
    if waiting:
        lines.append(f"{plural(len(waiting), 'question waits', 'questions wait')} for your word:")
        lines += [f"  {line}" for approval in waiting for line in approval_lines(approval)]
    for action in history.open_actions():
        if action.stream in {run.id for run in _going_on(history) if is_worth_a_row(run)}:
            continue
        lines.append(
            f"Action {action.id} has no recorded end: {what(history, action)}, {ago(action.began_us)}"
        )
    lines += [_going_on_behind(action) for action in history.open_actions(Life.BACKGROUND)]
    return lines


def _going_on_behind(action: RecordedAction) -> str:
    """What an action left running, and how it is ended: before that, nothing of it is taken back."""
    numbers = " ".join(str(process.pid) for process in action.processes if is_alive(process))
    how = f"  end them: kill {numbers}" if numbers else ""
    return (
        f"Action {action.id} has ended, but processes that it started are still running: {action.name}{how}"
    )


def _unknown(history: History) -> list[RecordedAction]:
    """Calls in doubt. Those of a run that stands still are listed with it."""
    standing = {run.id for run in _standing(history)}
    return [
        a for a in history.actions.values() if a.is_tool and a.stream not in standing and in_doubt(history, a)
    ]


def _unknown_effects(history: History) -> list[RecordedAction]:
    """Actions that may have done more than what was found by looking, and were not taken back."""
    return [a for a in history.actions.values() if a.is_unknown and not history.is_undone(a.id)]


def _remaining(history: History) -> tuple[RecordedAction, list[Item]] | None:
    """What the last rollback could not do, and nobody has answered since."""
    last = next((a for a in reversed(history.actions.values()) if a.is_rollback), None)
    if last is None:
        return None
    open_ = [item for item in last.items if item.did not in SETTLING or not item.verified]
    items = [item for item in open_ if not _is_answered(history, last, item)]
    return (last, items) if items else None


def _is_answered(history: History, rollback: RecordedAction, item: Item) -> bool:
    """Whether it was settled after this rollback if a call happened, of which the rollback could not know that."""
    later = [entry for entry in history.timeline(item.target) if entry.seq > rollback.seq]
    return item.did is Did.UNVERIFIABLE and bool(later)


def _way_on(history: History, rollback: RecordedAction, items: list[Item]) -> str:
    """What helps where a rollback is incomplete. A bare `undo` would go on to something else."""
    if all(item.did is Did.KEPT for item in items):
        return "it stays as it is: there is no way back"
    if not any(item.did in (Did.FAILED, Did.CONFLICT) for item in items):
        return "nobody can look whether it is gone, so look yourself"
    if not isinstance(rollback.began, RollbackBegan) or rollback.kind == "redo":
        return "try again   takeback redo"
    if rollback.kind == "restore":
        return f"try again   takeback restore {' '.join(rollback.began.of)}"
    settling = {action for item in items for action in item.settles} or set(rollback.began.of)
    runs = {history.actions[id].stream for id in settling}
    ids = sorted(settling, key=seq_of) if len(settling) <= IDS_SHOWN or len(runs) > 1 else sorted(runs)
    return f"mend what failed, then try again   takeback undo {' '.join(ids)}"


def _going_on(history: History) -> list[RecordedRun]:
    return [run for run in history.runs.values() if run.life is Life.OPEN]


def _last_without_effect(history: History) -> RecordedRun | None:
    """The last run, if it was interrupted with nothing to be decided about it."""
    last = next(reversed(history.runs.values()), None)
    if last is None or last.life is not Life.INTERRUPTED or waits_for_a_decision(history, last):
        return None
    return None if any(history.entries(id) for id in last.actions) else last


def _standing(history: History) -> list[RecordedRun]:
    return [run for run in history.runs.values() if waits_for_a_decision(history, run)]
