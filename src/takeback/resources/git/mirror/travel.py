"""The objects of a repository on their way to another machine.

What the mirror keeps goes to the shared store in bundles of bounded size, which never change. Which files are not
there yet is a list beside the mirror; where there is no list, nothing has been sent so far.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.errors import CorruptionError
from takeback.ports.content import Shelf
from takeback.ports.progress import Progress
from takeback.resources.git.format import packs
from takeback.resources.git.mirror.mirror import COPY, is_file, is_whole, listed
from takeback.system import crash_points, durable

BUNDLE_BYTES = 32 << 20
UNSENT = "unsent"

NOTED = crash_points.crash_point("travel-noted")
SENT = crash_points.crash_point("travel-sent")
ARRIVED = crash_points.crash_point("travel-arrived")

_MIRROR = re.compile(r"objects|module-[0-9a-f]{16}")

File = tuple[str, str]
"""A file of objects: its folder and its name there."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file: where it begins, and how large the whole is."""

    folder: str
    name: str
    at: int
    size: int
    data: bytes


_decoder = msgspec.msgpack.Decoder(list[Piece])


class Travel:
    """Between the mirror of one repository and the shared store. Under the workspace's lock."""

    def __init__(self, kept: Path, shelf: Shelf, progress: Progress) -> None:
        self._kept = kept
        self._shelf = shelf
        self._progress = progress
        self._under = f"git/{kept.name}/"
        self._list = kept / UNSENT

    def note(self, files: Iterable[File]) -> None:
        """These are about to be kept, and are not there yet. Durable when this returns."""
        text = "".join(f"{folder}/{name}\n" for folder, name in files)
        try:
            fd = os.open(self._list, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # nothing was sent so far, so these will be
        try:
            durable.write_all(fd, text.encode())
            durable.fsync(fd)
        finally:
            os.close(fd)
        crash_points.reach(NOTED)

    def send(self, everything: Callable[[], Iterable[File]]) -> None:
        """What is kept here and not there; `everything` is asked only where nothing has been sent so far."""
        try:
            if not os.stat(self._list).st_size:
                return
            noted = [_file(line) for line in self._list.read_text().splitlines()]
        except FileNotFoundError:
            noted = list(everything())
        files = self._without_repacked(dict.fromkeys(noted))
        for bundle in _bundles(self._pieces(self._progress("Sharing git objects", files, len(files)))):
            data = msgspec.msgpack.encode(bundle)
            self._shelf.put_new(self._under + blake3(data).hexdigest(), data)
            crash_points.reach(SENT)
        self._nothing_unsent()

    def _without_repacked(self, noted: Iterable[File]) -> list[File]:
        """Not a pack all of whose objects are there in another form, as after `git gc`."""
        files = set(noted)
        fresh = {Path(name).stem for folder, name in files if folder == "pack"}
        stems = packs.stems(listed(self._kept / "pack"))
        known: set[str] = set()
        with packs.Packs(self._kept / "pack", stems - fresh) as sent:
            for stem in sorted(fresh & stems):
                with packs.Packs(self._kept / "pack", [stem]) as one:
                    if all(self._are_sent(sent, one, number, files) for number in range(len(packs.FANS))):
                        known.add(stem)
        return sorted((folder, name) for folder, name in files if Path(name).stem not in known)

    def _are_sent(self, sent: packs.Packs, one: packs.Packs, number: int, unsent: set[File]) -> bool:
        left = one.names(number)
        if left:
            left -= sent.names(number)
        fan = packs.FANS[number]
        return all(
            (fan, name.hex()[2:]) not in unsent and (self._kept / fan / name.hex()[2:]).exists()
            for name in left
        )

    def _pieces(self, files: Iterable[File]) -> Iterator[Piece]:
        for folder, name in files:
            # Noted, and then not kept: git has packed or pruned it just then.
            with suppress(FileNotFoundError), open(self._kept / folder / name, "rb") as file:
                size, at = os.fstat(file.fileno()).st_size, 0
                while data := file.read(min(BUNDLE_BYTES, max(1, size - at))):
                    yield Piece(folder, name, at, size, data)
                    at += len(data)

    def _nothing_unsent(self) -> None:
        self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._list.with_suffix(".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        durable.fsync(fd)
        os.close(fd)
        os.rename(fresh, self._list)

    def fetch(self) -> None:
        """Have everything here that is there. Each file is proved by its own name before it gets it."""
        names = sorted(self._shelf.names(self._under))
        came: dict[File, int] = {}
        for name in self._progress("Fetching git objects", names, len(names)):
            for piece in self._opened(name):
                came[piece.folder, piece.name] = piece.size
                self._write(piece)
            crash_points.reach(ARRIVED)
        # An index of a pack must not be there before its pack is.
        for folder, name in sorted(came, key=lambda file: not file[1].endswith(".pack")):
            self._prove(folder, name, came[folder, name])
        for folder in {folder for folder, _ in came}:
            durable.sync_folder(self._kept / folder)
        self._nothing_unsent()

    def _write(self, piece: Piece) -> None:
        path = self._arriving(piece.folder, piece.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.seek(piece.at)
            out.write(piece.data)

    def _prove(self, folder: str, name: str, size: int) -> None:
        path = self._arriving(folder, name)
        digits = len(Path(name).stem.removeprefix("pack-")) + (0 if folder == "pack" else len(folder))
        if path.stat().st_size != size or not is_whole(
            path, folder, "sha256" if digits == 64 else "sha1", name
        ):
            path.unlink()
            raise CorruptionError(
                f"the git object {folder}/{name} in the shared store is damaged or not whole; it was not brought here"
            )
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(fd, COPY)
            durable.fsync(fd)
        finally:
            os.close(fd)
        os.rename(path, self._kept / folder / name)

    def _arriving(self, folder: str, name: str) -> Path:
        """Where a file is until it has been proved."""
        return self._kept / folder / f".arriving-{name}"

    def _opened(self, name: str) -> list[Piece]:
        data = self._shelf.get(name)
        if blake3(data).hexdigest() != name.removeprefix(self._under):
            raise CorruptionError(f"{name} in the shared store is damaged; nothing was brought from there")
        try:
            pieces = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise CorruptionError(f"{name} in the shared store is no bundle of git objects") from error
        if strange := [piece.name for piece in pieces if not is_file(piece.folder, piece.name)]:
            raise CorruptionError(
                f"{name} in the shared store has {strange[0]!r} in it, which is no git object"
            )
        return pieces


def send_all(state: Path, shelf: Shelf | None, progress: Progress) -> None:
    """Have all that is kept of repositories on another shelf than before, or on none any more. Under the lock."""
    for name in listed(state / "git"):
        kept = state / "git" / name
        (kept / UNSENT).unlink(missing_ok=True)  # what was sent elsewhere was not sent there
        if shelf and kept.is_dir():
            Travel(kept, shelf, progress).send(partial(_every_file, kept))


def fetch_all(state: Path, shelf: Shelf, progress: Progress) -> None:
    """Have all that is kept of repositories on the shelf here, too; also of one that is gone by now."""
    for name in sorted({name.split("/")[1] for name in shelf.names("git/")}):
        if not _MIRROR.fullmatch(name):
            raise CorruptionError(
                f"git/{name} in the shared store is nothing of a repository; it was not brought"
            )
        Travel(state / "git" / name, shelf, progress).fetch()


def _every_file(kept: Path) -> Iterator[File]:
    for folder in listed(kept):
        yield from ((folder, name) for name in listed(kept / folder) if is_file(folder, name))


def _bundles(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    bundle: list[Piece] = []
    size = 0
    for piece in pieces:
        if bundle and size + len(piece.data) > BUNDLE_BYTES:
            yield bundle
            bundle, size = [], 0
        bundle.append(piece)
        size += len(piece.data)
    if bundle:
        yield bundle


def _file(line: str) -> File:
    folder, _, name = line.partition("/")
    return folder, name
