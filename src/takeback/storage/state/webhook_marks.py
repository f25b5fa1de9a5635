"""How far each webhook has received the journal: a small file for each, and one sender at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.errors import CorruptionError
from takeback.system import durable
from takeback.system.private_files import FILE_MODE, private_folder


class WebhookMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of one webhook: everything up to `after` was received."""

    after: int = 0
    through: int = 0
    """The end of the message in progress, which may have been received. A retry must send the same message."""
    failed: int = 0
    """The number of failed attempts."""
    again_us: int = 0
    why: str = ""


class AuditMarks:
    """The files, in their own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Yield True if this process may send to the webhook now; False if another process is doing so."""
        private_folder(self._folder)
        fd = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            yield _is_ours(fd)
        finally:
            os.close(fd)

    def read(self, name: str) -> WebhookMark:
        path = self._folder / f"{name}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=WebhookMark)
        except FileNotFoundError:
            return WebhookMark()
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptionError(
                f"{path} cannot be read: {error}; nothing was sent",
                hint="remove it to send the webhook everything again, from the first event on",
            ) from error

    def write(self, name: str, mark: WebhookMark) -> None:
        """Store a mark, durably."""
        path = self._folder / f"{name}.json"
        durable.replace(path, msgspec.json.encode(mark), temporary=path.with_suffix(".new"))


def _is_ours(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
