"""Finding and opening the workspace of a folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Iterable
from pathlib import Path

import msgspec

from takeback._version import __version__
from takeback.core import ids
from takeback.core.codec import text_of
from takeback.core.events import ConfigAccepted, Event, WorkspaceBegan
from takeback.core.trust import untrusted_since
from takeback.errors import CorruptionError, RefusedError, UsageError
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress, silent
from takeback.settings import environment, toml
from takeback.settings.loosening import Setting, to_accept
from takeback.storage.state import acceptance, location
from takeback.storage.state.registry import Registry
from takeback.system.private_files import private_folder
from takeback.workspace import lost_history
from takeback.workspace.locate import directory_of, find_root, project_of
from takeback.workspace.lost_history import Lost
from takeback.workspace.store.journal import JOURNAL, begun, is_begun, is_begun_elsewhere, journal_of
from takeback.workspace.trusted_settings import CONFIG
from takeback.workspace.workspace import Workspace

MEMORY = "memory"
"""The name of the store in memory: `takeback.open(root, store="memory")`."""


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
    """Open exactly this directory, and begin to protect it if it is not protected yet.

    `store` is the address of a PostgreSQL database for its history, `workspace` its name there, `blobs` the address
    of a bucket for a second copy of all content, like s3://bucket/folder. With store="memory" the history and all
    content live only in this process and end when the workspace is closed. `accept_config` accepts its whole
    takeback.toml, for a caller who knows that file; inside an action it is refused.
    """
    if sys.platform != "linux":
        raise RefusedError(
            f"Takeback cannot put files back safely on {sys.platform} yet; nothing is protected",
            hint="Takeback runs on Linux; elsewhere use a container or a virtual machine",
        )
    path = directory_of(root)
    registry = Registry(Path(os.path.realpath(home)) if home else environment.state_home())
    is_known = registry.knows(path)
    if not allow_home and not is_known:
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
    if not is_known:
        # A mistake in the settings is reported before anything is begun.
        toml.read_config(path)
    is_unknown = not registry.knows(path)
    state = registry.create(path)
    if is_unknown and (project := project_of(path)):
        _join_project(registry, project, path, state)
    if accept_config:
        accept_unopened(state, to_accept(toml.read_config(path)))
    journal = begun(state, path, store, workspace, blobs)
    is_new = not journal.head().count
    if is_new:
        _begin(journal, path, state)
    opened = Workspace(path, state, journal, watching=watching, progress=progress)
    _tell(opened, lost_history.register(state, path, journal))
    # Load all parts now: an upgrade of the package while this process works must not mix two versions.
    _ = opened.parts
    kept = location.read(state) if is_new else None
    if kept and kept.store:
        # Otherwise a mistyped name would look like a lost history.
        opened.notices.append(
            f"a new history was begun in the store, as {kept.workspace}; if it should already exist, check the name "
            f"in {toml.FILE}"
        )
    return opened


def _join_project(registry: Registry, project: Path, worktree: Path, state: Path) -> None:
    """Let a worktree of git be protected like its project: the values that a human accepted there hold here, too."""
    from takeback.storage.state.worktrees import Worktrees

    Worktrees(registry.home).note(project, worktree)
    if accepted := acceptance.read(registry.state_of(project)).accepted:
        acceptance.note(state, accepted=accepted)


def _begin(journal: Journal, path: Path, state: Path) -> None:
    """Record that the folder is protected from now on, and which of its settings a human has accepted."""
    began: list[Event] = [WorkspaceBegan(text_of(os.fsencode(path)), __version__)]
    known = acceptance.read(state).accepted
    if names := tuple(str(one) for one in to_accept(toml.read_config(path)) if one.digest in known):
        began.append(ConfigAccepted("", environment.actor(), toml.FILE, names))
    # With the key, two processes that open it for the first time write only one event.
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
            f"{path} is already protected, with a history on disk that one in memory would miss; nothing was begun",
            hint='open it without store="memory", or work on a copy of the folder',
        )
    toml.read_config(path)  # a mistake in the settings is reported before anything is begun
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
    # Tied to the parts, not to the workspace: a run that continues still uses them.
    opened.closed = weakref.finalize(opened.parts, _remove_own, home, os.getpid())
    return opened


def _remove_own(home: Path, process: int) -> None:
    """Remove the folder of a workspace in memory, except in a fork of the process that opened it."""
    if os.getpid() == process:
        shutil.rmtree(home, ignore_errors=True)


def find_workspace(
    start: str | os.PathLike[str] = ".", *, home: Path | None = None, progress: Progress = silent
) -> Workspace | None:
    """Open the workspace that a directory belongs to, or return None if it is not protected."""
    registry = Registry(home or environment.state_home())
    root = find_root(start, registry)
    state = find_state(root, registry)
    if state is None:
        return None
    opened = Workspace(root, state, journal_of(state), progress=progress)
    _tell(opened, opened.lost)
    return opened


def _tell(opened: Workspace, gone: Lost | None) -> None:
    """Add a notice if the history that the workspace had before is gone."""
    if gone:
        opened.notices.append(f"{gone}; {gone.hint}")


def lost_at(start: str | os.PathLike[str] = ".") -> Lost | None:
    """Return the lost history of a directory's workspace that has none at all now, if it had one."""
    registry = Registry(environment.state_home())
    root = find_root(start, registry)
    return lost_history.lost(registry.state_of(root), root, None)


def begin_anew(start: str | os.PathLike[str] = ".") -> Path | None:
    """Continue without a lost or damaged history, at a human's request. Nothing that is left of it is deleted.

    A sound history that was begun since is kept. Return the folder to which a damaged one was moved.
    """
    refuse_inside_any("continue without the history of a workspace")
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
    """Raise RefusedError if this process runs inside an action of any workspace: only a human may do this."""
    from takeback.workspace.refusal import refuse_agent  # hardly ever needed

    refuse_agent(environment.parent_action(), f"an agent cannot {what}")


def join_workspace(start: str | os.PathLike[str] = ".", *, progress: Progress = silent) -> Workspace | None:
    """Open the workspace that takeback.toml names and another folder began, to read it from here; or return None.

    This records nothing.
    """
    registry = Registry(environment.state_home())
    root = find_root(start, registry)
    if not is_begun_elsewhere(registry.state_of(root), root):
        return None
    return open_workspace(root, watching=False, progress=progress)


def accept_unopened(state: Path, asked: Iterable[Setting]) -> None:
    """Note that a human accepts these settings of a folder, before its history is opened or begun."""
    refuse_inside_any("accept its own settings")
    known = acceptance.read(state).accepted
    if missing := [one.digest for one in asked if one.digest not in known]:
        acceptance.note(state, accepted=missing)


class Basis(msgspec.Struct, frozen=True):
    """What an open workspace depends on. If that changes, the workspace has to be opened again."""

    places: tuple[tuple[int, ...], ...] = ()
    """The folder, journal and settings files that it was opened with."""
    accepted: str | None = None
    """The takeback.toml that a human accepted last."""
    untrusted: int = 0
    """The event since which takeback.toml does not hold; zero if it holds."""


def basis_of(workspace: Workspace) -> Basis:
    """Return what an open workspace depends on, by its history as last read."""
    history = workspace.known_history
    untrusted = untrusted_since(history, CONFIG, beside=True)
    return Basis(places_of(workspace), history.accepted.get(toml.FILE), untrusted.seq if untrusted else 0)


def places_of(workspace: Workspace) -> tuple[tuple[int, ...], ...]:
    """Return the identity of its folder, journal and settings files as they are now."""
    return (
        _number(workspace.root),
        _number(workspace.state / JOURNAL),
        _number(workspace.state / location.FILE),
        _number(workspace.state / acceptance.FILE),
        _number(workspace.root / toml.FILE, content=True),
    )


def _number(path: Path, *, content: bool = False) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    which = (found.st_dev, found.st_ino)
    return (*which, found.st_mtime_ns, found.st_ctime_ns, found.st_size) if content else which


def find_state(root: Path, registry: Registry) -> Path | None:
    """Return the state folder of a workspace, or None if it is not protected or its first opening failed."""
    state = registry.find(root)
    return state if state and is_begun(state) else None
