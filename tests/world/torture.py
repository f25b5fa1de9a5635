"""A tree of all that is hard to take back: one named property a directory, each with its own destruction.

A property is a function that builds something in the current directory; its `wreck` is what a clumsy agent
does to it with ordinary calls. Both run with the property's own directory as the current one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

Action = Callable[[], None]
OTHER_ID = 4242
"""A user and group that nobody here is."""


class Property:
    """One thing about a tree that must survive, and the way it is destroyed."""

    def __init__(self, name: str, build: Action, needs: tuple[str, ...]) -> None:
        self.name = name
        self.build = build
        self.needs = needs
        self._wreck: Action | None = None

    def wreck(self, action: Action) -> Action:
        """Say how an agent destroys it; used as a decorator."""
        self._wreck = action
        return action

    def destroy(self) -> None:
        assert self._wreck is not None, f"{self.name} has no wreck"
        self._wreck()


_registry: dict[str, Property] = {}


def prop(name: str, *, needs: tuple[str, ...] = ()) -> Callable[[Action], Property]:
    """Register what builds a property; `needs` names abilities of the platform (see `missing`)."""

    def register(build: Action) -> Property:
        assert name not in _registry, name
        _registry[name] = Property(name, build, needs)
        return _registry[name]

    return register


def properties() -> dict[str, Property]:
    importlib.import_module(".properties", __package__)
    return _registry


def build(root: Path, names: Iterable[str]) -> None:
    for name in names:
        (root / name).mkdir(parents=True)
        with contextlib.chdir(root / name):
            properties()[name].build()


def wreck(root: Path, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.chdir(root / name):
            properties()[name].destroy()


# What properties are made of.


def write(name: bytes | str, data: bytes = b"once upon a time\n", *, mode: int = 0o644) -> None:
    """Make a file and the directories above it."""
    parent = os.path.dirname(os.fsencode(name))
    if parent:
        os.makedirs(parent, exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)
    os.chmod(name, mode)


def patch(name: bytes | str, place: int, data: bytes) -> None:
    """Change a few bytes in the middle of a file, in place."""
    with open(name, "r+b") as file:
        file.seek(place)
        file.write(data)


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that no compressor likes, the same each time."""
    import random

    return random.Random(seed).randbytes(size)


def acl(*, user_bits: int) -> bytes:
    """An access list as the kernel keeps it: owner rw, one named user, group r, mask, others nothing."""
    nobody = 0xFFFFFFFF
    rows = [(1, 6, nobody), (2, user_bits, OTHER_ID), (4, 4, nobody), (16, 6, nobody), (32, 0, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


# Ways of a clumsy agent with one path; a family of properties goes through them in turn.


def remove(name: bytes) -> None:
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name)
    else:
        os.unlink(name)


def move_away(name: bytes) -> None:
    os.rename(name, b"moved-away")


def overwrite(name: bytes) -> None:
    with open(name, "r+b") as file:
        file.write(b"overwritten in place")


def truncate(name: bytes) -> None:
    os.truncate(name, 0)


def replace_by_rename(name: bytes) -> None:
    """The way of an editor: a new file beside it, then a rename over it."""
    write(b"editor.tmp", b"saved anew\n", mode=0o600)
    os.rename(b"editor.tmp", name)


def to_directory(name: bytes) -> None:
    remove(name)
    os.mkdir(name)
    write(name + b"/inside")


def to_symlink(name: bytes) -> None:
    remove(name)
    os.symlink(b"/etc/hostname", name)


WAYS: tuple[Callable[[bytes], None], ...] = (
    remove,
    move_away,
    overwrite,
    truncate,
    replace_by_rename,
    to_directory,
    to_symlink,
)


# What a platform may lack.


def missing(needs: Iterable[str], where: Path) -> str:
    """Which ability is missing at `where`, in words; the empty string if none."""
    for need in needs:
        with tempfile.TemporaryDirectory(dir=where) as folder, contextlib.chdir(folder):
            reason = _PROBES[need]()
        if reason:
            return reason
    return ""


def _root() -> str:
    return "" if os.geteuid() == 0 else "only root may do this"


def _works(action: Action, reason: str) -> str:
    try:
        action()
    except (OSError, AttributeError):
        return reason
    return ""


def _xattr() -> str:
    Path("x").touch()
    return _works(lambda: os.setxattr("x", "user.probe", b"1"), "no user xattrs on this file system")


def _acl() -> str:
    Path("x").touch()
    return _works(
        lambda: os.setxattr("x", "system.posix_acl_access", acl(user_bits=4)),
        "no access lists on this file system",
    )


def _bytes() -> str:
    return _works(lambda: os.mkdir(b"\xff"), "names must be text on this file system")


def _case() -> str:
    Path("case").touch()
    return "this file system folds case" if Path("CASE").exists() else ""


def _forms() -> str:
    Path("\u00e9").touch()
    return "this file system folds Unicode forms" if Path("e\u0301").exists() else ""


def _holes() -> str:
    with open("x", "wb") as file:
        file.truncate(1 << 24)
    return "" if os.stat("x").st_blocks < 1000 else "no sparse files on this file system"


def _linux() -> str:
    return "" if sys.platform == "linux" else "made for Linux"


def _git() -> str:
    return "" if shutil.which("git") else "git is not installed"


_PROBES: dict[str, Callable[[], str]] = {
    "root": _root,
    "xattr": _xattr,
    "acl": _acl,
    "bytes": _bytes,
    "case": _case,
    "forms": _forms,
    "holes": _holes,
    "linux": _linux,
    "git": _git,
}
