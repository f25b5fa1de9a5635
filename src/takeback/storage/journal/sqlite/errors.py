"""What SQLite's errors mean to a user: what failed, how the world is now, what to do next."""

from __future__ import annotations

from pathlib import Path

import apsw

from takeback.errors import BackendError, CorruptionError, TakebackError
from takeback.storage.journal.relocation import moved
from takeback.system.private_files import owner_of

# Where the lock of the one writer lies in the -shm file, by SQLite's own layout of it.
_WRITE_LOCK_BYTE = 120

SHUT = "takeback shut: "
"""How the words begin by which a journal that is shut refuses a write."""


def explain(error: apsw.Error, path: Path) -> TakebackError:
    """Translate at the port."""
    if SHUT in str(error):
        return moved(str(error).partition(SHUT)[2])
    match error:
        case apsw.FullError():
            return BackendError(
                f"the disk is full: {path} cannot grow. Nothing was recorded",
                hint="free some space and try again",
            )
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return BackendError(
                f"{path} is busy: {_holder(path)} has been writing it for too long. Nothing was recorded",
                hint="try again; if it stays so, see what that process does",
                retryable=True,
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return BackendError(
                f"{path} cannot be opened for writing: {error}. Nothing was recorded",
                hint=f"its folder belongs to {owner_of(path.parent) or 'nobody known'}; see its permissions",
            )
        case apsw.NotADBError():
            return CorruptionError(
                f"{path} is not a journal of Takeback: {error}. Nothing was changed",
                hint="move it away, or restore it from a backup",
            )
        case apsw.CorruptError() | apsw.SQLError() | apsw.ConstraintError():
            return CorruptionError(
                f"{path} is damaged: {error}. Nothing was recorded",
                hint="`takeback verify` shows what is damaged; restore the file from a backup",
            )
    return BackendError(
        f"{path} could not be used: {error}. Nothing was recorded", hint="see the disk and its free space"
    )


def _holder(path: Path) -> str:
    """Who holds the lock, as far as the system tells."""
    try:
        inode = (path.parent / f"{path.name}-shm").stat().st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except (OSError, ValueError):
        return "another process"
    for line in locks.splitlines():
        # For example: 1: POSIX  ADVISORY  WRITE 4242 fe:00:131 120 120
        words = line.split()
        if words[-3].endswith(f":{inode}") and words[-2] == str(_WRITE_LOCK_BYTE) and "->" not in words:
            return f"process {words[-4]}"
    return "another process"
