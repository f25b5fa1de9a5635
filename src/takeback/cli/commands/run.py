"""`takeback run`."""

from __future__ import annotations

from functools import partial

import click

from takeback.cli.beginning import first_checkpoint
from takeback.cli.context import CommandContext
from takeback.cli.options import ALL, interval, intervals
from takeback.cli.render.command import summary_data, summary_lines, warning_lines
from takeback.cli.render.history import telling
from takeback.cli.render.listing import change_lines
from takeback.cli.rollback import show
from takeback.cli.running import RunningCommand, ask, is_daemon
from takeback.core.codec import written as recordable
from takeback.core.selection import made
from takeback.errors import RollbackIncomplete, TakebackError
from takeback.settings import environment
from takeback.workspace.results import CommandPlan, CommandResult
from takeback.workspace.sandboxing import fence_for
from takeback.workspace.workspace import Workspace


@click.command("run", cls=RunningCommand, context_settings={"ignore_unknown_options": False})
@click.option(
    "--name", default=None, metavar="NAME", help="The name in the log (default: the command itself)"
)
@click.option("--undo-on-failure", is_flag=True, help="Take everything back if the command fails")
@click.option(
    "--draft-on-failure",
    is_flag=True,
    help="Take everything back if the command fails, and keep it as a view that you can look at and accept later",
)
@click.option(
    "--every",
    callback=interval,
    shell_complete=intervals,
    metavar="TIME",
    help="Cut a long command into parts of this length, such as 30s or 5m, so that you can undo only the latest part",
)
@click.option(
    "--also",
    multiple=True,
    metavar="DIR",
    help="Also protect this folder outside the workspace; may be repeated",
)
@click.option("--allow-home", is_flag=True, help="Allow a home folder, or a folder above one")
@click.option("--autopilot", is_flag=True, help="Refuse a command that is known to be irreversible")
@click.option(
    "--sandbox", is_flag=True, help="Let the operating system hold it: it can write only in this workspace"
)
@click.option(
    "--network",
    type=click.Choice(["full", "loopback", "none"]),
    default=None,
    help="With --sandbox: what the command can reach; its loopback is private",
)
@ALL
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    name: str | None,
    undo_on_failure: bool,
    draft_on_failure: bool,
    every: float | None,
    autopilot: bool,
    sandbox: bool,
    network: str | None,
    also: tuple[str, ...],
    allow_home: bool,
    everything: bool,
    words: tuple[str, ...],
) -> None:
    """Run any command as one action that can be taken back

    If the command is known to push, publish, send or delete something elsewhere, Takeback first warns that this
    cannot be taken back. If a rule in takeback.toml denies the command, it is not started; if a rule requires your
    approval, Takeback asks you first.

    With --every, `undo` takes back the latest part and `undo RUN` the whole command.

    \b
    Exit codes:
      the command's own code, or 128 + n if signal n ended it
      3    a rule did not allow the command; it was not started
      6    the command succeeded, but its changes could not be recorded
      125  Takeback failed before it could start the command
    """
    environment.refuse_in_shadow("`takeback run`")
    with session.protect(allow_home=allow_home, asking=True) as workspace:
        workspace.recover()
        roots = workspace.roots(also, allow_home=allow_home)
        if not workspace.history.marks and not session.json:
            first_checkpoint(session, workspace, "before the first run")
        workspace.keep_within_quota()
        fence = fence_for(workspace, autopilot=autopilot, network=network or "") if sandbox else None
        plan = workspace.commands.plan(words, name=name or "", roots=roots, autopilot=autopilot, fence=fence)
        locked = workspace.commands.allow(plan, partial(ask, session, plan))
        warnings = [*warning_lines(plan), *([f"takeback: {locked}"] if locked else [])]
        for line in () if session.json else warnings:
            click.echo(line, err=True)
        undo = undo_on_failure or draft_on_failure
        result = workspace.commands.run(plan, every_s=every, undo=undo, spares=is_daemon)
        session.everything = everything
        code = _answer(session, workspace, plan, result)
        if draft_on_failure and result.report is not None and result.report.is_complete:
            _keep_draft(session, workspace, result)
        ctx.exit(code)


def _keep_draft(session: CommandContext, workspace: Workspace, result: CommandResult) -> None:
    """Keep what was taken back as a view. The command's own exit code counts, whatever comes of this."""
    from takeback.workspace.shadow.drafts import draft, told

    try:
        stage = draft(workspace, [result.id])
    except TakebackError as error:
        click.echo(f"takeback: no draft was made: {error.message}", err=True)
        return
    if stage is not None and not session.json:
        click.echo(f"takeback: {told(stage)}", err=True)


def _answer(session: CommandContext, workspace: Workspace, plan: CommandPlan, result: CommandResult) -> int:
    """Print what the command did, and return the exit code."""
    code, action, history = result.child.code, result.action, result.history
    if action is None or history is None:
        # The command has run, so its own failure counts first. The next takeback command records the changes.
        click.echo(f"takeback: what {result.id} changed is not recorded yet: {result.unrecorded}", err=True)
        return code or RollbackIncomplete.exit_code
    if result.busy:
        click.echo(f"takeback: {result.busy}", err=True)
    if session.json:
        click.echo(summary_data(history, action, result), err=True)
    elif not result.child.started:
        click.echo(f"takeback: {recordable(result.child.why)}", err=True)
    else:
        changes = [] if result.report else telling(made(history, action))
        every = session.everything
        names = change_lines(changes, workspace.places(changes), workspace.tell, everything=every)
        for line in summary_lines(history, action, result, plan.name, names):
            click.echo(line, err=True)
        if result.report is not None:
            show(CommandContext(to_stderr=True, everything=session.everything), history, result.report)
    return code
