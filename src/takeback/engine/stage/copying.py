"""A view as a copy of the workspace, where the kernel allows no overlay.

Blocks are shared with the original if the file system can do that; otherwise every byte is copied.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from takeback.ports.progress import Progress

_FICLONE = 0x40049409
_CANNOT_SHARE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.ETXTBSY}


def copy_tree(source: Path, place: Path, left_out: Callable[[Path], bool], progress: Progress) -> list[Path]:
    """Copy a folder with all below it: links, hard links, times, modes and attributes; not what is left out.

    Return the files with which git names a repository that is elsewhere.
    """
    names: dict[tuple[int, int], Path] = {}
    folders: list[tuple[Path, Path]] = []
    every = list(_walk(source, left_out))
    for path in progress("Copying the workspace", every, len(every)):
        found = os.lstat(path)
        target = place / path.relative_to(source)
        if stat.S_ISDIR(found.st_mode):
            target.mkdir(mode=0o700)
            folders.append((path, target))
            continue
        number = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and (first := names.get(number)):
            os.link(first, target, follow_symlinks=False)
            continue
        names[number] = target
        _copy_one(path, target, found)
    for path, target in reversed(folders):  # those below first: making a name in a folder changes its time
        _copy_stat(path, target)
    return [path for path in every if path.name == ".git" and path.is_file() and not path.is_symlink()]


def _walk(source: Path, left_out: Callable[[Path], bool]) -> Iterator[Path]:
    yield source
    pending = [source]
    while pending:
        here = pending.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                path = Path(entry.path)
                if left_out(path):
                    continue
                yield path
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)


def _copy_one(path: Path, target: Path, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink(path), target)
    elif kind == stat.S_IFIFO:
        os.mkfifo(target)
    elif kind == stat.S_IFREG:
        _copy_bytes(path, target)
    else:
        return  # a socket or a device: nothing is in it
    _copy_stat(path, target)


def _copy_stat(path: Path, target: Path) -> None:
    """Copy owner, mode, times and attributes. The owner comes first, because changing it clears bits of the mode."""
    found, made = os.lstat(path), os.lstat(target)
    if (found.st_uid, found.st_gid) != (made.st_uid, made.st_gid):
        with suppress(PermissionError):  # only root may give files away
            os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    shutil.copystat(path, target, follow_symlinks=False)


def _copy_bytes(path: Path, target: Path) -> None:
    with open(path, "rb") as data, open(target, "xb") as out:
        try:
            fcntl.ioctl(out.fileno(), _FICLONE, data.fileno())
        except OSError as error:
            if error.errno not in _CANNOT_SHARE:
                raise
            _copy_data(data.fileno(), out.fileno(), os.fstat(data.fileno()).st_size)


def _copy_data(source: int, target: int, size: int) -> None:
    """Copy what is written, and leave holes as holes."""
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            break  # only a hole is left
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(target, at, os.SEEK_SET)
        os.lseek(source, at, os.SEEK_SET)
        while at < end and (done := os.sendfile(target, source, None, end - at)):
            at += done
        if at < end:
            break  # it was cut meanwhile
    os.ftruncate(target, size)


def can_share(folder: Path) -> bool:
    """Return whether copies in this folder share their blocks with the original."""
    one, other = folder / ".reflink-a", folder / ".reflink-b"
    try:
        one.write_bytes(b"x" * 4096)
        with open(one, "rb") as data, open(other, "wb") as out:
            fcntl.ioctl(out.fileno(), _FICLONE, data.fileno())
    except OSError:
        return False
    finally:
        one.unlink(missing_ok=True)
        other.unlink(missing_ok=True)
    return True
