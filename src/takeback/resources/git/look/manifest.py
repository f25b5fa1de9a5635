"""Every target of a repository by name, stored so that a small change costs little.

The targets are distributed over parts by a checksum of their names. A part is a blob; the manifest lists the parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import msgspec

from takeback.core.change import ABSENT, Version
from takeback.errors import CorruptionError

Get = Callable[[bytes], bytes]
Put = Callable[[bytes], bytes]

PART_TARGETS = 64
PARTS_MAX = 256
FORMAT = 1

Targets = dict[str, Version]

_parts = msgspec.msgpack.Decoder(tuple[int, list[bytes]])
_targets = msgspec.msgpack.Decoder(Targets)
_encoder = msgspec.msgpack.Encoder(order="sorted")


class Manifest:
    """The targets at one moment, as stored."""

    def __init__(self, name: bytes, parts: list[bytes]) -> None:
        self.name = name
        self.parts = parts

    @classmethod
    def load(cls, name: bytes, get: Get) -> Manifest:
        try:
            number, parts = _parts.decode(get(name))
        except msgspec.DecodeError as error:
            raise CorruptionError(f"{name.hex()} is not a picture of a repository") from error
        if number != FORMAT:
            raise CorruptionError(f"{name.hex()} has format {number}, which this version does not support")
        return cls(name, parts)

    def targets(self, get: Get) -> Iterator[tuple[str, Version]]:
        for part in self.parts:
            yield from _part_of(get(part)).items()


def store(targets: Mapping[str, Version], put: Put) -> Manifest:
    """Store these targets."""
    dealt: list[Targets] = [{} for _ in range(_count(len(targets)))]
    for name, version in targets.items():
        dealt[_part(name, len(dealt))][name] = version
    return _listed([put(_encoder.encode(some)) for some in dealt], put)


def store_again(
    targets: Mapping[str, Version], changed: Mapping[str, Version], last: Manifest, get: Get, put: Put
) -> Manifest:
    """Store targets that equal the last ones except for `changed`, which maps to ABSENT what is gone.

    Only the parts with a change are read and written; the result is the same as that of `store`.
    """
    count = _count(len(targets))
    if len(last.parts) != count:
        return store(targets, put)
    dealt: dict[int, Targets] = {}
    for name, version in changed.items():
        dealt.setdefault(_part(name, count), {})[name] = version
    parts = list(last.parts)
    for number, some in dealt.items():
        now = _part_of(get(parts[number])) | some
        parts[number] = put(_encoder.encode({name: version for name, version in now.items() if version}))
    return _listed(parts, put)


def _listed(parts: list[bytes], put: Put) -> Manifest:
    return Manifest(put(_encoder.encode((FORMAT, parts))), parts)


def _part_of(data: bytes) -> Targets:
    try:
        return _targets.decode(data)
    except msgspec.DecodeError as error:
        raise CorruptionError("a stored part of the state of a repository cannot be read") from error


def differences(before: Manifest, after: Manifest, get: Get) -> Iterator[tuple[str, Version, Version]]:
    """Yield every target that differs, with its version in each."""
    if before.name == after.name:
        return
    pairs = [(before.parts, after.parts)]
    if len(before.parts) == len(after.parts):
        pairs = [([old], [new]) for old, new in zip(before.parts, after.parts, strict=True) if old != new]
    for old, new in pairs:
        was = dict(Manifest(b"", old).targets(get))
        now = dict(Manifest(b"", new).targets(get))
        for name in was.keys() | now.keys():
            if not _same(was, now, name):
                yield name, was.get(name, ABSENT), now.get(name, ABSENT)


def _same(a: Mapping[str, Version], b: Mapping[str, Version], name: str) -> bool:
    return a.get(name, ABSENT).alike(b.get(name, ABSENT))


def _count(targets: int) -> int:
    count = 1
    while count < PARTS_MAX and count * PART_TARGETS < targets:
        count *= 2
    return count


def _part(name: str, count: int) -> int:
    return _crc(name) & (count - 1)


@lru_cache(maxsize=1 << 16)
def _crc(name: str) -> int:
    # The same thousands of names recur with each ref that moves.
    return zlib.crc32(name.encode())
