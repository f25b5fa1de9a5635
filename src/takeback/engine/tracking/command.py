"""Running a command, or a block of code, as one action: watched, but not disturbed.

judge → survey → rules → locks of others → begin → run, with signs of life → end → take back, if requested
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import msgspec

from takeback.core import selection
from takeback.core.codec import written as recordable
from takeback.core.entities import RecordedAction
from takeback.core.events import Effect, Outcome, Process
from takeback.core.history import History
from takeback.core.policy import Decision, Foreseen, judge_typed
from takeback.core.redact import redact
from takeback.core.rules import Rules, Ruling
from takeback.engine.gate.foresight import (
    Foresight,
    Typed,
    foreseen,
    reached,
    refuse_by_rule,
    refuse_on_autopilot,
    why_irreversible,
    written,
)
from takeback.engine.gate.wanted import within
from takeback.engine.locks.guard import LockGuard, Trespass, told
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.sandbox.fence import Denial, Fence
from takeback.engine.sandbox.wrapping import Fences
from takeback.engine.tracking.parts import CommandParts
from takeback.engine.tracking.signs_of_life import Heartbeat
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import BackendError, RefusedError, RunBusy, TakebackError
from takeback.ports.foresight import Reached, Survey
from takeback.system.processes import VARIABLE, adopting
from takeback.system.signals import Forwarding

NAME_MAX = 200
LIFE_S = 1.0


class Child(msgspec.Struct):
    """How a command ended, in a shell's terms."""

    code: int
    why: str = ""
    started: bool = True
    left: tuple[Process, ...] = ()
    """Processes that it started and left behind."""


class GuardedRows(msgspec.Struct, frozen=True):
    """The databases under guard that a command that writes to a PostgreSQL server would change."""

    name: str = ""
    """The guarded database whose rows it changes; empty if it is unknown which database that is."""
    whole: bool = False
    """True if each of its tables is under guard."""
    among: tuple[str, ...] = ()
    """All guarded databases, if it is unknown which one is changed."""


class CommandPlan(msgspec.Struct, frozen=True):
    """A command that is about to run as an action, and what is known about it in advance."""

    command: str | tuple[str, ...]
    typed: Typed
    survey: Survey
    written: tuple[Reached, ...] = ()
    """The paths that it says it writes."""
    irreversible: str = ""
    """Why its words say that it cannot be taken back; rows of a guarded database still can."""
    by_hand: str = ""
    """How a human could take it back."""
    guarded: GuardedRows | None = None
    is_allowed: bool = False
    """True if a rule allows it by its words."""
    fence: Fence | None = None
    """What it may write and reach, if it runs in the sandbox."""

    @property
    def name(self) -> str:
        return self.typed.name


class CommandResult(msgspec.Struct, frozen=True):
    """The outcome of a command that ran as an action."""

    id: str
    child: Child
    action: RecordedAction | None = None
    """Its record; None if its changes are not recorded yet."""
    history: History | None = None
    """The history up to its end, including what was taken back then."""
    unrecorded: Exception | None = None
    """Why it is not recorded yet; the next command settles it."""
    report: RollbackReport | None = None
    """What was taken back because it failed."""
    busy: RunBusy | None = None
    """Why nothing could be taken back: a process that it started is still running."""
    missed: tuple[str, ...] = ()
    """Why a part of it could not be ended in time."""
    trespasses: tuple[Trespass, ...] = ()
    """Paths that it changed although others have them locked."""
    living: tuple[int, ...] = ()
    """Processes that it started and that still live."""
    fenced: bool = False
    """True if it ran in the sandbox."""
    denied: tuple[Denial, ...] = ()
    """What the sandbox did not let it do."""


class Commands:
    """Commands and blocks of code that run as actions of one workspace."""

    def __init__(
        self,
        tracker: Tracker,
        foresight: Foresight,
        locks: LockGuard,
        *,
        rules: Callable[[], Rules],
        guarded: Callable[[Sequence[str]], GuardedRows | None],
        more: Callable[[str], Mapping[str, str]],
        parent: Callable[[], str],
        inside: Callable[[], str],
        ready: Callable[[], None],
        undo: Callable[[str], RollbackReport],
        fences: Fences,
    ) -> None:
        """Run commands of a workspace.

        `guarded` looks for databases under guard; `more` returns additional environment variables for an action.
        `parent` and `inside` return the action that this process runs in, by its environment or by its ancestors.
        `ready` settles what a crash left and makes room before a block begins.
        """
        self._tracker = tracker
        self._foresight = foresight
        self._locks = locks
        self._rules = rules
        self._guarded = guarded
        self._more = more
        self._parent = parent
        self._inside = inside
        self._ready = ready
        self._undo = undo
        self._fences = fences

    # Before

    def plan(
        self,
        command: str | Sequence[str],
        *,
        name: str = "",
        actor: str = "",
        roots: Sequence[str] = (),
        autopilot: bool = False,
        fence: Fence | None = None,
    ) -> CommandPlan:
        """Judge a command and survey what it would touch; `roots` are whole folders outside the workspace.

        With `fence` it runs in the sandbox: what cannot leave is not unknown.
        """
        words = (command,) if isinstance(command, str) else tuple(command)
        # Redact each word by itself first: the quotes of the joined line would split what is quoted inside a word.
        shown = shlex.join([os.path.basename(words[0]), *map(redact, words[1:])])
        called = recordable(redact(name or (command if isinstance(command, str) else shown)))[:NAME_MAX]
        actor = actor or recordable(os.path.basename(words[0]))
        judged = self._foresight.judge(command)
        survey = self._foresight.survey(_reachable(reached(judged), fence), roots)
        found = foreseen(judged, survey)
        guarded = self._guarded(words) if found.effect is Effect.IRREVERSIBLE else None
        return CommandPlan(
            command if isinstance(command, str) else words,
            Typed(
                called,
                actor,
                self._parent(),
                within(_with_guarded(found, guarded), fence),
                autopilot=autopilot,
            ),
            msgspec.structs.replace(survey, places=(*roots, *survey.places)),
            tuple(written(judged)),
            why_irreversible(judged),
            judged.main.back if judged.main else "",
            guarded,
            self._foresight.is_allowed(command, found),
            fence,
        )

    def allow(self, plan: CommandPlan, ask: Callable[[Decision], bool | None] = lambda _: None) -> str:
        """Refuse what a rule denies or others have locked. Return a warning if locks are only reported.

        `ask` asks a human to approve what a rule holds back; it returns None if there is no human to ask.
        """
        self._keep_to_rules(plan, ask)
        found = self._locks.before(plan.written, parent=plan.typed.parent)
        if not found:
            return ""
        if self._locks.refuses:
            raise RefusedError(
                f"{plan.name} was refused: {told(found)}. It was not started", hint=self._locks.how(found)
            )
        return told(found)

    def _keep_to_rules(self, plan: CommandPlan, ask: Callable[[Decision], bool | None]) -> None:
        typed, ledger = plan.typed, self._tracker.ledger
        allowed = plan.is_allowed
        line = plan.command if isinstance(plan.command, str) else " ".join(plan.command)
        ruling = judge_typed(self._rules(), line, typed.found, allowed=allowed)
        if ruling.do is Ruling.DENY:
            refuse_by_rule(ledger, typed, ruling)
        if ruling.do is Ruling.ASK and typed.autopilot:
            refuse_by_rule(ledger, typed, ruling, "and on autopilot there is no human to ask")
        if typed.autopilot and not allowed:
            refuse_on_autopilot(ledger, typed)
        if ruling.do is not Ruling.ASK or self._was_asked(typed):
            return
        granted = ask(ruling)
        if not granted:
            because = "and there is no human to ask here" if granted is None else "and the answer was no"
            refuse_by_rule(ledger, typed, ruling, because)

    def _was_asked(self, typed: Typed) -> bool:
        """Return whether it runs inside an agent's call with the same effect, which the gate has already approved."""
        history = self._tracker.ledger.refresh()
        outer = history.actions.get(self._inside())
        if outer is None or not history.runs[outer.stream].began.detached:
            return False
        return outer.is_tool and outer.as_tool.effect is typed.found.effect

    # While it runs

    def run(
        self,
        plan: CommandPlan,
        *,
        every_s: float | None = None,
        undo: bool = False,
        spares: Callable[[Process], bool] = lambda _: False,
    ) -> CommandResult:
        """Run an allowed command. With `every_s` it is cut into parts; with `undo` it is taken back if it fails.

        `spares` says which processes started by it do not belong to it, such as a daemon that serves all.
        """
        tracker = self._tracker
        id = self._begin(plan)
        parts = CommandParts(tracker, id, every_s) if every_s else None
        words = plan.command if not isinstance(plan.command, str) else ("sh", "-c", plan.command)
        log = self._fences.log(id) if plan.fence else ""
        child = run_child(
            self._fences.around(plan.fence, log, words) if plan.fence else words,
            token=tracker.token(id),
            show_life=parts.show_life if parts else lambda: tracker.life.show(id),
            more=self._more(id),
            tick=parts.tick if parts else lambda: None,
        )
        try:
            left = tuple(one for one in child.left if not spares(one))
            outcome = Outcome.DONE if child.code == 0 else Outcome.FAILED
            end = parts.end if parts else partial(tracker.end_single, id)
            action = end(outcome, exit_code=child.code, why=child.why, left=left)
            tracker.life.end(id)
            result = self._ended(id, child, action, parts, undo=undo)
            return msgspec.structs.replace(result, fenced=plan.fence is not None)
        except (TakebackError, OSError) as error:
            return CommandResult(id, child, unrecorded=error)

    def _begin(self, plan: CommandPlan, *, ref: str = "") -> str:
        typed, effect = plan.typed, plan.typed.found.effect
        return self._tracker.begin_single(
            typed.name,
            actor=typed.actor,
            parent=typed.parent,
            ref=ref,
            effect=Effect.RESTORABLE if effect is Effect.NONE else effect,
            autopilot=typed.autopilot,
            survey=plan.survey,
        )

    def _ended(
        self, id: str, child: Child, action: RecordedAction, parts: CommandParts | None, *, undo: bool
    ) -> CommandResult:
        report, busy = None, None
        if undo and child.code and selection.made(self._tracker.ledger.refresh(), action):
            try:
                report = self._undo(id)
            except RunBusy as error:
                busy = error
        return CommandResult(
            id,
            child,
            action,
            self._tracker.ledger.refresh(),
            report=report,
            busy=busy,
            missed=tuple(parts.missed) if parts else (),
            trespasses=tuple(self._locks.after(action)),
            living=tuple(self._tracker.living(id)),
            denied=tuple(self._fences.denied(id)),
        )

    @contextmanager
    def block(
        self, name: str, *, actor: str, ref: str = "", tool: str = "", plan: CommandPlan | None = None
    ) -> Iterator[tuple[str, list[Trespass]]]:
        """Record what changes in this block as one action; with `plan`, as that command. Yield its id and a list.

        After the block the list holds what was changed although others have it locked. If this process dies in the
        block, signs of life prove which changes belong to the action.
        """
        beat = Heartbeat(self._tracker.life)
        beat.start()
        try:
            with self._tracker.lock.held():
                self._ready()
                if plan:
                    id = self._begin(plan, ref=ref)
                else:
                    id = self._tracker.begin_single(
                        name, actor=actor, parent=self._parent(), ref=ref, tool=tool
                    )
        except BaseException:
            beat.stop()
            raise
        trespasses: list[Trespass] = []
        beat.add(id)
        try:
            yield id, trespasses
        except BaseException as error:
            self._end_block(id, beat, Outcome.FAILED, f"{type(error).__name__}: {error}"[:500])
            raise
        trespasses += self._locks.after(self._end_block(id, beat, Outcome.DONE))

    def _end_block(self, id: str, beat: Heartbeat, outcome: Outcome, why: str = "") -> RecordedAction:
        # If its end cannot be recorded now, the last sign of life proves later which changes were its own.
        try:
            beat.show(last=True)
        finally:
            beat.stop()
        life = self._tracker.life
        try:
            action = self._tracker.end_single(id, outcome, why=why)
        except BaseException:
            life.give_up(id)
            raise
        life.end(id)
        return action


def _reachable(places: list[Reached], fence: Fence | None) -> list[Reached]:
    """Return the paths outside that a command can write. Nothing is captured where the kernel keeps it out."""
    if fence is None or not fence.namespaces:
        return places
    return [place for place in places if fence.is_writable(os.path.realpath(place.really or place.path))]


def _with_guarded(found: Foreseen, guarded: GuardedRows | None) -> Foreseen:
    """Return the effect of a command, given what it does to a database under guard."""
    if guarded is None or not guarded.name:
        return found
    if guarded.whole:
        return Foreseen(Effect.RESTORABLE)
    return Foreseen(Effect.UNKNOWN, f"not every table of {guarded.name} is under guard")


def run_child(
    words: Sequence[str],
    *,
    token: str,
    show_life: Callable[[], None],
    more: Mapping[str, str] = {},
    tick: Callable[[], None] = lambda: None,
) -> Child:
    """Run a command that shares our terminal, signals and exit code, with `more` in its environment.

    While it runs, `tick` is called about once a second, after each sign of life.
    If the first sign of life fails, the command does not start. Later failures are ignored: what changes without a
    sign is in doubt if the end cannot be recorded either.
    """
    show_life()
    environment = {**os.environ, VARIABLE: token, **more}
    with adopting() as orphans, Forwarding() as signals:
        try:
            process = subprocess.Popen(list(words), env=environment)
        except FileNotFoundError:
            return Child(127, f"{words[0]}: command not found", started=False)
        except PermissionError:
            return Child(126, f"{words[0]}: cannot be run", started=False)
        except OSError as error:
            return Child(126, f"{words[0]}: {error.strerror}", started=False)

        def beat() -> None:
            show_life()
            orphans.bury(process.pid)

        signals.to(process.send_signal)
        _wait(process, partial(_try, beat), tick)
        code, left = process.returncode, orphans.living()
    if code >= 0:
        return Child(code, left=left)
    return Child(128 - code, f"ended by {_signal_name(-code)}", left=left)


def _try(show_life: Callable[[], None]) -> None:
    with suppress(BackendError):
        show_life()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _wait(process: subprocess.Popen[bytes], show_life: Callable[[], None], tick: Callable[[], None]) -> None:
    """Wait for the end of the process, showing signs of life meanwhile."""
    if not hasattr(os, "pidfd_open"):
        while True:
            try:
                process.wait(LIFE_S)
                return
            except subprocess.TimeoutExpired:
                show_life()
                tick()
    fd = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while not poll.poll(LIFE_S * 1000):
            show_life()
            tick()
    finally:
        os.close(fd)
    # Once more: if its end is not recorded, its last writes are still provably its own.
    show_life()
    process.wait()
