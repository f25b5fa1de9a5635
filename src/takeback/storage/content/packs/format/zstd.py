"""Compression, chosen for the hot path: zstd at level 1, or none if that saves too little."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

RAW, FAST, SMALL = 0, 1, 2
"""The codecs of a payload. FAST and SMALL are both zstd; SMALL says that more effort saves nothing."""

_LEVELS = {FAST: 1, SMALL: 6}
_TINY_BYTES = 128
_PROBE_BYTES = 4096
_PROBE_FROM_BYTES = 32 * 1024
_PAYS_BELOW = 0.95

# Compressors are reused, because creating one costs ten times as much as compressing a small file.
_compressors: dict[int, ZstdCompressor] = {}


def _zstd(data: bytes | memoryview, codec: int) -> bytes:
    compressor = _compressors.pop(codec, None) or ZstdCompressor(level=_LEVELS[codec])
    packed = compressor.compress(data, ZstdCompressor.FLUSH_FRAME)
    _compressors[codec] = (
        compressor  # not reached after an error or an interrupt, which leave it in an unknown state
    )
    return packed


def compress(data: bytes | memoryview, codec: int = FAST) -> tuple[int, bytes]:
    """Return the codec that paid off, and the bytes to store."""
    size = len(data)
    if size < _TINY_BYTES or codec == RAW:
        return RAW, bytes(data)
    if codec == FAST and size >= _PROBE_FROM_BYTES:
        if len(_zstd(data[:_PROBE_BYTES], FAST)) > _PROBE_BYTES * _PAYS_BELOW:
            return RAW, bytes(data)
    packed = _zstd(data, codec)
    return (codec, packed) if len(packed) < size * _PAYS_BELOW else (RAW, bytes(data))


def expand(codec: int, payload: bytes, raw_bytes: int) -> bytes:
    """Return the uncompressed bytes. Raise ValueError if that fails."""
    if codec == RAW:
        return payload
    try:
        # Bounded, so that a damaged payload cannot exhaust the memory.
        data = ZstdDecompressor().decompress(payload, raw_bytes)
    except ZstdError as error:
        raise ValueError(f"it cannot be decompressed ({error})") from error
    return data
