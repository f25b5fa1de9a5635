"""What is looked at outside the workspace: which paths, from which folders, and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from blake3 import blake3

from takeback.errors import CorruptionError, FormatTooNew
from takeback.resources.files.entry import Entry, split

FORMAT = 1
_FORMAT_MAX = 15
"""Formats that may come; another byte there is damage."""


class Scope(msgspec.Struct, frozen=True):
    """The part of a view that is seen from one folder. `places` are names in it, `paths` lead from it."""

    folder: bytes
    places: frozenset[bytes]
    paths: frozenset[bytes]

    @property
    def id(self) -> str:
        """Told apart from any other scope, for the notes that are kept about it."""
        parts = [self.folder, b"", *sorted(self.places), b"", *sorted(self.paths)]
        return blake3(b"\0".join(parts)).hexdigest()[:32]

    def excluded(self, claimed: Collection[bytes]) -> Callable[[bytes], bool]:
        """A test for paths below the folder: what is not in the scope, nor on the way to it, or is another's."""
        on_the_way = {above for path in self.paths for above in _above(path)}
        others = {inner for path in claimed if (inner := self.inner(path))}
        all_others = not {self.folder, *_above(self.folder)}.isdisjoint(claimed)

        def test(path: bytes) -> bool:
            seen = path.partition(b"/")[0] in self.places or path in self.paths or path in on_the_way
            return all_others or not seen or path in others

        return test

    def outer(self, path: bytes) -> bytes:
        """A path below the folder, from the top of the file system on."""
        return self.folder.rstrip(b"/") + b"/" + path

    def inner(self, path: bytes) -> bytes:
        """The way from the folder to a path; empty if it does not lie below."""
        start = self.folder.rstrip(b"/") + b"/"
        return path[len(start) :] if path.startswith(start) else b""


class View(msgspec.Struct, frozen=True, array_like=True):
    """Which paths are looked at: `places` with everything below them, `paths` each by itself."""

    places: frozenset[bytes] = frozenset()
    paths: frozenset[bytes] = frozenset()

    def covers(self, path: bytes) -> bool:
        return path in self.paths or self._is_placed(path)

    def _is_placed(self, path: bytes) -> bool:
        return path in self.places or not self.places.isdisjoint(_above(path))

    def without(self, scope: Scope) -> View:
        """The same, but for what could not be looked at."""
        places = self.places - {scope.outer(place) for place in scope.places}
        return View(places, self.paths - {scope.outer(path) for path in scope.paths})

    def scopes(self) -> list[Scope]:
        """The folders from which all of it can be seen, each path from one of them.

        What lies below another path of the view is seen, and put back, from the folder of that one.
        """
        places: dict[bytes, set[bytes]] = {}
        paths: dict[bytes, set[bytes]] = {}
        for place in self.places:
            if self.places.isdisjoint(_above(place)):
                folder, name = _around(place)
                places.setdefault(folder, set()).add(name)
        for path in self.paths:
            if not self._is_placed(path):
                top = next((above for above in _above(path) if above in self.paths), path)
                folder = _around(top)[0]
                paths.setdefault(folder, set()).add(Scope(folder, frozenset(), frozenset()).inner(path))
        return [
            Scope(folder, frozenset(places.get(folder, ())), frozenset(paths.get(folder, ())))
            for folder in sorted({*places, *paths})
        ]


def _above(path: bytes) -> Iterable[bytes]:
    """Every folder on the way to a path, the highest first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts)) if parts[count - 1]]


def _around(path: bytes) -> tuple[bytes, bytes]:
    """The folder of an absolute path, and its name in it."""
    folder, name = split(path)
    return folder or b"/", name


class Picture(msgspec.Struct, frozen=True, array_like=True):
    """What a view showed at one moment. A path that it covers and that is not here was not there.

    `looked_at` is what had been in view before: of the rest nobody knows when it changed.
    """

    format: int
    view: View
    looked_at: View
    entries: dict[bytes, Entry]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Picture).decode


def encode(view: View, looked_at: View, entries: Mapping[bytes, Entry]) -> bytes:
    """The same view of the same things gives the same bytes."""
    views = [(sorted(seen.places), sorted(seen.paths)) for seen in (view, looked_at)]
    return _encode((FORMAT, *views, {path: entries[path] for path in sorted(entries)}))


def decode(data: bytes, name: str) -> Picture:
    # The first byte is the array's head, the second its format.
    if len(data) > 1 and FORMAT < data[1] <= _FORMAT_MAX:
        raise FormatTooNew(
            f"{name}, a picture of paths outside the workspace, has format {data[1]}; this Takeback reads {FORMAT}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise CorruptionError(
            f"{name}, a picture of paths outside the workspace, cannot be read: {error}"
        ) from error
