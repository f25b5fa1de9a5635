"""Finding and opening the workspace that is meant."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from takeback import config
from takeback._version import __version__
from takeback.core import ids
from takeback.core.codec import text_of
from takeback.core.events import ConfigAccepted, Event, WorkspaceBegan
from takeback.errors import RefusedError, UsageError
from takeback.journals import begun, is_begun, is_begun_elsewhere, journal_of
from takeback.loosening import Setting, to_accept
from takeback.ports import Progress, silent
from takeback.storage import acceptance, stores
from takeback.storage.registry import Registry
from takeback.trusted import ACCEPT
from takeback.workspace import Workspace


def open_workspace(
    root: str | os.PathLike[str] = ".",
    *,
    home: Path | None = None,
    watching: bool = True,
    progress: Progress = silent,
    allow_home: bool = False,
    store: str = "",
    workspace: str = "",
    blobs: str = "",
    accept_config: bool = False,
) -> Workspace:
    """Open exactly this directory, and begin to protect it if it is not yet.

    `store` is the address of a PostgreSQL database in which its history is begun, `workspace` its name there,
    `blobs` the address of a bucket that has all content besides, like s3://bucket/folder. With `accept_config` what
    stands in its takeback.toml is accepted, all of it: for whoever knows what stands there. Not inside of an action.
    """
    if sys.platform != "linux":
        raise RefusedError(
            f"files cannot be put back safely on {sys.platform} yet, so nothing is protected",
            hint="Takeback runs on Linux; elsewhere use a container or a virtual machine",
        )
    path = _directory(root)
    registry = Registry(Path(os.path.realpath(home)) if home else config.state_home())
    if not allow_home and not registry.knows(path):
        config.refuse_too_wide(path)
    if path.is_relative_to(registry.home):
        raise UsageError(
            f"{path} is where Takeback keeps its own state; nothing was recorded",
            hint="set TAKEBACK_HOME to a folder outside the workspace",
        )
    if not registry.knows(path):
        # A mistake in the settings is told before anything is begun.
        config.read_config(path)
    state = registry.create(path)
    if accept_config:
        accept_unopened(state, to_accept(config.read_config(path)))
    journal = begun(state, path, store, workspace, blobs)
    is_new = not journal.head().count
    if is_new:
        began: list[Event] = [WorkspaceBegan(text_of(os.fsencode(path)), __version__)]
        known = acceptance.read(state).accepted
        if names := tuple(str(one) for one in to_accept(config.read_config(path)) if one.digest in known):
            began.append(ConfigAccepted("", config.actor(), config.FILE, names))
        # The key makes two processes that open it for the first time write one event.
        journal.append(began, stream=ids.WORKSPACE, key="workspace-began")
    opened = Workspace(path, state, journal, watching=watching, progress=progress)
    kept = stores.read(state)
    if is_new and kept and kept.store:
        # Else a name with a typo in it would look like a history that is gone.
        opened.notices.append(
            f"a new history was begun in the store, as {kept.workspace}; where there should be one already, see the "
            f"name in {config.FILE}"
        )
    return opened


def find_workspace(
    start: str | os.PathLike[str] = ".", *, home: Path | None = None, progress: Progress = silent
) -> Workspace | None:
    """Open the workspace that a directory belongs to; None where it is not protected."""
    registry = Registry(home or config.state_home())
    root = find_root(start, registry)
    state = find_state(root, registry)
    return Workspace(root, state, journal_of(state), progress=progress) if state else None


def join_workspace(start: str | os.PathLike[str] = ".", *, progress: Progress = silent) -> Workspace | None:
    """Open what takeback.toml names and another folder has begun, to look at it from here; None where there is none.

    Nothing is recorded by that.
    """
    registry = Registry(config.state_home())
    root = find_root(start, registry)
    if not is_begun_elsewhere(registry.state_of(root), root):
        return None
    return open_workspace(root, watching=False, progress=progress)


def accept_unopened(state: Path, asked: Iterable[Setting]) -> None:
    """A human has seen these settings of a folder, and wants them so, before its history is opened or begun."""
    if inside := config.parent_action():
        raise RefusedError(
            f"this was asked from inside {inside}: an agent cannot accept its own settings. Nothing was changed",
            hint=f"do it from a terminal of your own: {ACCEPT}",
        )
    known = acceptance.read(state).accepted
    if missing := [one.digest for one in asked if one.digest not in known]:
        acceptance.note(state, accepted=missing)


def find_state(root: Path, registry: Registry) -> Path | None:
    """The state folder of a workspace; None where it is not protected, or where its beginning failed."""
    state = registry.find(root)
    return state if state and is_begun(state) else None


def find_root(start: str | os.PathLike[str], registry: Registry) -> Path:
    """The nearest protected workspace, else the nearest takeback.toml, else `.git`, else the directory itself."""
    path = _directory(start)
    if nearest := registry.nearest(path) or registry.nearest_moved(path):
        return nearest
    for name in (config.FILE, ".git"):
        for folder in (path, *path.parents):
            if (folder / name).exists() and not config.is_too_wide(folder):
                return folder
    return path


def _directory(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    if not found.is_dir():
        raise UsageError(f"{found} is not a folder; nothing was done", hint="name the workspace with -C DIR")
    return found
