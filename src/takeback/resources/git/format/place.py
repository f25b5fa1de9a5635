"""Where the repository of a workspace is: a folder, or a file that names one, inside the root or outside it."""

from __future__ import annotations

import os
import re
import stat

import msgspec

LINK = b".git"
"""The name of the repository in the root, and of the target for that file, if it is a file."""

_FORMAT = re.compile(rb"(?im)^[ \t]*objectformat[ \t]*=[ \t]*\"?([A-Za-z0-9]+)")


class RepositoryLocation(msgspec.Struct, frozen=True):
    """The repository's folder, which all its worktrees share."""

    root: bytes
    folder: bytes
    linked: bool
    """Whether `.git` is a file: a linked worktree, a submodule, or a repository located elsewhere."""

    def path(self, name: bytes) -> bytes:
        """Return the path of a file of the repository."""
        if name == LINK:
            return os.path.join(self.root, LINK)
        return os.path.join(self.folder, name)


def find(root: bytes, last: bytes = b"") -> RepositoryLocation:
    """Return the repository of this root. If `.git` is gone, it is where it was last seen."""
    link = os.path.join(root, LINK)
    try:
        mode = os.lstat(link).st_mode
        if stat.S_ISDIR(mode):
            return RepositoryLocation(root, link, linked=False)
        if stat.S_ISLNK(mode):
            return RepositoryLocation(root, led_to(root, os.readlink(link)), linked=True)
        with open(link, "rb") as file:
            text = file.read(4096)
    except OSError:
        return RepositoryLocation(root, last or link, linked=False)
    return RepositoryLocation(root, gitdir(root, text) or last or link, linked=True)


def gitdir(root: bytes, text: bytes) -> bytes:
    """Return where a file `.git` with this text leads; empty if nowhere."""
    return led_to(root, text[len(b"gitdir:") :].strip()) if text.startswith(b"gitdir:") else b""


def led_to(root: bytes, path: bytes) -> bytes:
    return common(os.path.realpath(os.path.join(root, path)))


def common(folder: bytes) -> bytes:
    """Return the folder that a linked worktree shares with its repository; for others, the folder itself."""
    try:
        with open(os.path.join(folder, b"commondir"), "rb") as file:
            return os.path.realpath(os.path.join(folder, file.read(4096).strip()))
    except OSError:
        return folder


def hash_name(folder: bytes) -> str:
    """Return the algorithm that names the objects of this repository."""
    try:
        with open(os.path.join(folder, b"config"), "rb") as file:
            found = _FORMAT.search(file.read(1 << 20))
    except OSError:
        return "sha1"
    return found[1].decode().lower() if found else "sha1"
