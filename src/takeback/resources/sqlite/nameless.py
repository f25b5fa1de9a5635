"""A database that has no name until it is whole: a crash leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Mapping

from takeback import faults
from takeback.resources.sqlite.attributes import write as write_attributes

_CHUNK_BYTES = 1 << 20


def made(
    folder: int,
    image: bytes,
    mode: int,
    uid: int,
    gid: int,
    mtime_ns: int | None = None,
    attributes: Mapping[str, str] | None = None,
) -> int:
    """A file in an open folder with what an image holds, as a descriptor."""
    fd = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(image, "rb") as file:
            while data := file.read(_CHUNK_BYTES):
                faults.write_all(fd, data)
        if os.geteuid() == 0:
            os.fchown(fd, uid, gid)
        write_attributes(f"/proc/self/fd/{fd}", attributes or {})
        os.fchmod(fd, mode)
        if mtime_ns is not None:
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        faults.fsync(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def named(fd: int, name: bytes, folder: int) -> None:
    """Give it a name that nothing has yet."""
    # Given a folder, Python asks the kernel to follow the link, which is what makes it this very file.
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, dst_dir_fd=folder, follow_symlinks=True)
