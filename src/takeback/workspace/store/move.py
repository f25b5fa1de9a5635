"""Taking a workspace to another place: from this machine to a store that machines share, back, or to another one.

The content goes first, then the history, into a place that is shut. When all has been read back and compared,
`store.json` names the new place: that one rename is the move. From before it until after it both places are shut, so
there is no moment at which both could be written to. What a kill leaves is ended by whoever opens the workspace next
(`journals.settle`): it is in the old place before that rename, and in the new one after it.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from takeback.core.event_base import Mark
from takeback.core.lifecycle import Life
from takeback.engine.outbox.worker import bury
from takeback.engine.prune import RetentionLimits, needed
from takeback.errors import (
    BackendError,
    ConflictError,
    ContentGone,
    CorruptionError,
    JournalMoved,
    RefusedError,
    RunBusy,
    TakebackError,
    UsageError,
)
from takeback.ports.journal import Head, Journal
from takeback.ports.progress import Progress, silent
from takeback.resources.git.mirror.travel import send_all
from takeback.settings import environment
from takeback.storage.state import location
from takeback.storage.state.location import HERE, STORE_FORMAT, StoreLocation
from takeback.system import postgres_address
from takeback.system.crash_points import crash_point, reach
from takeback.workspace.store import content
from takeback.workspace.store import journal as store_journal
from takeback.workspace.store.copy import Copied, begins_alike, carry, carry_queue, compare
from takeback.workspace.workspace import Workspace

LOCAL = "local"
TRIES_MAX = 20

SHARED = crash_point("store-content-shared")
TARGET_SHUT = crash_point("store-target-shut")
CARRIED = crash_point("store-carried")
LEAVING = crash_point("store-leaving")
SOURCE_SHUT = crash_point("store-source-shut")
PROVED = crash_point("store-proved")
SWITCHED = crash_point("store-switched")


class Move(msgspec.Struct, frozen=True):
    """What a move did, or would do."""

    source: str
    target: str
    """Both in words, without any secret."""
    copied: Copied
    pieces: int
    """Of content, that the history names."""
    blobs: str
    """Where content is besides this machine; empty where it is nowhere else."""
    old: str
    """The file of the old journal; empty where that is in a database."""
    done: bool = True
    with_history: bool = True
    """False where only content went, to another bucket: there is no old history then."""


def described(state: Path, kept: StoreLocation) -> str:
    """Where that is, without any secret."""
    if not kept.store:
        return f"this machine ({state / store_journal.JOURNAL})"
    database, host = postgres_address.called(environment.expanded(kept.store))
    on = f" on {host}" if host and not host.startswith("/") else ""
    return f"the database {database}{on}, as {kept.workspace}"


def move(
    workspace: Workspace,
    to: str,
    name: str = "",
    blobs: str = "",
    blobs_key: str = "",
    *,
    preview: bool = False,
    progress: Progress = silent,
) -> Move:
    """Take the history of a workspace to another place; afterwards it has to be opened anew.

    `to` is `local`, or the address of a database as it stands in takeback.toml, with $NAME for a variable. With
    `blobs`, an address of the same kind, all content goes to that bucket.
    """
    state, source = workspace.state, workspace.journal
    with workspace.lock.held():
        here = location.read(state) or HERE
        there = _wanted(workspace, here, to, name, blobs, blobs_key)
        if _is_same_history(here, there) and _folder(here) == _folder(there):
            raise UsageError(f"the history of this workspace is in {described(state, here)} already")
        if source.moving.notice():
            return _follow(workspace, here, there, progress, preview=preview)
        workspace.recover()
        _refuse_at_work(workspace)
        if preview:
            return _foreseen(workspace, here, there)
        pieces = _move_content(workspace, here, there, progress)
        reach(SHARED)
        if _is_same_history(here, there):
            location.write(state, there)  # only the content was moved
            _sit_anew(source)
            copied = Copied(source.head().count, 0, 0)
            return _told(state, here, there, copied, pieces, with_history=False)
        with _opened(state, there) as target:
            copied = _move_history(state, source, target, here, there, progress)
            _sit(target, workspace.history.marks.values())
    return _told(state, here, there, copied, pieces)


# Where to


def _wanted(
    workspace: Workspace, here: StoreLocation, to: str, name: str, blobs: str, blobs_key: str
) -> StoreLocation:
    if to == LOCAL:
        if name or blobs or blobs_key:
            raise UsageError(
                "on this machine there is no name and no bucket; nothing was moved",
                hint="`takeback store copy --to local`, without --workspace and --blobs",
            )
        return HERE
    if not postgres_address.is_address(dsn := environment.expanded(to)):
        raise UsageError(
            f"{postgres_address.hidden(dsn)} is no address of a store; nothing was moved",
            hint="`local`, or postgresql://host/database",
        )
    wanted = StoreLocation(
        STORE_FORMAT,
        to,
        name or here.workspace or _name_of(workspace),
        blobs or here.blobs,
        blobs_key or ("" if blobs else here.blobs_key),
    )
    if wanted != here:
        content.check(wanted)
    return wanted


def _name_of(workspace: Workspace) -> str:
    """A name that no other workspace has, and the same one when the move is tried again."""
    first = workspace.journal.get(1)
    assert first is not None
    return f"{workspace.root.name}-{first.digest.partition(':')[2][:12]}"


def _is_same_history(here: StoreLocation, there: StoreLocation) -> bool:
    if not here.store or not there.store:
        return here.store == there.store
    places = [store_journal.place(environment.expanded(kept.store)) for kept in (here, there)]
    return places[0] == places[1] and here.workspace == there.workspace


def _refuse_at_work(workspace: Workspace) -> None:
    if inside := workspace.inside_action():
        raise RefusedError(
            f"this was asked from inside {inside}: an agent does not move its own history. Nothing was moved",
            hint="do it from a terminal of your own",
        )
    history = workspace.history
    for action in (*history.open_actions(), *history.open_actions(Life.BACKGROUND)):
        raise RunBusy(
            f"{action.id} ({action.name}) is at work; nothing was moved",
            hint="wait for it to end, or stop it, and try again",
        )
    for run in history.open_runs():
        raise RunBusy(
            f"{run.id} ({run.began.name}) is at work; nothing was moved",
            hint=f"end it, and try again; if nothing is at work there, say so: takeback resume {run.id}",
        )
    # What a worker held that is gone is free, and counts as tried.
    bury(workspace.outbox)
    workspace.outbox.claim("takeback store copy", 0, 1.0)


# Content


def _names(workspace: Workspace, progress: Progress) -> set[bytes]:
    """All content that the history names and that is kept, whatever the limits say."""
    journal, observed = workspace.journal, workspace.parts.tracker.observed
    for mark in workspace.history.marks.values():
        # No clean-up lets go of the last one. Where even that is gone, what else is gone was not let go on purpose.
        if mark.resource in observed and not observed[mark.resource].keeps(mark):
            raise ContentGone(
                f"the {mark.resource} of the last record are neither here nor in the bucket; nothing was moved",
                hint="see that the bucket is the right one; `takeback verify` shows what is missing",
            )
    return needed(
        journal.read(), (), observed, RetentionLimits(0, 0, 0), 0, progress, workspace.history.values()
    )


def _folder(kept: StoreLocation) -> tuple[str, str]:
    """What makes another folder in a bucket."""
    return (environment.expanded(kept.blobs).rstrip("/"), kept.workspace) if kept.blobs else ("", "")


def _move_content(workspace: Workspace, here: StoreLocation, there: StoreLocation, progress: Progress) -> int:
    """See that all content that the history names is where the new place needs it; gives how many pieces that are."""
    names = _names(workspace, progress)
    if _folder(here) == _folder(there):
        return len(names)
    if here.blobs:
        workspace.parts.store.fetch(names, progress)
    if there.blobs:
        # Nobody else can clean up there: who would has to write to the new place, which is not open yet.
        journal = workspace.journal
        store = content.store_for(workspace.state, there, journal, workspace.lock, progress)
        try:
            journal.leases.release(store.share(progress))
            send_all(workspace.state, store.shelf, progress)
            missing = store.unshared(names)
        finally:
            store.close()
        if missing:
            raise CorruptionError(
                f"{len(missing):,} pieces of content are not in the bucket; nothing was moved",
                hint="`takeback verify --deep` shows what is missing here",
            )
    else:
        send_all(workspace.state, None, progress)
    return len(names)


# History


@contextmanager
def _opened(state: Path, kept: StoreLocation) -> Iterator[Journal]:
    journal = store_journal.opened(state, kept)
    try:
        yield journal
    finally:
        journal.close()


def _move_history(
    state: Path,
    source: Journal,
    target: Journal,
    here: StoreLocation,
    there: StoreLocation,
    progress: Progress,
) -> Copied:
    present = begins_alike(source, target, progress) if target.moving.notice() else 0
    if target.head().count != present:
        raise ConflictError(
            f"{described(state, there)} has a history that is in use; nothing was moved",
            hint="choose another name with --workspace",
        )
    target.moving.shut(
        f"is being brought here from {_seen_from_afar(state, here)}, and is not complete", at=present
    )
    reach(TARGET_SHUT)
    carry(source, target, progress)
    reach(CARRIED)
    location.write(state, msgspec.structs.replace(here, moving=True))
    reach(LEAVING)
    try:
        source.moving.shut(f"was moved to {_seen_from_afar(state, there)}")
        reach(SOURCE_SHUT)
        carry(source, target, progress)  # what a worker said meanwhile
        carry_queue(source, target)
        copied = compare(source, target, progress)
        reach(PROVED)
        location.write(state, msgspec.structs.replace(there, moving=True))  # the move
    except BaseException:
        with suppress(TakebackError):  # else whoever opens it next does that
            store_journal.settle(state)
        raise
    reach(SWITCHED)
    with suppress(BackendError):
        store_journal.settle(state)
    return copied


def _sit(target: Journal, marks: Collection[Mark]) -> None:
    """A shared history belongs to one folder at a time, and that is this one."""
    if target.seats:
        with suppress(BackendError, ConflictError):  # the next command sits down, or is told who was faster
            target.seats.take(marks, after=target.head().count)


def _sit_anew(journal: Journal) -> None:
    """Whoever has had it open since before knows another bucket: its seat is old now, so it has to start again.

    It is so in any case: what it would share goes nowhere, since `store.json` is another one by now.
    """
    assert journal.seats
    with suppress(
        BackendError
    ):  # the content has been moved, and that is not undone by a server that goes away
        for _ in range(TRIES_MAX):
            with suppress(JournalMoved):  # a worker may have said something meanwhile
                journal.seats.take((), after=journal.head().count)
                return


def _seen_from_afar(state: Path, here: StoreLocation) -> str:
    """Where that is, for who may read it on another machine."""
    return described(state, here) if here.store else f"{socket.gethostname()}:{state / store_journal.JOURNAL}"


def _follow(
    workspace: Workspace, here: StoreLocation, there: StoreLocation, progress: Progress, *, preview: bool
) -> Move:
    """Another machine has moved it. What is there must begin with all that is known here."""
    state, source = workspace.state, workspace.journal
    with _opened(state, there) as target:
        try:
            is_whole = not target.moving.notice() and begins_alike(target, source, progress) > 0
        except ConflictError:
            is_whole = False
        if not is_whole:
            raise ConflictError(
                f"the history of this workspace {source.moving.notice()}, and {described(state, there)} has not "
                "all of it; nothing was changed",
                hint="name the place that it was moved to",
            )
        copied = Copied(source.head().count, 0, 0)
    if not preview:
        location.write(state, there)
    return _told(state, here, there, copied, 0, done=not preview)


def _foreseen(workspace: Workspace, here: StoreLocation, there: StoreLocation) -> Move:
    from takeback.storage.journal.postgres.relocation import peek

    state, journal = workspace.state, workspace.journal
    found: Head | None = peek(environment.expanded(there.store), there.workspace) if there.store else None
    if found and found.count > journal.head().count:
        raise ConflictError(
            f"{described(state, there)} has a longer history; nothing would be moved",
            hint="choose another name with --workspace",
        )
    streams = {record.stream for record in journal.read()}
    copied = Copied(journal.head().count, len(streams), sum(journal.outbox.counts().values()))
    pieces, with_history = len(_names(workspace, silent)), not _is_same_history(here, there)
    return _told(state, here, there, copied, pieces, done=False, with_history=with_history)


def _told(
    state: Path,
    here: StoreLocation,
    there: StoreLocation,
    copied: Copied,
    pieces: int,
    *,
    done: bool = True,
    with_history: bool = True,
) -> Move:
    old = "" if here.store else str(state / store_journal.JOURNAL)
    blobs = postgres_address.hidden(environment.expanded(there.blobs))
    return Move(
        described(state, here), described(state, there), copied, pieces, blobs, old, done, with_history
    )
