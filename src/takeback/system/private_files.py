"""Private folders and files of the user.

State holds what an agent wrote, and what a later undo will write back. So no other user may read it or have
prepared it.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path

from takeback.errors import BackendError
from takeback.system import durable

FOLDER_MODE = 0o700
FILE_MODE = 0o600
SMALL_BYTES = 1 << 14


def private_folder(path: Path) -> Path:
    """Create this folder, and missing ones above it, for this user alone.

    An existing one must belong to this user, and is closed to all others.
    """
    try:
        _make(path)
        _require_own(path, os.stat(path), what="folder", mode=FOLDER_MODE)
    except OSError as error:
        raise unusable(path, error) from error
    return path


def read_small(path: str) -> bytes:
    """Return what is in a small file of ours. Opening reads several, and a file object costs more than the read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while part := os.read(fd, SMALL_BYTES):
            found += part
        return found
    finally:
        os.close(fd)


def private_file(path: Path) -> None:
    """Create this file, empty, for this user alone; an existing one must belong to this user."""
    try:
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            # Never opened here: closing a second descriptor of a file drops SQLite's locks on it.
            _require_own(path, os.stat(path), what="file", mode=FILE_MODE)
            _require_writable(path, path.parent)
        else:
            os.close(fd)
            durable.sync_folder(path.parent)
    except OSError as error:
        raise unusable(path, error) from error


def write_whole(path: Path, data: bytes, *, replacing: bool = True) -> None:
    """Write a private file, whole or not at all; without `replacing` an existing file is left alone."""
    try:
        durable.replace(path, data, over=replacing)
    except OSError as error:
        raise unusable(path, error) from error


def owner_of(path: Path) -> str:
    """Return the name of the owner; empty if it is unknown."""
    try:
        uid = os.stat(path).st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def unusable(path: Path, error: OSError) -> BackendError:
    """Return the error for a file or folder of ours that the system refuses."""
    owner = owner_of(path) or owner_of(path.parent)
    return BackendError(
        f"{path} cannot be used: {error.strerror or error}. Nothing was recorded",
        hint=f"it belongs to {owner}; see its permissions and the space on its disk" if owner else "",
    )


def _require_writable(*paths: Path) -> None:
    # Checked before SQLite does: it would leave unwritable files behind before it fails.
    for path in paths:
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _make(path: Path) -> None:
    if os.path.isdir(path):
        return
    if not path.parent.exists():
        _make(path.parent)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)


def _require_own(path: Path, found: os.stat_result, *, what: str, mode: int) -> None:
    if found.st_uid != os.geteuid():
        raise BackendError(
            f"the {what} {path} belongs to {owner_of(path)}, not to this user. Nothing was changed",
            hint="run as its owner, or set TAKEBACK_HOME to a folder of your own",
        )
    if found.st_mode & stat.S_ISVTX:
        raise BackendError(
            f"the {what} {path} is shared by all users, so no state is kept in it",
            hint="set TAKEBACK_HOME to a folder of your own",
        )
    if stat.S_IMODE(found.st_mode) & ~mode & 0o077:
        os.chmod(path, mode)
