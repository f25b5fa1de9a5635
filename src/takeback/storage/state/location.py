"""Where the journal and the content of a workspace are kept, if not on this machine alone.

    <state>/store.json

It is written when a workspace is begun or moved, and not read from takeback.toml later: an agent that edits that file
must not lead its own history astray. The address may hold a password, so the file is for the user alone, and the
address is never told.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import msgspec

from takeback.errors import BackendError, CorruptionError, FormatTooNew
from takeback.system.durable import sync_folder
from takeback.system.private_files import unusable, write_whole

FILE = "store.json"
STORE_FORMAT = 2
"""2 has a bucket for content, and tells of a move."""


class StoreLocation(msgspec.Struct, frozen=True):
    """A shared store, the bucket beside it, and what the workspace is called there."""

    format: int
    store: str
    """Its address, in which $NAME stands for a variable and $$ for a dollar."""
    workspace: str
    blobs: str = ""
    """The address of the bucket that has all content, written in the same way; empty without one."""
    blobs_key: str = ""
    """Where the key is that seals it: $NAME, or the path of a file. Never the key itself."""
    moving: bool = False
    """A move to another place is under way, or was cut short. What is named here is where the workspace is all the
    same; without a store that is this machine."""

    def __repr__(self) -> str:
        return f"<Kept {self.workspace}>"


HERE = StoreLocation(STORE_FORMAT, "", "")
"""On this machine."""


def read(state: Path) -> StoreLocation | None:
    """Where it is kept; None, or one without a store, on this machine."""
    path = state / FILE
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=StoreLocation)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        # Without its cause, which may quote the address.
        raise CorruptionError(
            f"{path} is damaged, so it is not known where the history is; nothing was done",
            hint="restore this one file from a backup, or write it anew: docs/FORMAT.md tells how",
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
    """Whether content goes to the same place, in the same way."""
    other = other or HERE
    return (one.blobs, one.blobs_key, one.workspace) == (other.blobs, other.blobs_key, other.workspace)


def write(state: Path, kept: StoreLocation) -> None:
    """Remember it, atomically."""
    write_whole(state / FILE, msgspec.json.encode(kept) + b"\n")


def forget(state: Path) -> None:
    """From now on it is kept on this machine."""
    try:
        (state / FILE).unlink(missing_ok=True)
        sync_folder(state)
    except OSError as error:
        raise unusable(state / FILE, error) from error


def source_of(state: Path) -> str:
    """What others are told that events are of: the same on each machine that shares the history."""
    kept = read(state)
    return f"urn:takeback:{quote(kept.workspace, safe='') if kept and kept.store else state.name}"
