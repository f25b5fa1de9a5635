"""The names of blobs, and the errors of the stores that keep them."""

from __future__ import annotations

import errno

from takeback.core.codec import ALGORITHM
from takeback.errors import BackendError, ContentGone, NoRoom, UsageError

BLOB_BYTES_MAX = 1 << 30
DIGEST_BYTES = 32

KEEP_SHARE = 0.8
"""The live share above which a pack is not worth rewriting."""


def text_name(digest: bytes) -> str:
    """Return a digest as people and the journal see it."""
    return f"{ALGORITHM}:{digest.hex()}"


def raw_name(text: str) -> bytes:
    """Return the digest that `text_name` turned into this text."""
    algorithm, _, digits = text.partition(":")
    try:
        digest = bytes.fromhex(digits)
    except ValueError:
        digest = b""
    if algorithm != ALGORITHM or len(digest) != DIGEST_BYTES:
        raise UsageError(f"{text!r} is not a content name", hint=f"names look like {ALGORITHM}:8a3f…")
    return digest


def lost(digest: bytes) -> ContentGone:
    return ContentGone(
        f"the content {text_name(digest)} was pruned or forgotten, or is lost; nothing was changed",
        hint="`takeback verify --deep` shows what is still there",
    )


NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def not_written(error: OSError) -> BackendError:
    kind = NoRoom if error.errno in NO_ROOM else BackendError
    return kind(
        f"content could not be stored ({error.strerror}); content put since the last sync was discarded",
        hint="free some space on the disk (`takeback gc` removes what is not needed) and try again",
    )


def not_read(error: OSError) -> BackendError:
    return BackendError(
        f"the content store could not be read ({error.strerror}); nothing was changed",
        hint=f"check {error.filename}" if error.filename else "check the disk",
    )
