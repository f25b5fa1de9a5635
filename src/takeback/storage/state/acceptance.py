"""The settings that a human has accepted for a workspace, on this machine.

    <state>/accepted.json

Kept beside the journal and not in it: the journal's store is one of these settings, and a machine that only reads a
shared history writes nothing to it. The journal also records each acceptance, for later readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from takeback.errors import BackendError
from takeback.system.private_files import private_folder, write_whole

FILE = "accepted.json"
FORMAT = 1


class Accepted(msgspec.Struct, frozen=True):
    """The digests of settings, each computed from name and value."""

    format: int = FORMAT
    accepted: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()
    """Settings that a human was asked about and declined, so that they are not asked again."""


NOTHING = Accepted()


def read(state: Path) -> Accepted:
    """Return what was accepted. A file that is unreadable, or written by a newer Takeback, accepts nothing."""
    try:
        found = msgspec.json.decode((state / FILE).read_bytes(), type=Accepted)
    except (FileNotFoundError, msgspec.DecodeError):
        return NOTHING
    except OSError as error:
        raise BackendError(
            f"{state / FILE} cannot be read: {error.strerror}", hint="check the folder's owner and mode"
        ) from error
    return found if found.format <= FORMAT else NOTHING


def note(state: Path, *, accepted: Iterable[str] = (), declined: Iterable[str] = ()) -> None:
    """Add these digests."""
    private_folder(state)
    earlier = read(state)
    more, less = earlier.accepted.union(accepted), earlier.declined.union(declined)
    write_whole(
        state / FILE, msgspec.json.encode(Accepted(FORMAT, more, less - more), order="sorted") + b"\n"
    )
