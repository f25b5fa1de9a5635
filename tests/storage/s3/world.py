"""Machines that share a bucket: each has a folder of its own, and all have one journal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from takeback import config
from takeback.ports import Journal
from takeback.storage.bucket import PLAIN, Bucket, Seal, SharedStore
from takeback.storage.bucket.known import Known
from takeback.storage.lock import WorkspaceLock
from takeback.storage.sqlite import SqliteJournal

BUCKET = "TAKEBACK_TEST_BUCKET"
"""The address of the bucket, for this process and its children."""


def bucket_for(where: Path, **more: Any) -> Bucket:
    """The folder of the bucket that is named after this one."""
    return Bucket(os.environ[BUCKET], str(where).strip("/"), config.aws(), **more)


def journal_in(where: Path) -> Journal:
    where.mkdir(exist_ok=True)
    return SqliteJournal(where / "journal.db")


def machine(
    where: Path,
    name: str,
    journal: Journal,
    *,
    seal: Seal = PLAIN,
    bucket: Bucket | None = None,
    kind: type[SharedStore] = SharedStore,
    **more: Any,
) -> SharedStore:
    """One machine of those that share what belongs to the folder `where`."""
    state = where / name
    state.mkdir(exist_ok=True)
    return kind(
        state / "packs",
        lambda: bucket or bucket_for(where),
        Known(state / "bucket.db"),
        lambda: journal.leases,
        WorkspaceLock(state / "lock"),
        seal,
        look_again_s=0,
        **more,
    )
