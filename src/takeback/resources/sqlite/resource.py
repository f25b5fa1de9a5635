"""SQLite databases as a resource: all under the root, and those outside that a run writes to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import path_of, text_of
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import ConflictError
from takeback.ports.content import BlobStore, Contents, StoredContent, WhyGone, pruned
from takeback.ports.journal import Finding
from takeback.ports.resource import Swap, Swapped, Traits
from takeback.resources.sqlite import attributes, cache, damaged, listing, reading, writing
from takeback.resources.sqlite.cache import DatabaseCache, DatabaseRow, DatabaseStat
from takeback.resources.sqlite.discovery import KnownDatabases
from takeback.resources.sqlite.framework_stores import Tables, content_of, is_left_out, left_out, said_of
from takeback.resources.sqlite.image import (
    SUFFIXES,
    Image,
    digest_in,
    dress,
    is_raw,
    kept_of,
    opaque,
    version_of,
)
from takeback.resources.sqlite.listing import Listing
from takeback.resources.sqlite.merging import Images
from takeback.resources.sqlite.other_process import DatabaseAccess
from takeback.resources.sqlite.own_files import Scratch
from takeback.system import crash_points
from takeback.system.beneath import folder_of, is_empty, is_lone, look

MARKED = crash_points.crash_point("sqlite-marked")
SWAPPED = crash_points.crash_point("sqlite-swapped")

LOOKED = "every database that was touched read through SQLite"
DIGEST_BYTES = 32
NOT_NOW = "a framework keeps its own state there now, which is left out; move that away, and undo it again"
LONE = "it was a hard link to the same file as another database, and is a separate file now"

MAKE_ROOM = "free some room, then undo it with --on-conflict overwrite"
AGAIN = "free some room, then undo it again"


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
        why_gone: WhyGone = pruned,
        leave_out_stores: bool = False,
    ) -> None:
        """With `leave_out_stores`, databases in which an agent framework keeps its own state are not captured."""
        self.found = found
        self._blobs = blobs
        self._contents = contents
        self._generation = generation
        self._why_gone = why_gone
        self._leave_out_stores = leave_out_stores
        self._recorded = listing.NONE
        """The state of the last recorded mark."""
        self._latest = listing.NONE
        """The state of the last mark of all."""
        self._scratch = Scratch(state / "sqlite")
        self._images = Images(contents, self._scratch)
        self._access = DatabaseAccess()
        self.looks = 0
        """How often a database was read."""
        self._cache = state / "sqlite.index"
        self._stated: dict[bytes, str] = {}
        self._no_room = set[bytes]()
        """Those whose last image the disk had no room for."""
        self._rows: dict[bytes, DatabaseRow] = {}
        self._trusted = -1
        self._removed_by, self._removed = "", dict[Version, Swap]()
        """What the present rollback has removed, or is about to remove."""
        self._load()

    def _load(self) -> None:
        """Load what the last process knew."""
        self._scratch.tidy()
        if known := cache.load_index(self._cache):
            self._rows, self._trusted = known.rows, known.generation
            self.found.inside.update(known.inside)
            self.found.left_out.update(path for path, row in self._rows.items() if is_left_out(row.version))

    # The present

    def mark(self) -> Mark:
        self._look()
        self._latest = state = listing.store(self._listing(), self._blobs)
        self._blobs.sync()
        crash_points.reach(MARKED)
        stores = {path: self._rows[path].version for path in self.found.left_out & self._rows.keys()}
        stated = self._stated | {path: said_of(text_of(path), store) for path, store in stores.items()}
        return Mark(self.name, state, LOOKED, tuple(stated[path] for path in sorted(stated)))

    def settled(self, mark: Mark) -> None:
        self._recorded = mark.state

    def _look(self) -> None:
        if self._trusted != self._generation():
            # The store was cleaned since: the content that we know may no longer be stored.
            self._rows, self._trusted = {}, self._generation()
        known = {*self.found.inside, *self.found.outside}
        for path in self._rows.keys() - known:
            self._forget(path)
        # One time limit for all of them together.
        until = time.monotonic() + reading.READ_WAIT_S
        for path in sorted(known):
            self._look_at(path, until=until)

    def _forget(self, path: bytes) -> None:
        self._stated.pop(path, None)
        self._no_room.discard(path)
        self._rows.pop(path, None)
        self.found.left_out.discard(path)

    def _look_at(self, path: bytes, *, closely: bool = False, until: float | None = None) -> Version:
        """Look at one database, and capture it if it has changed."""
        seen = self._seen(path)
        if seen is None:
            self._forget(path)
            return ABSENT
        row, log = self._rows.get(path), self._log_header(path)
        if row is not None and is_left_out(row.version) and not self._may_leave_out(path):
            row = None
        if row is not None and row.seen == seen and not closely:
            if row.log == log if row.log else not row.racy:
                return row.version
        looked_ns = time.time_ns()
        wait_s = reading.READ_WAIT_S if until is None else max(0.0, until - time.monotonic())
        version = self._store_at(path, row) or self._capture(path, row, wait_s)
        if not version:
            self._forget(path)
            return ABSENT
        # Checked again afterwards: a write in between is found by the next look.
        still = self._seen(path) == seen and (version.data is not None or is_left_out(version))
        racy = not still or seen.latest_ns >= looked_ns - reading.TICK_NS
        proved = still and log == self._log_header(path)
        if seen.latest_beside_log_ns >= looked_ns - reading.TICK_NS or not proved:
            log = b""
        self._rows[path] = DatabaseRow(seen, version, racy, log)
        return version

    def _may_leave_out(self, path: bytes) -> bool:
        return self._leave_out_stores and path not in self.found.wanted and not os.path.isabs(path)

    def _store_at(self, path: bytes, row: DatabaseRow | None, tables: Tables | None = None) -> Version | None:
        """Return the version of a framework's store; None for any other database.

        One that was captured stays captured, whatever it becomes: otherwise an agent could give a user's database the
        tables of a framework.
        """
        self.found.left_out.discard(path)
        if not self._may_leave_out(path) or (row is not None and not is_left_out(row.version)):
            return None
        if tables is None:
            tables = self._access.tables(self.found.place(path))
        content = content_of(tables) if tables else ""
        if not content or self._was_captured(path):
            return None
        self.found.left_out.add(path)
        self._no_room.discard(path)
        self._stated.pop(path, None)
        return left_out(content)

    def _was_captured(self, path: bytes) -> bool:
        """Return True if the last recorded mark holds this database, or if that is not known."""
        if not listing.is_kept(self._recorded, self._blobs):
            return True
        before = listing.load(self._recorded, self._blobs).get(path, ABSENT)
        return bool(before) and not is_left_out(before)

    def _log_header(self, path: bytes) -> bytes:
        return cache.log_header(self.found.place(path) + SUFFIXES[1])

    def _seen(self, path: bytes) -> DatabaseStat | None:
        place = self.found.place(path)
        if not self.found.is_still(path):
            return None
        return cache.seen(place, place + SUFFIXES[0], place + SUFFIXES[2])

    def _capture(self, path: bytes, row: DatabaseRow | None, wait_s: float) -> Version:
        """Capture a database, and return its version."""
        place = self.found.place(path)
        self.looks += 1
        with self._scratch.file() as to:
            taken = self._access.take(place, to, wait_s)
            try:
                stat = look(place)
            except OSError:
                return ABSENT
            if taken.image is None and not self.found.is_database(place):
                return ABSENT
            if taken.image is None:
                self._stated[path] = _not_captured(text_of(path), taken)
                (self._no_room.add if taken.no_room else self._no_room.discard)(path)
                return opaque(stat)
            if taken.image.raw:
                self._stated[path] = (
                    f"{text_of(path)} is a database, kept only as a plain file: {taken.problem}"
                )
            else:
                self._stated.pop(path, None)
            self._no_room.discard(path)
            if not taken.image.raw and (store := self._store_at(path, row, reading.tables_in(to))):
                return store
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
        """Return when a database last changed; if it is gone, when its folder did."""
        place = self.found.place(path_of(target.name))
        row = self._rows.get(path_of(target.name))
        if row is not None:
            return row.seen.latest_ns
        try:
            return os.stat(os.path.dirname(place)).st_ctime_ns
        except OSError:
            return 0

    def audit(self) -> list[Finding]:
        """Read every database again and compare it with its recorded version, whatever its times say."""
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
        self._access.close()

    @property
    def helpers(self) -> int:
        """How many processes were started to read or write databases that this process has open."""
        return self._access.started

    # The past

    def keeps(self, mark: Mark) -> bool:
        return listing.is_kept(mark.state, self._blobs)

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        start, end = (listing.load(mark.state, self._blobs) for mark in (since, until))
        # A store that is captured from this look on did not change. Of a moment in the past, it is part of the goal.
        return listing.changes(start, end, with_stores=until.state != self._latest)

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        return listing.reach((mark.state for mark in marks), self._blobs, self._contents, gone)

    def contents(self, marks: Iterable[Mark]) -> Iterator[StoredContent]:
        """Yield the image of every database in these marks; some of it more than once."""
        for mark in marks:
            for path, version in listing.load(mark.state, self._blobs).items():
                if kept := kept_of(version):
                    yield StoredContent(text_of(path), bytes.fromhex(kept.content), kept.size)

    def text(self, version: Version) -> bytes | None:
        return None

    def at(self, mark: Mark, target: Target) -> Version:
        """Return what a database was at a mark."""
        found = listing.load(mark.state, self._blobs).get(path_of(target.name), ABSENT)
        return ABSENT if is_left_out(found) else found

    def whole(self, version: Version) -> bytes:
        """Return a version of a database as a file, as SQLite leaves it when the last program closes it."""
        kept = kept_of(version)
        if kept is None:
            raise ConflictError("this version of the database could not be captured")
        with self._scratch.file() as to:
            fd = os.open(to, os.O_RDWR | os.O_CLOEXEC)
            try:
                self._contents.write(bytes.fromhex(kept.content), kept.size, fd, sparse=False)
                if not kept.raw:
                    dress(fd, wal=kept.wal, left_out=bytes.fromhex(kept.header))
            finally:
                os.close(fd)
            return Path(os.fsdecode(to)).read_bytes()

    # Taking back

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        full = [path for path in self._no_room if self._known(path) == mine]
        return f"{self._stated[full[0]]}; {AGAIN}" if full else self._images.merge(mine, base, goal)

    def tell(self, change: Change, *, back: bool) -> str:
        return self._images.tell(change)

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        found: dict[Target, tuple[Do, str]] = {}
        until = time.monotonic() + reading.READ_WAIT_S
        leaving = {swap.target.name for swap in swaps if not swap.goal}
        for swap in swaps:
            goal = kept_of(swap.goal)
            if swap.goal and goal is None:
                found[swap.target] = (
                    Do.CONFLICT,
                    "it could not be captured at the time, so it cannot be put back",
                )
            elif is_raw(swap.goal) and swap.present and swap.present != swap.goal:
                found[swap.target] = (
                    Do.CONFLICT,
                    "it was damaged at the time, and Takeback does not damage it again",
                )
            elif swap.present and kept_of(swap.present) is None:
                found[swap.target] = (Do.CONFLICT, self._why_not_now(swap))
            elif goal and not swap.present and self._is_taken(swap):
                found[swap.target] = (Do.CONFLICT, writing.TAKEN)
            elif joined := _joined(swap, leaving):
                why = f"it is now a hard link to the same file as {joined}, which would change with it"
                found[swap.target] = (Do.CONFLICT, why)
            elif swap.present != swap.goal and self._is_locked(swap.target, until):
                found[swap.target] = (Do.CONFLICT, reading.LOCKED)
            elif goal and swap.goal != swap.present and not self._is_kept(bytes.fromhex(goal.content)):
                found[swap.target] = (Do.CONFLICT, self._why_gone(bytes.fromhex(goal.content)))
        return self._still_needed(swaps, found) | found

    def _why_not_now(self, swap: Swap) -> str:
        """Say why a database is left alone that cannot be captured as it is, and what helps."""
        path = path_of(swap.target.name)
        why = NOT_NOW if is_left_out(swap.present) else self._stated.get(path, "it cannot be captured now")
        return f"{why}; {MAKE_ROOM}" if path in self._no_room else why

    def _is_taken(self, swap: Swap) -> bool:
        """Return True if something else occupies the path of a database, and is not about to leave it."""
        return not swap.shares_place and os.path.lexists(self.found.place(path_of(swap.target.name)))

    def _still_needed(self, swaps: Sequence[Swap], stuck: Collection[Target]) -> dict[Target, tuple[Do, str]]:
        """Return the moved databases that cannot go back to their old path: each stays where it is."""
        wanted = {swap.goal: swap.target for swap in swaps if swap.goal and swap.target in stuck}
        return {
            swap.target: (Do.KEEP, _stays(wanted[swap.present]))
            for swap in swaps
            if not swap.goal and swap.present in wanted
        }

    def _is_locked(self, target: Target, until: float) -> bool:
        return self._access.is_locked(
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
        """Put a moved database back to where it just was, if it could not return to its first path."""
        moved = self._removed.pop(swap.goal, None)
        if moved is None or not swap.goal or done.now == swap.goal:
            return
        path = path_of(moved.target.name)
        if self._read(path):
            return  # it was not removed
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
            why = NOT_NOW if is_left_out(present) else self._stated.get(path, writing.MOVED)
            why += f"; {AGAIN}" if path in self._no_room else ""
            return Swapped(swap.target, Did.CONFLICT, present, False, why)
        with _untouched(self.found.place(path)):
            if present not in (swap.goal, swap.present) and (fresh or not _has_rows_of(present, swap.goal)):
                why = writing.MOVED
            elif present != swap.goal:
                why = self._written(path, present, swap)
            if why == writing.MOVED:
                return self._among_others(path, swap)
        if not why:
            self._stamp(path, swap.goal)
        crash_points.reach(SWAPPED)
        now = self._read(path)
        if now == swap.goal:
            return Swapped(swap.target, Did.RESTORED if swap.goal else Did.REMOVED, now, True, why)
        return Swapped(swap.target, Did.FAILED, now, False, why or "it is not what it was")

    def _written(self, path: bytes, present: Version, swap: Swap) -> str:
        """Write what was, or say why not: what is fetched from the store needs room."""
        try:
            return self._write(path, present, swap.goal, shares_place=swap.shares_place)
        except OSError as error:
            if not reading.is_full(error):
                raise
            return reading.in_words(error)

    def _among_others(self, path: bytes, swap: Swap) -> Swapped:
        """Take back the rows while someone else keeps writing, and leave theirs."""
        base, goal = kept_of(swap.present), kept_of(swap.goal)
        if base is None or goal is None or not self._read(path):
            return Swapped(swap.target, Did.CONFLICT, self._read(path), True, writing.MOVED)
        with self._scratch.file() as old, self._scratch.file() as new:
            try:
                self._images.fetch(base, old)
                self._images.fetch(goal, new)
                why = self._access.move(self.found.place(path), old, new)
            except OSError as error:
                if not reading.is_full(error):
                    raise
                why = reading.in_words(error)
        crash_points.reach(SWAPPED)
        now = self._read(path)
        if why:
            return Swapped(swap.target, Did.CONFLICT, now, True, why)
        return Swapped(
            swap.target, Did.RESTORED, now, True, "other programs were writing to it; their changes were kept"
        )

    def _write(self, path: bytes, present: Version, goal: Version, *, shares_place: bool = False) -> str:
        place, kept = self.found.place(path), kept_of(goal)
        with self._scratch.file() as image, self._scratch.file() as scratch:
            if is_raw(present):
                if kept is not None:
                    self._images.fetch(kept, image, wal=kept.wal, header=True)
                goal_is = (image, kept.mode, kept.uid, kept.gid) if kept else (b"", 0, 0, 0)
                return self._access.replace(place, digest_in(present), *goal_is)
            if kept is None:
                # The next swap finds an empty file. If that is all it wants, a program that has the database open
                # is not cut off. With another name it is another database as well, which must not be emptied.
                if shares_place and is_lone(place):
                    return self._access.empty(place, digest_in(present), scratch)
                return self._access.remove(place, digest_in(present), scratch, self.found.visible(path))
            self._images.fetch(kept, image, wal=kept.wal, header=not present)
            if not present and shares_place and is_empty(place):
                return self._access.fill(place, image)
            if not present and (other := self._other_name(goal)):
                return writing.link(self.found.place(other), place)
            if not present:
                return writing.make(place, image, kept, int(goal.stamp))
            if (digest_in(present), _is_wal(present)) == (digest_in(goal), kept.wal):
                return ""
            return self._access.put(place, image, digest_in(present), scratch, wal=kept.wal)

    def _other_name(self, goal: Version) -> bytes:
        """Return a database that was the same file at the time, and already is what this one should become."""
        kept = kept_of(goal)
        names = map(path_of, kept.names if kept else ())
        return next((name for name in names if self._known(name) == goal), b"")

    def _told_alone(self, swap: Swap, done: Swapped) -> Swapped:
        """Return the outcome of a swap, marked unverified if the database had other names and now has none."""
        kept, place = kept_of(swap.goal), self.found.place(path_of(swap.target.name))
        if done.now != swap.goal or not kept or not kept.names or not is_lone(place):
            return done
        return msgspec.structs.replace(done, verified=False, why=done.why or LONE)

    def _stamp(self, path: bytes, goal: Version) -> None:
        """Set attributes, mode and time, which belong to the file and not to the database."""
        kept, place = kept_of(goal), self.found.place(path)
        if kept is None:
            return
        try:
            with folder_of(place) as folder:
                # Not opened as a file: closing it would drop locks that this process may have on it.
                fd = os.open(os.path.basename(place), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                attributes.write(f"/proc/self/fd/{fd}", kept.attributes)
                os.chmod(f"/proc/self/fd/{fd}", kept.mode)
                os.utime(f"/proc/self/fd/{fd}", ns=(int(goal.stamp), int(goal.stamp)))
            finally:
                os.close(fd)
        except OSError:
            # We may not change it; reading it again shows that it is not as it was.
            return


@contextmanager
def _untouched(place: bytes) -> Iterator[None]:
    """Restore the mtime of a folder: its files were put back before, and SQLite creates and removes others."""
    try:
        with folder_of(place) as folder:
            before = os.fstat(folder).st_mtime_ns
    except OSError:
        before = 0  # the folder does not exist yet, so there is nothing to restore
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
        # Gone, or we may not change it: the next look sees its mtime as it is.
        return


def _has_rows_of(present: Version, goal: Version) -> bool:
    """Return True if only mode and attributes differ: an interrupted attempt sets them last."""
    return bool(goal) and (digest_in(present), _is_wal(present)) == (digest_in(goal), _is_wal(goal))


def _not_captured(name: str, taken: reading.Taken) -> str:
    """Say why there is no image of a database."""
    if taken.no_room:
        return f"{name} was not captured as it is now: {taken.problem}"
    return f"{name} is a database and was not captured, so it cannot be put back: {taken.problem}"


def _joined(swap: Swap, leaving: Collection[str]) -> str:
    """Return a database that has become the same file, and stays: writing to one writes to both."""
    present, goal = kept_of(swap.present), kept_of(swap.goal)
    if present is None or goal is None:
        return ""
    return next((name for name in present.names if name not in goal.names and name not in leaving), "")


def _stays(where: Target) -> str:
    return f"it was {where.name} before and cannot go back there, so it stays"


def _is_wal(version: Version) -> bool:
    kept = kept_of(version)
    return kept is not None and kept.wal
