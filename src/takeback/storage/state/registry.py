"""The registry of workspaces, and where the state of each is kept.

    <home>/workspaces/<name>-<12 hex of the path's digest>/workspace.json

The folder's name follows from the workspace's path, so finding it takes one lookup. `workspace.json` also records
the file system's identity of the directory, so that a moved workspace is recognised and not taken for a new one.
Nothing is ever written into the workspace itself.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.core.codec import path_of, text_of
from takeback.errors import BackendError, ConflictError, CorruptionError, FormatTooNew, UsageError
from takeback.system import durable
from takeback.system.private_files import private_folder, read_small

CARD = "workspace.json"
CARD_FORMAT = 1


class Card(msgspec.Struct, frozen=True):
    """What the registry knows about a workspace."""

    format: int
    root: str
    identity: str = ""

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(path_of(self.root)))


class Registry:
    """All workspaces in one state folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "workspaces"

    def state_of(self, root: Path) -> Path:
        """Return the state folder of this path, whether it exists or not."""
        return self.folder / state_name(root)

    def knows(self, root: Path) -> bool:
        """Return True if this path is already protected."""
        return os.path.exists(f"{self.state_of(root)}/{CARD}")

    def find(self, root: Path) -> Path | None:
        """Return the state folder of a protected workspace; None if the path is not protected.

        Raise ConflictError if this directory is protected under another path: it was moved.
        """
        state = self.state_of(root)
        if self.knows(root):
            read_card(state)
            return state
        if moved := self.moved(root):
            raise ConflictError(
                f"{root} was protected as {moved} and has been moved since; its history still exists",
                hint="`takeback init` here reconnects it with its history",
            )
        return None

    def create(self, root: Path) -> Path:
        """Start to protect a workspace, or reconnect a moved one with its history."""
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder; nothing was done")
        state = self.state_of(root)
        private_folder(self.home)
        private_folder(self.folder)
        if not (state / CARD).exists() and (moved := self.moved(root)):
            os.rename(self.state_of(moved), state)
        private_folder(state)
        write_card(state, root)
        return state

    def moved(self, root: Path) -> Path | None:
        """Return the path under which this directory was protected before, if it is no longer there."""
        here = identity(root)
        for _, card in self.cards():
            if here and card.identity == here and identity(card.path) != here:
                return card.path
        return None

    def nearest_moved(self, start: Path) -> Path | None:
        """Return the closest directory, at or above a path, that was protected under another path."""
        if not self.folder.exists():
            return None
        return next((folder for folder in (start, *start.parents) if self.moved(folder)), None)

    def nearest(self, start: Path) -> Path | None:
        """Return the closest protected workspace at or above a path."""
        for folder in (start, *start.parents):
            if self.knows(folder):
                return folder
        return None

    def cards(self) -> Iterator[tuple[Path, Card]]:
        """Yield every workspace. A damaged card does not hide the others."""
        try:
            folders = sorted(self.folder.iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackendError(f"the state folder {self.folder} cannot be read: {error.strerror}") from error
        for state in folders:
            if (state / CARD).exists():
                try:
                    yield state, read_card(state)
                except (CorruptionError, FormatTooNew):
                    continue


@lru_cache(maxsize=64)
def state_name(root: str | os.PathLike[str]) -> str:
    """Return the name of the state folder for a workspace at this path."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(root).name).strip("-.")[:40] or "root"
    return f"{name}-{blake3(os.fsencode(root)).hexdigest()[:12]}"


def read_card(state: Path) -> Card:
    try:
        card = msgspec.json.decode(read_small(f"{state}/{CARD}"), type=Card)
    except msgspec.DecodeError as error:
        raise CorruptionError(
            f"{state / CARD} is damaged: {error}", hint="delete this one file and run `takeback init` again"
        ) from error
    except OSError as error:
        raise BackendError(
            f"{state / CARD} cannot be read: {error.strerror}", hint="check the folder's owner and mode"
        ) from error
    if card.format > CARD_FORMAT:
        raise FormatTooNew(
            f"{state} was written by a newer Takeback (format {card.format}); nothing was changed",
            hint="upgrade Takeback",
        )
    return card


def write_card(state: Path, root: Path) -> None:
    """Record which directory this is, atomically."""
    card = Card(CARD_FORMAT, text_of(os.fsencode(root)), identity(root))
    target = state / CARD
    if target.exists() and read_card(state) == card:
        return
    try:
        durable.replace(target, msgspec.json.encode(card) + b"\n", named=False)
    except OSError as error:
        raise BackendError(
            f"the state folder {state} cannot be written: {error.strerror}; nothing was recorded",
            hint="free some space or make it writable, and try again",
        ) from error


_HANDLE_BYTES = 128
_AT_FDCWD = -100


class _Handle(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint),
        ("kind", ctypes.c_int),
        ("data", ctypes.c_ubyte * _HANDLE_BYTES),
    )


@cache
def _name_to_handle_at() -> Callable[..., int]:
    """Return the function of libc. Raise AttributeError if there is none."""
    return ctypes.CDLL(None, use_errno=True).name_to_handle_at


def identity(path: Path) -> str:
    """Return device and handle of a directory; empty if it does not exist or the file system has no handles."""
    try:
        device = os.stat(path).st_dev
        ask = _name_to_handle_at()
    except (OSError, AttributeError):
        return ""
    handle, mount = _Handle(size=_HANDLE_BYTES), ctypes.c_int()
    if ask(_AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0):
        return ""
    return f"{device}:{handle.kind}:{bytes(handle.data)[: handle.size].hex()}"
