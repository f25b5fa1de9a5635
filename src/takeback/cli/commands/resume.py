"""`takeback resume`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click
import msgspec

from takeback.cli.choices import ids_of
from takeback.cli.runs import can_be_executed, standing_data, standing_lines, waits_for_a_decision
from takeback.cli.session import Session, TakebackCommand
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.subjects import Run
from takeback.errors import BackendError, RefusedError, UsageError

SIGNALLED = 128


@click.command("resume", cls=TakebackCommand)
@click.argument("run", required=False, default="", shell_complete=ids_of("resumable"))
@click.option("--exec", "execute", is_flag=True, help="Run the recorded command line of the run again")
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: Session, run: str, execute: bool) -> None:
    """Settle what a crash left in doubt, and tell how to go on

    Lists each run that was interrupted or handed over, how far it came and how it is continued. With --exec the
    program of the run is started again, in the folder where it was: calls that were completed give their recorded
    results, and the rest is done. Then the exit code is the program's own, and --json writes to standard error.

    A session of an agent is over when you say so, with its id: what was begun in it and has no end is then settled by
    looking. If the agent goes on all the same, that is another run.
    """
    with session.workspace() as workspace:
        found = workspace.resume(run)
        history = workspace.history
    waiting = found if run else [r for r in found if waits_for_a_decision(history, r)]
    if execute:
        ctx.exit(_execute(session, _one(waiting, run)))
    if session.json:
        return session.data({"runs": [standing_data(history, each) for each in waiting]})
    if run and not waiting:
        return session.line(f"{run} was left open and is over now. What it did stays: takeback show {run}")
    if not waiting:
        return session.line("Nothing to resume: no run was interrupted or handed over.")
    for each in waiting:
        for line in standing_lines(history, each):
            session.line(line)


def _one(waiting: list[Run], named: str) -> Run:
    """The run whose program is to be started again."""
    able = [run for run in waiting if can_be_executed(run)]
    if len(able) == 1:
        return able[0]
    if len(able) > 1:
        names = ", ".join(run.id for run in able)
        raise UsageError(f"there are several runs to continue: {names}; nothing was started", hint="name one")
    if not named:
        raise UsageError(
            "there is no run whose program could be started again; nothing was started",
            hint="`takeback resume` lists what there is",
        )
    (run,) = waiting
    if run.life is Life.HANDED_OVER:
        raise RefusedError(
            f"{run.id} waits for a human; nothing was started",
            hint=f"`takeback handover return {run.id}` first",
        )
    if not run.began.key:
        raise UsageError(
            f"{run.id} has no key, so its program would begin a new run; nothing was started",
            hint=f"tb.run(name, key=...) can be continued; this one can be taken back: takeback undo {run.id}",
        )
    raise UsageError(
        f"the command line of {run.id} was not recorded; nothing was started",
        hint="start your program again yourself: it finds the run by its key",
    )


def _execute(session: Session, run: Run) -> int:
    began = run.began
    sys.stdout.flush()
    try:
        done = subprocess.run(began.command, cwd=began.folder or None)
    except OSError as error:
        raise BackendError(
            f"{shlex.join(began.command)} cannot be started: {error.strerror}; {run.id} is as it was",
            hint="start your program again yourself: it finds the run by its key",
        ) from error
    code = done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode
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


def _tell(history: History, run: Run) -> None:
    for line in standing_lines(history, run):
        click.echo(line, err=True)
