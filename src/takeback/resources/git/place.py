"""Where the repository of a workspace lies: a folder, or a file that names one, inside the root or outside it."""

from __future__ import annotations

import os
import re

import msgspec

LINK = b".git"
"""The name of the repository in the root, and of the target that is the file there, where it is a file."""

_FORMAT = re.compile(rb"(?im)^[ \t]*objectformat[ \t]*=[ \t]*\"?([A-Za-z0-9]+)")


class Place(msgspec.Struct, frozen=True):
    """The repository's folder, which all its worktrees share."""

    root: bytes
    folder: bytes
    linked: bool
    """`.git` is a file: a linked worktree, a submodule, or a repository that lies elsewhere."""

    def path(self, name: bytes) -> bytes:
        """Where a file of the repository is."""
        if name == LINK:
            return os.path.join(self.root, LINK)
        return os.path.join(self.folder, name)


def find(root: bytes, last: bytes = b"") -> Place:
    """The repository of this root. Where `.git` is gone, it is where it was last seen."""
    link = os.path.join(root, LINK)
    try:
        with open(link, "rb") as file:
            text = file.read(4096)
    except IsADirectoryError:
        return Place(root, common(link), linked=False)
    except OSError:
        return Place(root, last or link, linked=False)
    if not text.startswith(b"gitdir:"):
        return Place(root, last or link, linked=True)
    folder = os.path.join(root, text[len(b"gitdir:") :].strip())
    return Place(root, common(os.path.realpath(folder)), linked=True)


def common(folder: bytes) -> bytes:
    """The folder that a linked worktree shares with its repository; any other is its own."""
    try:
        with open(os.path.join(folder, b"commondir"), "rb") as file:
            return os.path.realpath(os.path.join(folder, file.read(4096).strip()))
    except OSError:
        return folder


def hash_name(folder: bytes) -> str:
    """The algorithm that names the objects of this repository."""
    try:
        with open(os.path.join(folder, b"config"), "rb") as file:
            found = _FORMAT.search(file.read(1 << 20))
    except OSError:
        return "sha1"
    return found[1].decode().lower() if found else "sha1"
