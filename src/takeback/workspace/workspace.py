"""A directory under protection, with everything that can be done to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType

import msgspec

from takeback.core import events as e
from takeback.core import ids, selection
from takeback.core.change import Change, Version
from takeback.core.entities import OWN, Checkpoint, RecordedAction
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.rollback import OnConflict, Verdict
from takeback.engine import prune
from takeback.engine.describe.diff import Diff
from takeback.engine.outbox.check import disagreements
from takeback.engine.prune import Pruned
from takeback.engine.rollback.paths import path_filter
from takeback.engine.rollback.report import RollbackReport
from takeback.errors import ConflictError, CorruptionError, RefusedError, UsageError
from takeback.ports.journal import Finding
from takeback.settings import environment
from takeback.system.clock import SystemClock
from takeback.workspace.lost_history import FRESH
from takeback.workspace.running import Running

AUTOMATIC_GC_S, URGENT_GC_S = 3600, 60


class Workspace(Running):
    """The state of one protected directory. Close it, or use it in a `with` block."""

    # What happened

    def log(self) -> list[RecordedAction | Checkpoint]:
        """Every action and checkpoint, oldest first."""
        history = self.history
        entries: list[RecordedAction | Checkpoint] = [
            *history.actions.values(),
            *history.checkpoints.values(),
        ]
        return sorted(entries, key=lambda entry: ids.seq_of(entry.id))

    def diff(self, a: str | Checkpoint = "", b: str | Checkpoint = "", paths: Iterable[str] = ()) -> Diff:
        """What lies between two checkpoints, or a checkpoint and the present, or what one action changed.

        Without anything: what has changed since the last action began, or since the last checkpoint.
        """
        start, end, wanted = _id(a), _id(b), path_filter(self.root, self.history, paths)
        if start and ids.parse(start)[0] != ids.CHECKPOINT and not end:
            changes: Iterable[Change] = self._made_by(start)
        else:
            changes = self._between(start, end)
        return Diff(tuple(change for change in changes if wanted(change.target)), self._text, self.tell)

    def _text(self, change: Change, version: Version) -> bytes | None:
        resource = self.tracker.observed.get(change.target.resource)
        return resource.text(version) if resource else None

    def tell(self, change: Change) -> str:
        """What an action changed, as a person would say it, where the name of the target does not say enough."""
        return self.tracker.resources[change.target.resource].tell(change, back=False)

    def _made_by(self, id: str) -> Iterable[Change]:
        """What an action, a step or a run changed, from before it to after it."""
        history = self.history
        if id in history.actions and selection.inside(history, [id]) == [id]:
            return history.actions[id].changes
        actions = [id] if id in history.actions else selection.actions_of(history, id)
        made = selection.net(history, selection.inside(history, actions))
        known = {*self.tracker.observed, *(resource.name for resource in self.tracker.attributed)}
        return [change for change in made if change.target.resource in known]

    def _between(self, start: str, end: str) -> Iterable[Change]:
        with self.lock.held():
            history = self.history
            until = self._marks_of(end) if end else self.tracker.marks()
            since = _by_name(self._marks_of(start)) if start else _last_beginning(history)
            if not end and self._outside.name in since:
                # Nobody looks there between two actions: what was in view then is looked at now.
                again = self._outside.again(since[self._outside.name])
                until = [*(mark for mark in until if mark.resource != again.resource), again]
            return [
                change
                for mark in until
                if mark.resource in since
                for change in self.tracker.observed[mark.resource].changes(since[mark.resource], mark)
            ]

    def _marks_of(self, id: str) -> Sequence[e.Mark]:
        """Everything as it was at a checkpoint, or when an action began."""
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
            if not self.tracker.observed[mark.resource].keeps(mark):
                raise ConflictError(
                    f"the {mark.resource} of {id} were pruned and are no longer kept; nothing was changed"
                )
        if not marks:
            raise UsageError(f"{id} has no picture of the files", hint="name a checkpoint, or an action")
        return marks

    # Recording

    def save(self, message: str = "") -> Checkpoint:
        """Take a checkpoint."""
        with self.lock.held():
            self.recover()
            id = self.tracker.save(message, environment.actor())
            self.keep_within_quota()
        return self.ledger.history.checkpoints[id]

    @contextmanager
    def recording(self, name: str, *, actor: str = "", ref: str = "") -> Iterator[str]:
        """What changes in this block is one action, whoever or whatever does it. Gives its id.

        An exception is recorded and goes on; nothing is taken back by itself.
        """
        with self._recorded(name, actor=actor, ref=ref) as id:
            yield id

    @contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """What Takeback itself writes into the project in this block, as it was asked to. Gives the action's id.

        Where an agent asked for it, it is the agent's, like anything else that the agent does.
        """
        with self._recorded(name, tool="" if self.inside_action() else f"{OWN}{name}") as id:
            yield id

    @contextmanager
    def _recorded(self, name: str, *, actor: str = "", ref: str = "", tool: str = "") -> Iterator[str]:
        with self.lock.held():
            self.recover()
            self.keep_within_quota()
            id = self.tracker.begin_single(
                name, actor=actor or environment.actor(), parent=self.parent_action(), ref=ref, tool=tool
            )
        self.tracker.life.show(id)
        try:
            yield id
        except BaseException as error:
            self._end_recording(id, e.Outcome.FAILED, f"{type(error).__name__}: {error}"[:500])
            raise
        self._end_recording(id, e.Outcome.DONE)

    def _end_recording(self, id: str, outcome: e.Outcome, why: str = "") -> None:
        # Where its end cannot be recorded now, the last sign of life proves later what was its own.
        life = self.tracker.life
        life.show(id)
        try:
            self.tracker.end_single(id, outcome, why=why)
        except BaseException:
            life.give_up(id)
            raise
        life.end(id)

    # Taking back

    def undo(
        self,
        *wanted: str,
        to: str | Checkpoint | None = None,
        agent: str = "",
        paths: Iterable[str] = (),
        preview: bool = False,
        on_conflict: str = "stop",
    ) -> RollbackReport:
        """Take back what recorded actions did: the last one, these, one agent's, or all after a checkpoint."""
        report = self.try_undo(
            *wanted, to=to, agent=agent, paths=paths, preview=preview, on_conflict=on_conflict
        )
        return report.require_complete()

    def try_undo(
        self,
        *wanted: str,
        to: str | Checkpoint | None = None,
        agent: str = "",
        paths: Iterable[str] = (),
        preview: bool = False,
        on_conflict: str = "stop",
    ) -> RollbackReport:
        """Do what `undo` does; the report says whether it is complete, or stopped at a conflict."""
        with self._missing_told():
            self._refuse_own(wanted)
            report = self.rollbacks.undo(
                wanted,
                to=_id(to),
                agent=agent,
                wanted=path_filter(self.root, self.history, paths),
                preview=preview,
                on_conflict=_choice(on_conflict),
            )
        return self._not_lost(report)

    def _refuse_own(self, wanted: Sequence[str]) -> None:
        """An agent does not take out its own protection, nor what its human had written for it."""
        chosen = selection.of_ids(self.history, wanted).actions if wanted else ()
        own = [id for id in chosen if self.history.actions[id].is_own]
        if own and (inside := self.inside_action()):
            raise RefusedError(
                f"this was asked from inside {inside}: only a human takes back {self.history.actions[own[0]].name} "
                f"({own[0]}). Nothing was changed",
                hint="do it from a terminal of your own",
            )

    def redo(self, *, preview: bool = False, on_conflict: str = "stop") -> RollbackReport:
        """Take the most recent rollback back."""
        return self.try_redo(preview=preview, on_conflict=on_conflict).require_complete()

    def try_redo(self, *, preview: bool = False, on_conflict: str = "stop") -> RollbackReport:
        """Do what `redo` does; the report says whether it is complete, or stopped at a conflict."""
        return self._not_lost(self.rollbacks.redo(preview=preview, on_conflict=_choice(on_conflict)))

    def restore(
        self, checkpoint: str | Checkpoint, *, paths: Iterable[str] = (), preview: bool = False
    ) -> RollbackReport:
        """Make the workspace equal to a checkpoint, whoever changed it; `redo` brings the present back."""
        return self.try_restore(checkpoint, paths=paths, preview=preview).require_complete()

    def try_restore(
        self, checkpoint: str | Checkpoint, *, paths: Iterable[str] = (), preview: bool = False
    ) -> RollbackReport:
        """Do what `restore` does; the report says whether it is complete, or stopped at a conflict."""
        with self._missing_told():
            chosen = path_filter(self.root, self.history, paths)
            report = self.rollbacks.restore(_id(checkpoint), wanted=chosen, preview=preview)
        return self._not_lost(report)

    def _not_lost(self, report: RollbackReport) -> RollbackReport:
        """Return this report, unless there is nothing to do only because the history is gone."""
        if report.verdict is Verdict.NOTHING:
            if gone := self.lost:
                self.notices.clear()  # the error says the same
                raise gone.error
            if not self.history.seq:
                raise CorruptionError(
                    f"the journal in {self.state} is empty: what was recorded is gone. Nothing was taken back",
                    hint=f"restore that folder from a backup; or go on without it: {FRESH}",
                )
        return report

    @contextmanager
    def _missing_told(self) -> Iterator[None]:
        """What is not found may be in the history that is gone."""
        try:
            yield
        except UsageError as error:
            if gone := self.lost:
                raise gone.error from error
            raise

    # Keeping house

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Everything that is not as it was written; an empty list is the proof that all is well.

        With `deep` every stored byte is read again, and every file of the workspace is compared with what was last
        recorded of it: by content, not by times.
        """
        findings = list(self.journal.check())
        if not findings and (gone := self.lost):
            findings = [Finding("history", f"{gone}; {gone.hint}")]
        if not findings:
            findings = [Finding(f"event {b.seq}", b.what, b.seq) for b in self.history.breaches]
        if not findings:
            findings += disagreements(self.ledger.refresh, self.outbox)
        if (self.state / "packs").exists():
            findings += self.store.check(deep=deep, progress=self._progress)
        if self._kept.blobs and not findings:
            findings += self._check_bucket(deep=deep)
        if deep and not findings:
            with self.lock.held():
                for name, resource in self.tracker.observed.items():
                    findings += resource.audit() if name in self.history.marks else []
        return findings

    def drift(self) -> list[Change]:
        """What changed since the last record, and belongs to no action yet."""
        with self.lock.held():
            self.ledger.refresh()
            return self.tracker.since_last(self.tracker.marks())

    def _check_bucket(self, *, deep: bool) -> list[Finding]:
        try:
            return list(self.store.check_shared(self.needed(), deep=deep, progress=self._progress))
        except CorruptionError as error:
            return [Finding("content", error.message)]

    def needed(self) -> set[bytes]:
        """The names of all content that the limits keep."""
        marks, limits = self._pinned(), self.settings.store
        return prune.needed(
            self.journal.read(),
            marks,
            self.tracker.observed,
            prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, 0),
            SystemClock().now_us(),
            self._progress,
            self.ledger.history.values(),
        )

    def _pinned(self) -> list[e.Mark]:
        """What running actions began with stays, whatever its age."""
        history = self.history
        running = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
        return [mark for action in running for mark in getattr(action.began, "marks", ())]

    def gc(self) -> Pruned:
        """Let go of content that the limits do not keep."""
        limits = self.settings.store
        with self.lock.held():
            self.recover()
            # The present is recorded first, so that its content counts as needed.
            self.tracker.save("before gc", environment.actor())
            self._generation.rise()
            pruned = prune.prune(
                self.journal.read(),
                self._pinned(),
                self.tracker.observed,
                self.store,
                prune.RetentionLimits(limits.keep_days, limits.keep_checkpoints, limits.quota_bytes),
                SystemClock().now_us(),
                self._progress,
                self.ledger.history.values(),
            )
            freed = self._sweep_bucket() if self._kept.blobs else 0
            return msgspec.structs.replace(pruned, bucket_bytes_freed=freed)

    def _sweep_bucket(self) -> int:
        seen = self.history.seq
        live = self.needed()

        def again() -> set[bytes]:
            # Nothing was recorded meanwhile, here or elsewhere, so nothing else can be live.
            return live if self.history.seq == seen else self.needed()

        return self.store.sweep_shared(live, again, progress=self._progress).bytes_freed

    def keep_within_quota(self) -> None:
        """Clean up by itself when the store has outgrown its quota, but not again and again.

        Before an action begins, and not after it ended: what it did must not be pruned before it can be taken back.
        """
        quota = self.settings.store.quota_bytes
        size = self.store.size_bytes() if quota else 0
        wait_s = AUTOMATIC_GC_S if size < 2 * quota else URGENT_GC_S
        if size > quota and self._generation.age_s() > wait_s:
            pruned = self.gc()
            self.notices.append(
                f"the stored content had outgrown its quota: freed {pruned.freed / 1e6:,.0f} MB of old states"
            )

    def close(self) -> None:
        for resource in self.observed if "observed" in self.__dict__ else ():
            resource.remember()
            resource.close()
        if "store" in self.__dict__:
            self.store.close()
        self.ledger.rest()
        self.journal.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Workspace {self.root}>"


def _id(named: str | Checkpoint | None) -> str:
    return named.id if isinstance(named, Checkpoint) else named or ""


def _choice(text: str) -> OnConflict:
    try:
        return OnConflict(text)
    except ValueError:
        choices = ", ".join(choice.value for choice in OnConflict)
        raise UsageError(f"{text!r} is no choice for conflicts", hint=f"one of {choices}") from None


def _by_name(marks: Iterable[e.Mark]) -> dict[str, e.Mark]:
    return {mark.resource: mark for mark in marks}


def _last_beginning(history: History) -> Mapping[str, e.Mark]:
    """Everything before the most recent action, else at the last checkpoint."""
    for action in reversed(history.actions.values()):
        if action.is_tool and (marks := getattr(action.began, "marks", ())):
            return _by_name(marks)
    return history.marks
