"""`takeback try`."""

from __future__ import annotations

import click

from takeback.cli import staging
from takeback.cli.beginning import first_checkpoint
from takeback.cli.context import CommandContext
from takeback.cli.options import NETWORK
from takeback.cli.running import RunningCommand
from takeback.cli.staging import ACCEPT, DROP, KEEP
from takeback.errors import TakebackError, UsageError


@click.command("try", cls=RunningCommand, context_settings={"ignore_unknown_options": False})
@click.option("--name", default="", metavar="NAME", help="The name of the view (default: t1, t2 and so on)")
@click.option("--accept", is_flag=True, help="Accept what the command did if it succeeds")
@click.option("--keep", is_flag=True, help="Keep the view for later")
@click.option("--drop", is_flag=True, help="Drop the view when the command has ended")
@NETWORK
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    name: str,
    accept: bool,
    keep: bool,
    drop: bool,
    network: str,
    words: tuple[str, ...],
) -> None:
    """Run any command in a private view, then accept, keep or drop what it did

    The command sees the workspace at its own path, and changes only the view. Your home folder and the temporary
    folder are private too, and everything else cannot be written. At the end Takeback shows what would change, and
    asks; without a terminal, the view is kept.

    \b
    Exit codes:
      the command's own code, or 128 + n if signal n ended it
      3    a rule did not allow the command, or accepting met a conflict
      6    the command succeeded, but its changes could not be recorded
      125  Takeback failed; the view is kept if anything was changed in it
    """
    given = [then for then, is_given in ((ACCEPT, accept), (KEEP, keep), (DROP, drop)) if is_given]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(f'--{one}' for one in given)} exclude each other; nothing was run",
            hint="choose one of --accept, --keep and --drop",
        )
    session.to_stderr = not session.json
    with session.protect(asking=True) as workspace:
        workspace.recover()
        if not workspace.history.marks and not session.json:
            first_checkpoint(session, workspace, "before the first try")
        workspace.keep_within_quota()
        stage = workspace.stages.new(name, network=network or "full")
        try:
            done = staging.run_in(session, stage, words)
        except TakebackError:
            if not staging.is_dropped_unused(stage):
                click.echo(
                    f"takeback: the view {stage.name} was kept; look   takeback stage diff {stage.name}",
                    err=True,
                )
            raise
        staging.show(session, stage, done)
        then = given[0] if given else (staging.chosen(session, stage.name) if done.started else DROP)
        if then == ACCEPT and done.code:
            then = KEEP
            click.echo(f"takeback: the command failed, so {stage.name} was kept and not accepted", err=True)
        data, code = staging.data_of(stage, done), staging.code_of(done)
        if then == DROP:
            stage.drop()
        elif then == ACCEPT:
            try:
                report = stage.accept()
            except TakebackError as error:  # the command has run, so this is not a failure to start it
                then = KEEP
                click.echo(f"takeback: {error.message}", err=True)
                code = error.exit_code
            else:
                data |= {"accepted": report.data()}
                code = staging.show_report(session, workspace, stage, report)
        if session.json:
            session.data(data | {"then": then})
        ctx.exit(code)
