"""`takeback stats`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import times
from takeback.cli.render.stats import stats_data, stats_lines
from takeback.cli.text import clock, date, iso, width
from takeback.workspace.describe.day import statistics, time_named

USUAL = "7d"


@click.command("stats", cls=TakebackCommand)
@click.option(
    "--since",
    metavar="TIME",
    default=USUAL,
    show_default=True,
    shell_complete=times,
    help="Count from this time on: 2h, 14:02, yesterday, 2026-11-17",
)
@click.pass_obj
def command(session: CommandContext, since: str) -> None:
    """Count what agents did, by agent and tool

    For each: its actions, how many failed and how many were taken back, how often you were asked, what was refused or
    handed over to you, how long its undos took, and how much content is kept because of it.
    """
    since_us = time_named(since)
    with session.workspace() as workspace:
        found = statistics(workspace.history, workspace.journal, since_us, session.progress)
    session.progress.done()
    if session.json:
        return session.data({"since": iso(since_us), "agents": stats_data(found)})
    when = f"since {date(since_us)}, {clock(since_us)}"
    if not found:
        return session.line(f"No agent has done anything {when}.")
    session.line(f"What agents did {when}:")
    for line in stats_lines(found, width=width()):
        session.line(line)
