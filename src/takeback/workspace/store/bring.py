"""Bringing a workspace of a shared store to this machine: into a new folder, as it was last recorded.

    look into the journal → the folder is noted as not whole → content, files, databases, git → all of it read again
    → the seat is taken, with how things are here

The seat is the one point of no return. Before it the workspace sits where it sat, and the folder here is a copy that
cannot record anything; after it whatever still works there is refused. Cut short, it can be called again.
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
"""What is brought: what lies outside the workspace, or in servers, is not its own."""
ARRIVAL = "arrival"
"""What a rollback is called that is none: what is being brought."""

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
        """Whether it sits in this folder already."""
        found = place.place_of(self.state) if (self.state / place.FILE).exists() else None
        return bool(self.seat and found and found.id == self.seat.place.id)

    @property
    def stays(self) -> list[str]:
        """What does not come along, in words."""
        return list(_left_behind(self.history))


class Arrival(msgspec.Struct, frozen=True):
    """What was brought."""

    root: Path
    seat: Seat
    is_new: bool = False
    """Whether it came just now: else it sat here already."""
    files: int = 0
    databases: int = 0
    unlike: tuple[str, ...] = ()
    """What is here, but not down to its owner."""
    again: tuple[str, ...] = ()
    """Calls that were completed, and whose work on files was not recorded yet: they are made again."""
    stays: tuple[str, ...] = ()
    """What turned out not to come along, in words."""


def look(
    into: str | os.PathLike[str],
    *,
    run: str = "",
    store: str = "",
    workspace: str = "",
    blobs: str = "",
    blobs_key: str = "",
) -> Outlook:
    """Look what would be brought into this folder; nothing is changed. Refused where anything else is in it.

    Addresses are written as in takeback.toml: $NAME stands for a variable.
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
                # A slip is told before anything of it is kept.
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
    """Bring the workspace into its folder, and let it sit there. SeatHeld while it is at work elsewhere."""
    root, state, seat = outlook.root, outlook.state, outlook.seat
    if seat and outlook.is_here:
        place.arrived(state)
        return Arrival(root, seat)
    if seat and seat.is_live:
        raise SeatHeld(
            f"{outlook.workspace} sits in {seat.place.said}, which showed a sign of life less than "
            f"{seat.ttl_us / 1e6:g} s ago; nothing was brought",
            hint=f"end what works there, and try again in {seat.left_us / 1e6:.0f} s",
            left_s=seat.left_us / 1e6,
        )
    if outlook.history.marks and not outlook.kept.blobs:
        raise UsageError(
            "it is not known from which bucket to bring the content; nothing was brought",
            hint=f"--blobs s3://BUCKET/FOLDER, or blobs in [store] of a {toml.FILE} here",
        )
    _prepare(outlook)
    for _ in range(TRIES_MAX):
        if arrived := _bring(root, state, progress):
            place.arrived(state)
            return arrived
    raise ConflictError(
        f"{outlook.workspace} goes on elsewhere while it is brought here; it was not moved",
        hint="end what works there, and try again",
    )


def _named(registry: Registry, store: str, workspace: str, blobs: str, blobs_key: str) -> StoreLocation:
    """The store that was named; or that of the workspace in which we are, or that its takeback.toml names."""
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
            hint="look at it, and name it with --store and --workspace",
        )
    written, bucket, name = store or settings.store, blobs or settings.blobs, workspace or settings.workspace
    if not written or not name:
        missing = "store" if not written else "workspace"
        raise UsageError(
            f"it is not known from which {missing} to bring it; nothing was done",
            hint=f"--store postgresql://host/database --workspace NAME, or [store] in a {toml.FILE} here",
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
    """Nothing that is there is written over."""
    if root.exists() and not root.is_dir():
        raise RefusedError(f"{root} is not a folder; nothing was changed", hint="name a new folder")
    found = sorted(os.listdir(root)) if root.exists() else []
    if found:
        more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
        raise RefusedError(
            f"{root} is not empty: it holds {', '.join(found[:NAMES_MAX])}{more}. Nothing was changed",
            hint="name a new folder, or an empty one",
        )


def _prepare(outlook: Outlook) -> None:
    """Make the folder, and note that it is not whole yet before anything else could take it for whole."""
    registry = Registry(outlook.state.parent.parent)
    try:
        outlook.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendError(f"{outlook.root} cannot be made: {error.strerror}; nothing was done") from error
    private_folder(registry.home)
    private_folder(outlook.state)
    if place.arriving(outlook.state) is None:
        place.note_arriving(outlook.state, place.Arriving())
    crash_points.reach(NOTED)
    begin(outlook.state, outlook.root, outlook.kept)
    registry.create(outlook.root)
    crash_points.reach(BEGUN)


def _bring(root: Path, state: Path, progress: Progress) -> Arrival | None:
    """One attempt; None where something was recorded meanwhile."""
    with _opened(root, state, progress) as workspace:
        wanted = dict(workspace.history.marks)
        with workspace.lock.held():
            unlike, kept, counts = _put(workspace, state, wanted, progress)
    crash_points.reach(BROUGHT)
    # Opened anew: the settings that hold have come with the files.
    with _opened(root, state, progress) as workspace, workspace.lock.held():
        history = workspace.history
        if any(mark != history.marks.get(name) for name, mark in wanted.items()):
            return None
        marks = workspace.parts.tracker.marks()
        _refuse_unlike(workspace, wanted, marks, but="git" if kept else "")
        assert workspace.journal.seats
        lost = set(history.moves.lost)
        try:
            # What the marks name has to be where others find it, as for every event.
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
    """Files, then the databases among them, then git."""
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
    """The whole repository, where there was one; says why not, where it cannot come."""
    ways = list(workspace.parts.git.changes(workspace.parts.git.mark(), goal))
    if any(change.target.name == ".git" for change in ways):
        return "the repository: its .git leads to another folder of the other machine"
    # Also where there is none any more: what is taken back later may need its objects.
    done = workspace.parts.git.bring(goal)
    _judged(done, [Swap(change.target, change.before, change.after) for change in ways])
    return ""


def _finish(files: Observed, earlier: place.Arriving) -> None:
    """Carry out what an attempt began that was cut short: only so is it known what in its staging folder is whose."""
    found, brought = (e.Mark(files.name, state) for state in (earlier.found, earlier.brought))
    swaps = [Swap(change.target, change.before, change.after) for change in files.changes(found, brought)]
    files.swap(swaps, ARRIVAL, fresh=False)


def _swaps(resource: Observed, present: e.Mark, goal: e.Mark, earlier: str) -> list[Swap]:
    """What leads from what is here to what was recorded. What is here and was not brought is somebody else's."""
    ways = list(resource.changes(present, goal))
    strange = _strange(resource, ways, present, earlier)
    if strange:
        more = f" and {len(strange) - NAMES_MAX} more" if len(strange) > NAMES_MAX else ""
        raise RefusedError(
            f"{', '.join(strange[:NAMES_MAX])}{more} was not brought here, and is not written over. "
            "The workspace was not moved",
            hint="take it away, or name a new folder",
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
    """Whether only the mode or the time of a folder is to be set."""
    kinds = [entry.kind if entry else "" for entry in (entry_of(change.before), entry_of(change.after))]
    return kinds == [FOLDER, FOLDER]


def _judged(done: Sequence[Swapped], swaps: Sequence[Swap]) -> list[str]:
    """Those that are here but for their owner; the rest has to be here exactly."""
    goals = {swap.target: swap.goal for swap in swaps}
    wrong = [one for one in done if not one.verified and one.now != goals.get(one.target)]
    if wrong:
        first = wrong[0]
        raise BackendError(
            f"{first.target.said} could not be brought: {first.why or first.did}"
            f"{f', nor {len(wrong) - 1} more' if len(wrong) > 1 else ''}. The workspace was not moved",
            hint="mend that, and call it again: it goes on where it was",
        )
    return [one.target.said for one in done if not one.verified]


def _refuse_unlike(
    workspace: Workspace, wanted: dict[str, e.Mark], marks: Sequence[e.Mark], *, but: str
) -> None:
    """The proof: what is here now, read again, is what was recorded."""
    for mark in marks:
        resource = workspace.parts.tracker.observed[mark.resource]
        if mark.resource not in PARTS or mark.resource not in wanted or mark.resource == but:
            continue
        differs = [c for c in resource.changes(wanted[mark.resource], mark) if c.before != c.after]
        if differs:
            raise RefusedError(
                f"{differs[0].target.said} was changed here while it was brought; the workspace was not moved",
                hint="take it away, and call it again",
            )


def _left_behind(history: History) -> Iterable[str]:
    """What stays on the other machine, or was never part of it."""
    targets = {target.resource for target in history.targets()}
    if "outside" in targets:
        yield "what was changed outside the workspace: those paths are of the other machine"
    if "postgres" in targets:
        yield "databases of servers: they stay where they are; `takeback guard` makes them known here"
