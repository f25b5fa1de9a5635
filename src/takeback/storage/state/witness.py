"""A note that a workspace has a history, kept apart from the history itself.

    <the platform's data folder>/takeback/witness/<digest of the state folder's path>.json

Removing a state folder removes every record of it. This small file stays, so that the loss can be reported. It
holds no content, and nothing depends on it: if it cannot be written, or is gone too, everything works without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.core.codec import path_of, text_of
from takeback.system.private_files import private_folder, read_small, unusable, write_whole

FORMAT = 1


class Witness(msgspec.Struct, frozen=True):
    """What is known about the history of a workspace."""

    format: int
    root: str
    state: str
    identity: str
    """The file system's identity of the directory: another directory at the same path is another workspace."""
    began: str
    """The digest of its first record."""
    since_us: int
    count: int = 0
    """The number of durable records when this was last written."""
    head: str = ""
    """The digest of the last of them."""

    @property
    def is_of_a_folder(self) -> bool:
        return os.path.isdir(os.fsdecode(path_of(self.root)))


def made(root: Path, state: Path, identity: str, began: str, since_us: int) -> Witness:
    return Witness(FORMAT, text_of(os.fsencode(root)), text_of(os.fsencode(state)), identity, began, since_us)


def read(folder: Path, state: Path) -> Witness | None:
    """Return the note about this state folder. An unreadable note counts as none."""
    return _read(folder / _name(os.fsencode(state)))


def write(folder: Path, witness: Witness) -> None:
    """Write a note, and drop the notes about folders that are gone, whose history cannot be missed."""
    path = folder / _name(path_of(witness.state))
    if not path.exists():
        for other, found in list(_every(folder)):
            if not found.is_of_a_folder:
                other.unlink(missing_ok=True)
    private_folder(folder)
    write_whole(path, msgspec.json.encode(witness) + b"\n")


def remove(folder: Path, state: Path) -> None:
    """Remove the note about this state folder."""
    path = folder / _name(os.fsencode(state))
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(path, error) from error


def _every(folder: Path) -> Iterator[tuple[Path, Witness]]:
    for path in folder.glob("*.json") if folder.is_dir() else ():
        if found := _read(path):
            yield path, found


def _read(path: Path) -> Witness | None:
    try:
        found = msgspec.json.decode(read_small(os.fspath(path)), type=Witness)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.format <= FORMAT else None


def _name(state: bytes) -> str:
    return f"{blake3(state).hexdigest()[:32]}.json"
