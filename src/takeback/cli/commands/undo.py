"""`takeback undo`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ALL, ON_CONFLICT, PREVIEW, agents, ids_of
from takeback.cli.rollback import answer


@click.command("undo", cls=TakebackCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=ids_of("undoable"))
@click.option(
    "--to",
    metavar="MOMENT",
    default=None,
    shell_complete=ids_of("moments"),
    help='Take back everything after this moment: c3, "before a4", 14:02, "2h ago", last-clean',
)
@click.option(
    "--agent",
    metavar="NAME",
    default="",
    shell_complete=agents,
    help="Take back only what this agent or subagent did: within the given IDs, or else in its last run",
)
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    help="Take back only this file or folder; may be repeated",
)
@click.option(
    "--conversation",
    is_flag=True,
    help="Claude Code only: also fork the conversation at the point before what is taken back",
)
@click.option(
    "--dependents",
    type=click.Choice(["stop", "take", "leave"]),
    default="stop",
    show_default=True,
    help="If a later step used the result of a step that is taken back: stop and change nothing, take that one back "
    "too, or leave it",
)
@PREVIEW
@ON_CONFLICT
@ALL
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    session: CommandContext,
    ids: tuple[str, ...],
    to: str | None,
    agent: str,
    paths: tuple[str, ...],
    conversation: bool,
    preview: bool,
    on_conflict: str,
    everything: bool,
    dependents: str,
) -> None:
    """Take back what an agent did, and keep what you did in the meantime

    Without an ID, this takes back the most recent action that changed something; the next `undo` takes back the one
    before it. An ID is an action, a step or a run from `takeback log`: for a coding agent that is one call, one
    prompt or a whole session. If the action belongs to a run, the output says how to take back the whole run.
    """
    with session.workspace() as workspace:
        with session.progress.during("Taking back"):
            report = workspace.try_undo(
                *ids,
                to=to,
                agent=agent,
                paths=paths,
                preview=preview,
                on_conflict=on_conflict,
                dependents=dependents,
            )
        last = not ids and not to and not agent and not paths
        session.everything = everything
        code = answer(session, workspace.history, report, last=last, forking=conversation, paths=paths)
    ctx.exit(code)
