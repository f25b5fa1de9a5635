"""What is looked at outside the workspace: which paths, from which folders, and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

import msgspec
from blake3 import blake3

from takeback.errors import CorruptionError, FormatTooNew
from takeback.resources.files.entry import FileEntry, split

FORMAT = 1
_FORMAT_MAX = 15
"""Formats that may come; another byte there is damage."""


KIN = b"*/"
"""The suffix of a place that stands for every name in its folder with this prefix. No path ends in a slash."""


class Scope(msgspec.Struct, frozen=True):
    """The part of a view that is seen from one folder. `places` are names in it, `paths` lead from it."""

    folder: bytes
    places: frozenset[bytes]
    paths: frozenset[bytes]
    starts: frozenset[bytes] = frozenset()
    """Prefixes of further names in it that are places."""

    @property
    def id(self) -> str:
        """An id that differs from that of any other scope, for the notes kept about it."""
        places = [*sorted(self.places), *sorted(start + KIN for start in self.starts)]
        parts = [self.folder, b"", *places, b"", *sorted(self.paths)]
        return blake3(b"\0".join(parts)).hexdigest()[:32]

    def excluded(self, claimed: Collection[bytes]) -> Callable[[bytes], bool]:
        """Return a test for paths below the folder that are claimed, or neither in the scope nor on the way to it."""
        on_the_way = {above for path in self.paths for above in _above(path)}
        others = {inner for path in claimed if (inner := self.inner(path))}
        all_others = not {self.folder, *_above(self.folder)}.isdisjoint(claimed)
        starts = tuple(self.starts)

        def test(path: bytes) -> bool:
            name = path.partition(b"/")[0]
            placed = name in self.places or name.startswith(starts)
            seen = placed or path in self.paths or path in on_the_way
            return all_others or not seen or path in others

        return test

    def outer(self, path: bytes) -> bytes:
        """Return a path below the folder as an absolute path."""
        return self.folder.rstrip(b"/") + b"/" + path

    def inner(self, path: bytes) -> bytes:
        """Return the relative path from the folder to a path; empty if it is not below."""
        start = self.folder.rstrip(b"/") + b"/"
        return path[len(start) :] if path.startswith(start) else b""


class OutsideScope(msgspec.Struct, frozen=True, array_like=True):
    """The paths that are looked at: `places` with everything below them, `paths` each alone."""

    places: frozenset[bytes] = frozenset()
    paths: frozenset[bytes] = frozenset()

    def covers(self, path: bytes) -> bool:
        return path in self.paths or self._is_placed(path)

    def _is_placed(self, path: bytes) -> bool:
        return path in self.places or self._is_below_a_place(path) or _is_kin(path, self.places)

    def _is_below_a_place(self, path: bytes) -> bool:
        above = _above(path)
        return not self.places.isdisjoint(above) or any(_is_kin(folder, self.places) for folder in above)

    def without(self, scope: Scope) -> OutsideScope:
        """Return the same, except for what could not be looked at."""
        places = self.places - {scope.outer(place) for place in scope.places}
        places -= {scope.outer(start) + KIN for start in scope.starts}
        return OutsideScope(places, self.paths - {scope.outer(path) for path in scope.paths})

    def scopes(self) -> list[Scope]:
        """Return the folders from which all of it can be seen, each path from one of them.

        What is below another path of the view is seen, and put back, from the folder of that one.
        """
        places: dict[bytes, set[bytes]] = {}
        paths: dict[bytes, set[bytes]] = {}
        starts: dict[bytes, set[bytes]] = {}
        for place in self.places:
            if not self._is_below_a_place(place.removesuffix(KIN)):
                folder, name = _around(place.removesuffix(KIN))
                (starts if place.endswith(KIN) else places).setdefault(folder, set()).add(name)
        for path in self.paths:
            if not self._is_placed(path):
                top = next((above for above in _above(path) if above in self.paths), path)
                folder = _around(top)[0]
                paths.setdefault(folder, set()).add(Scope(folder, frozenset(), frozenset()).inner(path))
        return [
            Scope(folder, *(frozenset(seen.get(folder, ())) for seen in (places, paths, starts)))
            for folder in sorted({*places, *paths, *starts})
        ]


def _is_kin(path: bytes, places: frozenset[bytes]) -> bool:
    """Return True if a place stands for all names with a prefix that this path has."""
    folder, name = _around(path)
    return name.startswith(_starts(places).get(folder, ()))


@lru_cache(maxsize=8)
def _starts(places: frozenset[bytes]) -> Mapping[bytes, tuple[bytes, ...]]:
    found: dict[bytes, tuple[bytes, ...]] = {}
    for place in places:
        if place.endswith(KIN):
            folder, name = _around(place.removesuffix(KIN))
            found[folder] = (*found.get(folder, ()), name)
    return found


def _above(path: bytes) -> Iterable[bytes]:
    """Return every folder on the way to a path, the highest first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts)) if parts[count - 1]]


def _around(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder of an absolute path, and its name in it."""
    folder, name = split(path)
    return folder or b"/", name


class Picture(msgspec.Struct, frozen=True, array_like=True):
    """What a view showed at one moment. A path that it covers and that is not listed did not exist.

    `looked_at` is what had been in view before: when the rest changed is unknown.
    """

    format: int
    view: OutsideScope
    looked_at: OutsideScope
    entries: dict[bytes, FileEntry]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Picture).decode


def encode(view: OutsideScope, looked_at: OutsideScope, entries: Mapping[bytes, FileEntry]) -> bytes:
    """Return the stored form: the same view of the same things has the same bytes."""
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
