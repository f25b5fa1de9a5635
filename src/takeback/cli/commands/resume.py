"""`takeback resume`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand, enter
from takeback.cli.options import ids_of
from takeback.cli.render.arrival import (
    arrival_data,
    arrival_lines,
    going_on,
    outlook_data,
    outlook_lines,
)
from takeback.cli.render.runs import standing_data, standing_lines
from takeback.core.entities import RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.errors import UsageError
from takeback.workspace import resuming
from takeback.workspace.describe import waits_for_a_decision
from takeback.workspace.store.bring import arrive, look


@click.command("resume", cls=TakebackCommand)
@click.argument("run", required=False, default="", shell_complete=ids_of("resumable"))
@click.option("--exec", "execute", is_flag=True, help="Start the recorded command line of the run again")
@click.option(
    "--into",
    metavar="DIR",
    default="",
    help="First bring the workspace to this machine, into this new or empty folder",
)
@click.option(
    "--store", metavar="ADDRESS", default="", help="With --into: the shared store that has the history"
)
@click.option(
    "--workspace",
    "name",
    metavar="NAME",
    default="",
    help="With --into: the name of the workspace in that store",
)
@click.option("--blobs", metavar="ADDRESS", default="", help="With --into: the bucket that has the content")
@click.option(
    "--blobs-key", metavar="$NAME|FILE", default="", help="With --into: the key that encrypts the content"
)
@click.option("--preview", is_flag=True, help="With --into: show what would be brought, and change nothing")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    run: str,
    execute: bool,
    into: str,
    store: str,
    name: str,
    blobs: str,
    blobs_key: str,
    preview: bool,
) -> None:
    """Show how to continue interrupted runs; --exec continues one

    First finds out what happened to the actions that a crash left open. Then lists each run that was interrupted or
    handed over, its progress, and how to continue it.

    With --exec, the program of the run is started again in its folder: completed calls return their recorded results,
    and the rest is done. The exit code is then that of the program, and --json writes to standard error.

    If RUN is the session of a coding agent, this ends the session. For calls that have no recorded end, Takeback
    looks at what they changed. If the agent continues anyway, that is a new run.

    With --into, a workspace in a shared store moves to this machine, once its old machine no longer answers: its
    files, databases and git repository are written into a new or empty folder as last recorded, and verified. Without
    --store and --workspace, they are taken from the workspace in the current folder or from its takeback.toml. An
    interrupted plan then continues by itself. Write a password as a variable, in single quotes: --store
    'postgresql://me:$PASSWORD@host/database'.
    """
    named = {"store": store, "workspace": name, "blobs": blobs, "blobs_key": blobs_key}
    if into:
        ctx.exit(_move_in(session, run, into, named, execute=execute, preview=preview))
    if preview or any(named.values()):
        raise UsageError(
            "--store, --workspace, --blobs, --blobs-key and --preview need --into; nothing was done"
        )
    with session.workspace() as workspace:
        found = workspace.resume(run)
        waiting = found if run else [r for r in found if waits_for_a_decision(workspace.history, r)]
        if not execute:
            return _show_waiting(session, workspace.history, waiting, run)
    ctx.exit(_execute(session, resuming.chosen(waiting, run)))


def _show_waiting(session: CommandContext, history: History, waiting: list[RecordedRun], run: str) -> None:
    if session.json:
        return session.data({"runs": [standing_data(history, each) for each in waiting]})
    if run and not waiting:
        return session.line(f"{run} was still open and is over now. Its changes stay: takeback show {run}")
    if not waiting:
        return session.line("Nothing to resume: no run was interrupted or handed over.")
    for each in waiting:
        for line in standing_lines(history, each):
            session.line(line)
    return None


def _execute(session: CommandContext, run: RecordedRun) -> int:
    with session.workspace() as workspace:
        program = resuming.program_of(workspace.history, run)
    code = resuming.start(program, run)
    with session.workspace() as workspace:
        workspace.recover()  # the program may have died again
        history = workspace.history
        after = history.runs[run.id]
        if session.json:
            data = standing_data(history, after) | {"exit_code": code}
            click.echo(msgspec.json.encode(data).decode(), err=True)
        elif after.life in (Life.INTERRUPTED, Life.HANDED_OVER):
            _tell(history, after)
        else:
            click.echo(f"{run.id} is {after.life}.", err=True)
    return code


def _move_in(
    session: CommandContext,
    run: str,
    into: str,
    named: dict[str, str],
    *,
    execute: bool,
    preview: bool,
) -> int:
    """Bring the workspace here, then resume its runs like any others."""
    outlook = look(into, run=run, **named)
    if preview:
        if session.json:
            session.data(outlook_data(outlook, run))
        for line in () if session.json else outlook_lines(outlook, run):
            session.line(line)
        return 0
    arrival = arrive(outlook, progress=session.progress)
    if not session.json:
        for line in arrival_lines(arrival, outlook):
            session.line(line)
    enter(str(arrival.root))
    with session.workspace() as workspace:
        workspace.recover()
        history = workspace.history
        runs = [history.runs[run]] if run else history.waiting_runs()
        waiting = [one for one in runs if run or waits_for_a_decision(history, one)]
        plans = [one for one in waiting if resuming.can_be_executed(one) and resuming.plan_of(history, one)]
        plan = resuming.plan_of(history, plans[0]) if len(plans) == 1 == len(waiting) else None
    if execute:
        return _execute(session, resuming.chosen(waiting, run))
    return _carry_on(session, plan, waiting, arrival_data(arrival, outlook))


def _carry_on(
    session: CommandContext, plan: list[str] | None, named: list[RecordedRun], data: dict[str, Any]
) -> int:
    """Run a plan to its end; show how to continue other runs."""
    code = 0
    if plan:
        code, data["plan"] = _run_plan(session, plan)
    with session.workspace() as workspace:
        history = workspace.history
        return _show_carried_on(session, history, [history.runs[run.id] for run in named], data, code)


def _show_carried_on(
    session: CommandContext, history: History, named: list[RecordedRun], data: dict[str, Any], code: int
) -> int:
    if session.json:
        session.data(data | {"runs": [standing_data(history, run) for run in named]})
        return code
    for run in named:
        if run.life in (Life.INTERRUPTED, Life.HANDED_OVER):
            for line in standing_lines(history, run):
                session.line(line)
            if words := going_on(history, run):
                session.line(f"  or by hand     {words}")
        else:
            session.line(f"{run.id} is {run.life}.")
    return code


def _run_plan(session: CommandContext, words: list[str]) -> tuple[int, Any]:
    sys.stdout.flush()
    if not session.json:
        return subprocess.run(words).returncode, None
    done = subprocess.run([*words, "--json"], capture_output=True)
    return done.returncode, msgspec.json.decode(done.stdout) if done.stdout else None


def _tell(history: History, run: RecordedRun) -> None:
    for line in standing_lines(history, run):
        click.echo(line, err=True)
