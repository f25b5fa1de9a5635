"""`takeback init`."""

from __future__ import annotations

import time

import click

from takeback import config
from takeback.agents.section import remove_section, write_section
from takeback.cli.session import Session, TakebackCommand, plural, sized
from takeback.opening import begin_anew, find_root
from takeback.storage.registry import Registry


@click.command("init", cls=TakebackCommand)
@click.option("--allow-home", is_flag=True, help="Protect even a home folder or one above it")
@click.option("--accept-config", is_flag=True, help="Accept takeback.toml as it is, after it was shown")
@click.option("--fresh", is_flag=True, help="Go on without a history that is gone or damaged")
@click.option("--no-agents-file", is_flag=True, help="Write nothing into AGENTS.md and CLAUDE.md")
@click.option("--remove-agents-section", is_flag=True, help="Take the section out of them again, and end")
@click.pass_obj
def command(
    session: Session,
    allow_home: bool,
    accept_config: bool,
    fresh: bool,
    no_agents_file: bool,
    remove_agents_section: bool,
) -> None:
    """Begin to protect a folder, with a first checkpoint

    Writes a short section on restart-safe workflows into AGENTS.md, and into CLAUDE.md where there is one, and
    nothing else into the folder. A second time changes nothing; all other text stays as it is.
    """
    if remove_agents_section:
        return _remove_section(session)
    began = time.monotonic()
    aside = begin_anew(".") if fresh else None
    with session.protect(allow_home=allow_home, accept_config=accept_config) as workspace:
        first = not workspace.history.marks
        written = [] if no_agents_file else write_section(workspace.root)
        checkpoint = workspace.save("takeback init")
        files, size = workspace.files.counted()
    seconds = time.monotonic() - began
    if session.json:
        root = str(workspace.root)
        return session.data(
            {"root": root, "checkpoint": checkpoint.id, "files": files, "bytes": size, "written": written}
        )
    if aside:
        session.line(f"What was left of the old history is now in {aside}.")
    called = "First checkpoint" if first else "Checkpoint"
    session.line(
        f"Protecting {workspace.root} ({plural(files, 'file')}, {sized(size)}). "
        f"{called} {checkpoint.id} in {seconds:.1f} s; later ones cost only what changed."
    )
    if written:
        session.line(f"Wrote the section on restart-safe workflows into {' and '.join(written)}.")
    session.line("  let an agent work   takeback run -- COMMAND")
    session.line("  take it back        takeback undo")


def _remove_section(session: Session) -> None:
    root = find_root(".", Registry(config.state_home()))
    removed = remove_section(root)
    if session.json:
        return session.data({"root": str(root), "removed": removed})
    session.line(f"Removed the section from {' and '.join(removed)}." if removed else "There was no section.")
