"""`takeback install`."""

from __future__ import annotations

from pathlib import Path

import click

from takeback import config
from takeback.agents import presence, settings, tampering
from takeback.agents.settings import apply
from takeback.cli.asking import may_write
from takeback.cli.choices import clients
from takeback.cli.session import Session, TakebackCommand
from takeback.daemon.command import hook_command
from takeback.errors import RefusedError
from takeback.opening import find_root, refuse_too_wide
from takeback.storage.registry import Registry


@click.command("install", cls=TakebackCommand)
@click.argument("agent", default="", shell_complete=clients)
@click.option("--user", is_flag=True, help="For all your projects: into the settings in your home folder")
@click.option("-y", "--yes", is_flag=True, help="Do not ask")
@click.pass_obj
def command(session: Session, agent: str, user: bool, yes: bool) -> None:
    """Protect what a coding agent does, with hooks in its own settings

    AGENT is claude-code, codex, cursor, gemini, opencode or ruflo. The hooks come beside all that is there, and a
    first checkpoint is taken. The change is shown first, and on a terminal you are asked. A second time changes
    nothing.
    """
    root, home = find_root(".", Registry(config.state_home())), config.home_folder()
    agent = presence.chosen(agent, root, home)
    if not user:
        _refuse_too_wide(root, agent)
    path = apply.place(agent, project=root, home=home, user=user)
    edit = apply.installing(agent, path, hook_command(settings.layout(agent).agent))
    if edit.diff:
        may_write(session, edit.diff, yes=yes)
    checkpoint = "" if user else _protect(session, agent)
    edit.make()
    if session.json:
        return session.data(
            {
                "agent": agent,
                "path": str(path),
                "changed": bool(edit.diff),
                "diff": edit.diff,
                "root": None if user else str(root),
                "checkpoint": checkpoint or None,
                "then": presence.CLIENTS[agent].next_step(user=user),
            }
        )
    for line in _lines(agent, None if user else root, edit):
        session.line(line)


def _refuse_too_wide(root: Path, agent: str) -> None:
    try:
        refuse_too_wide(root)
    except RefusedError:
        raise RefusedError(
            f"{root} is a home folder or above one; nothing was changed",
            hint=f"go to a project, or protect all of them with `takeback install {agent} --user`",
        ) from None


def _protect(session: Session, agent: str) -> str:
    """Record what the agent will find; and that a human wants its hooks, whoever wrote them."""
    with session.protect() as workspace:
        if not workspace.inside_action():
            tampering.accept(workspace, agent)
        return workspace.save(f"takeback install {agent}").id


def _lines(agent: str, root: Path | None, edit: apply.Edit) -> list[str]:
    """What is so now, and what is next. Without a root it is for all projects."""
    client = presence.CLIENTS[agent]
    when, where = "now" if edit.diff else "already", root or "all your projects"
    then = client.next_step(user=root is None)
    # Where its user still has to trust them, hooks are no protection yet.
    title = (
        f"The hooks for {client.title} are {when} in"
        if then
        else f"{client.title} is {when} under protection in"
    )
    lines = [f"{title} {where}."]
    if root and Path.cwd().resolve() != root:
        lines.append(f"Start {client.title} in that folder: it looks for its settings where it is started.")
    if edit.diff:
        lines.append(f"A session that is open now keeps its old settings: start {client.title} again.")
    lines += [then] if then else []
    lines.append(f"  see that it works   takeback doctor {agent}")
    lines.append("  take back           takeback undo")
    lines.append(f"  take it out         takeback uninstall {agent}{'' if root else ' --user'}")
    return lines
