"""Keeping the store of a workspace sound and small: what is verified, what is kept, and what may go."""

from __future__ import annotations

import msgspec

from takeback.core import events as e
from takeback.core.lifecycle import Life
from takeback.engine import prune
from takeback.engine.outbox.check import disagreements
from takeback.engine.prune import Pruned
from takeback.errors import CorruptionError
from takeback.ports.journal import Finding
from takeback.settings import environment
from takeback.system.clock import SystemClock
from takeback.workspace.parts import WorkspaceParts

AUTOMATIC_GC_S, URGENT_GC_S = 3600, 60


class Upkeep:
    """The care of what one workspace has stored."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Everything that is not as it was written; an empty list is the proof that all is well.

        With `deep` every stored byte is read again, and every file of the workspace is compared with what was last
        recorded of it: by content, not by times.
        """
        findings = list(self._parts.journal.check())
        if not findings and (gone := self._parts.lost):
            findings = [Finding("history", f"{gone}; {gone.hint}")]
        if not findings:
            findings = [Finding(f"event {b.seq}", b.what, b.seq) for b in self._parts.history.breaches]
        if not findings:
            findings += disagreements(self._parts.ledger.refresh, self._parts.outbox)
        if self._parts.has_content:
            findings += self._parts.store.check(deep=deep, progress=self._parts.progress)
        if self._parts.kept.blobs and not findings:
            findings += self._check_bucket(deep=deep)
        if deep and not findings:
            with self._parts.lock.held():
                for name, resource in self._parts.tracker.observed.items():
                    findings += resource.audit() if name in self._parts.history.marks else []
        return findings

    def _check_bucket(self, *, deep: bool) -> list[Finding]:
        try:
            return list(
                self._parts.store.check_shared(self.needed(), deep=deep, progress=self._parts.progress)
            )
        except CorruptionError as error:
            return [Finding("content", error.message)]

    def needed(self) -> set[bytes]:
        """The names of all content that the limits keep."""
        marks, limits = self._pinned(), self._parts.settings.store
        return prune.needed(
            self._parts.journal.read(),
            marks,
            self._parts.tracker.observed,
            prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, 0),
            SystemClock().now_us(),
            self._parts.progress,
            self._parts.ledger.history.values(),
        )

    def _pinned(self) -> list[e.Mark]:
        """What running actions began with stays, whatever its age."""
        history = self._parts.history
        running = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
        return [mark for action in running for mark in getattr(action.began, "marks", ())]

    def gc(self) -> Pruned:
        """Let go of content that the limits do not keep."""
        limits = self._parts.settings.store
        with self._parts.lock.held():
            self._parts.recover()
            # The present is recorded first, so that its content counts as needed.
            self._parts.tracker.save("before gc", environment.actor())
            self._parts.generation.rise()
            pruned = prune.prune(
                self._parts.journal.read(),
                self._pinned(),
                self._parts.tracker.observed,
                self._parts.store,
                prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, limits.quota_bytes),
                SystemClock().now_us(),
                self._parts.progress,
                self._parts.ledger.history.values(),
            )
            freed = self._sweep_bucket() if self._parts.kept.blobs else 0
            return msgspec.structs.replace(pruned, bucket_bytes_freed=freed)

    def _sweep_bucket(self) -> int:
        seen = self._parts.history.seq
        live = self.needed()

        def again() -> set[bytes]:
            # Nothing was recorded meanwhile, here or elsewhere, so nothing else can be live.
            return live if self._parts.history.seq == seen else self.needed()

        return self._parts.store.sweep_shared(live, again, progress=self._parts.progress).bytes_freed

    def keep_within_quota(self) -> None:
        """Clean up by itself when the store has outgrown its quota, but not again and again.

        Before an action begins, and not after it ended: what it did must not be pruned before it can be taken back.
        """
        quota = self._parts.settings.store.quota_bytes
        size = self._parts.store.size_bytes() if quota else 0
        wait_s = AUTOMATIC_GC_S if size < 2 * quota else URGENT_GC_S
        if size > quota and self._parts.generation.age_s() > wait_s:
            pruned = self.gc()
            self._parts.notices.append(
                f"the stored content had outgrown its quota: freed {pruned.freed / 1e6:,.0f} MB of old states"
            )
