"""Which journal a workspace has: a file on this machine, or a database that machines share."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from takeback import addresses, buckets, config
from takeback.errors import UsageError
from takeback.ports import Journal
from takeback.storage import places, stores
from takeback.storage.anchor import Anchor
from takeback.storage.lock import WorkspaceLock
from takeback.storage.sqlite import SqliteJournal
from takeback.storage.stores import STORE_FORMAT, Kept

JOURNAL = "journal.db"
ANCHOR = "journal.anchor"


def journal_of(state: Path) -> Journal:
    """The journal of a workspace that has been begun."""
    kept = stores.read(state)
    return _shared(state, kept) if kept else SqliteJournal(state / JOURNAL)


def begun(state: Path, root: Path, store: str, workspace: str, blobs: str = "") -> Journal:
    """The journal of a workspace that is opened, begun in this store if it is new.

    `store` and `blobs` are addresses as they are; without one takeback.toml is asked, where the workspace is new.
    """
    kept = stores.read(state)
    if kept is None and not (state / JOURNAL).exists():
        settings = config.read_config(root).store
        written, bucket = _literal(store) or settings.store, _literal(blobs) or settings.blobs
        if written:
            wanted = Kept(STORE_FORMAT, written, workspace or settings.workspace, bucket, settings.blobs_key)
            kept = _begin(state, root, wanted)
        elif bucket:
            raise UsageError(
                "a bucket for content needs a store for the history beside it; nothing was recorded",
                hint='store = "postgresql://host/database"',
            )
    elif store or workspace or blobs:
        kept = _unchanged(state, kept, store, workspace, blobs)
    return _shared(state, kept) if kept else SqliteJournal(state / JOURNAL)


def _begin(state: Path, root: Path, wanted: Kept) -> Kept:
    """Begin a workspace in a shared store, or join it where another machine has."""
    from takeback.storage.postgres.link import Address

    dsn = config.expanded(wanted.store)
    if not addresses.is_address(dsn):
        raise UsageError(
            f"{addresses.hidden(dsn)} is no address of a store; nothing was recorded",
            hint="postgresql://host/database",
        )
    # Whatever is wrong with the address is told now, while nothing is begun.
    Address(dsn).check()
    name = wanted.workspace or f"{root.name}-{secrets.token_hex(6)}"
    wanted = msgspec.structs.replace(wanted, workspace=name)
    buckets.check(wanted)
    with WorkspaceLock(state / "lock").held():
        kept = stores.read(state)  # again: another process may have been faster
        if kept is None:
            anchor = Anchor(state / ANCHOR)
            if not anchor.exists():
                # Empty: it knows nothing yet of what others wrote there. From now on a missing one is a lost one.
                anchor.start(lost=0)
            stores.write(state, wanted)
        return kept or wanted


def _unchanged(state: Path, kept: Kept | None, store: str, workspace: str, blobs: str) -> Kept | None:
    """A workspace stays where it was begun; only the way there may change, such as a password."""
    here = config.expanded(kept.store) if kept else ""
    if store and (not kept or _place(store) != _place(here)):
        where = addresses.hidden(here) if kept else "this machine"
        raise UsageError(
            f"the history of this workspace is kept on {where}; nothing was done",
            hint="open it without `store`; another folder can be begun in another store",
        )
    if kept and workspace and workspace != kept.workspace:
        raise UsageError(
            f"this workspace is called {kept.workspace} in its store, not {workspace}; nothing was done",
            hint="open it without `workspace`",
        )
    if blobs and (not kept or blobs.rstrip("/") != config.expanded(kept.blobs).rstrip("/")):
        where = config.expanded(kept.blobs) if kept and kept.blobs else "this machine alone"
        raise UsageError(
            f"the content of this workspace is kept on {where}; nothing was done",
            hint="open it without `blobs`; another folder can be begun with another bucket",
        )
    if kept and store and store != here:
        kept = msgspec.structs.replace(kept, format=STORE_FORMAT, store=_literal(store))
        stores.write(state, kept)
    return kept


def _shared(state: Path, kept: Kept) -> Journal:
    from takeback.storage.postgres.journal import PostgresJournal  # its driver is an extra

    return PostgresJournal(
        config.expanded(kept.store),
        kept.workspace,
        state / ANCHOR,
        place=places.place_of(state),
        seat_s=config.seat_s(),
        may_sit=places.arriving(state) is None,
    )


def _literal(address: str) -> str:
    """An address as it is, with no variables in it."""
    return address.replace("$", "$$")


def _place(dsn: str) -> tuple[str, ...]:
    """What makes an address another place."""
    given = addresses.parsed(dsn)
    return tuple(str(given.get(part) or "") for part in ("host", "hostaddr", "port", "dbname"))
