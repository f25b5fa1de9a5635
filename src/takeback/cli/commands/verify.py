"""`takeback verify`."""

from __future__ import annotations

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.history import change_data, counted
from takeback.cli.text import plural
from takeback.errors import CorruptionError

SHOWN_MAX = 20


@click.command("verify", cls=TakebackCommand)
@click.option("--deep", is_flag=True, help="Read every stored byte and every file of the workspace again")
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: CommandContext, deep: bool) -> None:
    """Check that nothing recorded was lost or altered

    Reads the whole journal and compares it with its chain and its anchor, checks the content store, and tells what
    changed in the workspace since the last record. It finds what was altered by whoever did not also rewrite the
    anchor, and says no more than that.
    """
    with session.workspace() as workspace:
        findings = workspace.verify(deep=deep)
        count = workspace.journal.head().count if not findings else 0
        drift = workspace.drift() if not findings and workspace.history.marks else []
    if session.json:
        session.data(
            {
                "clean": not findings,
                "findings": msgspec.to_builtins(findings),
                "events": count,
                "drift": [change_data(change) for change in drift],
            }
        )
    elif findings:
        for finding in findings[:SHOWN_MAX]:
            click.echo(f"  {finding.place}: {finding.what}", err=True)
        if len(findings) > SHOWN_MAX:
            click.echo(f"  … {len(findings) - SHOWN_MAX:,} more; --json lists all", err=True)
        click.echo(
            f"Found {plural(len(findings), 'thing')} that cannot be trusted. Nothing was changed.", err=True
        )
    else:
        session.line(f"Verified {plural(count, 'event')}: complete, in order and unaltered.")
        if deep:
            what = "Every stored byte" if drift else "Every stored byte and every file of the workspace"
            session.line(f"{what} is what the record says.")
        if drift:
            session.line(
                f"Since the last record {counted(drift)} changed outside any action; those are yours."
            )
    ctx.exit(CorruptionError.exit_code if findings else 0)
