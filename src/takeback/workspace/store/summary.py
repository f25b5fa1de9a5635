"""The place of a workspace's history and content, as text and as values."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.core.seats import Seat
from takeback.ports.journal import Head
from takeback.settings import environment
from takeback.storage.state import location
from takeback.storage.state.location import HERE, StoreLocation
from takeback.system import postgres_address
from takeback.workspace.locate import find_root, registry_of_user
from takeback.workspace.opening import find_state
from takeback.workspace.store.journal import JOURNAL
from takeback.workspace.workspace import Workspace


class StoreSummary(msgspec.Struct, frozen=True):
    """A description of the place in which a workspace is kept."""

    history: str
    """The place of the history, without any secret."""
    is_shared: bool
    name: str
    """The name of the workspace in a shared store."""
    head: Head
    intents: int
    pieces: int
    """The number of pieces of content on this machine."""
    blobs: str
    """The bucket with a copy of all content, without any secret; empty if there is none."""
    notice: str
    """A description of where the history was moved since."""
    seat: Seat | None
    """The folder in which the workspace sits, if machines share the store."""
    is_here: bool
    """Whether that is this folder."""


def summary(workspace: Workspace) -> StoreSummary:
    """Return where this workspace is kept, and how much is stored."""
    kept = location.read(workspace.state) or HERE
    seats = workspace.journal.seats
    seat = seats.now() if seats else None
    return StoreSummary(
        history=described(workspace.state, kept),
        is_shared=bool(kept.store),
        name=kept.workspace,
        head=workspace.journal.head(),
        intents=sum(workspace.outbox.counts().values()),
        pieces=workspace.upkeep.content().blobs,
        blobs=postgres_address.hidden(environment.expanded(kept.blobs)),
        notice=workspace.journal.moving.notice(),
        seat=seat,
        is_here=bool(seats and seat and seat.place.id == seats.place.id),
    )


def state_and_place(start: str | os.PathLike[str] = ".") -> tuple[Path, str] | None:
    """Return the state folder of the workspace here and the place of its history, without connecting to the store."""
    registry = registry_of_user()
    state = find_state(find_root(start, registry), registry)
    return (state, described(state, location.read(state) or HERE)) if state else None


def described(state: Path, kept: StoreLocation) -> str:
    """Return a description of the place, without any secret."""
    if not kept.store:
        return f"this machine ({state / JOURNAL})"
    database, host = postgres_address.called(environment.expanded(kept.store))
    on = f" on {host}" if host and not host.startswith("/") else ""
    return f"the database {database}{on}, as {kept.workspace}"
