"""Removing everything that is recorded of a workspace from this machine.

The state folder is first moved aside as a whole, so that a process that dies in between leaves either the whole
history, or a folder without a workspace. That folder is removed by the next removal.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.engine.stage.deleting import delete
from takeback.engine.stage.entering import refuse_living
from takeback.engine.stage.folder import StageFolders
from takeback.settings import environment
from takeback.storage.state import location
from takeback.storage.state.lock import WorkspaceLock
from takeback.system import crash_points, durable
from takeback.system.private_files import private_folder
from takeback.workspace import lost_history
from takeback.workspace.refusal import refuse_agent, refuse_at_work
from takeback.workspace.workspace import Workspace

REMOVED = "removed"
"""The folder in the state home into which a state folder is moved before it is removed."""

SET_ASIDE = crash_points.crash_point("workspace-set-aside")


class Removal(msgspec.Struct, frozen=True):
    """What would be removed."""

    root: Path
    state: Path
    folders: tuple[Path, ...]
    """Everything of this workspace in the state home."""
    is_shared: bool
    """The journal is in a shared store, and stays there."""
    has_bucket: bool
    """The content is in a bucket, too, and stays there."""


def planned(workspace: Workspace) -> Removal:
    """Return what a removal would remove. Raise an error if an agent asks, or something is at work."""
    inside = environment.parent_action() or workspace.inside_action()
    refuse_agent(inside, "an agent cannot remove its own history", done="removed")
    refuse_at_work(workspace.history, done="removed")
    state, kept = workspace.state, location.read(workspace.state) or location.HERE
    home = state.parent.parent
    beside = [home / "monitor" / state.name, *sorted(home.glob(f"lost/{state.name}-*"))]
    return Removal(
        workspace.root,
        state,
        (state, *(folder for folder in beside if folder.exists())),
        bool(kept.store),
        bool(kept.blobs),
    )


def remove(removal: Removal) -> None:
    """Remove everything of a workspace that is on this machine. The workspace must be closed."""
    home = removal.state.parent.parent
    for view in StageFolders(removal.state):
        refuse_living(view, "removed")
    finish(home)
    with WorkspaceLock(removal.state / "lock").held():
        # First, so that the missing folder is not reported as a lost history.
        lost_history.forget(removal.state)
        os.rename(removal.state, private_folder(home / REMOVED) / removal.state.name)
        durable.sync_folder(removal.state.parent)
    crash_points.reach(SET_ASIDE)
    for folder in removal.folders[1:]:
        delete(folder)
    finish(home)


def finish(home: Path) -> bool:
    """Remove what an interrupted removal left. Return whether there was something."""
    if not (home / REMOVED).exists():
        return False
    delete(home / REMOVED)
    return True
