"""A second name for every object of the repository, in the state folder: what is pruned there stays here.

Objects and packs are never rewritten, so a hard link preserves them, and costs no space while the repository has
them too. On another file system they are copied. The layout is git's own, so that git can read it as an alternate.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.errors import BackendError, CorruptionError
from takeback.ports.progress import Progress
from takeback.resources.git.format import packs
from takeback.system import crash_points, durable
from takeback.system.processes import boot_id

if TYPE_CHECKING:
    from takeback.resources.git.mirror.travel import Travel

LINKED = crash_points.crash_point("git-object-linked")

_FAN = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK = re.compile(r"pack-[0-9a-f]+\.(pack|idx|rev|mtimes|promisor|keep|bitmap)")
_KEPT_PARTS = (".pack", ".idx", ".rev")
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}

RACY_NS = 20_000_000
TRIES = 5

COPY, _COPY_LOST = 0o400, 0o600
"""The modes of a copy: while the repository has the file too, and since it was found missing there."""

Seen = tuple[int, int]
"""A folder of objects as it was when all of it was saved: inode and mtime."""


class Folders(msgspec.Struct, array_like=True):
    """The folders that were checked, and in which boot: links that were not synced may not have survived a reboot."""

    boot: str
    seen: dict[str, Seen]
    lost: dict[str, bytes] = {}
    """The saved objects that the repository lacks, by the first byte of their names, in order."""


class Mirror:
    """The saved objects of one repository."""

    def __init__(self, objects: bytes, kept: Path, progress: Progress, travel: Travel | None = None) -> None:
        """`travel` also sends what is saved to other machines."""
        self.objects = Path(os.fsdecode(objects))
        self.kept = kept
        self._progress = progress
        self._cache = kept / "folders"
        self._folders: Folders | None = None
        self._travel = travel
        self.copied = False

    def keep_new(self) -> bytes:
        """Save new objects. Return the names of those that the repository has lost.

        Folders that have not changed since the last time are not read.
        """
        folders = self._folders or self._load()
        seen: dict[str, Seen] = {}
        new: list[tuple[str, str]] = []
        changed = set(folders.seen)
        now_ns = time.time_ns()
        for name, info in self._folder_infos():
            key = (info.st_ino, info.st_mtime_ns)
            if folders.seen.get(name) == key:
                changed.discard(name)
            else:
                changed.add(name)
                new += [(name, file) for file in _names(self.objects / name, name)]
            # A folder that just changed may change again with the same mtime.
            seen[name] = key if now_ns - info.st_mtime_ns > RACY_NS else (0, 0)
        self._keep(new)
        if self._travel:
            self._travel.send(self._kept_files)
        if not folders.seen:
            changed.add("pack")
        lost = self._settled_losses(folders.lost, changed)
        if seen != folders.seen or lost != folders.lost:
            self._folders = Folders(folders.boot, seen, lost)
            self._save()
        else:
            self._folders = folders
        return b"".join(lost[fan] for fan in sorted(lost))

    def _folder_infos(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the folders of objects. A link to a folder does not count: its content belongs to something else."""
        # There are up to 256, checked before and after every action.
        above = f"{self.objects}{os.sep}"
        for name in self._folder_names():
            try:
                info = os.lstat(above + name)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                yield name, info

    def _settled_losses(self, known: dict[str, bytes], changed: set[str]) -> dict[str, bytes]:
        """Return the losses once they are stable: an object that git is packing could be missed in both places."""
        lost = known
        for _ in range(TRIES):
            before = set(self._there("pack"))
            lost = self._losses(known, changed)
            if lost == known or before == set(self._there("pack")):
                break
            changed = changed | {"pack"}
        return lost

    def _losses(self, known: dict[str, bytes], changed: set[str]) -> dict[str, bytes]:
        """Return the saved objects that are missing there, both loose and in any pack.

        How they are packed does not matter.
        """
        if not changed:
            return known
        lost = dict(known)
        there = packs.stems(self._there("pack"))
        gone = packs.stems(listed(self.kept / "pack")) - there
        with (
            packs.Packs(self.objects / "pack", there) as present,
            packs.Packs(self.kept / "pack", gone) as absent,
        ):
            for number, fan in enumerate(packs.FANS):
                if fan not in changed and "pack" not in changed:
                    continue
                names = {bytes.fromhex(fan + file) for file in _names(self.kept / fan, fan)}
                names |= absent.names(number)
                if names:
                    names -= {bytes.fromhex(fan + f) for f in self._there(fan) if _LOOSE.fullmatch(f)}
                if names:
                    names -= present.names(number)
                lost.pop(fan, None)
                if names:
                    lost[fan] = b"".join(sorted(names))
        return lost

    def _there(self, folder: str) -> Iterable[str]:
        path = self.objects / folder
        return () if path.is_symlink() else listed(path)

    def _folder_names(self) -> list[str]:
        if self.objects.is_symlink():
            return []
        try:
            return [n for n in os.listdir(self.objects) if n == "pack" or _FAN.fullmatch(n)]
        except OSError:
            return []

    def _keep(self, new: list[tuple[str, str]]) -> None:
        there = {folder: set(listed(self.kept / folder)) for folder in {folder for folder, _ in new}}
        missing = [(folder, file) for folder, file in new if file not in there[folder]]
        for folder in {folder for folder, _ in missing}:
            (self.kept / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if missing and self._travel:
            self._travel.note(missing)
        # The index of a pack must not exist before its pack does.
        missing.sort(key=lambda pair: not pair[1].endswith(".pack"))
        for folder, file in self._progress("Keeping git objects", missing, len(missing)):
            self._keep_one(self.objects / folder / file, self.kept / folder / file)
            crash_points.reach(LINKED)
        if self.copied:
            for folder in {folder for folder, _ in missing}:
                durable.sync_folder(self.kept / folder)
            self.copied = False

    def _keep_one(self, source: Path, name: Path) -> None:
        try:
            os.link(source, name)
        except (FileExistsError, FileNotFoundError):
            # Another process was faster, or git has just packed or pruned it.
            return
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            self.copied = copy(source, name) or self.copied

    def lost(self) -> list[tuple[str, str]]:
        """Return the saved files that are no longer in the repository: folder and file."""
        there = {folder: set(self._there(folder)) for folder in ("pack", *packs.FANS)}
        return [(folder, file) for folder, file in self._kept_files() if file not in there[folder]]

    def hash_name(self) -> str:
        """Return the algorithm that names the objects, judged by their names; empty if there are none."""
        for folder in listed(self.kept):
            for file in (
                _names(self.kept / folder, folder) if _FAN.fullmatch(folder) or folder == "pack" else ()
            ):
                size = packs.hash_bytes(Path(file).stem) if folder == "pack" else (len(file) + 2) // 2
                return "sha256" if size == 32 else "sha1"
        return ""

    def lost_packs(self) -> list[str]:
        """Return the saved packs that are missing there, largest first."""
        gone = packs.stems(listed(self.kept / "pack")) - packs.stems(self._there("pack"))
        return sorted(gone, key=lambda stem: -(self.kept / "pack" / f"{stem}.pack").stat().st_size)

    def names_in(self, stem: str) -> set[bytes]:
        with packs.Packs(self.kept / "pack", [stem]) as kept:
            return {name for fan in range(len(packs.FANS)) for name in kept.names(fan)}

    def give_pack(self, stem: str, hash_name: str) -> None:
        """Put a pack back. Its index comes last: git finds a pack by it."""
        for suffix in (".pack", ".rev", ".idx"):
            if (self.kept / "pack" / (stem + suffix)).exists():
                self.give("pack", stem + suffix, hash_name)

    def count(self, hash_bytes: int) -> int:
        """Return roughly how many objects the repository has."""
        count = 0
        for name in self._folder_names():
            for file in _names(self.objects / name, name):
                if name != "pack":
                    count += 1
                elif file.endswith(".idx"):
                    count += os.stat(self.objects / name / file).st_size // (hash_bytes + 8)
        return count

    def is_partial(self) -> bool:
        """Return True if git fetches objects only when needed: then a missing one is not a loss."""
        return any(file.endswith(".promisor") for file in listed(self.objects / "pack"))

    def has_all(self) -> bool:
        """Return True if every object of the repository is saved here."""
        pairs = [(name, file) for name in self._folder_names() for file in _names(self.objects / name, name)]
        return all((self.kept / folder / file).exists() for folder, file in pairs)

    def give(self, folder: str, file: str, hash_name: str) -> None:
        """Put one saved file back into the repository, after checking its hash."""
        kept = self.kept / folder / file
        if not is_whole(kept, folder, hash_name):
            raise CorruptionError(f"the saved git object {kept} is damaged, so it was not put back")
        self.make(folder)
        try:
            os.link(kept, self.objects / folder / file)
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            copy(kept, self.objects / folder / file, mode=0o444)

    def make(self, folder: str) -> Path:
        """Create a folder of objects. Nothing is ever written through a link."""
        path = self.objects / folder
        for one in (self.objects, path):
            if one.is_symlink():
                raise BackendError(
                    f"{one} is a symbolic link; nothing was written through it", retryable=False
                )
        path.mkdir(parents=True, exist_ok=True)
        return path

    def drop_lost(self, before_ns: int) -> int:
        """Delete what the repository has lacked since before this time: no remaining mark needs it.

        Return the bytes freed.
        """
        dropped = 0
        lost = set(self.lost())
        for folder, file in self._kept_files():
            path = self.kept / folder / file
            info = os.lstat(path)
            mode = stat.S_IMODE(info.st_mode)
            if info.st_nlink > 1:
                continue
            if (folder, file) not in lost:
                if mode == _COPY_LOST:
                    path.chmod(COPY)
            elif mode == COPY:
                # A copy has no second link whose removal would set its ctime. This chmod does: its time counts from
                # now.
                path.chmod(_COPY_LOST)
            # The ctime is when its last other link was removed.
            elif info.st_ctime_ns < before_ns:
                path.unlink()
                dropped += info.st_blocks * 512
        if dropped:
            self._folders = None
            self._cache.unlink(missing_ok=True)
        return dropped

    def _kept_files(self) -> list[tuple[str, str]]:
        folders = [name for name in listed(self.kept) if name == "pack" or _FAN.fullmatch(name)]
        return [(folder, file) for folder in folders for file in _names(self.kept / folder, folder)]

    def _load(self) -> Folders:
        boot = boot_id()
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


def is_file(folder: str, file: str) -> bool:
    """Return True if a folder of objects may have a file with this name: an object or a part of a pack."""
    if folder == "pack":
        return bool(_PACK.fullmatch(file)) and file.endswith(_KEPT_PARTS)
    return bool(_FAN.fullmatch(folder) and _LOOSE.fullmatch(file))


def is_whole(path: Path, folder: str, hash_name: str, name: str = "") -> bool:
    """Return True if an object matches its name; for a pack, if its bytes match its trailer."""
    digest = hashlib.new(hash_name)
    if folder == "pack":
        with open(path, "rb") as file:
            left = os.fstat(file.fileno()).st_size - digest.digest_size
            while left > 0 and (data := file.read(min(left, 1 << 20))):
                digest.update(data)
                left -= len(data)
            return left == 0 and file.read() == digest.digest()
    try:
        digest.update(zlib.decompress(path.read_bytes()))
    except zlib.error:
        return False
    return digest.hexdigest() == folder + (name or path.name)


def copy(source: Path, name: Path, *, mode: int = COPY) -> bool:
    """Copy a file atomically. Return False if it is gone."""
    temporary = name.with_name(f".{name.name}.{os.getpid()}")
    try:
        with open(source, "rb") as data, open(temporary, "xb") as out:
            os.fchmod(out.fileno(), mode)
            shutil.copyfileobj(data, out, 1 << 20)
            out.flush()
            durable.fsync(out.fileno())
        os.rename(temporary, name)
    except FileNotFoundError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _names(folder: Path, name: str) -> Iterator[str]:
    """Yield the objects, or the parts of packs, in a folder."""
    return (file for file in listed(folder) if is_file(name, file))


def listed(folder: Path) -> Iterable[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ()
