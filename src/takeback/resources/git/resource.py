"""Git as a resource: the workspace's repository, with its worktrees and its submodules."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from blake3 import blake3

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import ContentGone, CorruptionError, TakebackError
from takeback.ports.content import PRUNED, BlobStore, Contents, Shelf
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress
from takeback.ports.resource import Swap, Swapped, Traits
from takeback.resources.git import entry, words
from takeback.resources.git.format import locks, place, refs
from takeback.resources.git.format.index_file import HASH_BYTES
from takeback.resources.git.format.objects import named_by, objects_of
from takeback.resources.git.look import manifest
from takeback.resources.git.look.manifest import Manifest
from takeback.resources.git.look.observer import RepositoryObserver
from takeback.resources.git.look.reader import owner
from takeback.resources.git.minor import MINOR
from takeback.resources.git.mirror.mirror import Mirror
from takeback.resources.git.mirror.travel import Travel, fetch_all
from takeback.resources.git.put_back import lost_objects, merging, needs, pushes
from takeback.resources.git.put_back.needs import Needs
from takeback.resources.git.put_back.restore import GitRestorer, TargetRestore, left, remove_above
from takeback.system import crash_points

MARKED = crash_points.crash_point("git-marked")
COUNTED_MAX = 64
DAY_NS = 86_400_000_000_000


class Git:
    """The repository of a root. One thread of one process at a time, under the workspace's lock."""

    name = "git"
    traits = Traits(divisible=True, of_the_tree=False, minor=MINOR)

    def __init__(
        self,
        root: Path,
        state: Path,
        blobs: BlobStore,
        contents: Contents,
        *,
        generation: Callable[[], int],
        keep_days: int,
        progress: Progress,
        shelf: Shelf | None = None,
    ) -> None:
        """`shelf` stores objects for other machines."""
        self._root = root
        self._state = state / "git"
        self._blobs = blobs
        self._contents = contents
        self._keep_days = keep_days
        self._progress = progress
        self._shelf = shelf
        self._observer = RepositoryObserver(
            root, state / "git.index", blobs, contents, generation, self._losses
        )
        self._generation = generation
        self._mirrors: dict[bytes, Mirror] = {}
        self._mirrored = 0
        self._counted: dict[tuple[str, str], tuple[int, int] | None] = {}

    # The present

    def claimed_outside(self) -> set[bytes]:
        """Return the repository's folder if it is outside the root: no other resource needs to capture it."""
        root = self._observer.place.root
        folders = {place.find(root).folder, self._observer.place.folder}
        return {folder for folder in folders if not folder.startswith(root + b"/")}

    def mark(self) -> Mark:
        """Look at the repository, and save it with its objects."""
        self._counted.clear()
        with self._kept_or_forgotten():
            self._observer.look()
        crash_points.reach(MARKED)
        return Mark(self.name, f"b3:{self._observer.state.hex()}", "a scan", self._stated())

    @contextmanager
    def _kept_or_forgotten(self) -> Iterator[None]:
        """Forget what is known if the block is interrupted, for whatever reason."""
        try:
            yield
        except BaseException:
            self._observer.forget()
            raise

    def _stated(self) -> tuple[str, ...]:
        stated = list(self._observer.stated)
        if self._observer.borrows:
            stated.append(".git/objects/info/alternates: objects borrowed from there are not saved")
        if self._observer.stores and not needs.program():
            stated.append(
                "git is not installed: commits are not counted, and all pruned objects come back together"
            )
        return tuple(stated)

    def _mirror(self, prefix: bytes) -> Mirror:
        """Return the mirror of a repository's objects, or of a submodule's below it."""
        mirror = self._mirrors.get(prefix)
        objects = self._observer.place.path(prefix + b"objects")
        if mirror is None or os.fsencode(mirror.objects) != objects:
            name = f"module-{blake3(prefix).hexdigest()[:16]}" if prefix else "objects"
            kept = self._state / name
            travel = Travel(kept, self._shelf, self._progress) if self._shelf else None
            mirror = self._mirrors[prefix] = Mirror(objects, kept, self._progress, travel)
        return mirror

    def _losses(self, prefix: bytes) -> tuple[bytes, int]:
        """Save the objects of a repository. Return those that it has lost, and how many."""
        if (generation := self._generation()) != self._mirrored:
            # Another process may have dropped some since.
            self._mirrors, self._mirrored = {}, generation
        mirror = self._mirror(prefix)
        names = mirror.keep_new()
        return names, len(names) // HASH_BYTES[mirror.hash_name()] if names else 0

    def settled(self, mark: Mark) -> None:
        """Do nothing: nothing depends on it."""

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        return {target: self._observer.version(entry.name_of(target)) for target in targets}

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        with self._kept_or_forgotten():
            self._observer.look()
        return self.seen(targets)

    def changed_at(self, target: Target) -> int:
        return self._observer.changed_at(entry.name_of(target))

    def audit(self) -> list[Finding]:
        """Read every file again, whatever its times say, and report what differs."""
        with self._kept_or_forgotten():
            self._observer.look()
            before = dict(self._observer.targets)
            self._observer.forget()
            self._observer.look()
        now = self._observer.targets
        what = "its bytes changed although its size and times did not"
        return [
            Finding(f".git/{name}", what)
            for name in sorted(before.keys() | now.keys())
            if not before.get(name, ABSENT).alike(now.get(name, ABSENT))
        ]

    def remember(self) -> None:
        self._observer.remember()

    def close(self) -> None:
        """Do nothing: nothing is held."""

    # The past

    def keeps(self, mark: Mark) -> bool:
        return self._blobs.has(_name(mark))

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        before, after = (Manifest.load(_name(mark), self._blobs.get) for mark in (since, until))
        found = manifest.differences(before, after, self._blobs.get)
        return sorted(
            (Change(Target(self.name, name), was, now) for name, was, now in found),
            key=lambda change: change.target,
        )

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        """Return every blob that these marks need; the latest comes first, and must be complete."""
        live: set[bytes] = set()
        for number, mark in enumerate(marks):
            with suppress(*(ContentGone,) if number else ()):
                stored = Manifest.load(_name(mark), self._blobs.get)
                live.update([stored.name, *stored.parts])
                for _, version in stored.targets(self._blobs.get):
                    for content, size in entry.contents_of(version):
                        if content not in gone and content[:32] not in live:
                            live.update(self._contents.blobs(content, size))
        self._drop_lost()
        return live

    def _drop_lost(self) -> None:
        """Drop saved objects that the repository has lacked for as long as content is kept."""
        if self._keep_days:
            before_ns = time.time_ns() - self._keep_days * DAY_NS
            for prefix in self._observer.stores:
                self._mirror(prefix).drop_lost(before_ns)

    def text(self, version: Version) -> bytes | None:
        found = entry.content_of(version)
        if found is None or entry.kind_of(version) == entry.INDEX:
            return None
        try:
            return self._contents.read(*found)
        except CorruptionError:
            # Pruned or damaged: there is nothing to show. `verify --deep` reports which.
            return None

    def index_text(self, version: Version) -> bytes | None:
        """Return the bytes of a recorded index, or None if they are gone."""
        found = entry.content_of(version)
        with suppress(CorruptionError):
            return self._contents.read(*found) if found else None
        return None

    # Another machine

    def bring(self, mark: Mark) -> Sequence[Swapped]:
        """Create the repository of a mark here, where there is none. Its objects come from the shared store."""
        if self._shelf:
            fetch_all(self._state.parent, self._shelf, self._progress)
            self._mirrors.clear()
        targets = Manifest.load(_name(mark), self._blobs.get).targets(self._blobs.get)
        swaps = [Swap(Target(self.name, name), ABSENT, version) for name, version in sorted(targets)]
        return self.swap(swaps, "", fresh=False)

    # Taking back

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        merged = merging.merged(self._contents, mine, base, goal)
        return self._by_hand(mine, base, goal) if merged == merging.CHANGED else merged

    def _by_hand(self, mine: Version, base: Version, goal: Version) -> str:
        """Return how to take commits out of a branch that has gone on since; empty if there is no such way."""
        values = [entry.value_of(version) for version in (goal, base, mine)]
        is_branch = all(entry.kind_of(version) == entry.REF for version in (goal, base, mine))
        if not is_branch or not all(map(refs.is_object, values)):
            return merging.CHANGED
        branch = Change(Target(self.name, ""), base, mine)
        steps = [self._apart(branch, one, other) for one, other in pairwise(values)]
        if not all(step and not step[0] and step[1] for step in steps):
            return merging.CHANGED
        old, new = (value[: pushes.SHOWN] for value in values[:2])
        return f"later commits are on top of it; by hand: git revert --no-edit {old}..{new}"

    def tell(self, change: Change, *, back: bool) -> str:
        return words.tell(change, self._apart, back=back)

    def _apart(self, change: Change, one: str, other: str) -> tuple[int, int] | None:
        """Return how far two commits are apart. Git is asked once for each pair, and not for thousands of refs."""
        if (one, other) not in self._counted and len(self._counted) < COUNTED_MAX:
            prefix = owner(entry.prefix_of(change.after or change.before))
            self._counted[one, other] = self._needs(prefix).apart(one, other)
        return self._counted.get((one, other))

    def _needs(self, prefix: bytes) -> Needs:
        where = self._observer.place
        mirror = self._mirror(prefix)
        hash_name = mirror.hash_name() or place.hash_name(where.path(prefix))
        return Needs(mirror, hash_name, where.path(prefix + b"shallow"))

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        if self._is_another(swaps):
            why = "`.git` now leads to another repository, which is not written to"
            return {swap.target: (Do.CONFLICT, why) for swap in swaps}
        found: dict[Target, tuple[Do, str]] = {}
        for swap in swaps:
            if swap.goal and not all(self._blobs.has(c[:32]) for c, _ in entry.contents_of(swap.goal)):
                found[swap.target] = (Do.CONFLICT, PRUNED)
            elif self._stays_with(swap, kept):
                found[swap.target] = (Do.KEEP, "it belongs to a branch that stays")
        found |= lost_objects.foresee([swap for swap in swaps if swap.target not in found], self._contents)
        return found | pushes.foresee(swaps, self._observer, self._contents)

    def _is_another(self, swaps: Sequence[Swap]) -> bool:
        """Return True if `.git` led to another folder at the time: the changes are not about what is there now."""
        where = self._observer.place
        for swap in swaps:
            if entry.name_of(swap.target) == place.LINK and swap.present != swap.goal:
                there = entry.led_to(swap.goal) if swap.goal else os.path.join(where.root, place.LINK)
                return there != where.folder
        return False

    def _stays_with(self, swap: Swap, kept: Collection[Target]) -> bool:
        """Return True if it must stay: a log goes with its ref, and what is staged goes with the branches."""
        version, name = swap.goal or swap.present, entry.name_of(swap.target)
        if entry.kind_of(version) == entry.LOG:
            prefix = entry.prefix_of(version)
            return entry.target_of(prefix + name[len(prefix) + len(b"logs/") :]) in kept
        if entry.kind_of(version) == entry.INDEX and swap.present != swap.goal:
            beside = name[: -len(b"index")]
            heads = entry.target_of(owner(beside) + b"refs/heads/").name
            return entry.target_of(beside + b"HEAD") in kept or any(t.name.startswith(heads) for t in kept)
        return False

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        again = since is not None
        paths = [path for swap in swaps for path in self._lock_paths(entry.name_of(swap.target))]
        paths += self._packed(swaps)
        locks.free(self._observer.place.folder, paths)
        locks.free(self._observer.place.root, paths)
        now = self.read(swap.target for swap in swaps)
        results: dict[Target, Swapped] = {}
        works: dict[Target, TargetRestore] = {}
        removed: list[TargetRestore] = []
        for swap in swaps:
            target, present = swap.target, now[swap.target]
            if self._is_at(present, swap.goal):
                results[target] = Swapped(target, _did(swap.goal), present, True)
                if again and not swap.goal:
                    removed.append(TargetRestore(entry.name_of(target), swap.present, swap.goal, Did.REMOVED))
            elif present == swap.present or again:
                works[target] = TargetRestore(entry.name_of(target), swap.present, swap.goal)
            else:
                why = "it was changed since the plan was made"
                results[target] = Swapped(target, Did.CONFLICT, present, True, why)
        self._fill(works.values())
        self._bring_back(list(works.values()))
        restorer = GitRestorer(self._observer.reader, self._contents, again=again)
        restorer.run([w for w in works.values() if w.did is None and w.kind != entry.OBJECTS])
        # What was removed before a kill may have left empty folders.
        restorer.tidy(removed)
        locks.clear(self._observer.place.folder)
        self._remove_repositories([*works.values(), *removed])
        results.update(self._verified(works))
        return [results[swap.target] for swap in swaps]

    def _is_at(self, now: Version, goal: Version) -> bool:
        return now.alike(goal) or lost_objects.is_at(self._contents, now, goal)

    def _fill(self, works: Iterable[TargetRestore]) -> None:
        """Bring lost objects back, including unreachable ones."""
        for work in works:
            if work.kind == entry.OBJECTS and work.goal:
                prefix = work.name[: -len(b"objects")]
                lost_objects.fill(
                    work, self._observer.place.path(work.name), self._needs(prefix), self._contents
                )

    def _lock_paths(self, name: bytes) -> list[bytes]:
        """Return the files whose locks a target may need."""
        path = self._observer.place.path
        folder, _, _ = name.rpartition(b"/")
        beside = [os.path.join(folder, b"index"), re.sub(rb"(^|/)logs/", rb"\1", name, count=1)]
        return [path(some) for some in (name, *beside)]

    def _packed(self, swaps: Sequence[Swap]) -> list[bytes]:
        """Return the packed-refs files that may contain these, judged by the swaps alone.

        After a kill, nothing else may be known yet.
        """
        versions = [version for swap in swaps for version in (swap.present, swap.goal) if version]
        prefixes = {entry.prefix_of(v) for v in versions if entry.kind_of(v) in (entry.REF, entry.LOG)}
        return [self._observer.place.path(prefix + b"packed-refs") for prefix in prefixes]

    def _bring_back(self, works: Sequence[TargetRestore]) -> None:
        """Bring back objects first: a ref never points to something missing."""
        wanted: dict[bytes, dict[str, list[TargetRestore]]] = {}
        for work in works:
            prefix, names = objects_of(work.name, work.goal, self._observer.place, self._contents)
            for name in names:
                wanted.setdefault(prefix, {}).setdefault(name, []).append(work)
        for prefix, users in wanted.items():
            finder = self._needs(prefix)
            why = "objects that it needs are neither in the repository nor saved"
            present = named_by(self._observer.targets.values(), prefix)
            required = [name for name, some in users.items() if any(_must_be_whole(work) for work in some)]
            try:
                lost = finder.bring_back(users, present)
            except TakebackError as error:
                lost, why = True, error.message
            for name in finder.lacks(required, present) if lost else finder.absent(required):
                for work in users[name]:
                    if _must_be_whole(work):
                        work.did, work.why = Did.FAILED, why

    def _remove_repositories(self, works: Iterable[TargetRestore]) -> None:
        """Remove the objects of repositories that were themselves taken back. They stay saved, for a redo."""
        for work in works:
            if work.did is Did.REMOVED and work.is_head:
                prefix = work.name[: -len(b"HEAD")]
                folder = self._observer.place.path(prefix)
                if (
                    prefix == owner(prefix)
                    and lost_objects.only_objects(folder)
                    and not self._observer.reader.packed(prefix)
                ):
                    mirror = self._mirror(prefix)
                    mirror.keep_new()
                    if mirror.has_all():
                        shutil.rmtree(mirror.objects, ignore_errors=True)
                        Path(os.fsdecode(folder), "packed-refs").unlink(missing_ok=True)
                locks.remove_empty(folder.rstrip(b"/"))
                remove_above(self._observer.place, prefix.rstrip(b"/"))

    def _verified(self, works: Mapping[Target, TargetRestore]) -> dict[Target, Swapped]:
        """Look at the repository again, and compare it with the goal."""
        now = self.read(works)
        results = {}
        for target, work in works.items():
            did, why = work.did or Did.FAILED, work.why
            if work.kind == entry.OBJECTS and not work.goal:
                # They went with their repository, if that was removed.
                did, why = (Did.KEPT, lost_objects.STAY) if now[target] else (Did.REMOVED, "")
            promised = did in (Did.RESTORED, Did.REMOVED)
            verified = self._is_at(now[target], work.goal) if promised else did is not Did.FAILED
            if promised and not verified:
                why = "it is not as it should be: something else wrote at the same time"
            results[target] = Swapped(
                target, did, now[target], verified, why or left(work, self._contents, self._root)
            )
        return results


def _must_be_whole(work: TargetRestore) -> bool:
    """Return True if git cannot do without it. A log may name objects that were pruned long ago."""
    return work.kind in (entry.REF, entry.STASH, entry.INDEX)


def _did(goal: Version) -> Did:
    return Did.RESTORED if goal else Did.REMOVED


def _name(mark: Mark) -> bytes:
    if not mark.state.startswith("b3:"):
        raise CorruptionError(f"{mark.state!r} is not the name of a picture of a repository")
    return bytes.fromhex(mark.state[3:])
