"""Which content store a workspace has: packs on this machine, and a bucket besides that machines share."""

from __future__ import annotations

from pathlib import Path

from takeback import config
from takeback.errors import UsageError
from takeback.ports import Progress, silent
from takeback.ports_leases import LeaseStore
from takeback.storage import stores
from takeback.storage.lock import WorkspaceLock
from takeback.storage.packs import PackStore
from takeback.storage.stores import Kept

PACKS = "packs"
SCHEMES = ("s3://", "file://")


def store_of(state: Path, leases: LeaseStore, lock: WorkspaceLock, progress: Progress = silent) -> PackStore:
    """The content of a workspace that has been begun."""
    return store_for(state, stores.read(state), leases, lock, progress)


def store_for(
    state: Path,
    kept: Kept | None,
    leases: LeaseStore,  # noqa: ARG001
    lock: WorkspaceLock,  # noqa: ARG001
    progress: Progress = silent,  # noqa: ARG001
) -> PackStore:
    """The content of a workspace that is kept there."""
    if not kept or not kept.blobs:
        return PackStore(state / PACKS)
    return PackStore(state / PACKS)


def check(kept: Kept) -> None:
    """Raise whatever is wrong with the bucket, while nothing is begun."""
    if not kept.blobs:
        if kept.blobs_key:
            raise UsageError(
                "there is a key for a bucket, but no bucket; nothing was recorded", hint='blobs = "s3://…"'
            )
        return
    address = config.expanded(kept.blobs)
    if not address.startswith(SCHEMES):
        raise UsageError("that is no address of a bucket; nothing was recorded", hint="s3://bucket/folder")
