"""What a file system stores beside the bytes of a database: user attributes, access lists, capabilities."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress

_KEPT = ("user.", "system.posix_acl_", "security.capability")


def read(path: bytes) -> dict[str, str]:
    """Return the attributes of a file, not following a link; none if there is no file, or we may not read them."""
    with suppress(OSError):
        return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in _names(path)}
    return {}


def write(path: str, wanted: Mapping[str, str]) -> None:
    """Give a file exactly these attributes.

    Those that only root may set are skipped; reading them back shows that.
    """
    for name in set(_names(path)) - wanted.keys():
        os.removexattr(path, name)
    for name, value in wanted.items():
        with suppress(PermissionError):
            os.setxattr(path, name, bytes.fromhex(value))


def _names(path: bytes | str) -> list[str]:
    # The kernel's names of open files are links, and are followed.
    try:
        found = os.listxattr(path, follow_symlinks=isinstance(path, str))
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise
    return sorted(name for name in found if name.startswith(_KEPT))
