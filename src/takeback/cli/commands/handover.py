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
    """Take care of runs that wait for a human

    A run is handed over to you because it asked for that, because it is unknown whether a call happened, or because
    something could not be taken back. Its changes stay until you decide.
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
    """Record that you are taking care of a run

    You can look around and change files: your changes are recorded as yours, and stay if the run is taken back.
    """
    with session.workspace() as workspace:
        taken, history = workspace.take(run), workspace.history
        if session.json:
            return session.data(standing_data(history, taken))
        for line in standing_lines(history, taken):
            session.line(line)


@command.command("return")
@click.argument("run", shell_complete=ids_of("handovers"))
@click.option("--note", metavar="TEXT", default="", help="What you did, for the log")
@click.option(
    "--happened",
    metavar="ACTION[=RESULT]",
    multiple=True,
    help="This call happened, and its result was this JSON (default: null); may be repeated",
)
@click.option("--did-not", metavar="ACTION", multiple=True, help="This call did not happen; may be repeated")
@click.option("--never", metavar="ACTION", multiple=True, hidden=True, help="The earlier name of --did-not")
@click.pass_obj
def return_(
    session: CommandContext,
    run: str,
    note: str,
    happened: tuple[str, ...],
    did_not: tuple[str, ...],
    never: tuple[str, ...],
) -> None:
    """Return a run, so that it can continue

    For each call in doubt, say whether it happened. If it happened, the run does not repeat it and continues with the
    result that you give. If it did not happen, the run makes the call again.
    """
    with session.workspace() as workspace:
        returned = workspace.give_back(
            run, note, happened=dict(map(_result, happened)), never=(*did_not, *never)
        )
        history = workspace.history
        if session.json:
            return session.data(standing_data(history, returned))
        session.line(f"Returned {run}.")
        for action in doubtful(history, returned):
            session.line(
                f"  {action.id} {action.name} is still in doubt. Unless its check finds out, the run will be handed "
                f"over again; then use --happened {action.id} or --did-not {action.id}."
            )
        for line in standing_lines(history, returned):
            session.line(line)


def _result(word: str) -> tuple[str, Any]:
    action, is_given, text = word.partition("=")
    try:
        return action, msgspec.json.decode(text) if is_given else None
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the result of {action} is not JSON: {error}; nothing was changed",
            hint=f"as in --happened '{action}={{\"id\": 7}}'",
        ) from error
