"""A client for a bucket: a few calls, each retried for a while if the connection is lost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from takeback.errors import BackendError, UsageError
from takeback.storage.content.bucket.errors import SAFE, explain, is_lost
from takeback.storage.journal.postgres.session import Backoff
from takeback.system import crash_points

PATIENCE_S = 15.0
ASKED = crash_points.crash_point("bucket-asked")

T = TypeVar("T")

_used_by = 0

# We do the retries ourselves, so that they are counted and end in time.
_NO_RETRIES = {"max_retries": 0}
_LIMITS = {"connect_timeout": "5s", "timeout": "120s", "allow_http": True}


class Bucket:
    """A folder in a bucket. Objects are created once, read, listed and removed, but never changed."""

    def __init__(
        self,
        address: str,
        folder: str = "",
        options: Mapping[str, str] | None = None,
        *,
        patience_s: float | None = None,
    ) -> None:
        """`options` are the driver's own, such as aws_access_key_id."""
        self.name = called(address)
        self.requests: Counter[str] = Counter()
        """The number of requests of each kind."""
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._driver, errors = driver()
        self._error, self._there = errors.BaseError, errors.AlreadyExistsError
        self._store = _opened(address, folder, options or {})

    def create(self, path: str, data: bytes) -> bool:
        """Create an object. Return False if the name is taken; that object stays as it is."""
        try:
            self._ask(
                "put", lambda: self._driver.put(self._store, path, data, mode="create", use_multipart=False)
            )
        except self._there:
            return False
        return True

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes | None:
        """Return an object, or the part of it that exists; None if there is no such object."""

        def get() -> bytes:
            if end is None:
                return bytes(self._driver.get(self._store, path).bytes())
            return bytes(self._driver.get_range(self._store, path, start=start, end=end))

        try:
            return self._ask("get", get)
        except FileNotFoundError:
            return None

    def read_parts(self, path: str, parts: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Return parts of an object, given by start and end; None if it is gone.

        Nearby parts are read in one request.
        """
        asked = [part for part in parts if part[0] < part[1]]  # an empty blob needs no request
        starts, ends = [start for start, _ in asked], [end for _, end in asked]
        try:
            found = self._ask(
                "get", lambda: self._driver.get_ranges(self._store, path, starts=starts, ends=ends)
            )
        except FileNotFoundError:
            return None
        got = {part: bytes(data) for part, data in zip(asked, found, strict=True)}
        return [got.get(part, b"") for part in parts]

    def list(self, under: str) -> dict[str, int]:
        """Return the objects below a folder, with their sizes."""
        found = self._ask(
            "list",
            lambda: [one for some in self._driver.list(self._store, prefix=under) for one in some],
        )
        return {str(one["path"]): int(one["size"]) for one in found}

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects. An object that is already gone counts as removed."""
        for path in paths:
            try:
                self._ask("delete", partial(self._driver.delete, self._store, path))
            except FileNotFoundError:
                pass

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        _refuse_fork()
        patience = Backoff(self._patience_s)
        while True:
            crash_points.reach(ASKED)
            self.requests[what] += 1
            try:
                return call()
            except self._there:
                raise
            except FileNotFoundError as error:
                if "NoSuchBucket" not in str(error):
                    raise
                raise explain(error, self.name) from error
            except (self._error, OSError) as error:
                if not is_lost(error) or not patience.again():
                    raise explain(error, self.name) from error


def _refuse_fork() -> None:
    """Raise BackendError in a forked process: the driver's threads do not survive a fork, so it would hang."""
    global _used_by
    _used_by = _used_by or os.getpid()
    if _used_by != os.getpid():
        raise BackendError(
            "the bucket cannot be used in a fork of a process that has used it. " + SAFE,
            hint='start a new process instead: multiprocessing.set_start_method("spawn"), or a command',
        )


def called(address: str) -> str:
    """Return the name of a bucket for messages."""
    given = urlsplit(address)
    return f"the bucket {given.netloc}" if given.scheme == "s3" else f"the folder {unquote(given.path)}"


def driver() -> tuple[Any, Any]:
    """Return obstore, an optional dependency, and its errors."""
    try:
        import obstore
        from obstore import exceptions
    except ImportError as error:
        raise UsageError(
            "a bucket needs a driver that is not installed; nothing was done",
            hint="pip install 'takeback[s3]'",
        ) from error
    return obstore, exceptions


def _opened(address: str, folder: str, options: Mapping[str, str]) -> Any:
    from obstore.store import LocalStore, S3Store

    given = urlsplit(address)
    place = "/".join(part for part in (unquote(given.path).strip("/"), folder) if part)
    if given.scheme == "file" and place and not given.netloc:
        return LocalStore(f"/{place}", mkdir=True)
    if given.scheme != "s3" or not given.netloc or given.query or "@" in given.netloc:
        raise UsageError("that is not the address of a bucket; nothing was done", hint="s3://bucket/folder")
    return S3Store(
        given.netloc,
        prefix=place or None,
        config=dict(options),  # type: ignore[arg-type]
        client_options=_LIMITS,  # type: ignore[arg-type]
        retry_config=_NO_RETRIES,  # type: ignore[arg-type]
    )
