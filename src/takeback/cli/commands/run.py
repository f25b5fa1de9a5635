"""`takeback run`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from takeback.cli import consent
from takeback.cli.beginning import first_checkpoint
from takeback.cli.context import CommandContext, FailedWith, TakebackCommand
from takeback.cli.options import interval, intervals
from takeback.cli.render.command import summary_data, summary_lines, warning_lines
from takeback.cli.rollback import show
from takeback.cli.text import printable
from takeback.core.codec import written as recordable
from takeback.core.events import Process
from takeback.core.policy import Decision
from takeback.daemon import client, control
from takeback.errors import RefusedByRule, RollbackIncomplete, TakebackError
from takeback.settings import environment
from takeback.workspace.results import CommandPlan, CommandResult

FAILED_BEFORE_START = 125


class RunCommand(TakebackCommand):
    """Everything after the first word of the command belongs to the command."""

    allow_interspersed_args = False

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RefusedByRule:
            raise
        except TakebackError as error:
            # Whatever failed, failed before the command began: once it runs, its own code counts.
            raise FailedWith(FAILED_BEFORE_START, error) from error


@click.command("run", cls=RunCommand, context_settings={"ignore_unknown_options": False})
@click.option("--name", default=None, metavar="N", help="How the log calls it; by default the command itself")
@click.option("--undo-on-failure", is_flag=True, help="Take everything back if the command fails")
@click.option(
    "--every",
    callback=interval,
    shell_complete=intervals,
    metavar="TIME",
    help="Take a checkpoint each 5m, 30s or 1h while it runs, and let undo take back what came after the last one",
)
@click.option(
    "--also",
    multiple=True,
    metavar="DIR",
    help="Protect this folder outside the workspace, too; may be given more than once",
)
@click.option("--allow-home", is_flag=True, help="With --also: even a home folder or one above it")
@click.option("--autopilot", is_flag=True, help="Refuse a command that is known to be irreversible")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    name: str | None,
    undo_on_failure: bool,
    every: float | None,
    autopilot: bool,
    also: tuple[str, ...],
    allow_home: bool,
    words: tuple[str, ...],
) -> None:
    """Run any command as one action that can be taken back

    A command that is known to push, publish, send or delete elsewhere is said to be irreversible before it starts.
    What a rule of takeback.toml denies is not started, and what it says is to be asked for is asked about here. Exits
    with the command's own code, 128 + n if signal n ended it, 125 if Takeback failed before starting it, 3 if a rule
    did not let it start, and 6 where the command gave 0 and what it did could not be recorded. With --every it is cut
    into parts: `undo` takes back the newest one, `undo RUN` all of them.
    """
    with session.protect(asking=True) as workspace:
        workspace.recover()
        roots = workspace.roots(also, allow_home=allow_home)
        if not workspace.history.marks and not session.json:
            first_checkpoint(session, workspace, "before the first run")
        workspace.keep_within_quota()
        plan = workspace.commands.plan(words, name=name or "", roots=roots, autopilot=autopilot)
        locked = workspace.commands.allow(plan, partial(_ask, session, plan))
        warnings = [*warning_lines(plan), *([f"takeback: {locked}"] if locked else [])]
        for line in () if session.json else warnings:
            click.echo(line, err=True)
        result = workspace.commands.run(plan, every_s=every, undo=undo_on_failure, spares=_is_daemon)
        ctx.exit(_answer(session, plan, result))


def _ask(session: CommandContext, plan: CommandPlan, ruling: Decision) -> bool | None:
    """Ask about what a rule holds; None where nobody can be asked."""
    if session.json or not consent.is_terminal() or session.is_inside():
        return None
    click.echo(f"takeback: {printable(ruling.why)}", err=True)
    return click.confirm(f"{printable(plan.name)}: Run it?", default=False, err=True)


def _is_daemon(process: Process) -> bool:
    """Whether this is the daemon: it serves everybody, whoever's hook has started it."""
    return process.pid == control.holder(environment.state_home()) and client.is_daemon(process.pid)


def _answer(session: CommandContext, plan: CommandPlan, result: CommandResult) -> int:
    """Say what the command did, and return the exit code."""
    code, action, history = result.child.code, result.action, result.history
    if action is None or history is None:
        # The command has run, so its own failure counts first. The next command settles what is not recorded now.
        click.echo(f"takeback: what {result.id} changed is not recorded yet: {result.unrecorded}", err=True)
        return code or RollbackIncomplete.exit_code
    if result.busy:
        click.echo(f"takeback: {result.busy}", err=True)
    if session.json:
        click.echo(summary_data(history, action, result), err=True)
    elif not result.child.started:
        click.echo(f"takeback: {recordable(result.child.why)}", err=True)
    else:
        for line in summary_lines(history, action, result, plan.name):
            click.echo(line, err=True)
        if result.report is not None:
            show(CommandContext(to_stderr=True), history, result.report)
    return code
