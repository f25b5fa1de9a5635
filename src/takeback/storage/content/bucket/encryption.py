"""Sealing content before it leaves the machine: AES-256-GCM, so that a bucket can neither read nor alter it.

Two keys are derived from the one that is given: one seals, the other makes the names of objects. A nonce is random
and goes ahead of what it sealed. What something is about is bound to it: a piece does not pass for another one.
"""

from __future__ import annotations

import os
from typing import Any

from blake3 import blake3

from takeback.errors import UsageError

KEY_BYTES = 32
NONCE_BYTES = 12
_SEALS, _NAMES, _CHECKS = "takeback 2026 bucket seal", "takeback 2026 bucket names", b"takeback bucket key"


class Seal:
    """What is done to bytes on their way there and back. Without a key, nothing."""

    def __init__(self, key: bytes = b"") -> None:
        self.is_sealed = bool(key)
        self._names = blake3(key, derive_key_context=_NAMES).digest() if key else bytes(KEY_BYTES)
        self._cipher = _cipher(blake3(key, derive_key_context=_SEALS).digest()) if key else None

    def check(self) -> str:
        """Tells two keys apart, and nothing of them."""
        return blake3(_CHECKS, key=self._names).hexdigest() if self.is_sealed else ""

    def name(self, data: bytes) -> str:
        """A name for what has these digests in it, that tells nothing of them."""
        return blake3(data, key=self._names).hexdigest(20)

    def close(self, data: bytes, about: bytes) -> bytes:
        if self._cipher is None:
            return data
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._cipher.encrypt(nonce, data, about))

    def open(self, data: bytes, about: bytes) -> bytes:
        """What was closed. Raises ValueError if it is not what was closed."""
        if self._cipher is None:
            return data
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], about))
        except (InvalidTag, ValueError):
            raise ValueError("it cannot be unsealed") from None


PLAIN = Seal()


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise UsageError(
            "sealing content needs a library that is not installed; nothing was done",
            hint="pip install 'takeback[s3]'",
        ) from error
    return AESGCM(key)


def wrong_key(name: str, *, is_sealed: bool, has_key: bool) -> UsageError:
    """The content in a bucket, and the key that is or is not given, do not belong together."""
    hint = "see blobs-key in [store] of takeback.toml, or --blobs-key, and the variable or file that it names"
    if is_sealed and has_key:
        return UsageError(f"the content in {name} was sealed by another key; nothing was changed", hint=hint)
    if is_sealed:
        return UsageError(
            f"the content in {name} is sealed, and there is no key; nothing was changed", hint=hint
        )
    return UsageError(
        f"the content in {name} was begun without a key, and is not sealed; nothing was changed", hint=hint
    )
