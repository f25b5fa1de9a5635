"""Hard links, symbolic links and holes in them all."""

from __future__ import annotations

import os
from functools import partial

from ..torture import prop, remove, replace_by_rename, write


@prop("hardlinks-in-one-directory")
def same_directory() -> None:
    write("one", b"shared")
    os.link("one", "two")


@same_directory.wreck
def _() -> None:
    os.unlink("two")


@prop("hardlinks-across-directories")
def across() -> None:
    write("a/one", b"shared")
    os.makedirs("b/deep")
    os.link("a/one", "b/deep/two")


@across.wreck
def _() -> None:
    remove(b"b")
    write("a/one", b"changed")


@prop("hardlinks-all-deleted")
def all_deleted() -> None:
    write("one", b"shared", mode=0o600)
    for name in ("two", "three"):
        os.link("one", name)


@all_deleted.wreck
def _() -> None:
    for name in ("one", "two", "three"):
        os.unlink(name)


@prop("hardlink-broken")
def broken() -> None:
    """The same bytes under two names afterwards, yet no longer one file."""
    write("one", b"shared")
    os.link("one", "two")


@broken.wreck
def _() -> None:
    os.unlink("two")
    write("two", b"shared")


@prop("hardlink-broken-by-editor")
def broken_by_editor() -> None:
    write("one", b"shared")
    os.link("one", "two")
    os.link("one", "three")


@broken_by_editor.wreck
def _() -> None:
    replace_by_rename(b"two")


@prop("hardlink-written-through")
def written_through() -> None:
    write("one", b"shared")
    os.link("one", "two")


@written_through.wreck
def _() -> None:
    write("two", b"both change")


@prop("hardlink-chmodded")
def chmodded() -> None:
    write("one", b"shared")
    os.link("one", "two")


@chmodded.wreck
def _() -> None:
    os.chmod("two", 0o600)


@prop("hardlink-made-of-two-files")
def made() -> None:
    write("one", b"same")
    write("two", b"same")


@made.wreck
def _() -> None:
    os.unlink("two")
    os.link("one", "two")


@prop("hardlink-groups-exchanged")
def groups_exchanged() -> None:
    write("a1", b"a")
    os.link("a1", "a2")
    write("b1", b"b")
    os.link("b1", "b2")


@groups_exchanged.wreck
def _() -> None:
    os.unlink("a2")
    os.unlink("b2")
    os.link("a1", "b2")
    os.link("b1", "a2")


@prop("hardlink-to-deleted-name-only")
def one_moved() -> None:
    write("a/one", b"shared")
    os.link("a/one", "two")


@one_moved.wreck
def _() -> None:
    os.rename("a/one", "moved")
    os.unlink("two")
    os.rmdir("a")


@prop("hardlinked-symlink", needs=("linux",))
def hardlinked_symlink() -> None:
    os.symlink("nowhere", "one")
    os.link("one", "two", follow_symlinks=False)


@hardlinked_symlink.wreck
def _() -> None:
    os.unlink("two")
    os.symlink("elsewhere", "two")


def _symlink(label: str, text: bytes) -> None:
    """Once deleted, once pointed elsewhere, once replaced by a file."""

    def build() -> None:
        os.mkdir("folder")
        write("folder/file")
        for name in ("deleted", "pointed", "replaced"):
            os.symlink(text, name)

    def wreck() -> None:
        for name in ("deleted", "pointed", "replaced"):
            os.unlink(name)
        os.symlink("/elsewhere", "pointed")
        write("replaced")

    prop(f"symlink-{label}")(build).wreck(wreck)


_symlink("dangling", b"no/such/thing")
_symlink("outside", b"../../../../../../etc/passwd")
_symlink("absolute", b"/etc/passwd")
_symlink("to-directory", b"folder")
_symlink("to-parent", b"..")
_symlink("to-itself", b"deleted")
_symlink("odd-bytes", b"\xff\n \\'\"*")
_symlink("trailing-slash", b"folder/")
_symlink("4000-bytes", b"x/" * 2000)


@prop("symlink-loop")
def loop() -> None:
    os.symlink("b", "a")
    os.symlink("a", "b")


@loop.wreck
def _() -> None:
    os.unlink("a")
    os.mkdir("a")


@prop("symlink-to-directory-written-through")
def written_through_symlink() -> None:
    write("real/file")
    os.symlink("real", "link")


@written_through_symlink.wreck
def _() -> None:
    write("link/file", b"through the link")
    write("link/new")


_same_text = prop("symlink-made-anew-with-the-same-text")(partial(os.symlink, "text", "link"))


@_same_text.wreck
def _() -> None:
    os.unlink("link")
    os.symlink("text", "link")
