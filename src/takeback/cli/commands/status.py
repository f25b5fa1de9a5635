"""`takeback status`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from takeback.agents import clients, hook_tampering
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.history import run_data, what
from takeback.cli.render.intents import outbox_lines
from takeback.cli.render.runs import (
    approval_data,
    approval_lines,
    standing_data,
    standing_lines,
    way_to_settle,
)
from takeback.cli.render.sessions import (
    is_call_running,
    session_data,
    session_lines,
    sessions,
    telling_changes,
)
from takeback.cli.text import ago, day, fit, folded, iso, joined, plural
from takeback.core.change import ABSENT, Change
from takeback.core.codec import one_line
from takeback.core.entities import Approval, RecordedAction, RecordedRun
from takeback.core.events import Did, Item, RollbackBegan
from takeback.core.history import History
from takeback.core.ids import seq_of
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.postings import Flag
from takeback.core.selection import last_action
from takeback.errors import RunBusy, TakebackError, UsageError
from takeback.settings import environment, toml
from takeback.system.processes import is_alive
from takeback.workspace.describe import in_doubt, item_said, known_as, notes_of, waits_for_a_decision
from takeback.workspace.locate import find_modules_at, find_root, registry_of_user
from takeback.workspace.lost_history import Lost
from takeback.workspace.opening import find_workspace, lost_at
from takeback.workspace.store.journal import held_unopened
from takeback.workspace.trusted_settings import Held
from takeback.workspace.workspace import Workspace

if TYPE_CHECKING:
    from takeback.workspace.results import StageCard
    from takeback.workspace.staging import Stage

RUNS_SHOWN = 5
UNKNOWN_LISTED = 100
DAY_US = 86_400_000_000
IDS_SHOWN = 3
ITEMS_SHOWN = 10


@click.command("status", cls=TakebackCommand)
@click.option("--all", "everything", is_flag=True, help="Name every path, instead of counting the rest")
@click.pass_obj
def command(session: CommandContext, everything: bool) -> None:
    """Show the state of the workspace, and what waits for you"""
    workspace = find_workspace(".")
    if workspace is None:
        return _not_yet(session)
    session.opened.append(workspace)
    find_modules_at(workspace.root)  # the checks of calls in doubt are functions of the project
    with workspace:
        workspace.recover_if_idle()
        history = workspace.history
        waiting = workspace.approvals() if history.unused_approvals() else []
        outbox = {state.value: count for state, count in workspace.outbox.counts().items()}
        session.everything = everything
        so_far = _changed_so_far(workspace)
        stores = [store for mark in history.marks.values() for store in mark.left_out]
        tampered = hook_tampering.warnings(workspace)
        workspace.notices += tampered
        elsewhere, gone = _elsewhere(workspace), workspace.lost
        views = list(workspace.stages) if workspace.known.has_stages else []
        held, notice = _holding(lambda: workspace.trusted.held)
        workspace.notices += [*([notice] if notice else []), *workspace.known.unreached]
        from takeback.cli.render.worktrees import worktree_data, worktree_lines

        if session.json:
            data = _data(history, waiting)
            data["outbox"] = outbox
            data["sessions"] = [session_data(history, run, so_far) for run in sessions(history)]
            data["sits_in"] = elsewhere or str(workspace.root)
            data["settings"] = _settings_data(held)
            data["lost"] = _lost_data(gone)
            data["left_out"] = stores
            data["stages"] = [view.name for view in views]
            data["worktrees"] = worktree_data(workspace.root)
            return session.data(
                {"protected": True, "root": str(workspace.root), "warnings": tampered, **data}
            )
        if elsewhere:
            session.line(
                f"This workspace sits in {elsewhere}. Nothing is recorded here; `takeback log` reads it."
            )
        root = "" if elsewhere else str(workspace.root)
        names = _named(workspace, so_far, everything=everything) if so_far else []
        remains = _remaining_lines(workspace, everything=everything)
        for line in fit([*_lines(root, history, waiting, names, remains), *outbox_lines(outbox)]):
            session.line(line)
        for view in views:
            session.line(_view_said(view, held.settings.stage.keep_days))
        for line in worktree_lines(workspace.root):
            session.line(line)
        for store in stores:
            session.line(f"Not recorded: {store}   (see [files] framework-stores)")


def _view_said(view: Stage, keep_days: int) -> str:
    try:
        return view_line(view.name, view.card, keep_days)
    except TakebackError as error:
        return f"The view {view.name} cannot be used: {error.message}; {error.hint}"


def view_line(name: str, card: StageCard, keep_days: int) -> str:
    """Return a line about a view that waits for a decision."""
    did = f": {one_line(card.command, 50)}" if card.command else ""
    end = f", until {day(card.last_us + keep_days * DAY_US)}" if keep_days else ""
    return f"The view {name} waits, used {ago(card.last_us)}{end}{did}   takeback stage diff {name}"


def _lost_data(gone: Lost | None) -> dict[str, object] | None:
    """Return the lost history of the workspace as data, or None."""
    return {"since": iso(gone.since_us), "state": str(gone.state), "hint": gone.hint} if gone else None


def _settings_data(held: Held) -> dict[str, object]:
    """Return which settings of takeback.toml do not hold, and why."""
    return {
        "changed_by": held.since or None,
        "not_accepted": [{"setting": one.name, "value": one.shown, "does": one.does} for one in held.pending],
    }


def _holding(read: Callable[[], Held]) -> tuple[Held, str]:
    """Return the settings that hold, and a message about them. An error in them does not hide anything else."""
    try:
        held = read()
    except UsageError as error:
        return Held(toml.Config()), f"{error.message}. {error.hint}" if error.hint else error.message
    return held, held.notice


def _elsewhere(workspace: Workspace) -> str:
    """Return where the workspace sits, if not here."""
    seats, seat = workspace.journal.seats, workspace.history.moves.seat
    return seat.place.said if seats and seat and seat.place.id != seats.place.id else ""


def _changed_so_far(workspace: Workspace) -> list[Change]:
    """Return what has changed since the last record, if a running call may have changed it."""
    if not is_call_running(workspace.history):
        return []
    try:
        return telling_changes(workspace.drift())
    except RunBusy:
        return []


def _not_yet(session: CommandContext) -> None:
    """Report that nothing is recorded here. If an agent has hooks here, recording begins by itself."""
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
        session.line(f"Nothing is recorded in {here} yet. The hooks for {titles} begin with the first event.")
        return session.line(f"  check that they work   takeback doctor {waiting[0]}")
    session.line(f"{here} is not protected yet.")
    session.line("  begin             takeback init   or   takeback run -- COMMAND")
    session.line("  a coding agent    takeback install AGENT")


def _data(history: History, waiting: list[Approval]) -> dict[str, object]:
    checkpoint = next(reversed(history.checkpoints.values()), None)
    return {
        "events": history.seq,
        "actions": history.tools,
        "undo_would_take_back": list(last_action(history).actions),
        "unknown": [action.id for action in _unknown_effects(history, UNKNOWN_LISTED)],
        "unknown_total": history.count_flagged(Flag.UNKNOWN),
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


def _lines(
    root: str, history: History, waiting: list[Approval], so_far: Sequence[str], remains: Sequence[str]
) -> list[str]:
    """Return lines about a workspace that sits in this root; without one it sits elsewhere, and is only read here.

    `so_far` names what running calls have changed, and `remains` what the last rollback could not do.
    """
    done = plural(history.tools, "action")
    lines = [f"{root} is protected: {done} recorded." if root else f"{done} recorded there."]
    if root and (chosen := last_action(history)):
        action = history.actions[chosen.actions[0]]
        lines.append(
            f"`takeback undo` would take back {action.id}, {ago(action.began_us)}: {_known(history, action)}."
        )
    if unknown := _unknown_effects(history, IDS_SHOWN):
        total = history.count_flagged(Flag.UNKNOWN)
        names = ", ".join(action.id for action in unknown)
        subject = f"{total:,} actions (the last are {names})" if total > 1 else names
        lines.append(f"It is unknown whether {subject} did anything elsewhere.")
    if checkpoint := next(reversed(history.checkpoints.values()), None):
        message = f' "{checkpoint.taken.message}"' if checkpoint.taken.message else ""
        lines.append(f"Last checkpoint {checkpoint.id}{message}, {ago(checkpoint.at_us)}.")
    for action in _unknown(history):
        happened = f"It is unknown whether {action.id} happened: {_known(history, action)}."
        lines += joined(happened, way_to_settle(action.id), "  ")
    lines += remains
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
        lines.append(f"{plural(len(waiting), 'request waits', 'requests wait')} for your approval:")
        lines += [f"  {line}" for approval in waiting for line in approval_lines(approval)]
    for action in history.open_actions():
        if action.stream in {run.id for run in _going_on(history) if run.is_listed}:
            continue
        lines.append(
            f"Action {action.id} has no recorded end: {what(history, action)}, {ago(action.began_us)}"
        )
    lines += [_in_background(action) for action in history.open_actions(Life.BACKGROUND)]
    return lines


def _known(history: History, action: RecordedAction) -> str:
    """Return what a person knows an action by, and what became of it."""
    notes = [note for note in notes_of(history, action) if note != "in doubt"]
    known = known_as(history, action)
    return f"{known} ({', '.join(notes)})" if notes else known


def _in_background(action: RecordedAction) -> str:
    """Return a line about processes that an action left running: until they end, it cannot be taken back."""
    numbers = " ".join(str(process.pid) for process in action.processes if is_alive(process))
    how = f"  end them: kill {numbers}" if numbers else ""
    return (
        f"Action {action.id} has ended, but processes that it started are still running: {action.name}{how}"
    )


def _unknown(history: History) -> list[RecordedAction]:
    """Return the calls in doubt, without those of a run that has stopped, which are listed with it."""
    standing = {run.id for run in _standing(history)}
    return [a for a in history.in_doubt() if a.is_tool and a.stream not in standing and in_doubt(history, a)]


def _unknown_effects(history: History, most: int) -> list[RecordedAction]:
    """Return the latest actions that may have done more than looking could find, and were not taken back."""
    return list(islice(history.flagged(Flag.UNKNOWN), most))[::-1]


def _remaining(history: History) -> tuple[RecordedAction, list[Item]] | None:
    """Return what the last rollback could not do and nobody has settled since."""
    last = next(history.rollbacks(), None)
    if last is None:
        return None
    open_ = [item for item in last.items if item.did not in SETTLING or not item.verified]
    items = [item for item in open_ if not _is_answered(history, last, item)]
    return (last, items) if items else None


def _named(workspace: Workspace, changes: Sequence[Change], *, everything: bool) -> list[str]:
    from takeback.cli.render.listing import change_lines  # hardly ever needed

    return change_lines(changes, workspace.places(changes), workspace.tell, everything=everything)


def _remaining_lines(workspace: Workspace, *, everything: bool) -> list[str]:
    """Return what the last rollback could not do, what matters first, and what to do about it."""
    history = workspace.history
    remaining = _remaining(history)
    if remaining is None:
        return []
    action, items = remaining
    places = workspace.places(Change(item.target, ABSENT, ABSENT) for item in items)
    items.sort(key=lambda item: places[item.target].rank)
    shown = items if everything else items[:ITEMS_SHOWN]
    lines = folded(f"The last {action.kind} ({action.id}) is incomplete. Not as before:", "")
    for item in shown:
        lines += folded(f"{item_said(history, item)}: {item.why or item.did}", "  ")
    if left := len(items) - len(shown):
        lines.append(f"  and {left:,} more; --all lists them")
    return [*lines, *folded(_way_on(history, action, items), "  ")]


def _is_answered(history: History, rollback: RecordedAction, item: Item) -> bool:
    """Return True if somebody settled, after this rollback, a call that the rollback could not verify."""
    later = history.timeline(item.target, after=rollback.seq)
    return item.did is Did.UNVERIFIABLE and bool(later)


def _way_on(history: History, rollback: RecordedAction, items: list[Item]) -> str:
    """Return what to do about an incomplete rollback. A bare `undo` would take back something else."""
    if all(item.did is Did.KEPT for item in items):
        return "it stays as it is: there is no way back"
    if not any(item.did in (Did.FAILED, Did.CONFLICT) for item in items):
        return "this cannot be checked automatically; please verify by hand"
    if not isinstance(rollback.began, RollbackBegan) or rollback.kind == "redo":
        return "try again   takeback redo"
    if rollback.began.stage:
        return f"fix what failed, then try again   takeback stage accept {rollback.began.stage}"
    if rollback.kind == "restore":
        return f"try again   takeback restore {' '.join(rollback.began.of)}"
    settling = {action for item in items for action in item.settles} or set(rollback.began.of)
    runs = {history.actions[id].stream for id in settling}
    ids = sorted(settling, key=seq_of) if len(settling) <= IDS_SHOWN or len(runs) > 1 else sorted(runs)
    return f"fix what failed, then try again   takeback undo {' '.join(ids)}"


def _going_on(history: History) -> list[RecordedRun]:
    return history.open_runs()


def _last_without_effect(history: History) -> RecordedRun | None:
    """Return the last run, if it was interrupted and needs no decision."""
    last = next(reversed(history.runs.values()), None)
    if last is None or last.life is not Life.INTERRUPTED or waits_for_a_decision(history, last):
        return None
    return None if any(history.entries(id) for id in last.actions) else last


def _standing(history: History) -> list[RecordedRun]:
    return [run for run in history.waiting_runs() if waits_for_a_decision(history, run)]
