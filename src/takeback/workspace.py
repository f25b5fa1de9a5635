"""A directory under protection: the composition root, where the parts are put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType

from takeback import config
from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change, Target
from takeback.core.history import Action, Checkpoint, History
from takeback.core.lifecycle import Life
from takeback.core.rollback import OnConflict, Verdict
from takeback.engine import recovery
from takeback.engine.diff import Diff
from takeback.engine.ledger import Ledger
from takeback.engine.life import SignsOfLife
from takeback.engine.paths import path_filter
from takeback.engine.prune import Limits, Pruned, prune
from takeback.engine.report import RollbackReport
from takeback.engine.rollback import Rollbacks
from takeback.engine.tracker import Tracker
from takeback.errors import ConflictError, RollbackIncomplete, UsageError
from takeback.ports import Finding, Journal, Progress, silent
from takeback.resources.files import deltas
from takeback.resources.files.entry import version_of
from takeback.resources.files.exclude import excluder
from takeback.resources.files.resource import Files, file_text, tree_of
from takeback.storage.clock import SystemClock
from takeback.storage.generation import Generation
from takeback.storage.lock import WorkspaceLock
from takeback.storage.packs import PackStore
from takeback.storage.packs.files import StoredContents

AUTOMATIC_GC_S = 3600
CONFIG = Target("files", config.FILE)


class Workspace:
    """The state of one protected directory. Close it, or use it in a `with` block."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal,
        *,
        watching: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.root = root
        self.state = state
        self.journal = journal
        self.ledger = Ledger(journal)
        self.notices: list[str] = []
        """What was found and settled of an earlier crash, in words, for whoever can tell the user."""
        self._watching = watching
        self._progress = progress

    # The parts, each made when it is first needed: reading the log opens no content store.

    @cached_property
    def settings(self) -> config.Config:
        """takeback.toml, as a human wrote or accepted it: an agent must not loosen its own protection."""
        running = [action for action in self.history.open_actions() if action.is_tool]
        if running:
            return self._settings_before(running[0])
        entry = self.history.untrusted_since(CONFIG)
        if entry is None:
            return config.read_config(self.root)
        self.notices.append(
            f"{config.FILE} was changed by {entry.action}; the settings from before it hold until you accept "
            "the change with `takeback init --accept-config`"
        )
        before = file_text(StoredContents(self.store), entry.change.before)
        return config.parse_config(before.decode(), self.root / config.FILE) if before else config.Config()

    def _settings_before(self, action: Action) -> config.Config:
        """What held when a running action began; it may be writing the file now."""
        for mark in getattr(action.began, "marks", ()):
            if mark.resource == "files":
                found = deltas.lookup(tree_of(mark.state), os.fsencode(config.FILE), self.store.get)
                text = file_text(StoredContents(self.store), version_of(found))
                return (
                    config.parse_config(text.decode(), self.root / config.FILE) if text else config.Config()
                )
        return config.read_config(self.root)

    def accept_config(self) -> None:
        """Let the settings that an action wrote take effect."""
        timeline = self.history.timeline(CONFIG)
        if timeline:
            self.ledger.append([e.ConfigAccepted(timeline[-1].change.after.id, config.actor())])
        self.__dict__.pop("settings", None)

    @cached_property
    def store(self) -> PackStore:
        return PackStore(self.state / "packs")

    @cached_property
    def _generation(self) -> Generation:
        return Generation(self.state / "generation")

    @cached_property
    def files(self) -> Files:
        hidden = [
            os.fsencode(p.relative_to(self.root))
            for p in [self.state.parent.parent]
            if p.is_relative_to(self.root)
        ]
        return Files(
            self.root,
            self.state,
            self.store,
            StoredContents(self.store),
            excluded=excluder(self.settings.files.exclude, hidden),
            stated=[f"excluded by {config.FILE}: {pattern}" for pattern in self.settings.files.exclude],
            generation=self._generation,
            watching=self._watching,
            progress=self._progress,
        )

    @cached_property
    def lock(self) -> WorkspaceLock:
        return WorkspaceLock(self.state / "lock")

    @cached_property
    def tracker(self) -> Tracker:
        life = SignsOfLife(self.state / "alive")
        return Tracker(self.ledger, [self.files], self.lock, life, self.state.name)

    @cached_property
    def rollbacks(self) -> Rollbacks:
        return Rollbacks(self.tracker, config.actor())

    # What happened

    @property
    def history(self) -> History:
        """What the journal says now."""
        return self.ledger.refresh()

    def log(self) -> list[Action | Checkpoint]:
        """Every action and checkpoint, oldest first."""
        history = self.history
        entries: list[Action | Checkpoint] = [*history.actions.values(), *history.checkpoints.values()]
        return sorted(entries, key=lambda entry: ids.seq_of(entry.id))

    def diff(self, a: str | Checkpoint = "", b: str | Checkpoint = "", paths: Iterable[str] = ()) -> Diff:
        """What lies between two checkpoints, or a checkpoint and the present, or what one action changed.

        Without anything: what has changed since the last action began, or since the last checkpoint.
        """
        start, end, wanted = _id(a), _id(b), path_filter(self.root, self.history, paths)
        if start and ids.parse(start)[0] == ids.ACTION and not end:
            changes: Iterable[Change] = self._action(start).changes
        else:
            changes = self._between(start, end)
        return Diff(tuple(change for change in changes if wanted(change.target)), self.files.text)

    def _between(self, start: str, end: str) -> Iterable[Change]:
        with self.lock.held():
            history = self.history
            now = None if end else self.files.mark()
            since = self._mark_of(start) if start else _last_beginning(history)
            until = now or self._mark_of(end)
            return list(self.files.changes(since, until)) if since else []

    def _action(self, id: str) -> Action:
        action = self.history.actions.get(id)
        if action is None:
            raise UsageError(f"there is no action {id}", hint="`takeback log` lists what there is")
        return action

    def _mark_of(self, id: str) -> e.Mark:
        """The files as they were at a checkpoint, or when an action began."""
        kind, _ = ids.parse(id)
        history = self.history
        marks: Sequence[e.Mark] = ()
        if id in history.checkpoints:
            marks = history.checkpoints[id].taken.marks
        elif id in history.actions:
            marks = getattr(history.actions[id].began, "marks", ())
        else:
            raise UsageError(f"there is no {ids.KINDS[kind]} {id}", hint="`takeback log` lists what there is")
        for mark in marks:
            if mark.resource == "files" and not self.files.keeps(mark):
                raise ConflictError(
                    f"the files of {id} were pruned and are no longer kept; nothing was changed"
                )
            if mark.resource == "files":
                return mark
        raise UsageError(f"{id} has no picture of the files", hint="name a checkpoint, or an action")

    # Recording

    def recover(self) -> None:
        """Finish and settle what a crash left open; `notices` says what was done."""
        with self.lock.held():
            history = self.history
            if not history.open_actions() and not history.open_actions(Life.BACKGROUND):
                return
            if finished := self.rollbacks.finish():
                self.notices.append(f"finished the {finished.kind} that was cut short. {finished}")
            self.notices += recovery.settle(self.tracker)

    def save(self, message: str = "") -> Checkpoint:
        """Take a checkpoint."""
        with self.lock.held():
            self.recover()
            id = self.tracker.save(message, config.actor())
            self.keep_within_quota()
        return self.ledger.history.checkpoints[id]

    @contextmanager
    def recording(self, name: str, *, actor: str = "", ref: str = "") -> Iterator[str]:
        """What changes in this block is one action, whoever or whatever does it. Gives its id.

        An exception is recorded and goes on; nothing is taken back by itself.
        """
        with self.lock.held():
            self.recover()
            id = self.tracker.begin(name, actor=actor or config.actor(), parent=self.parent_action(), ref=ref)
        self.tracker.life.show(id)
        try:
            yield id
        except BaseException as error:
            self.tracker.end(id, e.Outcome.FAILED, why=f"{type(error).__name__}: {error}"[:500])
            raise
        else:
            self.tracker.end(id, e.Outcome.DONE)
        finally:
            self.tracker.life.end(id)

    def parent_action(self) -> str:
        """The action of this workspace inside which this process runs."""
        name, _, id = config.parent_action().rpartition(":")
        return id if name == self.state.name else ""

    # Taking back

    def undo(
        self,
        *wanted: str,
        to: str | Checkpoint | None = None,
        paths: Iterable[str] = (),
        preview: bool = False,
        on_conflict: str = "stop",
    ) -> RollbackReport:
        """Take back what recorded actions did: the last one, these, or all after a checkpoint."""
        return _complete(
            self.rollbacks.undo(
                wanted,
                to=_id(to),
                wanted=path_filter(self.root, self.history, paths),
                preview=preview,
                on_conflict=_choice(on_conflict),
            )
        )

    def redo(self, *, preview: bool = False, on_conflict: str = "stop") -> RollbackReport:
        """Take the most recent rollback back."""
        return _complete(self.rollbacks.redo(preview=preview, on_conflict=_choice(on_conflict)))

    def restore(
        self, checkpoint: str | Checkpoint, *, paths: Iterable[str] = (), preview: bool = False
    ) -> RollbackReport:
        """Make the workspace equal to a checkpoint, whoever changed it; `redo` brings the present back."""
        chosen = path_filter(self.root, self.history, paths)
        return _complete(self.rollbacks.restore(_id(checkpoint), wanted=chosen, preview=preview))

    # Keeping house

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Everything that is not as it was written; an empty list is the proof that all is well.

        With `deep` every stored byte is read again, and every file of the workspace is compared with what was last
        recorded of it: by content, not by times.
        """
        findings = list(self.journal.check())
        if not findings:
            findings = [Finding(f"event {b.seq}", b.what, b.seq) for b in self.history.breaches]
        if (self.state / "packs").exists():
            findings += self.store.check(deep=deep, progress=self._progress)
        if deep and not findings and "files" in self.history.marks:
            with self.lock.held():
                findings += self.files.audit()
        return findings

    def drift(self) -> list[Change]:
        """What changed since the last record, and belongs to no action yet."""
        with self.lock.held():
            self.ledger.refresh()
            return self.tracker.since_last(self.tracker.marks())

    def gc(self) -> Pruned:
        """Let go of content that the limits do not keep."""
        limits = self.settings.store
        with self.lock.held():
            self.recover()
            # The present is recorded first, so that its content counts as needed.
            self.tracker.save("before gc", config.actor())
            self._generation.rise()
            history = self.ledger.history
            running = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
            return prune(
                self.journal.read(),
                [mark for action in running for mark in getattr(action.began, "marks", ())],
                self.files,
                self.store,
                Limits(limits.keep_days, limits.keep_checkpoints, limits.quota_bytes),
                SystemClock().now_us(),
                self._progress,
            )

    def keep_within_quota(self) -> None:
        """Clean up by itself when the store has outgrown its quota, but not again and again."""
        quota = self.settings.store.quota_bytes
        if quota and self.store.size_bytes() > quota and self._generation.age_s() > AUTOMATIC_GC_S:
            pruned = self.gc()
            self.notices.append(
                f"the stored content had outgrown its quota: freed {pruned.freed / 1e6:,.0f} MB of old states"
            )

    def close(self) -> None:
        if "files" in self.__dict__:
            self.files.remember()
            self.files.close()
        if "store" in self.__dict__:
            self.store.close()
        self.journal.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Workspace {self.root}>"


def _complete(report: RollbackReport) -> RollbackReport:
    """This report, if all that was promised is done and verified."""
    if report.verdict is Verdict.PARTIAL:
        raise RollbackIncomplete(
            str(report), hint="the report names what remains; `takeback status` too", report=report
        )
    return report


def _id(named: str | Checkpoint | None) -> str:
    return named.id if isinstance(named, Checkpoint) else named or ""


def _choice(text: str) -> OnConflict:
    try:
        return OnConflict(text)
    except ValueError:
        choices = ", ".join(choice.value for choice in OnConflict)
        raise UsageError(f"{text!r} is no choice for conflicts", hint=f"one of {choices}") from None


def _last_beginning(history: History) -> e.Mark | None:
    """The files before the most recent action, else at the last checkpoint."""
    for action in reversed(history.actions.values()):
        if action.is_tool:
            for mark in getattr(action.began, "marks", ()):
                if mark.resource == "files":
                    found: e.Mark = mark
                    return found
    return history.marks.get("files")
