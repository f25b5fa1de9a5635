"""The identity of a folder with a shared history: an id in its state folder, beside host and path."""

from __future__ import annotations

import os
import platform
import re
import secrets
from pathlib import Path

import msgspec

from takeback.core.codec import text_of
from takeback.core.seats import Place
from takeback.errors import CorruptionError
from takeback.storage.state.registry import read_card
from takeback.system.durable import sync_folder
from takeback.system.private_files import unusable, write_whole

FILE = "place"
ARRIVING = "arriving.json"


def place_of(state: Path) -> Place:
    """Return this folder's identity, creating its id on first use.

    The inode of the file is part of it: a copy of the state folder, here or on another machine, is another place.
    """
    root = text_of(os.fsencode(read_card(state).path))
    found = _read(state / FILE)
    if found is None:
        write_whole(state / FILE, secrets.token_hex(8).encode() + b"\n", replacing=False)
        found = _read(state / FILE) or b""
    if not re.fullmatch(rb"[0-9a-f]{16}\n", found):
        raise _damaged(state / FILE)
    try:
        inode = os.stat(state / FILE).st_ino
    except OSError as error:
        raise unusable(state / FILE, error) from error
    return Place(f"{found.decode().strip()}-{inode:x}", platform.node(), root)


class Arriving(msgspec.Struct, frozen=True):
    """A workspace that is being brought here. Until it is complete, this folder does not take the seat."""

    found: str = ""
    """The state of the files found here; empty before the first look."""
    brought: str = ""
    """The state to bring. A file that already has that state may be replaced."""


def arriving(state: Path) -> Arriving | None:
    """Return the arrival in progress, if any."""
    found = _read(state / ARRIVING)
    try:
        return None if found is None else msgspec.json.decode(found, type=Arriving)
    except msgspec.DecodeError:
        raise _damaged(state / ARRIVING) from None


def note_arriving(state: Path, note: Arriving) -> None:
    write_whole(state / ARRIVING, msgspec.json.encode(note) + b"\n")


def arrived(state: Path) -> None:
    """Record that everything has arrived."""
    (state / ARRIVING).unlink(missing_ok=True)
    sync_folder(state)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from error


def _damaged(path: Path) -> CorruptionError:
    return CorruptionError(
        f"{path} is damaged; nothing was done",
        hint="restore this one file from a backup; docs/FORMAT.md describes it",
    )
