"""Finding the call after which a command fails: the command is tried in views of past moments, never in the folder.

What each trial said is kept in a file beside the journal until the answer is known, so a search that was killed goes
on where it stopped. The file is locked while a search is at work, so a view that an unlocked file left is nobody's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.core import bisection
from takeback.core.bisection import BisectTrial, Narrowed
from takeback.core.codec import value_digest
from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.core.moments import AFTER, LAST_CLEAN, Moment, look_before
from takeback.errors import (
    ConflictError,
    ContentGone,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    TakebackError,
    UsageError,
)
from takeback.system.private_files import write_whole

if TYPE_CHECKING:
    from takeback.workspace.staging import Stage, StageRun
    from takeback.workspace.workspace import Workspace

FILE = "bisect.json"
OUTPUT = "bisect.out"
VIEW = "bisect"
FORMAT = 1
SKIP, NOT_EXECUTABLE, NOT_FOUND, INTERRUPTED = 125, 126, 127, 130
OUTPUT_BYTES = 4096
NOW = "now"


class KnownTrial(msgspec.Struct, frozen=True):
    """What came of one trial."""

    trial: BisectTrial
    code: int | None = None
    why: str = ""


class KnownTrials(msgspec.Struct):
    """What an unfinished search knows: of this command, in this folder, by the position of each moment."""

    format: int
    command: str
    """Its digest: a command may hold secrets."""
    folder: str
    trials: dict[int, KnownTrial] = {}


class State(msgspec.Struct, frozen=True):
    """One state of the workspace to try the command in: after an action, or where the search begins."""

    moment: Moment
    action: RecordedAction | None = None


class Bisected(msgspec.Struct, frozen=True):
    """What a search found."""

    states: tuple[State, ...]
    """From the moment that passes to the one that fails."""
    tried: Mapping[int, KnownTrial]
    narrowed: Narrowed
    runs: int
    """How often the command ran, in this search and in those that it went on with."""

    @property
    def suspects(self) -> list[RecordedAction]:
        """The actions of which one is the first after which the command fails: one, unless some were skipped."""
        found = (self.states[n].action for n in self.narrowed.suspects)
        return [action for action in found if action]

    @property
    def first_bad(self) -> RecordedAction | None:
        return self.suspects[0] if len(self.suspects) == 1 else None


class BisectListener:
    """What a person hears while the search goes on."""

    def began(self, states: Sequence[State], known: int) -> None: ...

    def tried(self, number: int, trial: KnownTrial) -> None: ...


class Bisection:
    """One search."""

    def __init__(
        self,
        workspace: Workspace,
        command: Sequence[str],
        *,
        good: str = "",
        bad: str = "",
        network: str = "full",
        listener: BisectListener | None = None,
    ) -> None:
        self._workspace = workspace
        self._command = tuple(command)
        self._network = network
        self._listener = listener or BisectListener()
        self._output = workspace.state / OUTPUT
        self._lock = -1
        workspace.observe()  # so that the present is a moment, too
        self.good = workspace.past.moment(good or LAST_CLEAN)
        last = workspace.history.seq
        self.bad = workspace.past.moment(bad) if bad else Moment(NOW, last, last)

    def run(self, *, again: bool = False) -> Bisected:
        """Search. With `again`, forget what an earlier search of the same knew."""
        states = (State(self.good), *self._between())
        if len(states) == 1:
            raise UsageError(
                f"nothing was changed between {self.good.name} and {self.bad.name}, so no call can have broken it",
                hint="choose an earlier --good; `takeback log` lists what there is",
            )
        with self._kept(again=again) as known:
            self._listener.began(states, len(known.trials))
            tried: dict[int, BisectTrial] = {}
            while (number := self._next(states, tried)) is not None:
                position = states[number].moment.position
                if position not in known.trials:
                    known.trials[position] = self._try(states[number])
                    write_whole(self._path, msgspec.json.encode(known) + b"\n")
                tried[number] = known.trials[position].trial
                self._listener.tried(number, known.trials[position])
                if number == len(states) - 1 and tried[number] is not BisectTrial.FAILS:
                    raise self._not_bad(known.trials[position])
            found = bisection.narrowed(len(states), tried)
            runs = sum(trial.code is not None for trial in known.trials.values())
            details = {number: known.trials[states[number].moment.position] for number in tried}
            if found.fails == 0:
                raise self._good_fails(details[0])
            self._path.unlink(missing_ok=True)
            self._output.unlink(missing_ok=True)
            return Bisected(states, details, found, runs)

    def _next(self, states: Sequence[State], tried: Mapping[int, BisectTrial]) -> int | None:
        """Return the state to try next.

        A call that was taken back since broke something, but not what is broken now if it passes after that.
        """
        number = bisection.next_trial(len(states), tried)
        if number is not None:
            return number
        found = bisection.narrowed(len(states), tried)
        action = states[found.fails].action if found.fails < len(states) else None
        if action is None or not self._workspace.history.is_undone(action.id):
            return None
        undos = {id for id in action.named_by if self._workspace.history.actions[id].kind == "undo"}
        later = (n for n, state in enumerate(states) if state.action and state.action.id in undos)
        return next((n for n in later if n > found.fails and n not in tried), None)

    # The states

    def _between(self) -> Iterator[State]:
        """Yield the states after each action that changed something between the two moments, in order."""
        history = self._workspace.history
        start, end = self.good.position, self.bad.position
        began = [action.id for action in history.since(start)]
        every = {*history.changed_since(start), *began}
        actions = [history.actions[id] for id in every]
        within = [a for a in actions if start < a.ended <= end and self._shows(history, a)]
        for action in sorted(within, key=lambda action: action.ended):
            yield State(Moment(f"{AFTER} {action.id}", action.ended, action.ended), action)

    def _shows(self, history: History, action: RecordedAction) -> bool:
        """Return whether a look after the action shows what it changed; it may have changed only other systems."""
        observed = self._workspace.parts.tracker.observed
        changed = any(change.target.resource in observed for change in action.changes)
        return changed and look_before(history, action.ended + 1) == action.ended

    # A trial

    def _try(self, state: State) -> KnownTrial:
        """Run the command in a view of a state."""
        stage: Stage | None = None
        try:
            stage = self._view(state)
            with self._quiet() as redirect:
                done = stage.run(
                    self._command, network=self._network, before=lambda _plan, _locked: redirect()
                )
            return _judged(done)
        except (RunBusy, RefusedError):
            raise
        except (ConflictError, ContentGone, RollbackIncomplete) as error:
            return KnownTrial(
                BisectTrial.SKIPPED, None, error.message
            )  # that moment cannot be built any more
        finally:
            if stage is not None:
                with suppress(RunBusy):  # what it left running holds on to its view
                    stage.drop()

    def _view(self, state: State) -> Stage:
        past, stages = self._workspace.past, self._workspace.stages
        taken = stages.names()
        name = next(name for n in range(1, len(taken) + 2) if (name := f"{VIEW}-{n}") not in taken)
        way = past.changes_to(state.moment)
        return stages.new(name, at=state.moment.name, way=way, network=self._network)

    @contextmanager
    def _quiet(self) -> Iterator[Callable[[], None]]:
        """Yield a function that sends all that its process prints into a file from then on."""
        fd = os.open(
            self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )

        def redirect() -> None:
            for stream in (1, 2):
                os.dup2(fd, stream)
            os.close(
                self._lock
            )  # if this search is killed, what goes on in its view does not hold up the next one

        try:
            yield redirect
        finally:
            os.close(fd)

    # What is wrong with the question

    def _not_bad(self, trial: KnownTrial) -> TakebackError:
        self._path.unlink(missing_ok=True)
        where = "now" if self.bad.name == NOW else f"at the moment {self.bad.name}"
        another = "name a moment at which it fails with --bad, or another command"
        if trial.trial is BisectTrial.PASSES:
            return UsageError(
                f"the command passes {where}, so there is nothing to find; the workspace is as it was",
                hint=another,
            )
        return UsageError(
            f"the command cannot be tried {where}: {trial.why}; the workspace is as it was",
            hint=f"{self._tail()}{another}",
        )

    def _good_fails(self, trial: KnownTrial) -> TakebackError:
        self._path.unlink(missing_ok=True)
        return UsageError(
            f"the command fails at the moment {self.good.name} already (exit code {trial.code}), so what broke it "
            "came before; the workspace is as it was",
            hint=f"{self._tail()}choose an earlier --good",
        )

    def _tail(self) -> str:
        """Return the end of what the command printed."""
        try:
            text = self._output.read_bytes()[-OUTPUT_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""
        last = text.splitlines()[-1:] or [""]
        return f"it said: {last[0][:200]}; " if last[0] else ""

    # What is kept meanwhile

    @property
    def _path(self) -> Path:
        return self._workspace.state / FILE

    @contextmanager
    def _kept(self, *, again: bool) -> Iterator[KnownTrials]:
        """Yield what an earlier search of the same knew, and let no other search begin meanwhile."""
        place = self._workspace.state / f"{FILE}.lock"
        self._lock = lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunBusy(
                    "another bisect is at work in this workspace; nothing was done",
                    hint="wait until it has ended",
                ) from None
            self._drop_left()
            fresh = KnownTrials(FORMAT, value_digest(list(self._command)), os.getcwd())
            known = None if again else self._read()
            is_same = known and (known.command, known.folder) == (fresh.command, fresh.folder)
            yield known if known and is_same else fresh
            self._drop_left()
        finally:
            os.close(lock)

    def _drop_left(self) -> None:
        """Drop the views of searches that were killed, unless something is still at work in one."""
        for stage in list(self._workspace.stages):
            if stage.name.startswith(f"{VIEW}-"):
                with suppress(TakebackError):
                    stage.drop()

    def _read(self) -> KnownTrials | None:
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=KnownTrials)
        except (OSError, msgspec.DecodeError):
            return None  # it only saves trials
        return found if found.format == FORMAT else None


def _judged(done: StageRun) -> KnownTrial:
    """Return what the end of a command says, as `git bisect run` reads it."""
    if done.code == INTERRUPTED:
        raise KeyboardInterrupt
    if not done.started or done.code in (NOT_EXECUTABLE, NOT_FOUND):
        return KnownTrial(
            BisectTrial.SKIPPED, done.code, done.why or f"it cannot be run (exit code {done.code})"
        )
    if done.code == SKIP:
        return KnownTrial(BisectTrial.SKIPPED, done.code, "it says that it cannot be tried (exit code 125)")
    return KnownTrial(BisectTrial.FAILS if done.code else BisectTrial.PASSES, done.code)
