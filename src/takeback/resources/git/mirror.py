"""A second name for every object of the repository, in the state folder: what is pruned there stays here.

Objects and packs are never rewritten, so a hard link keeps them and costs no space while the repository has them too.
On another file system they are copied. The layout is git's own, so that git can read it as an alternate.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from takeback import faults
from takeback.errors import CorruptionError
from takeback.ports import Progress

LINKED = faults.crash_point("git-object-linked")

_FAN = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK = re.compile(r"pack-[0-9a-f]+\.(pack|idx|rev|mtimes|promisor|keep|bitmap)")
_KEPT_PARTS = (".pack", ".idx", ".rev")
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}

RACY_NS = 20_000_000

_IDX_MAGIC = b"\xfftOc"
_IDX_NAMES = 8 + 256 * 4

Seen = tuple[int, int]
"""A folder of objects as it was when all of it was kept: inode and mtime."""


class Folders(msgspec.Struct, array_like=True):
    """Which folders were looked at, in which boot: a link that was not synced may not have survived the last one."""

    boot: str
    seen: dict[str, Seen]


class Mirror:
    """The objects of one repository, kept."""

    def __init__(self, objects: bytes, kept: Path, progress: Progress) -> None:
        self.objects = Path(os.fsdecode(objects))
        self.kept = kept
        self._progress = progress
        self._cache = kept / "folders"
        self._folders: Folders | None = None
        self.copied = False

    def keep_new(self) -> None:
        """Keep what is new. Folders that have not changed since the last time are not read."""
        folders = self._folders or self._load()
        seen: dict[str, Seen] = {}
        new: list[tuple[str, str]] = []
        for name in self._folder_names():
            try:
                info = os.stat(self.objects / name)
            except OSError:
                continue
            key = (info.st_ino, info.st_mtime_ns)
            if folders.seen.get(name) != key:
                new += [(name, file) for file in _names(self.objects / name, name)]
            # A folder that changed just now may change again without its time telling.
            seen[name] = key if time.time_ns() - info.st_mtime_ns > RACY_NS else (0, 0)
        self._keep(new)
        if seen != folders.seen:
            self._folders = Folders(folders.boot, seen)
            self._save()

    def _folder_names(self) -> list[str]:
        try:
            return [n for n in os.listdir(self.objects) if n == "pack" or _FAN.fullmatch(n)]
        except OSError:
            return []

    def _keep(self, new: list[tuple[str, str]]) -> None:
        there = {folder: set(_listed(self.kept / folder)) for folder in {folder for folder, _ in new}}
        missing = [(folder, file) for folder, file in new if file not in there[folder]]
        for folder in {folder for folder, _ in missing}:
            (self.kept / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        # An index of a pack must not be there before its pack is.
        missing.sort(key=lambda pair: not pair[1].endswith(".pack"))
        for folder, file in self._progress("Keeping git objects", missing, len(missing)):
            self._keep_one(self.objects / folder / file, self.kept / folder / file)
            faults.reach(LINKED)
        if self.copied:
            for folder in {folder for folder, _ in missing}:
                sync_folder(self.kept / folder)
            self.copied = False

    def _keep_one(self, source: Path, name: Path) -> None:
        try:
            os.link(source, name)
        except (FileExistsError, FileNotFoundError):
            # Another process was quicker, or git has packed or pruned it just now.
            return
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            self.copied = copy(source, name) or self.copied

    def lost(self) -> list[tuple[str, str]]:
        """What is kept here and is not in the repository any more: folder and file."""
        found = []
        for folder in _listed(self.kept):
            if folder == "pack" or _FAN.fullmatch(folder):
                there = set(_listed(self.objects / folder))
                names = _names(self.kept / folder, folder)
                found += [(folder, file) for file in names if file not in there]
        return found

    def lost_names(self, hash_bytes: int) -> list[str]:
        """The objects in what is kept here and is not there any more. They may be there in another pack."""
        names = []
        for folder, file in self.lost():
            if folder != "pack":
                names.append(folder + file)
            elif file.endswith(".idx"):
                data = (self.kept / folder / file).read_bytes()
                start = _IDX_NAMES if data[:4] == _IDX_MAGIC else len(data)
                end = start + _idx_count(data) * hash_bytes
                names += [data[at : at + hash_bytes].hex() for at in range(start, end, hash_bytes)]
        return names

    def count(self, hash_bytes: int) -> int:
        """About how many objects the repository has."""
        count = 0
        for name in self._folder_names():
            for file in _names(self.objects / name, name):
                if name != "pack":
                    count += 1
                elif file.endswith(".idx"):
                    count += os.stat(self.objects / name / file).st_size // (hash_bytes + 8)
        return count

    def is_partial(self) -> bool:
        """Whether git fetches objects only when it needs them: then one that is not there is no loss."""
        return any(file.endswith(".promisor") for file in _listed(self.objects / "pack"))

    def has_all(self) -> bool:
        """Whether every object of the repository is kept here."""
        pairs = [(name, file) for name in self._folder_names() for file in _names(self.objects / name, name)]
        return all((self.kept / folder / file).exists() for folder, file in pairs)

    def give(self, folder: str, file: str, hash_name: str) -> None:
        """Put one file of the kept ones back into the repository, after its hash was checked."""
        kept = self.kept / folder / file
        if not is_whole(kept, folder, hash_name):
            raise CorruptionError(f"the kept git object {kept} is damaged, so it was not put back")
        (self.objects / folder).mkdir(parents=True, exist_ok=True)
        try:
            os.link(kept, self.objects / folder / file)
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            copy(kept, self.objects / folder / file, mode=0o444)

    def let_go(self, before_ns: int) -> int:
        """Drop what the repository has not had since this time: no mark that is kept needs it."""
        dropped = 0
        for folder, file in self.lost():
            path = self.kept / folder / file
            info = os.lstat(path)
            # The time at which the last other name of it went; a copy never had another name.
            if info.st_nlink == 1 and info.st_ctime_ns < before_ns:
                path.unlink()
                dropped += info.st_blocks * 512
        return dropped

    def _load(self) -> Folders:
        boot = _boot()
        try:
            found = msgspec.msgpack.decode(self._cache.read_bytes(), type=Folders)
        except (OSError, msgspec.DecodeError):
            return Folders(boot, {})
        return found if found.boot == boot else Folders(boot, {})

    def _save(self) -> None:
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._cache.with_suffix(f".{os.getpid()}")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(msgspec.msgpack.encode(self._folders))
        os.rename(new, self._cache)


def _idx_count(data: bytes) -> int:
    """How many objects an index of a pack lists; of the old kind, which git has not written for long, none."""
    return int.from_bytes(data[_IDX_NAMES - 4 : _IDX_NAMES], "big") if data[:4] == _IDX_MAGIC else 0


def is_whole(path: Path, folder: str, hash_name: str) -> bool:
    """Whether an object is what its name says; of a pack, whether its bytes are what its last bytes say."""
    data = path.read_bytes()
    if folder == "pack":
        size = hashlib.new(hash_name).digest_size
        return hashlib.new(hash_name, data[:-size]).digest() == data[-size:]
    try:
        return hashlib.new(hash_name, zlib.decompress(data)).hexdigest() == folder + path.name
    except zlib.error:
        return False


def copy(source: Path, name: Path, *, mode: int = 0o400) -> bool:
    """Copy a file so that it is there as a whole or not at all; false where it is gone."""
    temporary = name.with_name(f".{name.name}.{os.getpid()}")
    try:
        with open(source, "rb") as data, open(temporary, "xb") as out:
            os.fchmod(out.fileno(), mode)
            shutil.copyfileobj(data, out, 1 << 20)
            out.flush()
            faults.fsync(out.fileno())
        os.rename(temporary, name)
    except FileNotFoundError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _names(folder: Path, name: str) -> Iterator[str]:
    """The objects, or the parts of packs, in a folder."""
    for file in _listed(folder):
        if name == "pack":
            if _PACK.fullmatch(file) and file.endswith(_KEPT_PARTS):
                yield file
        elif _LOOSE.fullmatch(file):
            yield file


def _listed(folder: Path) -> Iterable[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()


def sync_folder(path: Path | bytes) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        faults.fsync(fd)
    finally:
        os.close(fd)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
