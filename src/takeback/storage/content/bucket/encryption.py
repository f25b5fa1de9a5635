"""Encryption of content before it leaves the machine: AES-256-GCM.

The bucket's host can neither read the content nor alter it. Two keys are derived from the given one: one encrypts,
the other makes the names of objects. The nonce is random and precedes the ciphertext. Each piece is bound to its
purpose, so that it cannot pass for another one.
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
    """Encryption on the way to the bucket, and decryption on the way back. Without a key, neither."""

    def __init__(self, key: bytes = b"") -> None:
        self.is_sealed = bool(key)
        self._names = blake3(key, derive_key_context=_NAMES).digest() if key else bytes(KEY_BYTES)
        self._cipher = _cipher(blake3(key, derive_key_context=_SEALS).digest()) if key else None

    def check(self) -> str:
        """Return a value that differs for two keys, and reveals neither."""
        return blake3(_CHECKS, key=self._names).hexdigest() if self.is_sealed else ""

    def name(self, data: bytes) -> str:
        """Return a name for an object with these digests that does not reveal them."""
        return blake3(data, key=self._names).hexdigest(20)

    def close(self, data: bytes, about: bytes) -> bytes:
        if self._cipher is None:
            return data
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._cipher.encrypt(nonce, data, about))

    def open(self, data: bytes, about: bytes) -> bytes:
        """Return the plain bytes. Raise ValueError if these are not what `close` returned."""
        if self._cipher is None:
            return data
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], about))
        except (InvalidTag, ValueError):
            raise ValueError("it cannot be decrypted") from None


PLAIN = Seal()


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise UsageError(
            "encrypting content needs a library that is not installed; nothing was done",
            hint="pip install 'takeback[s3]'",
        ) from error
    return AESGCM(key)


def wrong_key(name: str, *, is_sealed: bool, has_key: bool) -> UsageError:
    """Return the error for a key that does not fit the content of a bucket, or is missing."""
    hint = (
        "check blobs-key in [store] of takeback.toml, or --blobs-key, and the variable or file that it names"
    )
    if is_sealed and has_key:
        return UsageError(
            f"the content in {name} was encrypted with another key; nothing was changed", hint=hint
        )
    if is_sealed:
        return UsageError(
            f"the content in {name} is encrypted, and no key is given; nothing was changed", hint=hint
        )
    return UsageError(
        f"the content in {name} is not encrypted, but a key is given; nothing was changed", hint=hint
    )
