"""Sending the objects of a repository to another machine.

What the mirror holds goes to the shared store in bundles of bounded size, which never change. A list beside the
mirror names the files that are not there yet; without a list, nothing has been sent so far.
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
    """A part of a file: its offset, and the size of the whole."""

    folder: str
    name: str
    at: int
    size: int
    data: bytes


_decoder = msgspec.msgpack.Decoder(list[Piece])


class Travel:
    """Transfers between the mirror of one repository and the shared store. Under the workspace's lock."""

    def __init__(self, kept: Path, shelf: Shelf, progress: Progress) -> None:
        self._kept = kept
        self._shelf = shelf
        self._progress = progress
        self._under = f"git/{kept.name}/"
        self._list = kept / UNSENT

    def note(self, files: Iterable[File]) -> None:
        """Record that these files are about to be saved, and are not there yet. Durable when this returns."""
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
        """Send what is here and not there; `everything` is called only if nothing has been sent so far."""
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
        """Leave out packs whose objects are all there in another form, as after `git gc`."""
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
            # Recorded, and then not saved: git packed or pruned it at that moment.
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
        """Fetch everything from there. Each file is verified against its name before it gets that name."""
        names = sorted(self._shelf.names(self._under))
        came: dict[File, int] = {}
        for name in self._progress("Fetching git objects", names, len(names)):
            for piece in self._opened(name):
                came[piece.folder, piece.name] = piece.size
                self._write(piece)
            crash_points.reach(ARRIVED)
        # The index of a pack must not exist before its pack does.
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
                f"the git object {folder}/{name} in the shared store is damaged or incomplete; it was not fetched"
            )
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(fd, COPY)
            durable.fsync(fd)
        finally:
            os.close(fd)
        os.rename(path, self._kept / folder / name)

    def _arriving(self, folder: str, name: str) -> Path:
        """Return the path of a file until it has been verified."""
        return self._kept / folder / f".arriving-{name}"

    def _opened(self, name: str) -> list[Piece]:
        data = self._shelf.get(name)
        if blake3(data).hexdigest() != name.removeprefix(self._under):
            raise CorruptionError(f"{name} in the shared store is damaged; nothing of it was fetched")
        try:
            pieces = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise CorruptionError(f"{name} in the shared store is not a bundle of git objects") from error
        if strange := [piece.name for piece in pieces if not is_file(piece.folder, piece.name)]:
            raise CorruptionError(
                f"{name} in the shared store contains {strange[0]!r}, which is not a git object"
            )
        return pieces


def send_all(state: Path, shelf: Shelf | None, progress: Progress) -> None:
    """Send all saved objects of repositories to a new shelf, or record that there is none. Under the lock."""
    for name in listed(state / "git"):
        kept = state / "git" / name
        (kept / UNSENT).unlink(missing_ok=True)  # what was sent elsewhere was not sent there
        if shelf and kept.is_dir():
            Travel(kept, shelf, progress).send(partial(_every_file, kept))


def fetch_all(state: Path, shelf: Shelf, progress: Progress) -> None:
    """Fetch all saved objects of repositories from the shelf, including those of repositories that are gone."""
    for name in sorted({name.split("/")[1] for name in shelf.names("git/")}):
        if not _MIRROR.fullmatch(name):
            raise CorruptionError(
                f"git/{name} in the shared store does not belong to a repository; it was not fetched"
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
