"""The journal of a workspace: a file on this machine, or a database that machines share."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from takeback.core.history import History
from takeback.core.seats import Place
from takeback.errors import BackendError, RunBusy, UsageError
from takeback.ports.journal import Journal
from takeback.resources.files.put_back.room import Reserve
from takeback.settings import environment
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.state import acceptance, location
from takeback.storage.state import place as state_place
from takeback.storage.state.location import STORE_FORMAT, StoreLocation
from takeback.storage.state.lock import WorkspaceLock
from takeback.system import postgres_address
from takeback.system.crash_points import crash_point, reach
from takeback.workspace.trusted_settings import Held, settings_of

JOURNAL = "journal.db"
ANCHOR = "journal.anchor"

SETTLED = crash_point("store-settled")


def is_begun(state: Path) -> bool:
    """Return True if the workspace was begun, and not only attempted: a store may have refused.

    An anchor with lines means that a journal existed, even if it is gone.
    """
    anchor = state / ANCHOR
    is_anchored = anchor.exists() and anchor.stat().st_size > 0
    return is_anchored or (state / JOURNAL).exists() or location.read(state) is not None


def journal_of(state: Path) -> Journal:
    """Return the journal of a workspace that has been begun."""
    return opened(state, _settled(state))


def opened(state: Path, kept: StoreLocation | None) -> Journal:
    """Open the journal in this place."""
    if not kept or not kept.store:
        # On a full disk not even the journal can be opened, and without it nothing can make room again.
        Reserve(state).release_if_tight()
        return SqliteJournal(state / JOURNAL)
    from takeback.storage.journal.postgres.journal import PostgresJournal  # its driver is an extra

    return PostgresJournal(
        environment.expanded(kept.store),
        kept.workspace,
        state / ANCHOR,
        place=state_place.place_of(state),
        seat_s=environment.seat_s(),
        may_sit=state_place.arriving(state) is None,
    )


def settle(state: Path) -> None:
    """End an interrupted move: open the place that store.json names for writing. Call it under the lock.

    That is the old place before the move was done, and the new one afterwards.
    """
    kept = location.read(state)
    if not kept or not kept.moving:
        return
    journal = opened(state, kept)
    try:
        journal.moving.reopen()
    finally:
        journal.close()
    reach(SETTLED)
    if kept.store:
        location.write(state, msgspec.structs.replace(kept, moving=False))
    else:
        location.forget(state)


def _settled(state: Path) -> StoreLocation | None:
    """Return the place of the history, after settling an interrupted move; None for this machine."""
    kept = location.read(state)
    if kept and kept.moving:
        # Skipped while another process moves it, or if we may not write: the history can still be read.
        with suppress(RunBusy, BackendError), WorkspaceLock(state / "lock", wait_s=0).held():
            settle(state)
            kept = location.read(state)
    return kept if kept and kept.store else None


def held_unopened(state: Path, root: Path) -> Held:
    """Return the settings that hold for a workspace whose history is not open."""
    return settings_of(root, History(), _no_contents, acceptance.read(state).accepted)


def _no_contents() -> NoReturn:
    raise AssertionError("a history without a record names no content")


def begun(state: Path, root: Path, store: str, workspace: str, blobs: str = "") -> Journal:
    """Return the journal of a workspace; begin it in this store if the workspace is new.

    `store` and `blobs` are literal addresses; without them, a new workspace takes those of takeback.toml.
    """
    kept = _settled(state)
    if kept is None and not (state / JOURNAL).exists():
        settings = held_unopened(state, root).settings.store
        written, bucket = literal(store) or settings.store, literal(blobs) or settings.blobs
        if written:
            wanted = StoreLocation(
                STORE_FORMAT, written, workspace or settings.workspace, bucket, settings.blobs_key
            )
            kept = begin(state, root, wanted)
        elif bucket:
            raise UsageError(
                "a bucket for content also needs a store for the history; nothing was recorded",
                hint='set store = "postgresql://host/database"',
            )
    elif store or workspace or blobs:
        kept = _unchanged(state, kept, store, workspace, blobs)
    return opened(state, kept)


def begin(state: Path, root: Path, wanted: StoreLocation) -> StoreLocation:
    """Begin a workspace in a shared store, or join one that another machine has begun."""
    from takeback.storage.journal.postgres.connection import Address

    dsn = environment.expanded(wanted.store)
    if not postgres_address.is_address(dsn):
        raise UsageError(
            f"{postgres_address.hidden(dsn)} is not the address of a store; nothing was recorded",
            hint="use an address like postgresql://host/database",
        )
    # An error in the address is reported now, before anything is begun.
    Address(dsn).check()
    name = wanted.workspace or f"{root.name}-{secrets.token_hex(6)}"
    wanted = msgspec.structs.replace(wanted, workspace=name)
    from takeback.workspace.store import content

    content.check(wanted)
    with WorkspaceLock(state / "lock").held():
        kept = location.read(state)  # again: another process may have been faster
        if kept is None:
            anchor = Anchor(state / ANCHOR)
            if not anchor.exists():
                # Empty, as it has seen nothing of what others wrote there. From now on, a missing anchor is a lost
                # one.
                anchor.start(lost=0)
            location.write(state, wanted)
        return kept or wanted


def _unchanged(
    state: Path, kept: StoreLocation | None, store: str, workspace: str, blobs: str
) -> StoreLocation | None:
    """Raise if another place is given: a workspace stays where it was begun. Only its password and such may
    change."""
    here = environment.expanded(kept.store) if kept else ""
    if store and (not kept or place(store) != place(here)):
        where = postgres_address.hidden(here) if kept else "this machine"
        raise UsageError(
            f"the history of this workspace is kept on {where}; nothing was done",
            hint="open it without `store`; `takeback store copy --to ADDRESS` moves it",
        )
    if kept and workspace and workspace != kept.workspace:
        raise UsageError(
            f"the name of this workspace in its store is {kept.workspace}, not {workspace}; nothing was done",
            hint="open it without `workspace`",
        )
    if blobs and (not kept or blobs.rstrip("/") != environment.expanded(kept.blobs).rstrip("/")):
        where = environment.expanded(kept.blobs) if kept and kept.blobs else "this machine alone"
        raise UsageError(
            f"the content of this workspace is kept on {where}; nothing was done",
            hint="open it without `blobs`; `takeback store copy --blobs ADDRESS` moves it",
        )
    if kept and store and store != here:
        kept = msgspec.structs.replace(kept, format=STORE_FORMAT, store=literal(store))
        location.write(state, kept)
    return kept


def is_begun_elsewhere(state: Path, root: Path) -> bool:
    """Return True if takeback.toml names a workspace of a shared store that another folder has begun.

    Never connect to a store that no human has accepted.
    """
    settings = held_unopened(state, root).settings.store
    if not settings.workspace or not postgres_address.is_address(dsn := environment.expanded(settings.store)):
        return False
    from takeback.storage.journal.postgres.relocation import peek

    head = peek(dsn, settings.workspace)
    return head is not None and head.count > 0


def visited(kept: StoreLocation, scratch: Path) -> Journal:
    """Open the journal of a workspace that was begun elsewhere, to read it. Raise UsageError if there is none."""
    from takeback.storage.journal.postgres.journal import PostgresJournal
    from takeback.storage.journal.postgres.relocation import peek

    dsn = environment.expanded(kept.store)
    if not postgres_address.is_address(dsn):
        raise UsageError(
            f"{postgres_address.hidden(dsn)} is not the address of a store; nothing was done",
            hint="use an address like postgresql://host/database",
        )
    head = peek(dsn, kept.workspace)
    if head is None or not head.count:
        raise UsageError(
            f"there is no workspace {kept.workspace!r} in {postgres_address.hidden(dsn)}; nothing was done",
            hint="check `workspace` in takeback.toml on the machine that it was on",
        )
    Anchor(scratch / ANCHOR).start(lost=0)
    here = Place("", "", "")
    return PostgresJournal(dsn, kept.workspace, scratch / ANCHOR, place=here, may_sit=False)


def literal(address: str) -> str:
    """Return an address with its dollar signs quoted, so that it contains no variables."""
    return address.replace("$", "$$")


def place(dsn: str) -> tuple[str, ...]:
    """Return the parts of an address that identify the place."""
    given = postgres_address.parsed(dsn)
    return tuple(str(given.get(part) or "") for part in ("host", "hostaddr", "port", "dbname"))
