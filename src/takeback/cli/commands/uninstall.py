"""`takeback uninstall`."""

from __future__ import annotations

from pathlib import Path

import click

from takeback.agents import clients as agents_clients
from takeback.agents import hook_removal
from takeback.agents.settings import apply
from takeback.cli.consent import may_write
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import clients
from takeback.settings import environment
from takeback.workspace.locate import find_root, views_of


@click.command("uninstall", cls=TakebackCommand)
@click.argument("agent", shell_complete=clients)
@click.option("--user", is_flag=True, help="Remove the hooks from the settings in your home folder")
@click.option("-y", "--yes", is_flag=True, help="Do not ask")
@click.pass_obj
def command(session: CommandContext, agent: str, user: bool, yes: bool) -> None:
    """Remove Takeback's hooks from an agent's settings

    Nothing else in the file changes; if nobody has edited it since the installation, it is byte for byte what it was
    before. What was recorded stays, and you can still take it back.
    """
    root, home = find_root("."), environment.home_folder()
    agent = agents_clients.chosen(agent, root, home)
    if user:
        home = environment.writable_home()
    hook_removal.refuse_agents()
    edits = hook_removal.planned(agent, project=root, home=home, user=user)
    if edits:
        may_write(session, "".join(edit.diff for edit in edits), yes=yes)
    hook_removal.make(edits)
    left = agents_clients.remaining(agent, root, home)
    if session.json:
        remaining = [{"path": str(one.path), "plugin": one.plugin or None} for one in left]
        return session.data(
            {"agent": agent, "changed": [str(edit.path) for edit in edits], "remaining": remaining}
        )
    title, where = agents_clients.CLIENTS[agent].title, "your own settings" if user else str(root)
    if not edits:
        session.line(f"Takeback has no hooks for {title} in {where}.")
    elif left:
        session.line(f"Removed the hooks from {where}.")
    else:
        session.line(f"Removed the hooks: what {title} does from its next session on is not recorded.")
        session.line("What was recorded stays and can still be taken back.")
    if names := views_of(root):
        session.line(f"Views of this folder are kept: {', '.join(names)}   takeback stage list")
    for one in left:
        for line in _lines(agent, one, root, home):
            session.line(line)


def _lines(agent: str, left: agents_clients.Remaining, root: Path, home: Path) -> list[str]:
    """Return lines about hooks that still record in this project, and how to remove them."""
    title = agents_clients.CLIENTS[agent].title
    own = left.path in apply.places(agent, project=root, home=home, user=True)
    if left.plugin:
        scope = "" if own else " --scope local" if ".local." in left.path.name else " --scope project"
        return [
            f"The plugin {left.plugin} is switched on in {left.path}, so {title} is still recorded here.",
            f"  remove it     claude plugin uninstall {left.plugin}{scope}",
        ]
    return [
        f"Those in {left.path} stay, so {title} is still recorded here.",
        f"  remove them   takeback uninstall {agent}{' --user' * own}",
    ]
