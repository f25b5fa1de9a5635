"""Finding and opening the workspace that is meant."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Iterable
from pathlib import Path

from takeback._version import __version__
from takeback.core import ids
from takeback.core.codec import text_of
from takeback.core.events import ConfigAccepted, Event, WorkspaceBegan
from takeback.errors import CorruptionError, RefusedError, UsageError
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress, silent
from takeback.settings import environment, toml
from takeback.settings.loosening import Setting, to_accept
from takeback.storage.state import acceptance, location
from takeback.storage.state.registry import Registry
from takeback.system.private_files import private_folder
from takeback.workspace import lost_history
from takeback.workspace.locate import directory_of, find_root
from takeback.workspace.lost_history import Lost
from takeback.workspace.store.journal import begun, is_begun, is_begun_elsewhere, journal_of
from takeback.workspace.workspace import Workspace

MEMORY = "memory"
"""The store that is none: `takeback.open(root, store="memory")`."""


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
    `blobs` the address of a bucket that has all content besides, like s3://bucket/folder. With store="memory" the
    history and all content live in this process alone and end when it is closed. With `accept_config` what
    stands in its takeback.toml is accepted, all of it: for whoever knows what stands there. Not inside of an action.
    """
    if sys.platform != "linux":
        raise RefusedError(
            f"files cannot be put back safely on {sys.platform} yet, so nothing is protected",
            hint="Takeback runs on Linux; elsewhere use a container or a virtual machine",
        )
    path = directory_of(root)
    registry = Registry(Path(os.path.realpath(home)) if home else environment.state_home())
    if not allow_home and not registry.knows(path):
        environment.refuse_too_wide(path)
    if store == MEMORY:
        if home or workspace or blobs:
            raise UsageError(
                "a history in memory has no home, no name and no bucket; nothing was recorded",
                hint='open it with store="memory" alone',
            )
        return _in_memory(path, registry, watching=watching, progress=progress, accept_config=accept_config)
    if path.is_relative_to(registry.home):
        raise UsageError(
            f"{path} is where Takeback keeps its own state; nothing was recorded",
            hint="set TAKEBACK_HOME to a folder outside the workspace",
        )
    if not registry.knows(path):
        # A mistake in the settings is told before anything is begun.
        toml.read_config(path)
    state = registry.create(path)
    if accept_config:
        accept_unopened(state, to_accept(toml.read_config(path)))
    journal = begun(state, path, store, workspace, blobs)
    is_new = not journal.head().count
    if is_new:
        _begin(journal, path, state)
    opened = _told(Workspace(path, state, journal, watching=watching, progress=progress))
    lost_history.register(state, path, journal)
    kept = location.read(state)
    if is_new and kept and kept.store:
        # Else a name with a typo in it would look like a history that is gone.
        opened.notices.append(
            f"a new history was begun in the store, as {kept.workspace}; where there should be one already, see the "
            f"name in {toml.FILE}"
        )
    return opened


def _begin(journal: Journal, path: Path, state: Path) -> None:
    """Record that the folder is protected from now on, and what of its settings a human has accepted."""
    began: list[Event] = [WorkspaceBegan(text_of(os.fsencode(path)), __version__)]
    known = acceptance.read(state).accepted
    if names := tuple(str(one) for one in to_accept(toml.read_config(path)) if one.digest in known):
        began.append(ConfigAccepted("", environment.actor(), toml.FILE, names))
    # The key makes two processes that open it for the first time write one event.
    journal.append(began, stream=ids.WORKSPACE, key="workspace-began")


def _in_memory(
    path: Path, registry: Registry, *, watching: bool, progress: Progress, accept_config: bool
) -> Workspace:
    """Open a directory with a history and content in memory. Locks and staging have a private temporary folder."""
    # Loaded here: few need it, and each command opens a workspace.
    from takeback.storage.content.memory import MemoryBlobs
    from takeback.storage.journal.memory.journal import InMemoryJournal

    if registry.knows(path) or registry.moved(path):
        raise RefusedError(
            f"{path} is protected already, with a history on disk, of which one in memory would not know; nothing "
            "was begun",
            hint='open it without store="memory", or work on a copy of the folder',
        )
    toml.read_config(path)  # a mistake in the settings is told before anything is begun
    home = Path(tempfile.mkdtemp(prefix="takeback-memory-"))
    try:
        state = Registry(home).create(path)
        if accept_config:
            accept_unopened(state, to_accept(toml.read_config(path)))
        journal = InMemoryJournal()
        _begin(journal, path, state)
        opened = Workspace(path, state, journal, watching=watching, progress=progress, blobs=MemoryBlobs())
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    # With the parts, and not with the workspace: a run that goes on has them.
    opened.closed = weakref.finalize(opened.parts, _remove_own, home, os.getpid())
    return opened


def _remove_own(home: Path, process: int) -> None:
    """Remove the folder of a workspace in memory, but not from a fork of the process that works with it."""
    if os.getpid() == process:
        shutil.rmtree(home, ignore_errors=True)


def find_workspace(
    start: str | os.PathLike[str] = ".", *, home: Path | None = None, progress: Progress = silent
) -> Workspace | None:
    """Open the workspace that a directory belongs to; None where it is not protected."""
    registry = Registry(home or environment.state_home())
    root = find_root(start, registry)
    state = find_state(root, registry)
    return _told(Workspace(root, state, journal_of(state), progress=progress)) if state else None


def _told(opened: Workspace) -> Workspace:
    """This workspace, with a word on the history that it had before, if that is gone."""
    if gone := opened.lost:
        opened.notices.append(f"{gone}; {gone.hint}")
    return opened


def lost_at(start: str | os.PathLike[str] = ".") -> Lost | None:
    """The history that the workspace of a directory had, where there is none at all now."""
    registry = Registry(environment.state_home())
    root = find_root(start, registry)
    return lost_history.lost(registry.state_of(root), root, None)


def begin_anew(start: str | os.PathLike[str] = ".") -> Path | None:
    """Go on without a history that is gone or damaged, as a human asked for. Nothing that is left of it is removed.

    A history that was begun since and is sound is kept. Gives the folder into which the remains of another were put.
    """
    refuse_inside_any("go on without the history of a workspace")
    registry = Registry(environment.state_home())
    root = find_root(start, registry)
    state = registry.state_of(root)
    if not is_begun(state):
        lost_history.forget(state)
        return None
    try:
        with Workspace(root, state, journal_of(state)) as found:
            found.refuse_inside()
            is_sound = bool(found.history.seq)
            if is_sound:
                lost_history.register(state, root, found.journal, anew=True)
    except CorruptionError:
        is_sound = False
    if is_sound:
        return None
    aside = private_folder(registry.home / "lost") / f"{state.name}-{time.strftime('%Y%m%dT%H%M%S')}"
    os.rename(state, aside)
    lost_history.forget(state)
    return aside


def refuse_inside_any(what: str) -> None:
    """Only a human does this, and not what runs inside an action of whatever workspace."""
    if inside := environment.parent_action():
        raise RefusedError(
            f"this was asked from inside {inside}: an agent cannot {what}. Nothing was changed",
            hint="do it from a terminal of your own",
        )


def join_workspace(start: str | os.PathLike[str] = ".", *, progress: Progress = silent) -> Workspace | None:
    """Open what takeback.toml names and another folder has begun, to look at it from here; None where there is none.

    Nothing is recorded by that.
    """
    registry = Registry(environment.state_home())
    root = find_root(start, registry)
    if not is_begun_elsewhere(registry.state_of(root), root):
        return None
    return open_workspace(root, watching=False, progress=progress)


def accept_unopened(state: Path, asked: Iterable[Setting]) -> None:
    """A human has seen these settings of a folder, and wants them so, before its history is opened or begun."""
    refuse_inside_any("accept its own settings")
    known = acceptance.read(state).accepted
    if missing := [one.digest for one in asked if one.digest not in known]:
        acceptance.note(state, accepted=missing)


def find_state(root: Path, registry: Registry) -> Path | None:
    """The state folder of a workspace; None where it is not protected, or where its beginning failed."""
    state = registry.find(root)
    return state if state and is_begun(state) else None
