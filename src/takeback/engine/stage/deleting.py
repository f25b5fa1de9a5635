"""Deleting a folder with all below it, and nothing else: no link and no mount leads out of it.

Each folder is moved to the top before it is entered, and emptied there. The kernel refuses to move what is mounted,
so nothing mounted is ever entered. All names are relative to open folders, so depth does not matter either.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from takeback.errors import BackendError
from takeback.system import mounts

ROUNDS_MAX = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def refuse_mounts(folder: Path) -> None:
    """Raise BackendError if something is mounted at a folder or below it."""
    if found := mounts.below(os.fsencode(folder)):
        place = os.fsdecode(found[0].place)
        raise BackendError(
            f"something is mounted at {place}; nothing was removed",
            hint=f"unmount it (umount {place}), and try again",
        )


def delete(folder: Path) -> None:
    """Delete a folder, even what is closed to its owner in it: the kernel leaves such a folder behind in a layer.

    Another process may delete the same folder. Raise BackendError if something cannot be deleted.
    """
    refuse_mounts(folder)
    numbers = itertools.count()
    try:
        for _ in range(ROUNDS_MAX):
            if _is_deleted(folder, numbers):
                return
    except OSError as error:
        raise _left(folder, error.strerror or str(error)) from error
    raise _left(folder, "others write into it")


def _left(folder: Path, why: str) -> BackendError:
    return BackendError(
        f"{folder} cannot be removed: {why}. Some of it is left", hint="remove this folder yourself"
    )


def _is_deleted(folder: Path, numbers: Iterator[int]) -> bool:
    """Delete a folder; return False if another process moved something into it meanwhile."""
    try:
        top = os.open(folder, _FOLDER)
        try:
            _empty(top, top, numbers)
        finally:
            os.close(top)
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _empty(here: int, top: int, numbers: Iterator[int]) -> None:
    """Delete what is in a folder. The folders in it go to the top first, and so do those in them."""
    moved = _unlink_all(here, top, numbers)
    while moved:
        name = moved.pop()
        with suppress(FileNotFoundError):
            below = os.open(name, _FOLDER, dir_fd=top)
            try:
                moved += _unlink_all(below, top, numbers)
            finally:
                os.close(below)
            with suppress(OSError):  # another process is at it, too
                os.rmdir(name, dir_fd=top)


def _unlink_all(here: int, top: int, numbers: Iterator[int]) -> list[str]:
    """Delete the files in a folder; return the names at the top that its folders have now."""
    moved = []
    for name in os.listdir(here):
        with suppress(FileNotFoundError):
            try:
                os.unlink(name, dir_fd=here)
            except (IsADirectoryError, PermissionError) as error:
                if error.errno == errno.EACCES:
                    raise
                moved.append(_moved(name, here, top, numbers))
    return moved


def _moved(name: str, here: int, top: int, numbers: Iterator[int]) -> str:
    """Move a folder to the top, open to its owner. Raise OSError if it is not one, or something is mounted there."""
    new = f".{os.getpid()}-{next(numbers)}"
    try:
        os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
    except PermissionError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=here).st_mode):
            raise
        os.chmod(name, 0o700, dir_fd=here)  # its entry `..` is to be changed
        os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
    os.chmod(new, 0o700, dir_fd=top)
    return new
