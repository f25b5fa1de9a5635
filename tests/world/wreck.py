"""The clumsy agent as a program: `python -m tests.world.wreck NAME...` destroys properties in this folder.

A name that starts with `*` is done to the whole tree instead.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from . import torture

SOCKETS_AND_DEVICES = (stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)


def _below(fd: int, names: list[str]) -> Iterator[tuple[int, str, os.stat_result]]:
    """Every entry below, deepest first, with an open descriptor of its directory; links are not followed."""
    for name in names:
        info = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            child = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
            yield from _below(child, sorted(os.listdir(child)))
            os.close(child)
        if stat.S_IFMT(info.st_mode) not in SOCKETS_AND_DEVICES:
            yield fd, name, info


def _everything() -> Iterator[tuple[int, str, os.stat_result]]:
    fd = os.open(".", os.O_RDONLY)
    yield from _below(fd, sorted(os.listdir(".")))
    os.close(fd)


def remove_all() -> None:
    for fd, name, info in _everything():
        if not stat.S_ISDIR(info.st_mode):
            os.unlink(name, dir_fd=fd)
        elif not _still_full(fd, name):
            os.rmdir(name, dir_fd=fd)


def _still_full(fd: int, name: str) -> bool:
    child = os.open(name, os.O_RDONLY, dir_fd=fd)
    try:
        return bool(os.listdir(child))
    finally:
        os.close(child)


def chmod_all() -> None:
    for fd, name, info in _everything():
        if not stat.S_ISLNK(info.st_mode):
            os.chmod(name, 0o777, dir_fd=fd)


def touch_all() -> None:
    for fd, name, _ in _everything():
        os.utime(name, (1, 1), dir_fd=fd, follow_symlinks=False)


def empty_all() -> None:
    for fd, name, info in _everything():
        if stat.S_ISREG(info.st_mode):
            os.close(os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=fd))


def swap_all_kinds() -> None:
    """Files become directories, directories links to the outside, links and fifos files."""
    for fd, name, info in _everything():
        if stat.S_ISDIR(info.st_mode):
            if not _still_full(fd, name):
                os.rmdir(name, dir_fd=fd)
                os.symlink("/etc", name, dir_fd=fd)
            continue
        os.unlink(name, dir_fd=fd)
        if stat.S_ISREG(info.st_mode):
            os.mkdir(name, dir_fd=fd)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=fd))


def move_all() -> None:
    os.mkdir("old-stuff")
    for name in sorted(os.listdir(".")):
        if name not in ("old-stuff", "socket", "device"):
            shutil.move(name, "old-stuff/")


WHOLESALE: dict[str, Callable[[], None]] = {
    "*remove": remove_all,
    "*chmod": chmod_all,
    "*touch": touch_all,
    "*empty": empty_all,
    "*swap": swap_all_kinds,
    "*move": move_all,
}


def main(names: list[str]) -> None:
    for name in names:
        if name in WHOLESALE:
            WHOLESALE[name]()
        else:
            torture.wreck(Path(), [name])


if __name__ == "__main__":
    main(sys.argv[1:])
