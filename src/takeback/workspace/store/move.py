"""Moving a workspace to another place: from this machine to a shared store, back, or to another store.

The content goes first, then the history, into a place that is shut. When all of it has been read back and compared,
`store.json` names the new place: that one rename is the move. Both places are shut from before the rename until after
it, so that never both can be written to. If the process is killed, the next one that opens the workspace ends the
move (`journal.settle`): the workspace is in the old place before that rename, and in the new one after it.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from takeback.core.event_base import Mark
from takeback.core.record import contents_named
from takeback.engine.outbox.worker import bury
from takeback.engine.prune import RetentionLimits, needed
from takeback.errors import (
    BackendError,
    ConflictError,
    ContentGone,
    CorruptionError,
    JournalMoved,
    RefusedError,
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
from takeback.workspace.refusal import refuse_agent, refuse_at_work
from takeback.workspace.store import content
from takeback.workspace.store import journal as store_journal
from takeback.workspace.store.conversations import threads_of
from takeback.workspace.store.copy import Copied, begins_alike, carry, carry_queue, compare
from takeback.workspace.store.summary import described
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
    """Both described, without any secret."""
    copied: Copied
    pieces: int
    """The number of pieces of content that the history names."""
    blobs: str
    """The bucket with a copy of the content; empty if it is only on this machine."""
    old: str
    """The file of the old journal; empty if that is in a database."""
    done: bool = True
    with_history: bool = True
    """False if only content was moved, to another bucket: there is no old history then."""


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
    """Move the history of a workspace to another place; afterwards the workspace has to be opened again.

    `to` is `local`, or the address of a database as in takeback.toml, with $NAME for a variable. With `blobs`, an
    address of the same kind, all content goes to that bucket.
    """
    state, source = workspace.state, workspace.journal
    with workspace.lock.held():
        here = location.read(state) or HERE
        there = _wanted(workspace, here, to, name, blobs, blobs_key)
        if _is_same_history(here, there) and _folder(here) == _folder(there):
            raise UsageError(
                f"the history of this workspace is already in {described(state, here)}; nothing was moved"
            )
        if source.moving.notice():
            return _follow(workspace, here, there, progress, preview=preview)
        workspace.recover()
        _refuse_at_work(workspace)
        _refuse_conversations(state, here, there)
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
                "a history on this machine has no name and no bucket; nothing was moved",
                hint="use `takeback store copy --to local` without --workspace and --blobs",
            )
        return HERE
    if not postgres_address.is_address(dsn := environment.expanded(to)):
        raise UsageError(
            f"{postgres_address.hidden(dsn)} is not the address of a store; nothing was moved",
            hint="use `local`, or an address like postgresql://host/database",
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
    """Return a name that no other workspace has, and that is the same when the move is tried again."""
    first = workspace.journal.get(1)
    assert first is not None
    return f"{workspace.root.name}-{first.digest.partition(':')[2][:12]}"


def _is_same_history(here: StoreLocation, there: StoreLocation) -> bool:
    if not here.store or not there.store:
        return here.store == there.store
    places = [store_journal.place(environment.expanded(kept.store)) for kept in (here, there)]
    return places[0] == places[1] and here.workspace == there.workspace


def _refuse_at_work(workspace: Workspace) -> None:
    refuse_agent(workspace.inside_action(), "an agent cannot move its own history", done="moved")
    refuse_at_work(workspace.history, done="moved")
    # Intents that a dead worker held are released, and count as attempted.
    bury(workspace.outbox)
    workspace.outbox.claim("takeback store copy", 0, 1.0)


def _refuse_conversations(state: Path, here: StoreLocation, there: StoreLocation) -> None:
    """Raise RefusedError if there are any: a graph that runs meanwhile would go on writing to the old place."""
    threads = [] if _is_same_history(here, there) else threads_of(state, here)
    if threads:
        raise RefusedError(
            f"agent frameworks keep {len(threads)} conversations in {described(state, here)}, which do not move. "
            "Nothing was moved",
            hint="delete them with `delete_thread` of the saver, or begin a new workspace in the other store",
        )


# Content


def _names(workspace: Workspace, progress: Progress) -> set[bytes]:
    """Return the names of all content that the history names and that is kept, whatever the limits say."""
    journal, observed = workspace.journal, workspace.parts.tracker.observed
    for mark in workspace.history.marks.values():
        # No clean-up removes the last one. If even that is gone, other content is not missing on purpose.
        if mark.resource in observed and not observed[mark.resource].keeps(mark):
            raise ContentGone(
                f"the {mark.resource} of the last record are neither here nor in the bucket; nothing was moved",
                hint="check that it is the right bucket; `takeback verify` shows what is missing",
            )
    return needed(
        journal.read(), (), observed, RetentionLimits(0, 0, 0), 0, progress, contents_named(journal.read())
    )


def _folder(kept: StoreLocation) -> tuple[str, str]:
    """Return what identifies a workspace's folder in a bucket."""
    return (environment.expanded(kept.blobs).rstrip("/"), kept.workspace) if kept.blobs else ("", "")


def _move_content(workspace: Workspace, here: StoreLocation, there: StoreLocation, progress: Progress) -> int:
    """Copy all content that the history names to where the new place needs it. Return the number of pieces."""
    names = _names(workspace, progress)
    if _folder(here) == _folder(there):
        return len(names)
    if here.blobs:
        workspace.parts.store.fetch(names, progress)
    if there.blobs:
        # Nothing else can clean up there: it would have to write to the new place, which is not open yet.
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
        carry(source, target, progress)  # what a worker recorded meanwhile
        carry_queue(source, target)
        copied = compare(source, target, progress)
        reach(PROVED)
        location.write(state, msgspec.structs.replace(there, moving=True))  # the move
    except BaseException:
        with suppress(TakebackError):  # otherwise the next process that opens the workspace does it
            store_journal.settle(state)
        raise
    reach(SWITCHED)
    with suppress(BackendError):
        store_journal.settle(state)
    return copied


def _sit(target: Journal, marks: Collection[Mark]) -> None:
    """Take the seat for this folder: a shared history belongs to one folder at a time."""
    if target.seats:
        with suppress(
            BackendError, ConflictError
        ):  # the next command takes the seat, or reports who was faster
            target.seats.take(marks, after=target.head().count)


def _sit_anew(journal: Journal) -> None:
    """Take the seat again, so that processes that still use the old bucket lose theirs and have to start again.

    They could not share content in any case, since `store.json` has changed.
    """
    assert journal.seats
    with suppress(BackendError):  # the content has been moved, even if the server goes away now
        for _ in range(TRIES_MAX):
            with suppress(JournalMoved):  # a worker may have recorded something meanwhile
                journal.seats.take((), after=journal.head().count)
                return


def _seen_from_afar(state: Path, here: StoreLocation) -> str:
    """Return a description of the place that makes sense on another machine."""
    return described(state, here) if here.store else f"{socket.gethostname()}:{state / store_journal.JOURNAL}"


def _follow(
    workspace: Workspace, here: StoreLocation, there: StoreLocation, progress: Progress, *, preview: bool
) -> Move:
    """Follow a move by another machine. The history there must begin with everything that is known here."""
    state, source = workspace.state, workspace.journal
    with _opened(state, there) as target:
        try:
            is_whole = not target.moving.notice() and begins_alike(target, source, progress) > 0
        except ConflictError:
            is_whole = False
        if not is_whole:
            raise ConflictError(
                f"the history of this workspace {source.moving.notice()}, and {described(state, there)} does not "
                "have all of it; nothing was changed",
                hint="name the place to which it was moved",
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
