"""What a workspace does with runs: begin them, find them again, and pass their questions to humans."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from takeback.core.entities import Approval, RecordedAction
from takeback.core.entities import RecordedRun as Recorded
from takeback.core.history import History
from takeback.engine.describe import replay as describe_replay
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot
from takeback.engine.gate.gate import Approve
from takeback.engine.runs.run import Run
from takeback.engine.runs.runs import options_of
from takeback.engine.runs.session import Session
from takeback.errors import RefusedError, UsageError
from takeback.resources.files.outside.roots import place_of
from takeback.settings import environment
from takeback.system import processes
from takeback.workspace.parts import Assembly


class Running(Assembly):
    """The runs of a workspace."""

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
        options = options_of(
            name,
            key=key,
            autopilot=autopilot,
            checkpoint=checkpoint,
            on_conflict=on_conflict,
            invariants=invariants,
            actor=actor or environment.actor(),
            session=session,
            parent=self.parent_action(),
            ref=ref,
            command=environment.command_line() if command is None else tuple(command),
            folder=environment.folder(),
            wait_s=wait_s,
            steps=tuple(steps),
            deliver=deliver,
            roots=self.roots(roots, allow_home=allow_home),
        )
        return self.runs.run(options, approve=approve, approval_wait_s=approval_wait_s)

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
            self.note_settings()
        options = options_of(
            name,
            key=key,
            on_conflict="keep",
            invariants=(),
            autopilot=autopilot,
            actor=actor or environment.actor(),
            session=session,
            parent=self.parent_action(),
            ref=ref,
            folder=environment.folder(),
        )
        return self.runs.session(options, pid=pid, approve=approve)

    def attach(self, run: str) -> Session:
        """An open run of whatever process, to begin and end actions in it from here."""
        return self.runs.attach(run, actor=environment.actor(), parent=self.parent_action())

    def resume(self, run: str = "") -> list[Recorded]:
        """Settle what a crash left in doubt; gives the runs that wait to be continued, or the one that is named."""
        return self.runs.resume(run)

    def replay(self, run: str, to: str = "") -> Iterator[ReplayMoment]:
        """A run once more, event by event, with the recorded results and without any effect."""
        return describe_replay.replay(self.journal.read, run, to, self._calls.result)

    def states_at(self, id: str) -> list[RunSnapshot]:
        """How the run that an id belongs to stood when that was over; for a checkpoint, each run that was open."""
        return describe_replay.states_at(self.journal.read, id)

    def result(self, action: RecordedAction) -> Any:
        """All of what a call gave."""
        return self._calls.result(action)

    # What runs need of humans

    def approvals(self) -> list[Approval]:
        """Questions that wait for an answer."""
        return self.runs.approvals()

    def approve(self, id: str, *, payload: str = "") -> Approval:
        """Allow exactly what a question asks for, once. Refused to whatever runs inside an action."""
        return self.runs.answer(
            id, granted=True, actor=environment.actor(), payload=payload, inside=self.inside_action()
        )

    def deny(self, id: str, why: str = "") -> Approval:
        return self.runs.answer(id, granted=False, actor=environment.actor(), why=why)

    def handovers(self) -> list[Recorded]:
        """Runs that wait for a human."""
        return self.runs.handovers()

    def take(self, run: str) -> Recorded:
        """Say that you look after a run that was handed over."""
        return self.runs.take(run, environment.actor())

    def give_back(
        self,
        run: str,
        note: str = "",
        *,
        happened: Sequence[str] | Mapping[str, Any] = (),
        never: Sequence[str] = (),
    ) -> Recorded:
        """Give a run back so that it can be continued, with your word on the calls that are in doubt.

        `happened` names calls, or maps each to what it gave, for the run to go on with.
        """
        if inside := self.inside_action():
            raise RefusedError(
                f"this was asked from inside {inside}: only a human gives a run back. Nothing was changed",
                hint="do it from a terminal of your own",
            )
        return self.runs.give_back(run, environment.actor(), note, happened, never)

    def settle(self, action: str, *, happened: bool, result: Any = None) -> RecordedAction:
        """Say whether a call in doubt happened, and what it gave. Refused to whatever runs inside an action."""
        if inside := self.inside_action():
            raise RefusedError(
                f"this was asked from inside {inside}: only a human settles a call. Nothing was changed",
                hint="do it from a terminal of your own",
            )
        return self.runs.settle(action, environment.actor(), result, happened=happened)

    def accept_config(self) -> None:
        """Accept takeback.toml as it is, for a human who has seen it. Refused to whatever runs inside an action."""
        self.refuse_inside()
        self.accept_offer(self.offer())

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
        return bool(self._inside(self.ledger.history))

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
