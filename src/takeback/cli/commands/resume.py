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
from takeback.cli.render.runs import standing_data, standing_lines, waits_for_a_decision
from takeback.core.entities import RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.errors import UsageError
from takeback.workspace import resuming
from takeback.workspace.store.bring import arrive, look


@click.command("resume", cls=TakebackCommand)
@click.argument("run", required=False, default="", shell_complete=ids_of("resumable"))
@click.option("--exec", "execute", is_flag=True, help="Run the recorded command line of the run again")
@click.option("--into", metavar="DIR", default="", help="Bring the workspace into this new folder first")
@click.option(
    "--store", metavar="ADDRESS", default="", help="With --into: the shared store that has its history"
)
@click.option("--workspace", "name", metavar="NAME", default="", help="With --into: what it is called there")
@click.option("--blobs", metavar="ADDRESS", default="", help="With --into: the bucket that has its content")
@click.option(
    "--blobs-key", metavar="$NAME|FILE", default="", help="With --into: the key that it is sealed with"
)
@click.option("--preview", is_flag=True, help="With --into: say what would be brought, and change nothing")
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
    """Settle what a crash left in doubt, and tell how to go on

    Lists each run that was interrupted or handed over, how far it came and how it is continued. With --exec the
    program of the run is started again, in the folder where it was: calls that were completed give their recorded
    results, and the rest is done. Then the exit code is the program's own, and --json writes to standard error.

    A session of an agent is over when you say so, with its id: what was begun in it and has no end is then settled by
    looking. If the agent goes on all the same, that is another run.

    With --into a workspace of a shared store is moved to this machine, once the one that it was on is silent: its
    files, databases and git repository come into a new or empty folder as last recorded, and are read again. Without
    --store and --workspace the workspace here, or its takeback.toml, says which one. A plan is then carried on by
    itself. Write a password as a variable, in single quotes: --store 'postgresql://me:$PASSWORD@host/database'.
    """
    named = {"store": store, "workspace": name, "blobs": blobs, "blobs_key": blobs_key}
    if into:
        ctx.exit(_move_in(session, run, into, named, execute=execute, preview=preview))
    if preview or any(named.values()):
        raise UsageError(
            "--store, --workspace, --blobs, --blobs-key and --preview go with --into; nothing was done"
        )
    with session.workspace() as workspace:
        found = workspace.resume(run)
        history = workspace.history
    waiting = found if run else [r for r in found if waits_for_a_decision(history, r)]
    if execute:
        ctx.exit(_execute(session, resuming.chosen(waiting, run)))
    if session.json:
        return session.data({"runs": [standing_data(history, each) for each in waiting]})
    if run and not waiting:
        return session.line(f"{run} was left open and is over now. What it did stays: takeback show {run}")
    if not waiting:
        return session.line("Nothing to resume: no run was interrupted or handed over.")
    for each in waiting:
        for line in standing_lines(history, each):
            session.line(line)


def _execute(session: CommandContext, run: RecordedRun) -> int:
    with session.workspace() as workspace:
        history = workspace.history
    code = resuming.start(history, run)
    with session.workspace() as workspace:
        workspace.recover()  # it may have died once more
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
    """Bring the workspace here; from then on it is resumed as any other."""
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
    runs = [history.runs[run]] if run else list(history.runs.values())
    waiting = [one for one in runs if run or waits_for_a_decision(history, one)]
    if execute:
        return _execute(session, resuming.chosen(waiting, run))
    return _carry_on(session, history, waiting, arrival_data(arrival, outlook))


def _carry_on(
    session: CommandContext, history: History, named: list[RecordedRun], data: dict[str, Any]
) -> int:
    """Run a plan to its end; say of other runs how they are continued."""
    plans = [run for run in named if resuming.can_be_executed(run) and resuming.plan_of(history, run)]
    code = 0
    if len(plans) == 1 == len(named):
        code, data["plan"] = _run_plan(session, resuming.plan_of(history, plans[0]))
        with session.workspace() as workspace:
            history = workspace.history
            named = [history.runs[run.id] for run in named]
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
