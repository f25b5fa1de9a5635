"""`takeback verify`."""

from __future__ import annotations

import click
import msgspec

from takeback.cli.session import Session, TakebackCommand, plural
from takeback.errors import CorruptionError

SHOWN_MAX = 20


@click.command("verify", cls=TakebackCommand)
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: Session) -> None:
    """Check that nothing recorded was lost or altered

    Reads the whole journal and compares it with its chain and its anchor. It finds what was altered by whoever did
    not also rewrite the anchor, and says no more than that.
    """
    with session.workspace() as workspace:
        findings = workspace.verify()
        count = workspace.journal.head().count if not findings else 0
    if session.json:
        session.data({"clean": not findings, "findings": msgspec.to_builtins(findings), "events": count})
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
    ctx.exit(CorruptionError.exit_code if findings else 0)
