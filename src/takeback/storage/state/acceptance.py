"""Which settings a human has accepted for a workspace, on this machine.

    <state>/accepted.json

Beside the journal and not in it: which store the journal is in is one of these settings, and a machine that only
looks at a shared history writes nothing to it. The journal tells of each acceptance too, for whoever reads it later.
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
    """The digests of settings, each with its name and value."""

    format: int = FORMAT
    accepted: frozenset[str] = frozenset()
    declined: frozenset[str] = frozenset()
    """Those that a human was asked about and did not want: nobody is asked twice."""


NOTHING = Accepted()


def read(state: Path) -> Accepted:
    """What was accepted. What cannot be read, or is of a newer Takeback, accepts nothing."""
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
    """Add these."""
    private_folder(state)
    earlier = read(state)
    more, less = earlier.accepted.union(accepted), earlier.declined.union(declined)
    write_whole(
        state / FILE, msgspec.json.encode(Accepted(FORMAT, more, less - more), order="sorted") + b"\n"
    )
