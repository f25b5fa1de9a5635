"""Keeping the store of a workspace sound and small: verifying it, and removing what the limits do not keep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.core import events as e
from takeback.core.lifecycle import Life
from takeback.core.record import contents_named
from takeback.engine import prune
from takeback.engine.prune import Pruned
from takeback.engine.sandbox.wrapping import Fences
from takeback.engine.stage.folder import StageFolders
from takeback.ports.content import Stats
from takeback.resources.files.look import watch
from takeback.settings import environment
from takeback.system.clock import SystemClock
from takeback.workspace.parts import WorkspaceParts

if TYPE_CHECKING:
    from takeback.workspace.compacting import Ask, Compactable, Compacted
    from takeback.workspace.verification import Verification

AUTOMATIC_GC_S, URGENT_GC_S = 3600, 60
JOURNAL = ("journal.db", "journal.db-wal", "journal.anchor")
CONVERSATIONS = ("conversations.db", "conversations.db-wal")
INDEXES = ("index.db", "files.index", "sqlite.index", "git.index")


class Watching(msgspec.Struct, frozen=True):
    """The kernel's ability to report changes in a folder."""

    why_not: str
    """Why it cannot; empty if it can."""
    folders_max: int
    """The number of folders that a user may watch; zero if unknown."""


class StoredSizes(msgspec.Struct, frozen=True):
    """The room that the history of a workspace takes on this machine, in bytes."""

    content: int
    """The stored content. Only this counts against the quota: a clean-up removes nothing else."""
    journal: int
    """The journal and its anchor; of a journal on a server, only what is here."""
    index: int
    """Caches, which are rebuilt if they are missing."""
    conversations: int
    """What agent frameworks keep of their conversations; of those on a server, nothing is here."""
    stages: int = 0
    """What is in views and nowhere else. It counts against the quota, too."""

    @property
    def total(self) -> int:
        return self.content + self.journal + self.index + self.conversations + self.stages

    def __str__(self) -> str:
        return (
            f"{self.total / 1e6:,.1f} MB: content {self.content / 1e6:,.1f}, journal {self.journal / 1e6:,.1f}, "
            f"index {self.index / 1e6:,.1f}"
            + (f", conversations {self.conversations / 1e6:,.1f}" if self.conversations else "")
            + (f", views {self.stages / 1e6:,.1f}" if self.stages else "")
        )


class CleanUp(msgspec.Struct, frozen=True):
    """What a clean-up did."""

    pruned: Pruned
    compacted: Compacted | None
    """What was compacted, or could be; None if there was nothing to compact."""


class Upkeep:
    """The upkeep of one workspace's store."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts

    def counted(self) -> tuple[int, int]:
        """Return the number of files, and of bytes in them, at the last look."""
        return self._parts.files.counted()

    def content(self) -> Stats:
        """Return how much content is stored on this machine."""
        return self._parts.store.stats()

    def size_bytes(self) -> int:
        """Return the room that stored content takes on this machine."""
        return self._parts.store.size_bytes()

    def sizes(self) -> StoredSizes:
        """Return the room that each part of the history takes on this machine."""
        state = self._parts.state
        journal, index, conversations = (
            sum(_size(state / name) for name in names) for names in (JOURNAL, INDEXES, CONVERSATIONS)
        )
        stages = sum(folder.bytes_used() for folder in StageFolders(state))
        return StoredSizes(self.size_bytes(), journal, index, conversations, stages)

    def shared_bytes(self) -> int:
        """Return how much content is in the bucket, as last seen."""
        return self._parts.store.shared_bytes()

    def watching(self) -> Watching:
        """Return whether changes can be watched here, so that a look costs only what changed."""
        fd = os.open(self._parts.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return Watching(watch.supported(fd), watch.limit())
        finally:
            os.close(fd)

    def verify(self, *, everything: bool = True, deep: bool = False) -> Verification:
        """Verify everything, or only what was recorded since the last verification.

        With `deep`, read every stored byte again, and compare every file of the workspace with its last record: by
        content, not by times. That includes everything.
        """
        from takeback.workspace import verification  # most commands verify nothing

        return verification.verify(self._parts, self.needed, everything=everything, deep=deep)

    def needed(self) -> set[bytes]:
        """Return the names of all content that the limits keep."""
        marks, limits = self._pinned(), self._parts.settings.store
        return prune.needed(
            self._parts.journal.read(),
            marks,
            self._parts.tracker.observed,
            prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, 0),
            SystemClock().now_us(),
            self._parts.progress,
            self._values(),
        )

    def _values(self) -> set[bytes]:
        """Return the names of the arguments and results of calls that the limits keep."""
        days = self._parts.settings.store.keep_days
        since_us = SystemClock().now_us() - days * prune.DAY_US if days else 0
        return contents_named(self._parts.journal.read(), since_us)

    def _pinned(self) -> list[e.Mark]:
        """Return the marks that running actions began with: these stay, whatever their age."""
        history = self._parts.history
        running = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
        return [mark for action in running for mark in action.began.marks]

    def gc(self, ask: Ask | None = None) -> CleanUp:
        """Remove content that the limits do not keep, and compact old records.

        `ask` is called before the first compaction; without it, that is left to a clean-up that a human sees.
        """
        from takeback.workspace.compacting import Compacting  # most commands clean nothing up

        with self._parts.lock.held():
            self._parts.recover()
            # The present is recorded first, so that its content counts as needed, and its marks are the last ones.
            self._parts.tracker.save("before gc", environment.actor())
            pruned = self._prune()
        return CleanUp(pruned, Compacting(self._parts).run(ask))

    def compactable(self) -> Compactable:
        """Return how much of the journal a clean-up might compact."""
        from takeback.workspace.compacting import Compacting

        return Compacting(self._parts).estimate()

    def _prune(self) -> Pruned:
        limits = self._parts.settings.store
        self._parts.generation.rise()
        pruned = prune.prune(
            self._parts.journal.read(),
            self._pinned(),
            self._parts.tracker.observed,
            self._parts.store,
            prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, limits.quota_bytes),
            SystemClock().now_us(),
            self._parts.progress,
            self._values(),
        )
        if limits.keep_days:
            Fences(self._parts.state).tidy(SystemClock().now_us() - limits.keep_days * prune.DAY_US)
        freed = self._sweep_bucket() if self._parts.kept.blobs else 0
        return msgspec.structs.replace(pruned, bucket_bytes_freed=freed)

    def _sweep_bucket(self) -> int:
        seen = self._parts.history.seq
        live = self.needed()

        def again() -> set[bytes]:
            # If nothing was recorded meanwhile, here or elsewhere, nothing else can be live.
            return live if self._parts.history.seq == seen else self.needed()

        return self._parts.store.sweep_shared(live, again, progress=self._parts.progress).bytes_freed

    def keep_within_quota(self, stages: int = 0) -> None:
        """Clean up if the store and the views have outgrown the quota, but not again and again.

        Call it before an action begins, not after it ended: its changes must not be pruned before anyone can take
        them back.
        """
        quota = self._parts.settings.store.quota_bytes
        size = self.size_bytes() + stages if quota else 0
        wait_s = AUTOMATIC_GC_S if size < 2 * quota else URGENT_GC_S
        if size > quota and self._parts.generation.age_s() > wait_s:
            pruned = self.gc().pruned
            self._parts.notices.append(
                f"the stored content had outgrown its quota: freed {pruned.freed / 1e6:,.0f} MB of old states. "
                f"Kept now: {self.sizes()}"
            )
            if stages > quota // 2:
                self._parts.notices.append(
                    f"views take {stages / 1e6:,.0f} MB of the quota: `takeback stage list` shows what can go"
                )


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
