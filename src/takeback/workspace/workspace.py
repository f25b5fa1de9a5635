"""A directory under protection, with everything that can be done to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import events as e
from takeback.core import ids, selection
from takeback.core.change import Change, Version
from takeback.core.entities import OWN, Approval, Checkpoint, RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.rollback import Verdict
from takeback.core.values import view
from takeback.engine.describe import replay as describe_replay
from takeback.engine.describe.diff import Diff
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot
from takeback.engine.gate.gate import Approve
from takeback.engine.locks.leases import Leases
from takeback.engine.prune import Pruned
from takeback.engine.rollback.paths import path_filter
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.runs.checks import choice_of
from takeback.engine.runs.parts import Options
from takeback.engine.runs.run import Run
from takeback.engine.runs.session import Session
from takeback.errors import (
    ConflictError,
    ContentGone,
    CorruptionError,
    RefusedError,
    RunBusy,
    SeatLost,
    UsageError,
)
from takeback.ports.journal import Finding, Journal
from takeback.ports.outbox import Outbox
from takeback.ports.progress import Progress, silent
from takeback.resources.files.outside.roots import place_of
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.settings import environment, toml
from takeback.storage.content.memory import MemoryBlobs
from takeback.storage.state.lock import WorkspaceLock
from takeback.system import processes
from takeback.workspace.lost_history import FRESH, Lost
from takeback.workspace.parts import WorkspaceParts
from takeback.workspace.upkeep import Upkeep

if TYPE_CHECKING:
    from takeback.engine.outbox.service import OutboxService, ServiceListener
    from takeback.engine.tracking.command import Commands


class Workspace:
    """One protected directory, and all that can be done to it. Close it, or use it in a `with` block."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal,
        *,
        watching: bool = False,
        progress: Progress = silent,
        blobs: MemoryBlobs | None = None,
    ) -> None:
        """`blobs` has the content, where it is not kept in the state folder."""
        self.root = root
        self.state = state
        self.parts = WorkspaceParts(root, state, journal, watching=watching, progress=progress, blobs=blobs)
        self.closed: Callable[[], object] = lambda: None
        """Called when it has been closed."""
        self.notices = self.parts.notices
        """What was found and settled of an earlier crash, in words, for whoever can tell the user."""
        self._upkeep = Upkeep(self.parts)

    @property
    def history(self) -> History:
        """What the journal says now."""
        return self.parts.history

    @property
    def journal(self) -> Journal:
        return self.parts.journal

    @property
    def outbox(self) -> Outbox:
        """What runs have deferred."""
        return self.parts.outbox

    def courier(
        self,
        *,
        concurrency: int = 4,
        notify: Sequence[str] = (),
        health: Path | None = None,
        listener: ServiceListener | None = None,
    ) -> OutboxService:
        """A worker that delivers what committed runs have deferred, and tells webhooks and notifiers of it.

        `notify` names notifiers beside those of `takeback monitor`; `health` is a file to keep up to date.
        """
        return self.parts.courier(concurrency=concurrency, notify=notify, health=health, listener=listener)

    @property
    def postgres(self) -> GuardedDatabases:
        """The guarded PostgreSQL databases."""
        return self.parts.postgres

    @property
    def leases(self) -> Leases:
        """Who may work on what."""
        return self.parts.leases

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return self.parts.lost

    @property
    def settings(self) -> toml.Config:
        """takeback.toml, as far as it holds: neither an agent nor a folder may loosen its own protection."""
        return self.parts.settings

    @property
    def lock(self) -> WorkspaceLock:
        """Held for marks, rollbacks and garbage collection; not for the length of a run."""
        return self.parts.lock

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
        resource = self.parts.tracker.observed.get(change.target.resource)
        return resource.text(version) if resource else None

    def tell(self, change: Change) -> str:
        """What an action changed, as a person would say it, where the name of the target does not say enough."""
        return self.parts.tracker.resources[change.target.resource].tell(change, back=False)

    def _made_by(self, id: str) -> Iterable[Change]:
        """What an action, a step or a run changed, from before it to after it."""
        history = self.history
        if id in history.actions and selection.inside(history, [id]) == [id]:
            return history.actions[id].changes
        actions = [id] if id in history.actions else selection.actions_of(history, id)
        made = selection.net(history, selection.inside(history, actions))
        known = {*self.parts.tracker.observed, *(resource.name for resource in self.parts.tracker.attributed)}
        return [change for change in made if change.target.resource in known]

    def _between(self, start: str, end: str) -> Iterable[Change]:
        with self.lock.held():
            history = self.history
            until = self._marks_of(end) if end else self.parts.tracker.marks()
            since = _by_name(self._marks_of(start)) if start else _last_beginning(history)
            if not end and self.parts.outside.name in since:
                # Nobody looks there between two actions: what was in view then is looked at now.
                again = self.parts.outside.again(since[self.parts.outside.name])
                until = [*(mark for mark in until if mark.resource != again.resource), again]
            return [
                change
                for mark in until
                if mark.resource in since
                for change in self.parts.tracker.observed[mark.resource].changes(since[mark.resource], mark)
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
            if not self.parts.tracker.observed[mark.resource].keeps(mark):
                raise ConflictError(
                    f"the {mark.resource} of {id} were pruned and are no longer kept; nothing was changed"
                )
        if not marks:
            raise UsageError(f"{id} has no picture of the files", hint="name a checkpoint, or an action")
        return marks

    def drift(self) -> list[Change]:
        """What changed since the last record, and belongs to no action yet."""
        with self.lock.held():
            self.parts.ledger.refresh()
            return self.parts.tracker.since_last(self.parts.tracker.marks())

    # Recording

    def save(self, message: str = "") -> Checkpoint:
        """Take a checkpoint."""
        with self.lock.held():
            self.recover()
            id = self.parts.tracker.save(message, environment.actor())
            self.keep_within_quota()
        return self.parts.ledger.history.checkpoints[id]

    @contextmanager
    def recording(
        self, name: str, *, actor: str = "", ref: str = "", command: str | Sequence[str] = ()
    ) -> Iterator[str]:
        """What changes in this block is one action, whoever or whatever does it. Yields its id.

        An exception is recorded and goes on; nothing is taken back by itself. `command` is what the block is about to
        run: it is judged before, as `takeback run` does it, and RefusedError says that a rule or a lock forbids it.
        """
        actor, plan = actor or environment.actor(), None
        if command:
            plan = self.commands.plan(command, name=name, actor=actor)
            if locked := self.commands.allow(plan):
                self.notices.append(locked)
        with self.commands.block(name, actor=actor, ref=ref, plan=plan) as (id, trespasses):
            yield id
        self.notices += [f"{id} changed what others have locked: {one}" for one in trespasses]

    @contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """What Takeback itself writes into the project in this block, as it was asked to. Yields the action's id.

        Where an agent asked for it, it is the agent's, like anything else that the agent does.
        """
        tool = "" if self.inside_action() else f"{OWN}{name}"
        with self.commands.block(name, actor=environment.actor(), tool=tool) as (id, _):
            yield id

    @cached_property
    def commands(self) -> Commands:
        """Runs commands as actions: `plan` one, `allow` it, and `run` it."""
        from takeback.engine.tracking.command import Commands  # reading needs none of it

        parts = self.parts
        return Commands(
            parts.tracker,
            parts.foresight,
            parts.locks,
            rules=lambda: self.settings.rules,
            guarded=parts.guarded_rows,
            more=parts.environment_of,
            parent=self.parent_action,
            inside=self.inside_action,
            ready=self._ready,
            undo=self.try_undo,
        )

    def _ready(self) -> None:
        self.recover()
        self.keep_within_quota()

    # Runs

    def run(
        self,
        name: str,
        *,
        key: str = "",
        autopilot: bool = False,
        checkpoint: str = "step",
        on_conflict: str = "keep",
        approve: Approve | None = None,
        approval_wait_s: float = 3600.0,
        invariants: Sequence[Callable[[], object]] = (),
        actor: str = "",
        session: str = "",
        ref: str = "",
        command: Sequence[str] | None = None,
        wait_s: float = 60.0,
        steps: Sequence[str] = (),
        deliver: bool = False,
        roots: Sequence[str | os.PathLike[str]] = (),
        allow_home: bool = False,
    ) -> Run:
        """One attempt of an agent at a task, as a block: committed at its end, taken back by an exception.

        `roots` are folders outside the workspace that are protected like it for as long as the run is at work.
        With `steps` its progress is also kept in a workflow file, for restarts. With `deliver` the run itself
        delivers what it deferred, once it has committed; what does not get through is left to a worker.
        """
        began = self._began(name, key, autopilot=autopilot, actor=actor, session=session, ref=ref)
        line = environment.command_line() if command is None else tuple(command)
        options = Options(
            msgspec.structs.replace(began, command=line),
            checkpoint=checkpoint,
            on_conflict=choice_of(on_conflict),
            invariants=tuple(invariants),
            wait_s=wait_s,
            deliver=deliver,
            steps=tuple(steps),
            roots=self.roots(roots, allow_home=allow_home),
        )
        return self.parts.runs.run(options, approve=approve, approval_wait_s=approval_wait_s)

    def _began(
        self, name: str, key: str, *, autopilot: bool, actor: str, session: str, ref: str
    ) -> e.RunBegan:
        """The beginning of a run in this process, as it is recorded."""
        return e.RunBegan(
            name,
            key=key,
            actor=actor or environment.actor(),
            session=session,
            parent=self.parent_action(),
            ref=ref,
            autopilot=autopilot,
            folder=environment.folder(),
        )

    def roots(
        self, folders: Sequence[str | os.PathLike[str]], *, allow_home: bool = False
    ) -> tuple[str, ...]:
        """Folders outside the workspace as places that an action can name, each with all that is in it."""
        if isinstance(folders, str | os.PathLike):
            raise UsageError(
                "roots is a list of folders; nothing was begun", hint=f"roots=[{os.fspath(folders)!r}]"
            )
        found = [Path(os.path.realpath(os.path.join(environment.here(), folder))) for folder in folders]
        for path in () if allow_home else found:
            environment.refuse_too_wide(path)
        return tuple(place_of(path, self.root, self.state.parent.parent) for path in found)

    def session(
        self,
        name: str,
        *,
        key: str,
        pid: int = 0,
        autopilot: bool = False,
        approve: Approve | None = None,
        actor: str = "",
        session: str = "",
        ref: str = "",
    ) -> Session:
        """A run that is not the work of one process, to begin and end actions in: the open one with this key, or new.

        It is over when `end()` is called, in any process, or when the process `pid` has ended.
        """
        if not key:
            raise UsageError("a session needs a key, by which another process finds it; nothing was begun")
        if not self.history.is_in_session:
            self.parts.trusted.note()
        began = self._began(name, key, autopilot=autopilot, actor=actor, session=session, ref=ref)
        return self.parts.runs.session(Options(began), pid=pid, approve=approve)

    def attach(self, run: str) -> Session:
        """An open run of whatever process, to begin and end actions in it from here."""
        return self.parts.runs.attach(run, actor=environment.actor(), parent=self.parent_action())

    def resume(self, run: str = "") -> list[RecordedRun]:
        """Settle what a crash left in doubt; gives the runs that wait to be continued, or the one that is named."""
        return self.parts.runs.resume(run)

    def replay(self, run: str, to: str = "") -> Iterator[ReplayMoment]:
        """A run once more, event by event, with the recorded results and without any effect."""
        return describe_replay.replay(self.parts.journal.read, run, to, self.parts.calls.result)

    def states_at(self, id: str) -> list[RunSnapshot]:
        """How the run that an id belongs to stood when that was over; for a checkpoint, each run that was open."""
        return describe_replay.states_at(self.parts.journal.read, id)

    def result(self, action: RecordedAction) -> Any:
        """All of what a call gave."""
        return self.parts.calls.result(action)

    def result_view(self, action: RecordedAction) -> Any:
        """What a call gave, as it may be seen: without secrets, and shortened where no more is kept."""
        if not action.full:
            return view(action.result)
        try:
            return view(self.result(action))
        except ContentGone:
            return action.result

    # What runs need of humans

    def approvals(self) -> list[Approval]:
        """Questions that wait for an answer."""
        return self.parts.runs.approvals()

    def approve(self, id: str, *, payload: str = "") -> Approval:
        """Allow exactly what a question asks for, once. Refused to whatever runs inside an action."""
        return self.parts.runs.answer(
            id, granted=True, actor=environment.actor(), payload=payload, inside=self.inside_action()
        )

    def deny(self, id: str, why: str = "") -> Approval:
        return self.parts.runs.answer(id, granted=False, actor=environment.actor(), why=why)

    def handovers(self) -> list[RecordedRun]:
        """Runs that wait for a human."""
        return self.parts.runs.handovers()

    def take(self, run: str) -> RecordedRun:
        """Say that you look after a run that was handed over."""
        return self.parts.runs.take(run, environment.actor())

    def give_back(
        self,
        run: str,
        note: str = "",
        *,
        happened: Sequence[str] | Mapping[str, Any] = (),
        never: Sequence[str] = (),
    ) -> RecordedRun:
        """Give a run back so that it can be continued, with your word on the calls that are in doubt.

        `happened` names calls, or maps each to what it gave, for the run to go on with.
        """
        if inside := self.inside_action():
            raise RefusedError(
                f"this was asked from inside {inside}: only a human gives a run back. Nothing was changed",
                hint="do it from a terminal of your own",
            )
        return self.parts.runs.give_back(run, environment.actor(), note, happened, never)

    def settle(self, action: str, *, happened: bool, result: Any = None) -> RecordedAction:
        """Say whether a call in doubt happened, and what it gave. Refused to whatever runs inside an action."""
        if inside := self.inside_action():
            raise RefusedError(
                f"this was asked from inside {inside}: only a human settles a call. Nothing was changed",
                hint="do it from a terminal of your own",
            )
        return self.parts.runs.settle(action, environment.actor(), result, happened=happened)

    def accept_config(self) -> None:
        """Accept takeback.toml as it is, for a human who has seen it. Refused to whatever runs inside an action."""
        self.refuse_inside()
        self.parts.trusted.accept_offer(self.parts.trusted.offer())

    def refuse_inside(self) -> None:
        """Settings are not accepted inside of an action, of this workspace or another."""
        if inside := environment.parent_action() or self.inside_action():
            raise RefusedError(
                f"this was asked from inside {inside}: an agent cannot accept its own settings. Nothing was changed",
                hint="do it from a terminal of your own",
            )

    def inside_action(self) -> str:
        """The action, or session, in whose process tree this process is, by its environment or by its lineage."""
        return self._inside(self.history)

    @property
    def was_inside_action(self) -> bool:
        """The same by the history as it was last read: this works on a workspace that is closed, too."""
        return bool(self._inside(self.parts.ledger.history))

    def _inside(self, history: History) -> str:
        if parent := self.parent_action():
            return parent
        line = processes.lineage()
        running = (a.id for a in history.open_actions() if getattr(a.began, "process", None) in line)
        # The agent of a session is inside of it also between its calls.
        led = (run.id for run in history.open_runs() if run.began.detached and run.began.process in line)
        return next(running, "") or next(led, "")

    def parent_action(self) -> str:
        """The action of this workspace inside which this process runs."""
        name, _, id = environment.parent_action().rpartition(":")
        return id if name == self.state.name else ""

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
        if not (wanted or to or agent):
            self._refuse_older()
        with self._missing_told():
            self._refuse_own(wanted)
            report = self.parts.rollbacks.undo(
                wanted,
                to=_id(to),
                agent=agent,
                wanted=path_filter(self.root, self.history, paths),
                preview=preview,
                on_conflict=choice_of(on_conflict),
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
        self._refuse_older()
        return self._not_lost(self.parts.rollbacks.redo(preview=preview, on_conflict=choice_of(on_conflict)))

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
            report = self.parts.rollbacks.restore(_id(checkpoint), wanted=chosen, preview=preview)
        return self._not_lost(report)

    def _refuse_older(self) -> None:
        """What was done last is not known to a history that was cut: something older would be taken for it."""
        if (gone := self.lost) and gone.noted:
            self.notices.clear()  # the error says the same
            raise gone.error

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
        return self._upkeep.verify(deep=deep)

    def needed(self) -> set[bytes]:
        """The names of all content that the limits keep."""
        return self._upkeep.needed()

    def gc(self) -> Pruned:
        """Let go of content that the limits do not keep."""
        return self._upkeep.gc()

    def keep_within_quota(self) -> None:
        """Clean up by itself when the store has outgrown its quota, but not again and again."""
        self._upkeep.keep_within_quota()

    def recover(self) -> None:
        """Finish and settle what a crash left open; `notices` says what was done."""
        self.parts.recover()

    def recover_if_idle(self) -> None:
        """Find out what is true now of what a crash left open; not while somebody is at work."""
        if self.history.has_unended or self.history.open_runs():
            with suppress(RunBusy, SeatLost):
                self.recover()

    def close(self) -> None:
        """Close it. Where its history is in memory, that and the private state folder end with it."""
        self.parts.close()
        self.closed()

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


def _by_name(marks: Iterable[e.Mark]) -> dict[str, e.Mark]:
    return {mark.resource: mark for mark in marks}


def _last_beginning(history: History) -> Mapping[str, e.Mark]:
    """Everything before the most recent action, else at the last checkpoint."""
    for action in reversed(history.actions.values()):
        if action.is_tool and (marks := getattr(action.began, "marks", ())):
            return _by_name(marks)
    return history.marks
