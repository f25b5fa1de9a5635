"""What the same work costs on this machine if no promise is kept except durability.

Each floor is the shortest Python that does what no program can leave out: read and hash the files, compress them,
sync. No tree, no journal, no names, no comparing. So it shows which part of a row's time is the machine's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from blake3 import blake3

from takeback.storage.content.packs.format import zstd
from takeback.system import linux

RECORD = b"x" * 300
"""As long as the record of a checkpoint."""


class Floor:
    """The bare work, on the same tree and the same disk as the other systems."""

    name = "floor"

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        folder.mkdir()
        self._journal = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._pack = os.open(folder / "pack", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._packs = 0
        self._root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)

    def first(self, names: Sequence[str]) -> None:
        """Read, hash and compress every file, in two processes, into a pack each."""
        self._packs += 1
        _two(lambda share, number: self._store(share, self.folder / f"{self._packs}-{number}"), names)
        self._append()

    def checkpoint(self, changed: Sequence[str]) -> None:
        """Read, hash and compress these files, and sync; then write a record, and sync."""
        if changed:
            os.write(self._pack, b"".join(map(self._read_packed, changed)))
            os.fdatasync(self._pack)
        self._append()

    def scan(self, names: Sequence[str], changed: Sequence[str]) -> None:
        """Look at every file, in two processes; then do the same as in a checkpoint."""
        _two(lambda share, _: self._look(share), names)
        self.checkpoint(changed)

    def restore(self, old: dict[str, bytes]) -> None:
        """Write a record; write new files, sync, rename, sync, read again and hash; write a record."""
        self._append()
        for number, (name, data) in enumerate(old.items()):
            found = os.stat(name, dir_fd=self._root)
            fd = os.open(f".floor-{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._root)
            os.write(fd, data)
            os.fchmod(fd, found.st_mode & 0o7777)
            os.utime(fd, ns=(found.st_mtime_ns, found.st_mtime_ns))
            os.close(fd)
        linux.syncfs(self._root)
        for number, name in enumerate(old):
            os.rename(f".floor-{number}", name, src_dir_fd=self._root, dst_dir_fd=self._root)
        linux.syncfs(self._root)
        for name in old:
            blake3(self._read(name)).digest()
        self._append()

    def verify(self, names: Sequence[str]) -> None:
        """Read and hash every file, in two processes."""
        _two(lambda share, _: self._hash(share), names)

    def close(self) -> None:
        for fd in (self._journal, self._pack, self._root):
            os.close(fd)

    def _append(self) -> None:
        os.write(self._journal, RECORD)
        os.fdatasync(self._journal)

    def _read(self, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY, dir_fd=self._root)
        try:
            return os.read(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _read_packed(self, name: str) -> bytes:
        data = self._read(name)
        return blake3(data).digest() + zstd.compress(data)[1]

    def _store(self, names: Sequence[str], path: Path) -> None:
        with open(path, "wb", buffering=1 << 20) as out:
            out.writelines(self._read_packed(name) for name in names)
            out.flush()
            os.fdatasync(out.fileno())

    def _look(self, names: Sequence[str]) -> None:
        for name in names:
            os.stat(name, dir_fd=self._root, follow_symlinks=False)

    def _hash(self, names: Sequence[str]) -> None:
        for name in names:
            blake3(self._read(name)).digest()


def _two(do: Callable[[Sequence[str], int], None], names: Sequence[str]) -> None:
    """Do half of the work in this process, and half in a second one."""
    child = os.fork()
    if not child:
        code = 1
        try:
            do(names[: len(names) // 2], 1)
            code = 0
        finally:
            os._exit(code)
    do(names[len(names) // 2 :], 0)
    assert os.waitpid(child, 0)[1] == 0
