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
from takeback.core.change import Change, Target, Version
from takeback.core.entities import OWN, Approval, Checkpoint, RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.rollback import Verdict
from takeback.core.values import view
from takeback.engine.describe import replay as describe_replay
from takeback.engine.describe.diff import Diff
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot
from takeback.engine.rollback.paths import path_filter
from takeback.engine.runs.checks import choice_of, dependents_of
from takeback.errors import ContentGone, RunBusy, SeatLost, UsageError
from takeback.ports.journal import Finding, Journal
from takeback.ports.outbox import Outbox
from takeback.ports.progress import Progress, silent
from takeback.settings import environment, toml
from takeback.storage.state.lock import WorkspaceLock
from takeback.workspace.known import KnownWorkspace
from takeback.workspace.lost_history import Lost
from takeback.workspace.trusted_settings import TrustedSettings

if TYPE_CHECKING:
    from takeback.core.listing import ListPlace
    from takeback.engine.gate.gate import Approve
    from takeback.engine.locks.leases import Leases
    from takeback.engine.outbox.service import OutboxService, ServiceListener
    from takeback.engine.prune import Pruned
    from takeback.engine.rollback.report import RollbackReport
    from takeback.engine.runs.run import Run
    from takeback.engine.runs.session import Session
    from takeback.engine.runs.thread import Thread
    from takeback.engine.tracking.command import Commands
    from takeback.resources.postgres.guarded import GuardedDatabases
    from takeback.storage.content.memory import MemoryBlobs
    from takeback.workspace.forgetting import Forgotten
    from takeback.workspace.notices.notifier import Notifier
    from takeback.workspace.parts import WorkspaceParts
    from takeback.workspace.past.past import Past
    from takeback.workspace.staging import Stages
    from takeback.workspace.upkeep import Upkeep


class Workspace:
    """One protected directory, and everything that can be done to it. Close it, or use it in a `with` block."""

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
        """`blobs` has the content, if it is not kept in the state folder."""
        self.root = root
        self.state = state
        self.known = KnownWorkspace(root, state, journal, watching=watching, progress=progress, blobs=blobs)
        """What the journal and the settings say, without a look at the directory."""
        self.closed: Callable[[], object] = lambda: None
        """Called when the workspace has been closed."""
        self.notices = self.known.notices
        """Messages for the user, such as what was settled after a crash."""

    @property
    def parts(self) -> WorkspaceParts:
        """What works on the directory. It is loaded when it is first needed."""
        return self.known.parts

    @cached_property
    def upkeep(self) -> Upkeep:
        """What the workspace has stored: how much it is, whether it is sound, and what may go."""
        from takeback.workspace.upkeep import Upkeep

        return Upkeep(self.parts)

    @property
    def history(self) -> History:
        """The present content of the journal."""
        return self.known.history

    @property
    def known_history(self) -> History:
        """What the journal said when it was last read: reading it again costs a moment."""
        return self.known.ledger.history

    @property
    def journal(self) -> Journal:
        return self.known.journal

    @property
    def source(self) -> str:
        """The source of the events, for others: the same on each machine that shares the history."""
        return self.known.source

    @property
    def outbox(self) -> Outbox:
        """The intents that runs have deferred."""
        return self.journal.outbox

    def courier(
        self,
        *,
        concurrency: int = 4,
        notify: Sequence[str] = (),
        health: Path | None = None,
        listener: ServiceListener | None = None,
    ) -> OutboxService:
        """Return a worker that delivers the intents of committed runs, and tells webhooks and notifiers.

        `notify` are notifiers in addition to those of the workspace; `health` is a file to keep up to date.
        """
        return self.parts.courier(concurrency=concurrency, notify=notify, health=health, listener=listener)

    @property
    def postgres(self) -> GuardedDatabases:
        """The guarded PostgreSQL databases."""
        return self.parts.postgres

    @property
    def leases(self) -> Leases:
        """The locks that runs hold."""
        return self.parts.leases

    @property
    def lost(self) -> Lost | None:
        """The history that this directory had before, if it is not this one."""
        return self.known.lost

    @property
    def settings(self) -> toml.Config:
        """The settings of takeback.toml that hold: neither an agent nor a folder may loosen its own protection."""
        return self.known.settings

    @property
    def trusted(self) -> TrustedSettings:
        """Which settings hold, and what a human accepts of the others."""
        return self.known.trusted

    @property
    def lock(self) -> WorkspaceLock:
        """Held for marks, rollbacks and garbage collection; not for the length of a run."""
        return self.known.lock

    # What happened

    def log(self) -> list[RecordedAction | Checkpoint]:
        """Return every action and checkpoint, oldest first."""
        history = self.history
        entries: list[RecordedAction | Checkpoint] = [
            *history.actions.values(),
            *history.checkpoints.values(),
        ]
        return sorted(entries, key=lambda entry: ids.seq_of(entry.id))

    def diff(self, a: str | Checkpoint = "", b: str | Checkpoint = "", paths: Iterable[str] = ()) -> Diff:
        """Return the changes between two moments, or from a moment to the present, or those of one action.

        By default, return what has changed since the last action began, or since the last checkpoint.
        """
        from takeback.workspace.comparison import Comparison  # most commands compare nothing

        comparison = Comparison(self.parts)
        return Diff(comparison.changes(_id(a), _id(b), paths), comparison.text, self.tell)

    @cached_property
    def past(self) -> Past:
        """Moments, the workspace as it was at one, and the life of each file."""
        from takeback.workspace.past.past import Past

        return Past(self)

    def tell(self, change: Change) -> str:
        """Return a change as a person would describe it, if the name of its target does not say enough."""
        return self.parts.tracker.resources[change.target.resource].tell(change, back=False)

    def places(self, changes: Iterable[Change]) -> Mapping[Target, ListPlace]:
        """Return how much each of these changes matters to a person."""
        return self.parts.known_files.places(changes)

    def text_of(self, version: Version) -> bytes | None:
        """Return the content of a recorded version of a file, or None if it has none."""
        return self.parts.files.text(version)

    def drift(self) -> list[Change]:
        """Return what has changed since the last record and belongs to no action yet."""
        with self.lock.held():
            self.known.ledger.refresh()
            return self.parts.tracker.since_last(self.parts.tracker.marks())

    # Recording

    def save(self, message: str = "") -> Checkpoint:
        """Take a checkpoint."""
        with self.lock.held():
            self.recover()
            id = self.parts.tracker.save(message, environment.actor())
            self.keep_within_quota()
        return self.known.ledger.history.checkpoints[id]

    def look(self) -> None:
        """Look at everything, and record nothing: the next look of this object costs what changed since."""
        with self.lock.held():
            self.parts.tracker.marks()

    def observe(self) -> None:
        """Record what changed since the last look; it belongs to no action."""
        with self.lock.held():
            self.parts.tracker.observe()

    def in_background(self) -> list[int]:
        """Return the processes that ended actions have left running."""
        return self.parts.tracker.in_background()

    def end_gone(self) -> None:
        """End the actions whose last process in the background is gone."""
        with self.lock.held():
            self.known.ledger.refresh()
            self.parts.tracker.end_gone()

    def trespasses(self, action: str) -> list[str]:
        """Say what an action changed that other runs have locked."""
        return [str(one) for one in self.parts.locks.after(self.history.actions[action])]

    @contextmanager
    def recording(
        self, name: str, *, actor: str = "", ref: str = "", command: str | Sequence[str] = ()
    ) -> Iterator[str]:
        """Record everything that changes in this block as one action, whatever changes it. Yield its id.

        An exception is recorded and raised again; nothing is taken back automatically. `command` is what the block
        is about to run: it is judged first, as in `takeback run`, and RefusedError is raised if a rule or a lock
        forbids it.
        """
        environment.refuse_in_shadow("a recorded block")
        actor, plan = actor or environment.actor(), None
        if command:
            plan = self.commands.plan(command, name=name, actor=actor)
            if locked := self.commands.allow(plan):
                self.notices.append(locked)
        with self.commands.block(name, actor=actor, ref=ref, plan=plan) as (id, trespasses):
            yield id
        self.notices += [f"{id} changed what another run has locked: {one}" for one in trespasses]

    @contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """Record what Takeback itself writes into the project in this block. Yield the action's id.

        If an agent asked for it, the action is the agent's, like everything else that the agent does.
        """
        tool = "" if self.inside_action() else f"{OWN}{name}"
        with self.commands.block(name, actor=environment.actor(), tool=tool) as (id, _):
            yield id

    @cached_property
    def commands(self) -> Commands:
        """The runner of commands as actions: `plan` one, `allow` it, and `run` it."""
        from takeback.engine.sandbox.wrapping import Fences
        from takeback.engine.tracking.command import Commands  # not needed for reading

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
            fences=Fences(self.state),
        )

    @cached_property
    def stages(self) -> Stages:
        """The views of this workspace: made, worked in, accepted or dropped."""
        from takeback.workspace.staging import Stages  # few commands need it

        return Stages(self)

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
        on_failure: str = "undo",
        shadow: bool = False,
        copies: Mapping[str, str] | None = None,
    ) -> Run:
        """Return a run, an agent's attempt at a task, as a block: committed at its end, taken back by an exception.

        `roots` are folders outside the workspace that are protected, too, while the run is at work. With `steps` its
        progress is also kept in a workflow file, for restarts. With `deliver` the run itself delivers its intents
        once it has committed; those that fail are left to a worker. With `on_failure="pause"` the completed steps
        of a failed run stay, and it can be continued by its key; with "draft" what is taken back stays as a view.
        With `shadow` the run works in a view and reaches no other system; `copies` names copies of databases for it.
        """
        began = self._began(name, key, autopilot=autopilot, actor=actor, session=session, ref=ref)
        from takeback.engine.runs.parts import Options

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
            on_failure=on_failure,
        )
        if shadow or on_failure == "draft" or environment.shadow():
            from takeback.workspace.shadow.runs import special_run  # few runs need a view

            return special_run(self, options, approve, approval_wait_s, copies, shadow=shadow)
        return self.parts.runs.run(options, approve=approve, approval_wait_s=approval_wait_s)

    def _began(
        self, name: str, key: str, *, autopilot: bool, actor: str, session: str, ref: str
    ) -> e.RunBegan:
        """Return the event that begins a run in this process."""
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
        """Return folders outside the workspace as roots that an action can name, each with everything in it."""
        from takeback.workspace.locate import outside_roots

        return outside_roots(folders, self.root, self.state, allow_home=allow_home)

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
        """Return a run that several processes share, to begin and end actions in: the open one with this key, or new.

        It ends when any process calls `end()`, or when the process `pid` has ended.
        """
        if not key:
            raise UsageError("a session needs a key, so that other processes find it; nothing was begun")
        if not self.history.is_in_session:
            self.known.trusted.note()
        from takeback.engine.runs.parts import Options

        began = self._began(name, key, autopilot=autopilot, actor=actor, session=session, ref=ref)
        return self.parts.runs.session(Options(began), pid=pid, approve=approve)

    def thread(
        self,
        name: str = "",
        *,
        key: str,
        autopilot: bool = False,
        on_conflict: str = "keep",
        approvals: str = "human",
        approve: Approve | None = None,
        approval_wait_s: float = 604800.0,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        deliver: bool = False,
        actor: str = "",
    ) -> Thread:
        """Return the conversation with this key, for a framework: turns and calls in any number of processes."""
        environment.refuse_in_shadow("a thread")
        from takeback.engine.runs.parts import Options

        began = self._began(name, key, autopilot=autopilot, actor=actor, session="", ref="")
        options = Options(began, on_conflict=choice_of(on_conflict), deliver=deliver)
        return self.parts.runs.thread(
            options, (encode, decode), approvals, approve=approve, approval_wait_s=approval_wait_s
        )

    def attach(self, run: str) -> Session:
        """Return an open run of any process, to begin and end actions in it from here."""
        return self.parts.runs.attach(run, actor=environment.actor(), parent=self.parent_action())

    def resume(self, run: str = "") -> list[RecordedRun]:
        """Settle what a crash left in doubt. Return the runs that can be continued, or the named one."""
        return self.parts.runs.resume(run)

    def replay(self, run: str, to: str = "") -> Iterator[ReplayMoment]:
        """Yield a run again, event by event, with the recorded results and without any effect."""
        return describe_replay.replay(self.known.journal.read, run, to, self.parts.calls.result)

    def states_at(self, id: str) -> list[RunSnapshot]:
        """Return the state of an id's run when that id ended; for a checkpoint, of each run that was open."""
        history, journal = self.history, self.known.journal
        last = journal.get(history.seq)
        return describe_replay.states_at(history, journal.pick, id, last.at_us if last else 0)

    def result(self, action: RecordedAction) -> Any:
        """Return the full result of a call."""
        return self.parts.calls.result(action)

    def result_view(self, action: RecordedAction) -> Any:
        """Return the result of a call to show: without secrets, and shortened if the full one is no longer kept."""
        if not action.full:
            return view(action.result)
        try:
            return view(self.result(action))
        except ContentGone:
            return action.result

    # What runs need from humans

    def approvals(self) -> list[Approval]:
        """Return the requests that wait for an answer."""
        return self.parts.runs.approvals()

    def approve(self, id: str, *, payload: str = "") -> Approval:
        """Allow exactly what a request asks for, once. Refused inside an action."""
        return self.parts.runs.answer(
            id, granted=True, actor=environment.actor(), payload=payload, inside=self.inside_action()
        )

    def deny(self, id: str, why: str = "") -> Approval:
        return self.parts.runs.answer(id, granted=False, actor=environment.actor(), why=why)

    def handovers(self) -> list[RecordedRun]:
        """Return the runs that wait for a human."""
        return self.parts.runs.handovers()

    @property
    def notifier(self) -> Notifier:
        """What tells everybody who is to be told what waits for a human, each thing once."""
        return self.parts.notifier()

    def take(self, run: str) -> RecordedRun:
        """Record that you take care of a run that was handed over."""
        return self.parts.runs.take(run, environment.actor())

    def give_back(
        self,
        run: str,
        note: str = "",
        *,
        happened: Sequence[str] | Mapping[str, Any] = (),
        never: Sequence[str] = (),
    ) -> RecordedRun:
        """Return a run so that it can be continued, and settle its calls that are in doubt.

        `happened` names calls, or maps each to its result, for the run to continue with.
        """
        self._refuse_agent("only a human can return a run")
        return self.parts.runs.give_back(run, environment.actor(), note, happened, never)

    def settle(self, action: str, *, happened: bool, result: Any = None) -> RecordedAction:
        """Record whether a call in doubt happened, and its result. Refused inside an action."""
        self._refuse_agent("only a human can settle a call")
        return self.parts.runs.settle(action, environment.actor(), result, happened=happened)

    def accept_config(self) -> None:
        """Accept takeback.toml as it is, for a human who has seen it. Refused inside an action."""
        self.refuse_inside()
        self.known.trusted.accept_offer(self.known.trusted.offer())

    def refuse_inside(self) -> None:
        """Raise RefusedError inside an action of any workspace: an agent must not accept settings."""
        self._refuse_agent("an agent cannot accept its own settings", anywhere=True)

    def _refuse_agent(self, why: str, *, anywhere: bool = False) -> None:
        """Raise RefusedError inside an action of this workspace, or with `anywhere` of any."""
        from takeback.workspace.refusal import refuse_agent  # hardly ever needed

        refuse_agent((environment.parent_action() if anywhere else "") or self.inside_action(), why)

    def inside_action(self) -> str:
        """Return the action or session inside which this process runs, by its environment or its ancestors."""
        return self._inside(self.history)

    @property
    def was_inside_action(self) -> bool:
        """The same by the history as last read, so that it works on a closed workspace, too."""
        return bool(self._inside(self.known_history))

    def _inside(self, history: History) -> str:
        from takeback.workspace.refusal import at_work_around

        return self.parent_action() or at_work_around(history)

    def parent_action(self) -> str:
        """Return the action of this workspace that the environment names, or ""."""
        name, _, id = environment.parent_action().rpartition(":")
        return id if name == self.known.called else ""

    # Taking back

    def undo(
        self,
        *wanted: str,
        to: str | Checkpoint | None = None,
        agent: str = "",
        paths: Iterable[str] = (),
        preview: bool = False,
        on_conflict: str = "stop",
        dependents: str = "stop",
    ) -> RollbackReport:
        """Take back what recorded actions did: the last one, these, one agent's, or all after a moment.

        `dependents` says what happens to steps that used results of these: stop, take or leave.
        """
        options: dict[str, Any] = {"paths": paths, "preview": preview, "on_conflict": on_conflict}
        return self.try_undo(*wanted, to=to, agent=agent, dependents=dependents, **options).require_complete()

    def try_undo(
        self,
        *wanted: str,
        to: str | Checkpoint | None = None,
        agent: str = "",
        paths: Iterable[str] = (),
        preview: bool = False,
        on_conflict: str = "stop",
        dependents: str = "stop",
    ) -> RollbackReport:
        """Do what `undo` does; the report says whether it is complete, or stopped at a conflict."""
        if not (wanted or to or agent):
            self.known.refuse_older()
        self.parts.finish_compaction()
        with self.known.missing_told():
            self._refuse_own(wanted)
            report = self.parts.rollbacks.undo(
                wanted,
                to=_id(to),
                agent=agent,
                wanted=path_filter(self.root, self.history, paths),
                preview=preview,
                on_conflict=choice_of(on_conflict),
                dependents=dependents_of(dependents),
            )
        return self._unless_lost(report)

    def _refuse_own(self, wanted: Sequence[str]) -> None:
        """Raise RefusedError if an agent would remove its own protection, or other files that Takeback wrote."""
        chosen = selection.of_ids(self.history, wanted).actions if wanted else ()
        own = [id for id in chosen if self.history.actions[id].is_own]
        if own:
            name = self.history.actions[own[0]].name
            self._refuse_agent(f"only a human can take back {name} ({own[0]})")

    def _unless_lost(self, report: RollbackReport) -> RollbackReport:
        """Return this report. Raise if there is nothing to do only because the history is gone."""
        if report.verdict is Verdict.NOTHING:
            self.known.refuse_lost()
        return report

    def redo(self, *, preview: bool = False, on_conflict: str = "stop") -> RollbackReport:
        """Take the most recent rollback back."""
        return self.try_redo(preview=preview, on_conflict=on_conflict).require_complete()

    def try_redo(self, *, preview: bool = False, on_conflict: str = "stop") -> RollbackReport:
        """Do what `redo` does; the report says whether it is complete, or stopped at a conflict."""
        self.known.refuse_older()
        self.parts.finish_compaction()
        return self._unless_lost(
            self.parts.rollbacks.redo(preview=preview, on_conflict=choice_of(on_conflict))
        )

    def restore(
        self, moment: str | Checkpoint, *, paths: Iterable[str] = (), preview: bool = False
    ) -> RollbackReport:
        """Make the workspace equal to a moment, your own edits included; `redo` brings the present back."""
        return self.try_restore(moment, paths=paths, preview=preview).require_complete()

    def try_restore(
        self, moment: str | Checkpoint, *, paths: Iterable[str] = (), preview: bool = False
    ) -> RollbackReport:
        """Do what `restore` does; the report says whether it is complete, or stopped at a conflict."""
        with self.known.missing_told():
            chosen = path_filter(self.root, self.history, paths)
            report = self.parts.rollbacks.restore(_id(moment), wanted=chosen, preview=preview)
        return self._unless_lost(report)

    # Keeping house

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Return everything that differs from what was written; an empty list proves that all is well.

        With `deep`, read every stored byte again, and compare every file of the workspace with its last record: by
        content, not by times.
        """
        return self.upkeep.verify(deep=deep).findings

    def needed(self) -> set[bytes]:
        """Return the names of all content that the limits keep."""
        return self.upkeep.needed()

    def gc(self, *, compact: bool = False) -> Pruned:
        """Remove content that the limits do not keep; with `compact`, compact old records even the first time."""
        return self.upkeep.gc((lambda _: True) if compact else None).pruned

    def forget(self, *paths: str, shared: bool = False, preview: bool = False) -> Forgotten:
        """Remove the content of these paths from every stored version, and record that. The workspace stays as it is.

        Raise RefusedError if other paths have some of the same content, unless `shared`. Refused inside an action.
        """
        from takeback.workspace.forgetting import Forgetting  # hardly ever needed

        if preview:
            return Forgetting(self.parts).preview(paths)
        self._refuse_agent("an agent cannot forget what was recorded", anywhere=True)
        return Forgetting(self.parts).forget(paths, shared=None if shared else ())

    def keep_within_quota(self) -> None:
        """Clean up if the store has outgrown its quota, but not again and again; and drop views that have expired."""
        self.upkeep.keep_within_quota(self.stages.keep_house() if self.known.has_stages else 0)

    def recover(self) -> None:
        """Finish and settle what a crash left open; `notices` then says what was done."""
        self.parts.recover()

    def recover_if_idle(self) -> None:
        """Settle what a crash left open, unless another process is at work."""
        if self.history.is_unsettled or self.known.is_forgetting:
            with suppress(RunBusy, SeatLost):
                self.recover()

    def close(self) -> None:
        """Close the workspace. A history in memory ends with it, and so does its private state folder."""
        self.known.close()
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
