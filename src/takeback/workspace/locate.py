"""Finding the workspace of a folder, without loading the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from takeback.errors import UsageError
from takeback.settings import FILE, environment
from takeback.storage.state.registry import Registry


def find_root(start: str | os.PathLike[str] = ".", registry: Registry | None = None) -> Path:
    """Return the nearest protected workspace, else the folder of the nearest takeback.toml or `.git`, else
    `start`."""
    path, registry = directory_of(start), registry or registry_of_user()
    if nearest := registry.nearest(path) or registry.nearest_moved(path):
        return nearest
    for name in (FILE, ".git"):
        for folder in (path, *path.parents):
            if (folder / name).exists() and not environment.is_too_wide(folder):
                return _around(folder)
    return path


def _around(folder: Path) -> Path:
    """Return the project around a worktree that lies inside it, and any other folder as it is."""
    project = project_of(folder)
    return project if project and folder.is_relative_to(project) else folder


def project_of(folder: Path) -> Path | None:
    """Return the project that a linked worktree of git belongs to, or None if the folder is not one.

    Only if the project knows it: a file `.git` that came from elsewhere may name any folder.
    """
    if not (folder / ".git").is_file():
        return None
    from takeback.resources.git.format.place import find as find_repository  # most folders are not worktrees

    repository = Path(os.fsdecode(find_repository(os.fsencode(folder)).folder))
    project = repository.parent
    is_known = repository.name == ".git" and folder in _linked(repository)
    return project if is_known and not environment.is_too_wide(project) else None


def worktrees_of(root: Path) -> list[Path]:
    """Return the project and all its worktrees of git, without `root` itself; those that were removed, too, if they
    were protected.
    """
    project = project_of(root) or root
    if not (project / ".git").is_dir():
        return []
    from takeback.storage.state.worktrees import Worktrees

    found = [project, *_linked(project / ".git"), *Worktrees(registry_of_user().home).of(project)]
    return [path for path in dict.fromkeys(found) if path != root]


def _linked(repository: Path) -> list[Path]:
    """Return the worktrees that a repository knows."""
    try:
        names = sorted(os.listdir(repository / "worktrees"))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            named = (repository / "worktrees" / name / "gitdir").read_bytes().strip()
        except OSError:
            continue
        link = os.path.join(os.fsencode(repository / "worktrees" / name), named)
        found.append(Path(os.fsdecode(os.path.realpath(os.path.dirname(link)))))
    return found


def registry_of_user() -> Registry:
    """Return the list of all workspaces of this user."""
    return Registry(environment.state_home())


def directory_of(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    if not found.is_dir():
        raise UsageError(f"{found} is not a folder; nothing was done", hint="name the workspace with -C DIR")
    return found


def find_modules_at(root: Path) -> None:
    """Let Python import tools and undo handlers of the project, as if started at its top.

    Last, so that a file there does not take the place of an installed module.
    """
    if str(root) not in sys.path:
        sys.path.append(str(root))


def outside_roots(
    folders: Sequence[str | os.PathLike[str]], root: Path, state: Path, *, allow_home: bool
) -> tuple[str, ...]:
    """Return folders outside a workspace as roots that an action can name, each with everything in it."""
    if isinstance(folders, str | os.PathLike):
        raise UsageError(
            "roots must be a list of folders; nothing was begun", hint=f"roots=[{os.fspath(folders)!r}]"
        )
    found = [Path(os.path.realpath(os.path.join(environment.here(), folder))) for folder in folders]
    for path in () if allow_home else found:
        environment.refuse_too_wide(path)
    from takeback.resources.files.outside.roots import place_of  # few actions name any

    return tuple(place_of(path, root, state.parent.parent) for path in found)


def views_of(root: Path) -> list[str]:
    """Return the names of the views of a workspace, without opening it."""
    from takeback.engine.stage.folder import StageFolders  # hardly ever needed

    return StageFolders(registry_of_user().state_of(root)).names()
