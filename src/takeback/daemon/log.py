"""The daemon's log: a file of bounded size, without anything that looks like a secret."""

from __future__ import annotations

import logging
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from takeback.core.redact import redact
from takeback.system.private_files import private_file

FILE = "daemon.log"
BYTES_MAX = 256 * 1024


class _Private(RotatingFileHandler):
    """A log whose files only the user can read."""

    def _open(self) -> TextIOWrapper:
        private_file(Path(self.baseFilename))
        return super()._open()


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def begin(home: Path) -> logging.Logger:
    """Begin to log everything in this process, and return the log."""
    handler = _Private(home / FILE, maxBytes=BYTES_MAX, backupCount=1, encoding="utf-8")
    handler.setFormatter(_Redacted("%(asctime)s %(process)d %(message)s"))
    log = logging.getLogger("takeback")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return log
