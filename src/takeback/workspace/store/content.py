"""The content store of a workspace: packs on this machine, and maybe a bucket that machines share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from blake3 import blake3

from takeback.errors import UsageError
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress, silent
from takeback.settings import environment
from takeback.storage.content.packs import PackStore
from takeback.storage.state.location import StoreLocation
from takeback.storage.state.lock import WorkspaceLock
from takeback.system import postgres_address

if TYPE_CHECKING:
    from takeback.storage.content.bucket import Bucket
    from takeback.storage.content.bucket.local_index import LocalIndex

PACKS = "packs"

_HISTORY = "history"
_HISTORY_DIGITS = 16
_ABOUT = "takeback.txt"
_ABOUT_TEXT = (
    b"Content of workspaces that Takeback protects. Nothing here should be changed or removed by hand.\n"
)


def store_for(
    state: Path,
    kept: StoreLocation | None,
    journal: Journal,
    lock: WorkspaceLock,
    progress: Progress = silent,
    removed: Callable[[], object] = lambda: None,
) -> PackStore:
    """Return the content store for a workspace that is kept in this place."""
    if not kept or not kept.blobs:
        return PackStore(state / PACKS)
    from takeback.storage.content.bucket import Seal, SharedStore  # its driver is an extra
    from takeback.storage.content.bucket.local_index import LocalIndex

    address = environment.expanded(kept.blobs)
    # Each bucket has its own index.
    known = LocalIndex(state / f"bucket-{blake3(f'{address} {kept.workspace}'.encode()).hexdigest(6)}.db")
    return SharedStore(
        state / PACKS,
        partial(_bucket, address, kept.workspace, known, journal),
        known,
        lambda: journal.leases,
        lock,
        Seal(environment.blobs_key(kept.blobs_key)),
        removed=removed,
        progress=progress,
    )


def check(kept: StoreLocation) -> None:
    """Raise any error with the bucket before anything is begun, by writing the same small file each time."""
    if not kept.blobs and kept.blobs_key:
        raise UsageError(
            "a key for a bucket is set, but no bucket; nothing was recorded",
            hint='set blobs = "s3://bucket/folder"',
        )
    if kept.blobs:
        from takeback.storage.content.bucket import Bucket, Seal

        Seal(environment.blobs_key(kept.blobs_key))
        Bucket(environment.expanded(kept.blobs), options=environment.aws()).create(_ABOUT, _ABOUT_TEXT)


def refuse_strange(kept: StoreLocation, journal: Journal) -> None:
    """Raise if the bucket has nothing of this history, or is encrypted with another key. Write nothing to it."""
    from takeback.storage.content.bucket import Bucket, Seal
    from takeback.storage.content.bucket.listing import refuse_unlike

    bucket = Bucket(
        environment.expanded(kept.blobs), _folder(kept.workspace, _history(journal)), environment.aws()
    )
    if not refuse_unlike(bucket, Seal(environment.blobs_key(kept.blobs_key))):
        raise UsageError(
            f"{postgres_address.hidden(environment.expanded(kept.blobs))} has nothing of "
            f"{kept.workspace}; nothing was done",
            hint="check `blobs` in takeback.toml, or `takeback store show`, on the machine that it was on",
        )


def _bucket(address: str, workspace: str, known: LocalIndex, journal: Journal) -> Bucket:
    """Return the bucket's folder for this workspace: two histories never share one, even with the same name."""
    from takeback.storage.content.bucket import Bucket

    history = known.fact(_HISTORY)
    if history is None:
        history = _history(journal)
        known.note(_HISTORY, history)
    return Bucket(address, _folder(workspace, history), environment.aws())


def _history(journal: Journal) -> str:
    first = journal.get(1)
    assert first, "a workspace has begun before its content is read"
    return first.digest.rpartition(":")[2][:_HISTORY_DIGITS]


def _folder(workspace: str, history: str) -> str:
    return f"{quote(workspace, safe=' ')}-{history}"
