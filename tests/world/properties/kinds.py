"""Special files, and one kind of thing turned into another."""

from __future__ import annotations

import os
import socket
import stat
from functools import partial

from ..torture import Action, prop, remove, write


def _fifo() -> None:
    os.mkfifo("thing", 0o620)
    os.chmod("thing", 0o620)


def _file() -> None:
    write("thing", b"a file\n", mode=0o640)


def _link() -> None:
    os.symlink("nowhere", "thing")


def _link_outside() -> None:
    os.symlink("/etc", "thing")


def _folder() -> None:
    write("thing/inner/file", b"inside")
    os.mkdir("thing/empty")
    os.chmod("thing", 0o750)


def _empty_folder() -> None:
    os.mkdir("thing")


KINDS: dict[str, Action] = {
    "file": _file,
    "symlink": _link,
    "symlink-to-outside-directory": _link_outside,
    "directory": _folder,
    "empty-directory": _empty_folder,
    "fifo": _fifo,
}


def _replace_by(make: Action) -> Action:
    def wreck() -> None:
        remove(b"thing")
        make()

    return wreck


for _before, _build in KINDS.items():
    for _after, _make in KINDS.items():
        if _before != _after:
            prop(f"swap-{_before}-for-{_after}")(_build).wreck(_replace_by(_make))

prop("fifo-deleted")(_fifo).wreck(partial(os.unlink, "thing"))
prop("fifo-chmodded")(_fifo).wreck(partial(os.chmod, "thing", 0o600))
prop("empty-directory-deleted")(_empty_folder).wreck(partial(os.rmdir, "thing"))


@prop("empty-directories-nested")
def nested_empty() -> None:
    os.makedirs("a/b/c/d")
    os.makedirs("a/b/e")


@nested_empty.wreck
def _() -> None:
    remove(b"a")


@prop("empty-directory-filled")
def filled() -> None:
    os.mkdir("empty")


@filled.wreck
def _() -> None:
    write("empty/deep/in/there")


@prop("directory-renamed")
def renamed() -> None:
    write("old/a/one")
    write("old/b/two", mode=0o600)


@renamed.wreck
def _() -> None:
    os.rename("old", "new")


@prop("directory-moved-into-another")
def moved_into() -> None:
    write("inner/file")
    write("outer/file")


@moved_into.wreck
def _() -> None:
    os.rename("inner", "outer/inner")


@prop("directories-exchanged")
def directories_exchanged() -> None:
    write("a/same", b"of a")
    write("a/only-a")
    write("b/same", b"of b")
    os.chmod("b", 0o700)


@directories_exchanged.wreck
def _() -> None:
    os.rename("a", "t")
    os.rename("b", "a")
    os.rename("t", "b")


@prop("parent-becomes-child")
def parent_becomes_child() -> None:
    write("top/middle/file")


@parent_becomes_child.wreck
def _() -> None:
    os.rename("top/middle", "middle")
    os.rename("top", "middle/top")


@prop("directory-turned-file-where-children-were-edited")
def turned_with_children() -> None:
    for number in range(20):
        write(f"folder/{number % 3}/{number}")


@turned_with_children.wreck
def _() -> None:
    write("folder/0/0", b"edited first")
    os.rename("folder/1", "saved")
    remove(b"folder")
    write("folder", b"a file in its place")


# What cannot be put back must be left alone and stated, and must not disturb what stands beside it.


@prop("socket-beside")
def socket_beside() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    write("file")


socket_beside.wreck(partial(os.unlink, "file"))


@prop("device-beside", needs=("root", "linux"))
def device_beside() -> None:
    os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    write("file")


device_beside.wreck(partial(os.unlink, "file"))
