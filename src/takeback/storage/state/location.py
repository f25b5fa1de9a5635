"""Where the journal and the content of a workspace are kept, if not on this machine alone.

    <state>/store.json

Written when a workspace is created or moved. It is not read from takeback.toml later: an agent that edits that file
must not redirect its own history. The address may contain a password, so only the user can read the file, and the
address is never shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import msgspec

from takeback.errors import BackendError, CorruptionError, FormatTooNew
from takeback.system.durable import sync_folder
from takeback.system.private_files import read_small, unusable, write_whole

FILE = "store.json"
STORE_FORMAT = 2
"""Format 2 added the bucket for content, and `moving`."""


class StoreLocation(msgspec.Struct, frozen=True):
    """A shared store, its bucket, and the name of the workspace there."""

    format: int
    store: str
    """Its address, in which $NAME stands for an environment variable and $$ for a dollar sign."""
    workspace: str
    blobs: str = ""
    """The address of the bucket with all content, in the same form; empty if there is none."""
    blobs_key: str = ""
    """Where to find the key that encrypts it: $NAME, or the path of a file. Never the key itself."""
    moving: bool = False
    """A move to another store is in progress, or was interrupted.

    The workspace is still where this says; without a store, on this machine.
    """

    def __repr__(self) -> str:
        return f"<StoreLocation {self.workspace}>"


HERE = StoreLocation(STORE_FORMAT, "", "")
"""On this machine."""


def read(state: Path) -> StoreLocation | None:
    """Return the location; None, or one without a store, means this machine."""
    path = state / FILE
    try:
        kept = msgspec.json.decode(read_small(os.fspath(path)), type=StoreLocation)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        # Without the cause, which may quote the address.
        raise CorruptionError(
            f"{path} is damaged, so the location of the history is unknown; nothing was done",
            hint="restore this one file from a backup, or write a new one as docs/FORMAT.md describes",
        ) from None
    except OSError as error:
        raise BackendError(
            f"{path} cannot be read: {error.strerror}", hint="check the folder's owner and mode"
        ) from error
    if kept.format > STORE_FORMAT:
        raise FormatTooNew(
            f"{path} was written by a newer Takeback (format {kept.format}); nothing was changed",
            hint="upgrade Takeback",
        )
    return kept


def is_same_bucket(one: StoreLocation, other: StoreLocation | None) -> bool:
    """Return True if both keep content in the same bucket, under the same name and key."""
    other = other or HERE
    return (one.blobs, one.blobs_key, one.workspace) == (other.blobs, other.blobs_key, other.workspace)


def write(state: Path, kept: StoreLocation) -> None:
    """Store the location, atomically."""
    write_whole(state / FILE, msgspec.json.encode(kept) + b"\n")


def forget(state: Path) -> None:
    """Record that the workspace is kept on this machine from now on."""
    try:
        (state / FILE).unlink(missing_ok=True)
        sync_folder(state)
    except OSError as error:
        raise unusable(state / FILE, error) from error


def source_of(state: Path) -> str:
    """Return the source that exported events name: the same on every machine that shares the history."""
    kept = read(state)
    return f"urn:takeback:{quote(kept.workspace, safe='') if kept and kept.store else state.name}"
