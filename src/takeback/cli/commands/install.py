"""`takeback install`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import click

from takeback.agents import clients as agents_clients
from takeback.agents import hook_tampering, settings
from takeback.agents.settings import apply
from takeback.cli.beginning import first_checkpoint
from takeback.cli.consent import may_write
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import clients
from takeback.daemon.hook_command import hook_command
from takeback.errors import RefusedError
from takeback.settings import environment
from takeback.workspace.locate import find_root

NOT_IGNORED = 1
"""The exit code of git. Without a repository it is another one."""


@click.command("install", cls=TakebackCommand)
@click.argument("agent", default="", shell_complete=clients)
@click.option(
    "--user", is_flag=True, help="Install for all your projects, in the settings in your home folder"
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask")
@click.pass_obj
def command(session: CommandContext, agent: str, user: bool, yes: bool) -> None:
    """Protect what a coding agent does, with hooks in its own settings

    AGENT is claude-code, codex, cursor, gemini, opencode or ruflo. Takeback shows you the change to the agent's
    settings and asks, if you are on a terminal. Then it adds the hooks to the existing settings and takes a first
    checkpoint. The change is recorded as an action, which only `takeback undo ID` takes back. If the hooks are
    already there, nothing changes.
    """
    root, home = find_root("."), environment.home_folder()
    agent = agents_clients.chosen(agent, root, home)
    if user:
        home = environment.writable_home()
    else:
        _refuse_too_wide(root, agent)
    path = apply.place(agent, project=root, home=home, user=user)
    edit = apply.installing(agent, path, hook_command(settings.layout(agent).agent))
    if edit.diff:
        may_write(session, edit.diff, yes=yes)
    written = _Written()
    if user:
        edit.make()
    else:
        written = _write(session, agent, root, edit)
    idle = _switched_off(agent, None if user else root, home)
    if session.json:
        return session.data(
            {
                "agent": agent,
                "path": str(path),
                "changed": bool(edit.diff),
                "diff": edit.diff,
                "root": None if user else str(root),
                "checkpoint": written.checkpoint or None,
                "action": written.action or None,
                "then": agents_clients.CLIENTS[agent].next_step(user=user),
                "switched_off_by": str(idle) if idle else None,
            }
        )
    for line in _lines(agent, None if user else root, edit, idle):
        session.line(line)


def _refuse_too_wide(root: Path, agent: str) -> None:
    try:
        environment.refuse_too_wide(root)
    except RefusedError:
        raise RefusedError(
            f"{root} is a home folder, or above one; nothing was changed",
            hint=f"change to a project's folder, or protect all projects with `takeback install {agent} --user`",
        ) from None


class _Written(NamedTuple):
    """The ids of what was recorded: a first checkpoint, if there was none, and the change itself."""

    checkpoint: str = ""
    action: str = ""


def _write(session: CommandContext, agent: str, root: Path, edit: apply.Edit) -> _Written:
    """Write the hooks into a project, as an action, and record that a human accepts them.

    Nothing is written if nothing can be recorded.
    """
    name, checkpoint, action = f"takeback install {agent}", "", ""
    with session.protect(asking=True) as workspace:
        if not workspace.history.marks:
            checkpoint = first_checkpoint(session, workspace, f"before {name}").id
        if edit.diff and edit.path.is_relative_to(root):
            with workspace.writing(name) as action:
                edit.make()
        else:  # a link may lead out of the project
            edit.make()
        if not workspace.inside_action():
            hook_tampering.accept(workspace, agent)
    return _Written(checkpoint, action)


def _switched_off(agent: str, root: Path | None, home: Path) -> Path | None:
    """Return the settings file that keeps the agent from running any hook, if there is one."""
    if root is None:
        paths = apply.places(agent, project=home, home=home, user=True)
    else:
        paths = apply.everywhere(agent, root, home)
    return apply.switched_off_by(agent, paths)


def _would_be_committed(root: Path, path: Path) -> bool:
    """Return True if git would commit this file: it is tracked, or new and not ignored."""
    try:
        done = subprocess.run(["git", "-C", root, "check-ignore", "-q", path], capture_output=True)
    except OSError:
        return False  # there is no git
    return done.returncode == NOT_IGNORED and path.is_relative_to(root)


def _lines(agent: str, root: Path | None, edit: apply.Edit, idle: Path | None) -> list[str]:
    """Return the new state, and what to do next. Without a root it is for all projects."""
    client = agents_clients.CLIENTS[agent]
    then = client.next_step(user=root is None)
    when, where = "now" if edit.diff else "already", root or "all your projects"
    if then or idle:
        lines = [f"The hooks for {client.title} are {when} in its settings, for {where}."]
    else:
        lines = [f"{client.title} is {when} under protection in {where}."]
    if idle:
        lines.append(
            f"But {idle} tells it to run no hooks. Until you remove that setting, nothing is protected."
        )
    if root and Path.cwd().resolve() != root:
        lines.append(f"Start {client.title} in that folder: it looks for its settings where it is started.")
    if edit.diff:
        lines.append(f"A session that is already open keeps its old settings: restart {client.title}.")
    lines += [then] if then else []
    if root and edit.diff and _would_be_committed(root, edit.path):
        name = edit.path.relative_to(root)
        lines.append(f"git does not ignore {name}, which names a path of this machine: do not commit it.")
    lines.append(f"  check that it works   takeback doctor {agent}")
    lines.append("  take back             takeback undo")
    lines.append(f"  remove the hooks      takeback uninstall {agent}{'' if root else ' --user'}")
    return lines
