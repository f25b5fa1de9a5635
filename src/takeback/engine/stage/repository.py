"""The git repository of a view's workspace: where it is, and the objects that were made in the view."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from takeback.core.codec import path_of
from takeback.engine.stage.card import OVERLAY, StageCard
from takeback.engine.stage.folder import StageFolder
from takeback.errors import UsageError
from takeback.resources.git.format import place
from takeback.system import durable


def elsewhere(root: Path) -> Path | None:
    """Return the folder of the repository if it is outside the workspace, as for a linked worktree or a submodule."""
    found = Path(os.fsdecode(place.find(os.fsencode(root)).folder))
    return None if found.is_relative_to(root) or not found.is_dir() else found


def refuse_copy(root: Path, folder: Path) -> None:
    """Raise UsageError if git in a copy of this folder would write into a repository outside the workspace."""
    found = Path(os.fsdecode(place.find(os.fsencode(folder)).folder))
    if not any(found.is_relative_to(path) for path in (root, os.path.realpath(root))):
        raise UsageError(
            f"the repository of {folder} is outside the workspace ({found}), and a copy would share it; "
            "nothing was made",
            hint="`takeback stage doctor` in another workspace says why there are no overlays; or use a clone",
        )


def lead_into_copy(root: Path, copied: Path, seen: Path, links: Iterable[Path]) -> None:
    """Let the files by which git finds a repository or a worktree lead into the copy.

    `links` are the files `.git` below the root. Raise UsageError if one leads out of the workspace.
    """
    for link in links:
        refuse_copy(root, link.parent)
        _replace_paths(copied / link.relative_to(root), b"gitdir: ", root, seen)
    for one in copied.glob(".git/worktrees/*/gitdir"):
        _replace_paths(one, b"", root, seen)


def _replace_paths(file: Path, before: bytes, root: Path, seen: Path) -> None:
    text = file.read_bytes()
    old, new = (before + os.fsencode(path) + b"/" for path in (root, seen))
    if text.startswith(old):
        file.write_bytes(new + text[len(old) :])


def bring_objects(folder: StageFolder, card: StageCard) -> None:
    """Copy the git objects that were made in the view. Until a ref names them, they change nothing."""
    root = Path(os.fsdecode(path_of(card.root)))
    real = Path(os.fsdecode(place.find(os.fsencode(root)).folder)) / "objects"
    source = _in_view(folder, card, real)
    if source is None or not source.is_dir() or not real.is_dir():
        return
    for here, _, names in os.walk(source):
        target = real / os.path.relpath(here, source)
        # The index of a pack comes after the pack: git reads a pack that has an index.
        for name in sorted(names, key=lambda name: (name.endswith(".idx"), name)):
            made = Path(here) / name
            if made.is_symlink() or not made.is_file() or (target / name).exists():
                continue
            target.mkdir(parents=True, exist_ok=True)
            new = target / f".takeback-{name}"
            new.unlink(missing_ok=True)  # an acceptance that was cut short left it, closed to its owner
            shutil.copy2(made, new)
            _sync(new)
            os.rename(new, target / name)


def _in_view(folder: StageFolder, card: StageCard, real: Path) -> Path | None:
    """Return where the changes are that were made in the view to a folder."""
    if card.kind != OVERLAY:
        root = Path(os.fsdecode(path_of(card.root)))
        return folder.path / "tree" / root.name / real.relative_to(root)
    places = [Path(os.fsdecode(path_of(layer))) for layer in card.layers]
    above = [(len(one.parts), number) for number, one in enumerate(places) if real.is_relative_to(one)]
    if not above:
        return None
    _, number = max(above)
    return folder.layer(number)[0] / real.relative_to(places[number])


def _sync(path: Path) -> None:
    """Make an object durable: a ref that is must not name one that is not."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        durable.fsync(fd)
    finally:
        os.close(fd)
