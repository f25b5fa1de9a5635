"""SQLite databases as a resource: every one under the root, and those outside that a run was told to write to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import path_of, text_of
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.ports.content import BlobStore, Contents
from takeback.ports.journal import Finding
from takeback.ports.resource import Swap, Swapped, Traits
from takeback.resources.sqlite import attributes, cache, damaged, listing, other_process, reading, writing
from takeback.resources.sqlite.cache import DatabaseCache, DatabaseRow, DatabaseStat
from takeback.resources.sqlite.discovery import KnownDatabases
from takeback.resources.sqlite.image import (
    SUFFIXES,
    Image,
    digest_in,
    is_raw,
    kept_of,
    opaque,
    version_of,
)
from takeback.resources.sqlite.listing import Listing
from takeback.resources.sqlite.merging import Images
from takeback.resources.sqlite.own_files import Scratch
from takeback.system import crash_points
from takeback.system.beneath import folder_of, is_empty, is_lone, look

MARKED = crash_points.crash_point("sqlite-marked")
SWAPPED = crash_points.crash_point("sqlite-swapped")

LOOKED = "every database that was touched read through SQLite"
DIGEST_BYTES = 32
LONE = "it was one file with another database (a hard link), and is a file of its own now"


class Sqlite:
    """The databases of a workspace. One thread of one process at a time, under the workspace's lock."""

    name = "sqlite"
    traits = Traits(divisible=True, within_files=True)

    def __init__(
        self,
        state: Path,
        found: KnownDatabases,
        blobs: BlobStore,
        contents: Contents,
        *,
        generation: Callable[[], int],
    ) -> None:
        self.found = found
        self._blobs = blobs
        self._contents = contents
        self._generation = generation
        self._scratch = Scratch(state / "sqlite")
        self._images = Images(contents, self._scratch)
        self._cache = state / "sqlite.index"
        self._stated: dict[bytes, str] = {}
        self._rows: dict[bytes, DatabaseRow] = {}
        self._trusted = -1
        self._removed_by, self._removed = "", dict[Version, Swap]()
        """What the rollback that is at work has removed, or is about to."""
        self._load()

    def _load(self) -> None:
        """Go on from what the last process knew."""
        self._scratch.tidy()
        if known := cache.load_index(self._cache):
            self._rows, self._trusted = known.rows, known.generation
            self.found.inside.update(known.inside)

    # The present

    def mark(self) -> Mark:
        self._look()
        state = listing.store(self._listing(), self._blobs)
        self._blobs.sync()
        crash_points.reach(MARKED)
        return Mark(self.name, state, LOOKED, tuple(self._stated[path] for path in sorted(self._stated)))

    def settled(self, mark: Mark) -> None:
        """Whatever was recorded, the next look compares with the world."""

    def _look(self) -> None:
        if self._trusted != self._generation():
            # The store was cleaned since: what we know of may not be kept any more.
            self._rows, self._trusted = {}, self._generation()
        known = {*self.found.inside, *self.found.outside}
        for path in self._rows.keys() - known:
            self._rows.pop(path)
            self._stated.pop(path, None)
        # All together are waited for as long as one would be.
        until = time.monotonic() + reading.READ_WAIT_S
        for path in sorted(known):
            self._look_at(path, until=until)

    def _look_at(self, path: bytes, *, closely: bool = False, until: float | None = None) -> Version:
        """Look at one, and capture it if it is not as it was."""
        seen = self._seen(path)
        if seen is None:
            self._stated.pop(path, None)
            self._rows.pop(path, None)
            return ABSENT
        row = self._rows.get(path)
        if row is not None and row.seen == seen and not row.racy and not closely:
            return row.version
        looked_ns = time.time_ns()
        wait_s = reading.READ_WAIT_S if until is None else max(0.0, until - time.monotonic())
        version = self._captured(path, row, wait_s)
        if not version:
            self._stated.pop(path, None)
            self._rows.pop(path, None)
            return ABSENT
        # Looked at again afterwards: what was written meanwhile is found by the next look.
        racy = self._seen(path) != seen or seen.latest_ns >= looked_ns - reading.TICK_NS or not version.data
        self._rows[path] = DatabaseRow(seen, version, racy)
        return version

    def _seen(self, path: bytes) -> DatabaseStat | None:
        place = self.found.place(path)
        if not self.found.is_still(path):
            return None
        return cache.seen(place, place + SUFFIXES[0], place + SUFFIXES[2])

    def _captured(self, path: bytes, row: DatabaseRow | None, wait_s: float) -> Version:
        """The image of a database, kept."""
        place = self.found.place(path)
        with self._scratch.file() as to:
            taken = other_process.take(place, to, wait_s)
            try:
                stat = look(place)
            except OSError:
                return ABSENT
            if taken.image is None and not self.found.is_database(place):
                return ABSENT
            if taken.image is None:
                self._stated[path] = (
                    f"{text_of(path)} is a database that was not captured, so it cannot be put back: {taken.problem}"
                )
                return opaque(stat)
            if taken.image.raw:
                self._stated[path] = f"{text_of(path)} is a database and kept as a mere file: {taken.problem}"
            else:
                self._stated.pop(path, None)
            content = self._content(taken.image, row, to)
        names = self.found.other_names(path, stat)
        return version_of(taken.image, content, stat, attributes.read(place), names)

    def _content(self, image: Image, row: DatabaseRow | None, to: bytes) -> bytes:
        kept = kept_of(row.version) if row else None
        if row and kept and digest_in(row.version) == image.digest:
            return bytes.fromhex(kept.content)
        fd = os.open(to, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._contents.put(fd, image.size)
        finally:
            os.close(fd)

    def _listing(self) -> Listing:
        found = {path: row.version for path, row in self._rows.items()}
        return found | {path: found.get(path, ABSENT) for path in self.found.outside}

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        return {target: self._known(path_of(target.name)) for target in targets}

    def _known(self, path: bytes) -> Version:
        row = self._rows.get(path)
        return row.version if row else ABSENT

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        until = time.monotonic() + reading.READ_WAIT_S
        return {target: self._read(path_of(target.name), until) for target in targets}

    def _read(self, path: bytes, until: float | None = None) -> Version:
        if not self.found.is_database(self.found.place(path)):
            self._rows.pop(path, None)
            return ABSENT
        return self._look_at(path, closely=True, until=until)

    def changed_at(self, target: Target) -> int:
        """For one that is gone, its folder tells."""
        place = self.found.place(path_of(target.name))
        row = self._rows.get(path_of(target.name))
        if row is not None:
            return row.seen.latest_ns
        try:
            return os.stat(os.path.dirname(place)).st_ctime_ns
        except OSError:
            return 0

    def audit(self) -> list[Finding]:
        """Read every database again and compare it with what is believed of it, whatever its times say."""
        findings = []
        for path, row in sorted(self._rows.items()):
            if self._seen(path) == row.seen and self._look_at(path, closely=True) != row.version:
                findings.append(
                    Finding(text_of(path), "its pages changed although its size and times did not")
                )
        return findings

    def remember(self) -> None:
        cache.save_index(self._cache, DatabaseCache(self._trusted, self._rows, self.found.inside))

    def close(self) -> None:
        """Nothing is held."""

    # The past

    def keeps(self, mark: Mark) -> bool:
        return listing.is_kept(mark.state, self._blobs)

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        return listing.changes(*(listing.load(mark.state, self._blobs) for mark in (since, until)))

    def blobs(self, marks: Iterable[Mark]) -> set[bytes]:
        return listing.reach((mark.state for mark in marks), self._blobs, self._contents)

    def text(self, version: Version) -> bytes | None:
        return None

    # Taking back

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return self._images.merge(mine, base, goal)

    def tell(self, change: Change, *, back: bool) -> str:
        return self._images.tell(change)

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        found: dict[Target, tuple[Do, str]] = {}
        until = time.monotonic() + reading.READ_WAIT_S
        leaving = {swap.target.name for swap in swaps if not swap.goal}
        for swap in swaps:
            goal = kept_of(swap.goal)
            if swap.goal and goal is None:
                found[swap.target] = (Do.CONFLICT, "it could not be captured then, so it cannot be put back")
            elif is_raw(swap.goal) and swap.present and swap.present != swap.goal:
                found[swap.target] = (Do.CONFLICT, "it was damaged then, and is not damaged again")
            elif swap.present and kept_of(swap.present) is None:
                why = self._stated.get(path_of(swap.target.name), "it cannot be captured now")
                found[swap.target] = (Do.CONFLICT, why)
            elif goal and not swap.present and self._is_taken(swap):
                found[swap.target] = (Do.CONFLICT, writing.TAKEN)
            elif joined := _joined(swap, leaving):
                why = f"it is one file with {joined} now (a hard link), which would change with it"
                found[swap.target] = (Do.CONFLICT, why)
            elif swap.present != swap.goal and self._is_locked(swap.target, until):
                found[swap.target] = (Do.CONFLICT, reading.LOCKED)
            elif goal and swap.goal != swap.present and not self._is_kept(bytes.fromhex(goal.content)):
                why = "its content is no longer kept: pruned by the limits in takeback.toml, or lost"
                found[swap.target] = (Do.CONFLICT, why)
        return self._still_needed(swaps, found) | found

    def _is_taken(self, swap: Swap) -> bool:
        """Whether something else has the place of a database, and is not about to leave it."""
        return not swap.shares_place and os.path.lexists(self.found.place(path_of(swap.target.name)))

    def _still_needed(self, swaps: Sequence[Swap], stuck: Collection[Target]) -> dict[Target, tuple[Do, str]]:
        """Databases that were moved, and cannot go back to where they were: each stays where it is."""
        wanted = {swap.goal: swap.target for swap in swaps if swap.goal and swap.target in stuck}
        return {
            swap.target: (Do.KEEP, _stays(wanted[swap.present]))
            for swap in swaps
            if not swap.goal and swap.present in wanted
        }

    def _is_locked(self, target: Target, until: float) -> bool:
        return other_process.is_locked(
            self.found.place(path_of(target.name)), max(0.0, until - time.monotonic())
        )

    def _is_kept(self, content: bytes) -> bool:
        return self._blobs.has(content[:DIGEST_BYTES])

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        if not fresh:
            for swap in swaps:
                damaged.tidy(self.found.place(path_of(swap.target.name)), digest_in(swap.present))
        if self._removed_by != rollback:
            self._removed_by, self._removed = rollback, {}
        self._removed |= {swap.present: swap for swap in swaps if not swap.goal}
        done = [self._swapped(swap, fresh=fresh) for swap in swaps]
        done = [self._told_alone(swap, result) for swap, result in zip(swaps, done, strict=True)]
        return done + [
            back for swap, result in zip(swaps, done, strict=True) for back in self._back(swap, result)
        ]

    def _back(self, swap: Swap, done: Swapped) -> Iterator[Swapped]:
        """Put a database that was moved to where it was a moment ago, if it could not go back to its first place."""
        moved = self._removed.pop(swap.goal, None)
        if moved is None or not swap.goal or done.now == swap.goal:
            return
        path = path_of(moved.target.name)
        if self._read(path):
            return  # it had not been removed
        with _untouched(self.found.place(path)):
            why = self._write(path, ABSENT, moved.present)
        self._stamp(path, moved.present)
        now = self._read(path)
        is_back = now == moved.present
        did = Did.KEPT if is_back else Did.FAILED
        yield Swapped(moved.target, did, now, is_back, why or _stays(swap.target))

    def _swapped(self, swap: Swap, *, fresh: bool) -> Swapped:
        path = path_of(swap.target.name)
        present, why = self._read(path), ""
        if present and kept_of(present) is None:
            return Swapped(swap.target, Did.CONFLICT, present, False, self._stated.get(path, writing.MOVED))
        with _untouched(self.found.place(path)):
            if present not in (swap.goal, swap.present) and (fresh or not _has_rows_of(present, swap.goal)):
                why = writing.MOVED
            elif present != swap.goal:
                why = self._write(path, present, swap.goal, shares_place=swap.shares_place)
            if why == writing.MOVED:
                return self._among_others(path, swap)
        if not why:
            self._stamp(path, swap.goal)
        crash_points.reach(SWAPPED)
        now = self._read(path)
        if now == swap.goal:
            return Swapped(swap.target, Did.RESTORED if swap.goal else Did.REMOVED, now, True, why)
        return Swapped(swap.target, Did.FAILED, now, False, why or "it is not what it was")

    def _among_others(self, path: bytes, swap: Swap) -> Swapped:
        """Somebody goes on writing: take back the rows, and leave theirs."""
        base, goal = kept_of(swap.present), kept_of(swap.goal)
        if base is None or goal is None or not self._read(path):
            return Swapped(swap.target, Did.CONFLICT, self._read(path), True, writing.MOVED)
        with self._scratch.file() as old, self._scratch.file() as new:
            self._images.fetch(base, old)
            self._images.fetch(goal, new)
            why = other_process.move(self.found.place(path), old, new)
        crash_points.reach(SWAPPED)
        now = self._read(path)
        if why:
            return Swapped(swap.target, Did.CONFLICT, now, True, why)
        return Swapped(
            swap.target, Did.RESTORED, now, True, "others were writing to it; what they wrote stays"
        )

    def _write(self, path: bytes, present: Version, goal: Version, *, shares_place: bool = False) -> str:
        place, kept = self.found.place(path), kept_of(goal)
        with self._scratch.file() as image, self._scratch.file() as scratch:
            if is_raw(present):
                if kept is not None:
                    self._images.fetch(kept, image, wal=kept.wal, header=True)
                goal_is = (image, kept.mode, kept.uid, kept.gid) if kept else (b"", 0, 0, 0)
                return other_process.replace(place, digest_in(present), *goal_is)
            if kept is None:
                # What comes next finds an empty file. If that is all it wants, nobody who has it open is cut off.
                # With another name it is another database as well, which nobody has asked to empty.
                if shares_place and is_lone(place):
                    return other_process.empty(place, digest_in(present), scratch)
                return other_process.remove(place, digest_in(present), scratch, self.found.visible(path))
            self._images.fetch(kept, image, wal=kept.wal, header=not present)
            if not present and shares_place and is_empty(place):
                return other_process.fill(place, image)
            if not present and (other := self._other_name(goal)):
                return writing.link(self.found.place(other), place)
            if not present:
                return writing.make(place, image, kept, int(goal.stamp))
            if (digest_in(present), _is_wal(present)) == (digest_in(goal), kept.wal):
                return ""
            return other_process.put(place, image, digest_in(present), scratch, wal=kept.wal)

    def _other_name(self, goal: Version) -> bytes:
        """A database that was the same file then, and is what this one is to be."""
        kept = kept_of(goal)
        names = map(path_of, kept.names if kept else ())
        return next((name for name in names if self._known(name) == goal), b"")

    def _told_alone(self, swap: Swap, done: Swapped) -> Swapped:
        """A swap's outcome, which is not all that it should be where a database had other names and has none."""
        kept, place = kept_of(swap.goal), self.found.place(path_of(swap.target.name))
        if done.now != swap.goal or not kept or not kept.names or not is_lone(place):
            return done
        return msgspec.structs.replace(done, verified=False, why=done.why or LONE)

    def _stamp(self, path: bytes, goal: Version) -> None:
        """The mode and the time, which belong to the file and not to the database."""
        kept, place = kept_of(goal), self.found.place(path)
        if kept is None:
            return
        try:
            with folder_of(place) as folder:
                # Not opened as a file: closing that would drop locks that this process may have on it.
                fd = os.open(os.path.basename(place), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                attributes.write(f"/proc/self/fd/{fd}", kept.attributes)
                os.chmod(f"/proc/self/fd/{fd}", kept.mode)
                os.utime(f"/proc/self/fd/{fd}", ns=(int(goal.stamp), int(goal.stamp)))
            finally:
                os.close(fd)
        except OSError:
            # Not ours to change; that it is not as it was is found by reading it again.
            return


@contextmanager
def _untouched(place: bytes) -> Iterator[None]:
    """Give a folder its time back: the files in it were put back before, and SQLite makes and removes others."""
    try:
        with folder_of(place) as folder:
            before = os.fstat(folder).st_mtime_ns
    except OSError:
        before = 0  # there is none yet, so there is nothing to give back
    try:
        yield
    finally:
        if before:
            _give_back(place, before)


def _give_back(place: bytes, mtime_ns: int) -> None:
    try:
        with folder_of(place) as folder:
            if os.fstat(folder).st_mtime_ns != mtime_ns:
                os.utime(folder, ns=(mtime_ns, mtime_ns))
    except OSError:
        # Gone, or not ours to change: its time is then what it is, and is seen by the next look.
        return


def _has_rows_of(present: Version, goal: Version) -> bool:
    """Whether only mode and attributes are missing: an attempt that was cut short gives them last."""
    return bool(goal) and (digest_in(present), _is_wal(present)) == (digest_in(goal), _is_wal(goal))


def _joined(swap: Swap, leaving: Collection[str]) -> str:
    """A database that was not the same file before, is now, and stays: what is written to one is written to both."""
    present, goal = kept_of(swap.present), kept_of(swap.goal)
    if present is None or goal is None:
        return ""
    return next((name for name in present.names if name not in goal.names and name not in leaving), "")


def _stays(where: Target) -> str:
    return f"it was {where.name} before, which cannot be put back, so it stays"


def _is_wal(version: Version) -> bool:
    kept = kept_of(version)
    return kept is not None and kept.wal
