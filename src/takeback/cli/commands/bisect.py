"""`takeback bisect`."""

from __future__ import annotations

import click

from takeback.cli.bisecting import BisectProgress, bisected_data, bisected_lines
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import NETWORK, ids_of


@click.command("bisect", cls=TakebackCommand)
@click.option(
    "--good",
    metavar="MOMENT",
    default="",
    shell_complete=ids_of("moments"),
    help="A moment at which the command passes  [default: last-clean]",
)
@click.option(
    "--bad",
    metavar="MOMENT",
    default="",
    shell_complete=ids_of("moments"),
    help="A moment at which it fails  [default: now]",
)
@click.option("--again", is_flag=True, help="Forget what an interrupted search of the same command knew")
@NETWORK
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
def command(
    session: CommandContext, good: str, bad: str, again: bool, network: str | None, words: tuple[str, ...]
) -> None:
    """Find the call after which a command fails, in views of past moments

    The command is tried in private views of the workspace as it was after some of the calls between --good and --bad,
    never in the folder itself. Exit code 0 means that it passes, 125 that this state cannot be tried, and any other
    that it fails. A search that was interrupted goes on where it stopped.
    """
    with session.workspace() as workspace:
        listener = BisectProgress(session)
        search = workspace.past.bisection(
            words, good=good, bad=bad, network=network or "full", listener=listener
        )
        listener.search = search
        try:
            found = search.run(again=again)
        finally:
            listener.done()
        if session.json:
            return session.data(bisected_data(workspace, search, found))
        for line in bisected_lines(workspace, found):
            session.line(line)
