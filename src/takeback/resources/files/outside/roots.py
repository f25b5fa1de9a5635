"""Whole folders outside the workspace that a run names: each is a place, looked at like the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.core.codec import text_of
from takeback.errors import UsageError
from takeback.resources.files.outside.scope import KIN
from takeback.resources.files.outside.survey import is_below, is_machine


def place_of(folder: Path, workspace: Path, own: Path) -> str:
    """Return the place for this folder, with links resolved. Raise UsageError if it cannot be looked at or put back.

    `own` is where Takeback keeps its state.
    """
    path = os.fsencode(folder)
    _refuse(path, os.fsencode(os.path.realpath(workspace)), os.fsencode(os.path.realpath(own)))
    around = os.path.dirname(path)
    # A process that can remove the folder itself can also put it back. Otherwise it is put back from within.
    removable = os.access(around, os.W_OK) and os.stat(around).st_dev == os.stat(path).st_dev
    return text_of(path if removable else os.path.join(path, KIN))


def _refuse(path: bytes, workspace: bytes, own: bytes) -> None:
    if not os.path.isdir(path):
        raise _unusable(path, "is not a folder", "name an existing folder")
    if is_below(path, workspace):
        raise _unusable(path, "is inside the workspace, which is protected anyway")
    if is_below(workspace, path):
        raise _unusable(path, "contains the workspace", "protect that folder itself: takeback -C DIR run …")
    if is_below(path, own):
        raise _unusable(path, "cannot be protected: Takeback keeps its own state there")
    if is_machine(path):
        raise _unusable(path, "is not an ordinary folder")
    if not os.access(path, os.R_OK | os.X_OK):
        raise _unusable(path, "cannot be opened", "if it is yours, `chmod u+rwx` opens it")
    if not os.access(path, os.W_OK):
        raise _unusable(path, "is not writable, so nothing in it could be put back")


def _unusable(path: bytes, why: str, hint: str = "") -> UsageError:
    return UsageError(f"{text_of(path)} {why}; nothing was begun", hint=hint)
