"""`takeback handover`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.options import ids_of
from takeback.cli.render.runs import doubtful, standing_data, standing_lines
from takeback.errors import UsageError


@click.group("handover", cls=TakebackGroup)
def command() -> None:
    """Look after runs that wait for a human

    A run is handed over because it asked for it, because nobody can tell whether a call happened, or because
    something could not be taken back. What it did stays until you decide.
    """


@command.command("list")
@click.pass_obj
def list_(session: CommandContext) -> None:
    """List the runs that wait for a human, and what each needs"""
    with session.workspace() as workspace:
        runs, history = workspace.handovers(), workspace.history
    if session.json:
        return session.data({"runs": [standing_data(history, run) for run in runs]})
    if not runs:
        return session.line("No run waits for a human.")
    for run in runs:
        for line in standing_lines(history, run):
            session.line(line)


@command.command("take")
@click.argument("run", shell_complete=ids_of("handovers"))
@click.pass_obj
def take(session: CommandContext, run: str) -> None:
    """Say that you look after a run

    Look, and change files as you like: what you change is yours and stays when the run is taken back.
    """
    with session.workspace() as workspace:
        taken, history = workspace.take(run), workspace.history
    if session.json:
        return session.data(standing_data(history, taken))
    for line in standing_lines(history, taken):
        session.line(line)


@command.command("return")
@click.argument("run", shell_complete=ids_of("handovers"))
@click.option("--note", metavar="T", default="", help="What you did, for the log")
@click.option(
    "--happened",
    metavar="ACTION[=RESULT]",
    multiple=True,
    help="This call in doubt did happen, and gave this JSON; may be repeated",
)
@click.option(
    "--never", metavar="ACTION", multiple=True, help="This call in doubt never happened; may be repeated"
)
@click.pass_obj
def return_(
    session: CommandContext, run: str, note: str, happened: tuple[str, ...], never: tuple[str, ...]
) -> None:
    """Give a run back, so that it can be continued

    Your word on a call in doubt counts: one that happened is not made again, one that never happened is. The run goes
    on with the result that you name, or with null.
    """
    with session.workspace() as workspace:
        returned = workspace.give_back(run, note, happened=dict(map(_result, happened)), never=never)
        history = workspace.history
    if session.json:
        return session.data(standing_data(history, returned))
    session.line(f"Gave {run} back.")
    for action in doubtful(history, returned):
        session.line(
            f"  {action.id} {action.name} is still in doubt. Unless its check can tell by now, the run will be handed"
            f" over again; then say --happened {action.id} or --never {action.id}."
        )
    for line in standing_lines(history, returned):
        session.line(line)


def _result(word: str) -> tuple[str, Any]:
    action, is_told, text = word.partition("=")
    try:
        return action, msgspec.json.decode(text) if is_told else None
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the result of {action} is not JSON: {error}; nothing was changed",
            hint=f"as in --happened '{action}={{\"id\": 7}}'",
        ) from error
