"""`takeback verify`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.history import change_data, counted
from takeback.cli.text import ago, day, iso, plural
from takeback.core.change import Change
from takeback.errors import CorruptionError
from takeback.workspace.verification import Verification

SHOWN_MAX = 20


@click.command("verify", cls=TakebackCommand)
@click.option("--all", "everything", is_flag=True, help="Verify every record, from the first one on")
@click.option(
    "--deep", is_flag=True, help="Also read every stored byte and every file of the workspace again"
)
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: CommandContext, everything: bool, deep: bool) -> None:
    """Check that nothing recorded was lost or altered

    Continues where the last verification ended: checks the hash chain of the records since then against the anchor,
    checks the stored content, and reports what has changed in the workspace since the last record. With --all, it
    reads the whole journal, and finds every altered record, unless the anchor was rewritten as well.
    """
    with session.workspace() as workspace:
        verified = workspace.upkeep.verify(everything=everything, deep=deep)
        findings = verified.findings
        drift = workspace.drift() if not findings and workspace.history.marks else []
    if session.json:
        session.data(_data(verified, drift))
    elif findings:
        for finding in findings[:SHOWN_MAX]:
            click.echo(f"  {finding.place}: {finding.what}", err=True)
        if len(findings) > SHOWN_MAX:
            click.echo(f"  … {len(findings) - SHOWN_MAX:,} more; --json lists all", err=True)
        click.echo(
            f"Found {plural(len(findings), 'thing')} that cannot be trusted. Nothing was changed.", err=True
        )
    else:
        session.line(_covered(verified))
        for one in verified.compactions:
            session.line(
                f"{plural(one.records, 'record')} {'was' if one.records == 1 else 'were'} compacted by gc on "
                f"{day(one.at_us)}, as event {one.seq} recorded."
            )
        if deep:
            what = "Every stored byte" if drift else "Every stored byte and every file of the workspace"
            session.line(f"{what} is what the record says.")
        if drift:
            session.line(
                f"Since the last record {counted(drift)} changed outside any action; those are yours."
            )
    if verified.note and not session.json:
        session.line(f"Began with the first record: {verified.note}.")
    ctx.exit(CorruptionError.exit_code if findings else 0)


def _covered(verified: Verification) -> str:
    """Say which records were read, and since when the others count as verified."""
    last, sound = verified.last, "complete, in order and unaltered"
    if not verified.earlier_us:
        return f"Verified records {min(1, last)}–{last:,} of {last:,}: {sound}."
    before = verified.first - 1
    earlier = f"1–{before:,} were verified {ago(verified.earlier_us)} (all of them: takeback verify --all)"
    if before == last:
        return f"No records since the last verification: {earlier}."
    return f"Verified records {verified.first:,}–{last:,} of {last:,}: {sound}; {earlier}."


def _data(verified: Verification, drift: list[Change]) -> dict[str, Any]:
    return {
        "clean": not verified.findings,
        "findings": msgspec.to_builtins(verified.findings),
        "events": verified.last if not verified.findings else 0,
        "drift": [change_data(change) for change in drift],
        "compactions": [
            {"event": one.seq, "at": iso(one.at_us), "records": one.records} for one in verified.compactions
        ],
        "covered": {
            "first": verified.first,
            "last": verified.last,
            "earlier_at": iso(verified.earlier_us) if verified.earlier_us else None,
            "note": verified.note,
        },
    }
