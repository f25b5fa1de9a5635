"""`takeback promote`."""

from __future__ import annotations

import click

from takeback.cli import consent
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.errors import RefusedError, UsageError
from takeback.workspace.shadow import promotion, records


@click.command("promote", cls=TakebackCommand)
@click.argument("run", shell_complete=ids_of("runs"))
@click.option("--preview", is_flag=True, help="Only show what would be done")
@click.option("--yes", is_flag=True, help="Do it without asking; needed if there is no terminal")
@click.pass_obj
def command(session: CommandContext, run: str, preview: bool, yes: bool) -> None:
    """Do for real what a shadow showed

    Shows the review of the shadow, and asks. Then the changes of its view are made, and its calls, in the order in
    which it intended them, as one run that can be taken back. Refused if the workspace has changed since the shadow
    began, and inside an action.
    """
    with session.workspace() as workspace:
        found = records.find(workspace, run)
        if preview:
            return session.data(found.data()) if session.json else session.line(str(found))
        promotion.refuse_incomplete(workspace, found)
        promotion.refuse_agent_promoting(workspace)
        if not yes and (session.json or not consent.is_terminal()):
            raise UsageError(
                "there is no terminal to ask on; nothing was done", hint="look with --preview, then add --yes"
            )
        if not yes:
            session.line(str(found))
            if not click.confirm("Do all of this?", default=False, err=True):
                raise RefusedError("you did not approve it; nothing was done")
        done = promotion.promote(workspace, found, approve=lambda _: True)
        if session.json:
            said = {
                "run": done.id,
                "accepted": done.accepted,
                "shadow": run,
                "intended": len(found.intentions),
            }
            return session.data(said)
        undo = f"takeback undo {' '.join(done.ids)}"
        session.line(f"{done.id} did what {run} showed.  Changed your mind?  {undo}")
