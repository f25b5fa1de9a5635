"""Modes, owners, times and attributes: what `cp` without flags loses."""

from __future__ import annotations

import os
from functools import partial

from ..torture import OTHER_ID, acl, prop, remove, replace_by_rename, write


def _file_mode(label: str, mode: int, needs: tuple[str, ...] = ()) -> None:
    """Once destroyed by chmod, once by delete, once by an editor's rename."""

    def build() -> None:
        for name in ("chmodded", "deleted", "replaced"):
            write(name, b"x\n", mode=mode)

    def wreck() -> None:
        os.chmod("chmodded", 0o755 if mode != 0o755 else 0o644)
        os.unlink("deleted")
        replace_by_rename(b"replaced")

    prop(f"mode-{label}", needs=needs)(build).wreck(wreck)


_file_mode("0600", 0o600)
_file_mode("0444", 0o444)
_file_mode("0755", 0o755)
_file_mode("0666", 0o666)
_file_mode("0000", 0o000, ("root",))
_file_mode("setuid", 0o4755)
_file_mode("setgid", 0o2755)
_file_mode("sticky-file", 0o1644, ("root",))
_file_mode("7777", 0o7777, ("root",))


def _directory_mode(label: str, mode: int, needs: tuple[str, ...] = ()) -> None:
    def build() -> None:
        for name in ("chmodded", "deleted"):
            write(f"{name}/file")
            os.mkdir(f"{name}/empty")
            os.chmod(name, mode)

    def wreck() -> None:
        os.chmod("chmodded", 0o755 if mode != 0o755 else 0o700)
        os.chmod("deleted", 0o700)
        remove(b"deleted")

    prop(f"directory-mode-{label}", needs=needs)(build).wreck(wreck)


_directory_mode("0700", 0o700)
_directory_mode("0555-read-only", 0o555)
_directory_mode("0000", 0o000, ("root",))
_directory_mode("sticky", 0o1777)
_directory_mode("setgid", 0o2775)


@prop("read-only-directory-changed-inside", needs=("root",))
def read_only_inside() -> None:
    write("locked/kept")
    write("locked/edited")
    os.chmod("locked", 0o555)


@read_only_inside.wreck
def _() -> None:
    os.chmod("locked", 0o755)
    write("locked/edited", b"edited")
    write("locked/added")
    os.chmod("locked", 0o555)


@prop("owner", needs=("root",))
def owner() -> None:
    for name in ("chowned", "deleted"):
        write(name, mode=0o640)
        os.chown(name, OTHER_ID, OTHER_ID)
    os.mkdir("directory")
    os.chown("directory", OTHER_ID, 0)


@owner.wreck
def _() -> None:
    os.chown("chowned", 0, 0)
    os.unlink("deleted")
    os.rmdir("directory")


@prop("setgid-directory-of-another-group", needs=("root",))
def setgid_other_group() -> None:
    """What is put back inside would inherit the directory's group."""
    write("shared/mine")
    os.chown("shared", 0, OTHER_ID)
    os.chmod("shared", 0o2775)


@setgid_other_group.wreck
def _() -> None:
    os.unlink("shared/mine")


@prop("owner-of-symlink", needs=("root",))
def owner_of_symlink() -> None:
    os.symlink("nowhere", "link")
    os.chown("link", OTHER_ID, OTHER_ID, follow_symlinks=False)


@owner_of_symlink.wreck
def _() -> None:
    os.unlink("link")


# Attributes.


@prop("xattrs-of-file", needs=("xattr",))
def xattrs() -> None:
    for name in ("set", "removed", "deleted", "emptied"):
        write(name)
        os.setxattr(name, "user.one", b"\x00\xff binary")
        os.setxattr(name, "user.two", b"")
        os.setxattr(name, "user.large", b"v" * 2000)


@xattrs.wreck
def _() -> None:
    os.setxattr("set", "user.one", b"changed")
    os.setxattr("set", "user.three", b"added")
    os.removexattr("removed", "user.large")
    os.unlink("deleted")
    os.truncate("emptied", 0)


@prop("xattr-added-to-plain-file", needs=("xattr",))
def no_xattr() -> None:
    write("plain")


@no_xattr.wreck
def _() -> None:
    os.setxattr("plain", "user.mark", b"agent was here")


@prop("xattrs-of-directory", needs=("xattr",))
def directory_xattrs() -> None:
    os.mkdir("set")
    os.mkdir("deleted")
    for name in ("set", "deleted"):
        os.setxattr(name, "user.origin", b"kept")


@directory_xattrs.wreck
def _() -> None:
    os.removexattr("set", "user.origin")
    os.rmdir("deleted")


@prop("xattr-on-read-only-file", needs=("xattr",))
def read_only_xattr() -> None:
    write("locked")
    os.setxattr("locked", "user.origin", b"kept")
    os.chmod("locked", 0o444)


@read_only_xattr.wreck
def _() -> None:
    os.unlink("locked")


@prop("access-list-of-file", needs=("acl",))
def access_list() -> None:
    for name in ("changed", "removed", "deleted"):
        write(name)
        os.setxattr(name, "system.posix_acl_access", acl(user_bits=6))


@access_list.wreck
def _() -> None:
    os.setxattr("changed", "system.posix_acl_access", acl(user_bits=4))
    os.removexattr("removed", "system.posix_acl_access")
    os.unlink("deleted")


@prop("default-access-list-of-directory", needs=("acl",))
def default_access_list() -> None:
    """What is put back inside would inherit the list."""
    write("shared/plain")
    os.mkdir("shared/folder")
    os.setxattr("shared", "system.posix_acl_default", acl(user_bits=6))


@default_access_list.wreck
def _() -> None:
    os.unlink("shared/plain")
    os.rmdir("shared/folder")
    os.removexattr("shared", "system.posix_acl_default")


# Times.


def _time(label: str, mtime_ns: int) -> None:
    """Once destroyed by touch, once by an edit, once by delete; a directory and a link besides."""

    def build() -> None:
        for name in ("touched", "edited", "deleted"):
            write(name)
        os.mkdir("folder")
        os.symlink("nowhere", "link")
        for name in ("touched", "edited", "deleted", "folder", "link"):
            os.utime(name, ns=(mtime_ns, mtime_ns), follow_symlinks=False)

    def wreck() -> None:
        os.utime("touched")
        write("edited", b"edited")
        os.unlink("deleted")
        os.rmdir("folder")
        os.unlink("link")

    prop(f"time-{label}")(build).wreck(wreck)


_time("odd-nanoseconds", 1_234_567_890_123_456_789)
_time("last-nanosecond", 1_600_000_000_999_999_999)
_time("epoch", 0)
_time("before-1970", -86_400 * 365 * 10**9 - 1)
_time("far-future", 9_999_999_999 * 10**9 + 7)


@prop("time-of-directory-with-edits-inside")
def directory_time() -> None:
    write("folder/inner/file")
    for name in ("folder/inner/file", "folder/inner", "folder"):
        os.utime(name, ns=(1, 1_111_111_111_111_111_111))


@directory_time.wreck
def _() -> None:
    write("folder/inner/new")
    os.unlink("folder/inner/file")


@prop("time-put-back-after-edit")
def sly_edit() -> None:
    """The same size and the same mtime as before: only ctime tells."""
    write("sly", b"before")
    os.utime("sly", ns=(5, 1_000_000_000_000_000_005))


@sly_edit.wreck
def _() -> None:
    with open("sly", "r+b") as file:
        file.write(b"AFTER!")
    os.utime("sly", ns=(5, 1_000_000_000_000_000_005))


_touch_only = prop("time-only-touched")(partial(write, "untouched"))
_touch_only.wreck(partial(os.utime, "untouched", ns=(77, 77)))
