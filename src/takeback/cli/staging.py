"""What `try` and `stage` share: running a command in a view, and what becomes of the view."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from takeback.cli import consent, running
from takeback.cli.context import CommandContext
from takeback.cli.render.command import warning_lines
from takeback.cli.render.report import exit_code
from takeback.cli.render.stages import accepted_lines, look_data, next_lines, would_lines
from takeback.core.codec import printable
from takeback.core.codec import written as recordable
from takeback.daemon import control
from takeback.errors import RollbackIncomplete, TakebackError
from takeback.settings import environment
from takeback.workspace.results import CommandPlan, RollbackReport
from takeback.workspace.staging import Stage, StageRun
from takeback.workspace.workspace import Workspace

ACCEPT, KEEP, DROP = "accept", "keep", "drop"


def run_in(session: CommandContext, stage: Stage, words: Sequence[str], network: str = "") -> StageRun:
    """Run a command in a view, with its standard output unless that is for our JSON."""
    return stage.run(
        words,
        network=network,
        ask=partial(running.ask, session),
        before=partial(_warn, session),
        after=_stop_daemon,
        spares=running.is_daemon,
        to_stderr=session.json,
    )


def is_dropped_unused(stage: Stage) -> bool:
    """Drop a view in which nothing was changed; return False if it stays.

    An error may come before the command has begun, or after hours of its work.
    """
    try:
        if any(change.before != change.after for change in stage.changes()) or stage.outside():
            return False
        stage.drop()
    except TakebackError:  # what is in it is not known, or somebody is at work there
        return False
    return True


def _warn(session: CommandContext, plan: CommandPlan, locked: str) -> None:
    for line in () if session.json else (*warning_lines(plan), *([f"takeback: {locked}"] if locked else [])):
        click.echo(line, err=True)


def _stop_daemon() -> None:
    """Stop the daemon that hooks have started inside a view: it would keep the view busy."""
    control.stop(environment.state_home())


def show(session: CommandContext, stage: Stage, done: StageRun) -> None:
    """Say on standard error how a command in a view ended, and what it would change."""
    if session.json:
        return
    if not done.started:
        click.echo(f"takeback: {recordable(done.why)}", err=True)
        return
    if done.unrecorded:
        click.echo(f"takeback: what it changed is not recorded yet: {done.unrecorded}", err=True)
    ending = done.why or (f"failed with exit code {done.code}" if done.code else "")
    if ending:
        click.echo(f"The command {ending}.", err=True)
    for line in would_lines(stage, done.look) if done.look else next_lines(stage.name):
        click.echo(printable(line), err=True)
    if done.living:
        numbers = ", ".join(map(str, done.living))
        click.echo(f"  still running in the view: process {numbers}", err=True)


def data_of(stage: Stage, done: StageRun) -> dict[str, object]:
    """Return how a command in a view ended, as data."""
    return {
        "stage": stage.name,
        "kind": stage.card.kind,
        "action": done.id,
        "exit_code": done.code,
        "why": done.why,
        "background": list(done.living),
        **look_data(done.look, stage.outside()),
    }


def code_of(done: StageRun) -> int:
    return done.code or (RollbackIncomplete.exit_code if done.unrecorded else 0)


def chosen(session: CommandContext, name: str) -> str:
    """Ask what becomes of a view. Without a terminal it is kept."""
    if session.json or not consent.is_terminal() or session.is_inside():
        return KEEP
    word = click.prompt(
        f"Accept {name}, keep it for later, or drop it?",
        type=click.Choice([ACCEPT, KEEP, DROP]),
        default=KEEP,
        err=True,
    )
    return str(word)


def show_report(session: CommandContext, workspace: Workspace, stage: Stage, report: RollbackReport) -> int:
    """Print the report of an acceptance, unless that is for our JSON, and return the exit code."""
    if session.json:
        return exit_code(report)
    for line in accepted_lines(stage.name, report):
        click.echo(printable(line), err=session.to_stderr or report.is_stopped)
    code = exit_code(report)
    if not report.preview and not report.is_stopped and stage.name in workspace.stages.names():
        session.line(f"The view {stage.name} is still there, with what was not accepted.")
    return code
