"""`takeback undo`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ON_CONFLICT, PREVIEW, agents, ids_of
from takeback.cli.rollback import answer


@click.command("undo", cls=TakebackCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=ids_of("undoable"))
@click.option(
    "--to",
    metavar="CHECKPOINT",
    default=None,
    shell_complete=ids_of("checkpoints"),
    help="Take back everything after this checkpoint",
)
@click.option(
    "--agent",
    metavar="NAME",
    default="",
    shell_complete=agents,
    help="Only what this agent or subagent did: of the IDs, or of the last run in which it did something",
)
@click.option("--path", "paths", metavar="P", multiple=True, help="Only this file or folder; may be repeated")
@click.option(
    "--conversation",
    is_flag=True,
    help="Also have the agent's client go on from before it, in a copy of the conversation (Claude Code)",
)
@PREVIEW
@ON_CONFLICT
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
) -> None:
    """Take back what an agent did, and keep what you did meanwhile

    Without an ID it takes back the most recent action that changed something; called again, the one before it. An ID
    is an action, a step or a run from `takeback log`: of a coding agent that is one call, one prompt or a whole
    session. Where that action was one of a run, the answer says how to take back the whole of it.
    """
    with session.workspace() as workspace:
        report = workspace.try_undo(
            *ids, to=to, agent=agent, paths=paths, preview=preview, on_conflict=on_conflict
        )
        last = not ids and not to and not agent and not paths
        code = answer(session, workspace.history, report, last=last, forking=conversation, paths=paths)
    ctx.exit(code)
