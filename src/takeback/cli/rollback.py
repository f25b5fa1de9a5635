"""The output of undo, redo and restore: the report, conversations that can be forked, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from takeback.cli.context import CommandContext
from takeback.cli.render.report import exit_code, report_data, report_lines, staying, stopped_lines
from takeback.core.history import History
from takeback.workspace.results import RollbackReport

if TYPE_CHECKING:
    from takeback.agents.fork_conversation import Fork


def answer(
    session: CommandContext,
    history: History,
    report: RollbackReport,
    *,
    last: bool = False,
    forking: bool = False,
    paths: Sequence[str] = (),
) -> int:
    """Print the result of a rollback, and return the exit code.

    `last`: the user did not name what to undo. `forking`: fork conversations from before it. `paths`: only these were
    taken back.
    """
    if session.json:
        session.data(_data(history, report, last=last, forking=forking))
    elif report.is_stopped:
        for line in stopped_lines(history, report, paths):
            click.echo(line, err=True)
    else:
        show(session, history, report, last=last, forking=forking)
    return exit_code(report)


def show(
    session: CommandContext,
    history: History,
    report: RollbackReport,
    *,
    last: bool = False,
    forking: bool = False,
) -> None:
    """Print a report, and how to fork conversations from before it; with `forking`, fork them."""
    for line in report_lines(history, report, last=last, everything=session.everything):
        if line.err:
            click.echo(line.text, err=True)
        else:
            session.line(line.text)
    for talk in (talk for talk in _conversations(history, report) if talk.exact or forking):
        since = "from before it" if talk.exact else "as a whole"
        new = f"claude --resume {talk.make()}" if forking else str(talk)
        session.line(f"The conversation {since}, in a copy:  {new}")


def _data(history: History, report: RollbackReport, *, last: bool, forking: bool) -> dict[str, object]:
    if report.is_stopped:
        return report.data()
    talks = [
        talk.data() | {"forked": talk.make() if forking else None} for talk in _conversations(history, report)
    ]
    more: dict[str, object] = {"conversations": talks} if talks else {}
    return report_data(history, report, last=last) | more | {"stays": staying(history, report)}


def _conversations(history: History, report: RollbackReport) -> list[Fork]:
    """Return how agents' conversations can be forked from before what was taken back."""
    from takeback.agents.fork_conversation import forks

    if report.kind != "undo" or report.preview or not report.achieved:
        return []
    return forks(history, report.of)
