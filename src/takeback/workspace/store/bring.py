"""Bringing a workspace of a shared store to this machine: into a new folder, as it was last recorded.

    read the journal → note the folder as incomplete → bring content, files, databases, git → read all of it again
    → take the seat, with the present marks

Taking the seat is the point of no return. Before it the workspace sits where it was, and the folder here is a copy
that cannot record anything; after it, anything still at work there is refused. If interrupted, call it again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change
from takeback.core.history import History
from takeback.core.seats import Seat
from takeback.errors import (
    BackendError,
    ConflictError,
    JournalMoved,
    RefusedError,
    SeatHeld,
    StoreMoved,
    UsageError,
)
from takeback.ports.progress import Progress, silent
from takeback.ports.resource import Observed, Swap, Swapped
from takeback.resources.files.entry import FOLDER, entry_of
from takeback.settings import environment, toml
from takeback.storage.state import location, place
from takeback.storage.state.location import STORE_FORMAT, StoreLocation
from takeback.storage.state.registry import Registry
from takeback.system import crash_points
from takeback.system.private_files import private_folder
from takeback.workspace.locate import find_root
from takeback.workspace.store import content
from takeback.workspace.store.journal import begin, held_unopened, journal_of, visited
from takeback.workspace.workspace import Workspace

TRIES_MAX = 20
NAMES_MAX = 5
PARTS = ("files", "sqlite", "git")
"""The resources that are brought. Paths outside the workspace and databases on servers are not part of it."""
ARRIVAL = "arrival"
"""The id that swaps get here in place of a rollback's."""

NOTED = crash_points.crash_point("arrival-noted")
BEGUN = crash_points.crash_point("arrival-begun")
FETCHED = crash_points.crash_point("arrival-fetched")
BROUGHT = crash_points.crash_point("arrival-brought")
SEATED = crash_points.crash_point("arrival-seated")


class Outlook(msgspec.Struct, frozen=True):
    """What would be brought, and where from."""

    workspace: str
    seat: Seat | None
    history: History
    state: Path
    root: Path
    kept: StoreLocation

    @property
    def is_here(self) -> bool:
        """Whether it already sits in this folder."""
        found = place.place_of(self.state) if (self.state / place.FILE).exists() else None
        return bool(self.seat and found and found.id == self.seat.place.id)

    @property
    def stays(self) -> list[str]:
        """Descriptions of what is not brought."""
        return list(_left_behind(self.history))


class Arrival(msgspec.Struct, frozen=True):
    """What was brought."""

    root: Path
    seat: Seat
    is_new: bool = False
    """Whether it was brought just now; otherwise it already sat here."""
    files: int = 0
    databases: int = 0
    unlike: tuple[str, ...] = ()
    """What was brought, but with another owner."""
    again: tuple[str, ...] = ()
    """Completed calls whose changes to files were not recorded yet: they will be made again."""
    stays: tuple[str, ...] = ()
    """Descriptions of what could not be brought."""


def look(
    into: str | os.PathLike[str],
    *,
    run: str = "",
    store: str = "",
    workspace: str = "",
    blobs: str = "",
    blobs_key: str = "",
) -> Outlook:
    """Return what would be brought into this folder, without changing anything. Raise if the folder is not empty.

    Addresses are as in takeback.toml: $NAME stands for a variable.
    """
    root = Path(os.path.realpath(into))
    registry = Registry(environment.state_home())
    environment.refuse_too_wide(root)
    if root.is_relative_to(registry.home):
        raise UsageError(f"{root} is where Takeback keeps its own state; nothing was done")
    state = registry.state_of(root)
    begun = location.read(state)
    if begun is None and registry.knows(root) and not place.arriving(state):
        raise RefusedError(
            f"{root} has a history of its own on this machine; nothing was changed", hint="name a new folder"
        )
    kept = begun or _named(registry, store, workspace, blobs, blobs_key)
    _refuse_another(root, kept, store, workspace)
    with tempfile.TemporaryDirectory(prefix="takeback-") as scratch:
        journal = visited(kept, Path(scratch))
        try:
            history = History.of(journal.read())
            seat = journal.seats.now() if journal.seats else None
            notice = journal.moving.notice()
            if begun is None and kept.blobs and history.marks and not notice:
                # A wrong bucket or key is reported before it is stored.
                content.refuse_strange(kept, journal)
        finally:
            journal.close()
    if notice:
        raise StoreMoved(
            f"the history of {kept.workspace} {notice}; nothing was brought",
            hint="name the store that it is in now, with --store and --workspace",
        )
    if run and run not in history.runs:
        raise UsageError(f"there is no run {run} in {kept.workspace}; nothing was done")
    found = Outlook(kept.workspace, seat, history, state, root, kept)
    if not found.is_here and place.arriving(state) is None:
        _refuse_filled(root)
    return found


def arrive(outlook: Outlook, *, progress: Progress = silent) -> Arrival:
    """Bring the workspace into its folder, and take the seat. Raise SeatHeld while it is at work elsewhere."""
    root, state, seat = outlook.root, outlook.state, outlook.seat
    if seat and outlook.is_here:
        place.arrived(state)
        return Arrival(root, seat)
    if seat and seat.is_live:
        raise SeatHeld(
            f"{outlook.workspace} sits in {seat.place.said}, which is still active (last sign of life less than "
            f"{seat.ttl_us / 1e6:g} s ago); nothing was brought",
            hint=f"stop the work there, and try again in {seat.left_us / 1e6:.0f} s",
            left_s=seat.left_us / 1e6,
        )
    if outlook.history.marks and not outlook.kept.blobs:
        raise UsageError(
            "no bucket is configured to bring the content from; nothing was brought",
            hint=f"use --blobs s3://BUCKET/FOLDER, or set blobs under [store] in a {toml.FILE} here",
        )
    _prepare(outlook)
    for _ in range(TRIES_MAX):
        if arrived := _bring(root, state, progress):
            place.arrived(state)
            return arrived
    raise ConflictError(
        f"{outlook.workspace} is still at work elsewhere; it was not moved",
        hint="stop the work there, and try again",
    )


def _named(registry: Registry, store: str, workspace: str, blobs: str, blobs_key: str) -> StoreLocation:
    """Return the named store, or that of the workspace in which we are, or that of its takeback.toml."""
    here = Path(os.path.realpath(environment.here()))
    nearest = registry.nearest(here)
    if nearest and not store and (kept := location.read(registry.state_of(nearest))):
        return msgspec.structs.replace(
            kept,
            workspace=workspace or kept.workspace,
            blobs=blobs or kept.blobs,
            blobs_key=blobs_key or kept.blobs_key,
        )
    root = find_root(here, registry)
    settings = held_unopened(registry.state_of(root), root).settings.store
    if not store and not settings.store and toml.read_config(root).store.store:
        raise UsageError(
            f"{toml.FILE} names a store that you have not accepted; nothing was done",
            hint="look at it, then name it with --store and --workspace",
        )
    written, bucket, name = store or settings.store, blobs or settings.blobs, workspace or settings.workspace
    if not written or not name:
        missing = "store" if not written else "workspace"
        raise UsageError(
            f"no {missing} is named to bring it from; nothing was done",
            hint=f"use --store postgresql://host/database --workspace NAME, or set [store] in a {toml.FILE} here",
        )
    return StoreLocation(STORE_FORMAT, written, name, bucket, blobs_key or settings.blobs_key)


def _refuse_another(root: Path, kept: StoreLocation, store: str, workspace: str) -> None:
    other = (workspace and workspace != kept.workspace) or (
        store and environment.expanded(store) != environment.expanded(kept.store)
    )
    if other:
        raise RefusedError(
            f"{root} belongs to the workspace {kept.workspace}; nothing was changed", hint="name a new folder"
        )


def _refuse_filled(root: Path) -> None:
    """Raise RefusedError if the folder is not empty: nothing in it may be overwritten."""
    if root.exists() and not root.is_dir():
        raise RefusedError(f"{root} is not a folder; nothing was changed", hint="name a new folder")
    found = sorted(os.listdir(root)) if root.exists() else []
    if found:
        more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
        raise RefusedError(
            f"{root} is not empty: it contains {', '.join(found[:NAMES_MAX])}{more}. Nothing was changed",
            hint="name a new folder, or an empty one",
        )


def _prepare(outlook: Outlook) -> None:
    """Create the folder, and first note that it is incomplete, so that nothing takes it for complete."""
    registry = Registry(outlook.state.parent.parent)
    try:
        outlook.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendError(f"{outlook.root} cannot be created: {error.strerror}; nothing was done") from error
    private_folder(registry.home)
    private_folder(outlook.state)
    if place.arriving(outlook.state) is None:
        place.note_arriving(outlook.state, place.Arriving())
    crash_points.reach(NOTED)
    begin(outlook.state, outlook.root, outlook.kept)
    registry.create(outlook.root)
    crash_points.reach(BEGUN)


def _bring(root: Path, state: Path, progress: Progress) -> Arrival | None:
    """Make one attempt. Return None if something was recorded meanwhile."""
    with _opened(root, state, progress) as workspace:
        wanted = dict(workspace.history.marks)
        with workspace.lock.held():
            unlike, kept, counts = _put(workspace, state, wanted, progress)
    crash_points.reach(BROUGHT)
    # Opened again: the settings that hold have come with the files.
    with _opened(root, state, progress) as workspace, workspace.lock.held():
        history = workspace.history
        if any(mark != history.marks.get(name) for name, mark in wanted.items()):
            return None
        marks = workspace.parts.tracker.marks()
        _refuse_unlike(workspace, wanted, marks, but="git" if kept else "")
        assert workspace.journal.seats
        lost = set(history.moves.lost)
        try:
            # As for every event, the content that the marks name has to be in the bucket first.
            fences = workspace.parts.store.share()
            seat = workspace.journal.seats.take(
                marks, after=history.seq, actor=environment.actor(), fences=fences
            )
        except JournalMoved:
            return None
        crash_points.reach(SEATED)
        again = sorted(workspace.history.moves.lost - lost, key=ids.seq_of)
        return Arrival(root, seat, True, *counts, unlike, tuple(again), (kept,) if kept else ())


def _opened(root: Path, state: Path, progress: Progress) -> Workspace:
    return Workspace(root, state, journal_of(state), progress=progress)


def _put(
    workspace: Workspace, state: Path, wanted: dict[str, e.Mark], progress: Progress
) -> tuple[tuple[str, ...], str, tuple[int, int]]:
    """Put the files here, then the databases among them, then git."""
    unlike: list[str] = []
    counts = {"files": 0, "sqlite": 0}
    earlier = place.arriving(state) or place.Arriving()
    tree = [workspace.parts.tracker.observed[name] for name in counts if name in wanted]
    every = [*tree, workspace.parts.git] if "git" in wanted else tree
    workspace.parts.store.fetch({name for one in every for name in one.blobs([wanted[one.name]])}, progress)
    crash_points.reach(FETCHED)
    if earlier.brought:
        _finish(workspace.parts.files, earlier)
    for resource in tree:
        goal, present = wanted[resource.name], resource.mark()
        swaps = _swaps(resource, present, goal, earlier.brought if resource.name == "files" else "")
        if resource.name == "files":
            place.note_arriving(state, place.Arriving(present.state, goal.state))
        done = resource.swap(swaps, ARRIVAL, fresh=not earlier.brought)
        counts[resource.name] = sum(bool(swap.goal) for swap in swaps)
        unlike += _judged(done, swaps)
    kept = _bring_git(workspace, wanted["git"]) if "git" in wanted else ""
    return tuple(unlike), kept, (counts["files"], counts["sqlite"])


def _bring_git(workspace: Workspace, goal: e.Mark) -> str:
    """Bring the whole repository, if there is one. Return the reason if it cannot be brought."""
    ways = list(workspace.parts.git.changes(workspace.parts.git.mark(), goal))
    if any(change.target.name == ".git" for change in ways):
        return "the repository: its .git refers to another folder on the other machine"
    # Even if the repository is gone: a later undo may need its objects.
    done = workspace.parts.git.bring(goal)
    _judged(done, [Swap(change.target, change.before, change.after) for change in ways])
    return ""


def _finish(files: Observed, earlier: place.Arriving) -> None:
    """Finish what an interrupted attempt began: only then is it clear which files in its staging folder are whose."""
    found, brought = (e.Mark(files.name, state) for state in (earlier.found, earlier.brought))
    swaps = [Swap(change.target, change.before, change.after) for change in files.changes(found, brought)]
    files.swap(swaps, ARRIVAL, fresh=False)


def _swaps(resource: Observed, present: e.Mark, goal: e.Mark, earlier: str) -> list[Swap]:
    """Return the swaps from what is here to what was recorded. Raise if anything here was not brought by us."""
    ways = list(resource.changes(present, goal))
    strange = _strange(resource, ways, present, earlier)
    if strange:
        more = f" and {len(strange) - NAMES_MAX} more" if len(strange) > NAMES_MAX else ""
        raise RefusedError(
            f"{', '.join(strange[:NAMES_MAX])}{more} was not brought here, and is not overwritten. "
            "The workspace was not moved",
            hint="move it elsewhere, or name a new folder",
        )
    return [Swap(change.target, change.before, change.after) for change in ways]


def _strange(resource: Observed, ways: Iterable[Change], present: e.Mark, earlier: str) -> list[str]:
    if resource.name != "files":
        return [change.target.said for change in ways if change.before]
    then = e.Mark(resource.name, earlier) if earlier else None
    differs = {c.target for c in resource.changes(then, present)} if then else set()
    return [
        change.target.said
        for change in ways
        if change.before and not _are_folders(change) and (then is None or change.target in differs)
    ]


def _are_folders(change: Change) -> bool:
    """Return True if both versions are folders, so that only the mode or the time changes."""
    kinds = [entry.kind if entry else "" for entry in (entry_of(change.before), entry_of(change.after))]
    return kinds == [FOLDER, FOLDER]


def _judged(done: Sequence[Swapped], swaps: Sequence[Swap]) -> list[str]:
    """Return the targets that differ only in their owner. Raise BackendError if any other differs."""
    goals = {swap.target: swap.goal for swap in swaps}
    wrong = [one for one in done if not one.verified and one.now != goals.get(one.target)]
    if wrong:
        first = wrong[0]
        raise BackendError(
            f"{first.target.said} could not be brought: {first.why or first.did}"
            f"{f', nor {len(wrong) - 1} more' if len(wrong) > 1 else ''}. The workspace was not moved",
            hint="fix that, and run the command again: it continues where it stopped",
        )
    return [one.target.said for one in done if not one.verified]


def _refuse_unlike(
    workspace: Workspace, wanted: dict[str, e.Mark], marks: Sequence[e.Mark], *, but: str
) -> None:
    """Raise RefusedError unless everything here, read again, equals what was recorded."""
    for mark in marks:
        resource = workspace.parts.tracker.observed[mark.resource]
        if mark.resource not in PARTS or mark.resource not in wanted or mark.resource == but:
            continue
        differs = [c for c in resource.changes(wanted[mark.resource], mark) if c.before != c.after]
        if differs:
            raise RefusedError(
                f"{differs[0].target.said} was changed here while it was brought; the workspace was not moved",
                hint="move it elsewhere, and run the command again",
            )


def _left_behind(history: History) -> Iterable[str]:
    """Yield descriptions of what stays on the other machine, or was never part of the workspace."""
    targets = history.resources
    if "outside" in targets:
        yield "changes outside the workspace: those paths belong to the other machine"
    if "postgres" in targets:
        yield "databases on servers: they stay where they are; `takeback guard` registers them here"
