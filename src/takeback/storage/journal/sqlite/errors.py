"""Translation of SQLite's errors for users: what failed, how the world is now, what to do next."""

from __future__ import annotations

from pathlib import Path

import apsw

from takeback.errors import BackendError, CorruptionError, TakebackError
from takeback.storage.journal.relocation import moved
from takeback.system.private_files import owner_of

# The position of SQLite's write lock in the -shm file, by SQLite's own layout.
_WRITE_LOCK_BYTE = 120

SHUT = "takeback shut: "
"""The beginning of the text with which a journal that is shut refuses a write."""


def explain(error: apsw.Error, path: Path) -> TakebackError:
    """Translate an error of SQLite."""
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
                hint="try again; if it happens again, check what that process does",
                retryable=True,
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return BackendError(
                f"{path} cannot be opened for writing: {error}. Nothing was recorded",
                hint=f"its folder belongs to {owner_of(path.parent) or 'an unknown user'}; check its permissions",
            )
        case apsw.NotADBError():
            return CorruptionError(
                f"{path} is not a Takeback journal: {error}. Nothing was changed",
                hint="move it away, or restore it from a backup",
            )
        case apsw.CorruptError() | apsw.SQLError() | apsw.ConstraintError():
            return CorruptionError(
                f"{path} is damaged: {error}. Nothing was recorded",
                hint="`takeback verify --all` shows what is damaged; restore the file from a backup",
            )
    return BackendError(
        f"{path} could not be used: {error}. Nothing was recorded", hint="check the disk and its free space"
    )


def _holder(path: Path) -> str:
    """Return who holds the write lock, as far as the system reports it."""
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
