"""The chaos kit itself: an undisturbed attempt, then one round for each fault at each place, each with a verdict."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.engine.runs.run import Run
from takeback.errors import ConflictError, UsageError
from takeback.testing import crash
from takeback.testing.chaos import diagnosis, faults, witness
from takeback.testing.chaos.faults import Fault
from takeback.testing.chaos.inject import CALL, DISK, OUTPUT, STEP, ChaosRuns, FaultPlace, Injector
from takeback.testing.chaos.rounds import (
    TAKEN_BACK,
    Agent,
    ChaosFailure,
    ChaosResult,
    ChaosRound,
    Subject,
    since,
)
from takeback.testing.chaos.witness import Counts, Probe, World
from takeback.workspace.opening import MEMORY, open_workspace
from takeback.workspace.workspace import Workspace

AT = ("every call", "every step", "every place")
STORES = (MEMORY, "disk")


class Chaos:
    """Runs an agent again and again, with one fault at each place in turn."""

    def __init__(
        self,
        folder: Path,
        *,
        at: str = "every place",
        faults: Sequence[str | Fault] = (),
        store: str = MEMORY,
        rounds_max: int = 0,
        seed: int = 0,
        only: str = "",
        repeat: Callable[[str], str] | None = None,
    ) -> None:
        """`folder` is for workspaces and temporary files. `only` is one round, as a failure names it.

        With `rounds_max` so many rounds are drawn with the seed. `repeat` returns the command that repeats a round.
        """
        if at not in AT:
            raise UsageError(
                f"{at!r} is not a choice of places; nothing was run", hint=f"use {', '.join(AT)}"
            )
        if store not in STORES:
            raise UsageError(f"{store!r} is not a store; nothing was run", hint="use memory or disk")
        chosen = _named(faults, store)
        if store == MEMORY and not all(fault.in_process for fault in chosen):
            raise UsageError(
                "a history in memory does not outlive its process; nothing was run",
                hint='killing processes and two at once need store="disk"',
            )
        self.folder = folder
        self.at = at
        self.faults = chosen
        self.store = store
        self.seed = seed
        self.used = False
        """True once an agent was run."""
        self._rounds_max = rounds_max
        self._only = only
        self._repeat = repeat or (lambda name: f"only={name!r}, seed={seed}")
        self._number = 0

    def __call__(
        self,
        agent: Agent,
        *,
        world: Probe | None = None,
        service: Counts | None = None,
        reset: Callable[[], object] | None = None,
        prepare: Callable[[Path], object] | None = None,
    ) -> ChaosResult:
        """Run an agent with one fault at each place in turn. Raise ChaosFailure after a round that went wrong.

        The agent gets a workspace. `world` returns the state of the other system; it has to be as before whenever
        the agent was taken back. `service` returns how often each effect is there, by the service's own count.
        `reset` empties the other system before each round: needed if not everything can be taken back. `prepare`
        writes the files that the agent finds in its folder.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test
        self.used = True
        subject = Subject(agent, world, service, reset, prepare)
        began = time.monotonic()
        result = ChaosResult()
        try:
            self._run(subject, result)
        except ChaosFailure as failure:
            raise failure.with_traceback(None) from None  # the message has the lines that matter
        if self._only and not result.rounds:
            raise UsageError(
                f"there is no round {self._only!r}", hint="use the name that the failure printed"
            )
        result.took_s = time.monotonic() - began
        return result

    def _run(self, subject: Subject, result: ChaosResult) -> None:
        with self._own_temporary_folder():
            if any(fault.in_process for fault in self.faults):
                InProcess(self, subject, result).run()
            if not all(fault.in_process for fault in self.faults):
                from takeback.testing.chaos.processes import (
                    Processes,
                )  # what forks is loaded only if it is needed

                Processes(self, subject, result).run()

    def chosen(self, rounds: list[ChaosRound]) -> list[ChaosRound]:
        """Return the rounds to run: all, some drawn by the seed, or the one that is to be repeated."""
        if self._only:
            return [one for one in rounds if str(one) == self._only]
        if self._rounds_max and len(rounds) > self._rounds_max:
            drawn = set(random.Random(self.seed).sample(range(len(rounds)), self._rounds_max))
            return [one for n, one in enumerate(rounds) if n in drawn]
        return rounds

    def fresh(self, subject: Subject) -> Path:
        """Return a new folder for a workspace, with the files that the agent finds in it."""
        self._number += 1
        root = self.folder / f"workspace-{self._number}"
        root.mkdir(parents=True)
        if subject.prepare is not None:
            subject.prepare(root)
        return root

    def open(self, root: Path) -> Workspace:
        """Open a workspace whose runs can be disturbed."""
        if self.store == MEMORY:
            opened = open_workspace(root, store=MEMORY, watching=False)
        else:
            opened = open_workspace(root, home=root.parent / f"{root.name}-state", watching=False)
        opened.parts.runs = ChaosRuns(opened.parts.runs.shared)
        return opened

    def fail(
        self, what: str, round_: ChaosRound | None, where: str, found: Sequence[str], blame: str
    ) -> None:
        """Raise ChaosFailure with everything that a developer needs."""
        title = f"{what} without any fault" if round_ is None else f"{what} after `{round_}`{where}"
        lines = [title, witness.listed(found), blame]
        if round_ is not None:
            lines.append(f"seed {self.seed}; to repeat this round: {self._repeat(str(round_))}")
        raise ChaosFailure("\n".join(filter(None, lines)))

    @contextmanager
    def _own_temporary_folder(self) -> Iterator[None]:
        """Let temporary files of this process be made in a folder of its own, so that those left are seen."""
        before = tempfile.tempdir
        own = self.folder / "tmp"
        own.mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = str(own)
        try:
            yield
        finally:
            tempfile.tempdir = before

    def temporary(self) -> set[str]:
        """Return the names of the temporary files of this process."""
        return set(os.listdir(self.folder / "tmp"))


class InProcess:
    """The rounds that need no process of their own. One workspace serves them all: each is taken back."""

    def __init__(self, chaos: Chaos, subject: Subject, result: ChaosResult) -> None:
        self._chaos = chaos
        self._subject = subject
        self._result = result
        self._expected: dict[str, int] = {}
        self._undoable = True

    def run(self) -> None:
        with self._fresh():
            rounds = self._chaos.chosen(self._rounds(self._undisturbed()))
            for round_ in (one for one in rounds if one.place.kind not in DISK):
                self._round(round_)
        for round_ in (one for one in rounds if one.place.kind in DISK):
            # Takeback writes most in a new workspace.
            with self._fresh():
                self._round(round_)
        if left := self._chaos.temporary():
            self._chaos.fail("temporary files are left", None, "", sorted(left), "")

    @contextmanager
    def _fresh(self) -> Iterator[None]:
        with self._chaos.open(self._chaos.fresh(self._subject)) as self._tb:
            yield

    # The plan

    def _undisturbed(self) -> Injector:
        """Run the agent once without a fault. Return what it passed."""
        subject = self._subject
        subject.start_over()
        world, counts = subject.seen(self._tb.root), subject.counts()
        injector = Injector()
        error = self._attempt(injector)
        if error is not None:
            raise UsageError(
                f"the agent fails by itself: {error!r}", hint="it has to succeed without a fault"
            ) from error
        lives = {self._life(run) for run in injector.runs}
        if lives != {Life.DONE}:
            raise UsageError(
                "the agent committed no run, so there is nothing to disturb", hint="with tb.run(…):"
            )
        self._expected = since(counts, subject.counts())
        report = self._undo(injector.runs)
        self._undoable = all(one in TAKEN_BACK for one in report)
        if self._undoable and (found := world.differences()):
            self._blame_residue("not everything was taken back", None, "", found)
        if not self._undoable and subject.reset is None:
            raise UsageError(
                "the agent does what cannot be taken back and verified, so rounds cannot follow each other",
                hint="give reset=, which empties the other system",
            )
        return injector

    def _rounds(self, passed: Injector) -> list[ChaosRound]:
        """Return every fault at each place at which it can happen."""
        chaos, places = self._chaos, passed.places
        found: list[ChaosRound] = []
        for fault in (one for one in chaos.faults if one.in_process):
            kinds = {CALL: chaos.at != "every step" and not fault.malformed}
            kinds |= {OUTPUT: chaos.at != "every step" and fault.malformed, STEP: fault.at_steps}
            kinds |= dict.fromkeys(DISK, fault.name == "full disk")
            for kind, wanted in kinds.items():
                last = places.get(kind, 0)
                first = last if kind == STEP and chaos.at == "every call" else 1
                numbers = range(max(1, first), last + 1) if wanted else ()
                found += [ChaosRound(fault, FaultPlace(kind, number)) for number in numbers]
            if fault.malformed and chaos.at != "every step":
                asked = [call.number for call in passed.calls if call.effect == "none"]
                found += [ChaosRound(fault, FaultPlace(CALL, number)) for number in asked]
        if not found:
            raise UsageError("there is no place for these faults in this agent", hint='at="every place"')
        return found

    # One round

    def _round(self, round_: ChaosRound) -> None:
        subject = self._subject
        subject.start_over()
        world, counts, temporary = subject.seen(self._tb.root), subject.counts(), self._chaos.temporary()
        injector = Injector(round_.fault, round_.place)
        self._attempt(injector)
        where = _where(injector, round_.place)
        if not injector.hit and round_.place.kind in DISK:
            self._undo(injector.runs)  # how often Takeback writes depends on the time, too
            return
        self._result.rounds += 1
        if not injector.hit:
            passed = f"it passed {injector.places}"
            self._chaos.fail("the agent does not come to the same place again", round_, "", [passed], "")
        lives = [self._life(run) for run in injector.runs if run.id]
        if Life.HANDED_OVER in lives:
            self._handed_over(round_, where, world, injector)
        elif Life.INTERRUPTED in lives:
            self._resumed(round_, where, world, counts, injector)
        elif all(life is Life.DONE for life in lives) and lives:
            self._completed(round_, where, world, counts, (injector, None))
        else:
            self._taken_back(round_, where, world)
        self._leftovers(round_, where, injector.runs, temporary)

    def _taken_back(self, round_: ChaosRound, where: str, world: World) -> None:
        if found := world.differences():
            self._blame_residue("not everything was taken back", round_, where, found)
        self._result.taken_back += 1

    def _completed(
        self,
        round_: ChaosRound,
        where: str,
        world: World,
        counts: dict[str, int],
        attempts: tuple[Injector, Injector | None],
    ) -> None:
        first, second = attempts
        if found := witness.not_once(since(counts, self._subject.counts()), self._expected):
            self._doubled(round_, where, found, first, second)
        verdicts = self._undo((second or first).runs)
        if self._undoable and not all(one in TAKEN_BACK for one in verdicts):
            found = [f"the undo is {one.value}" for one in verdicts]
            self._chaos.fail("what was committed cannot be taken back", round_, where, found, "")
        if self._undoable and (found := world.differences()):
            self._blame_residue("not everything was taken back", round_, where, found)
        self._result.resumed += second is not None
        self._result.completed += second is None

    def _resumed(
        self, round_: ChaosRound, where: str, world: World, counts: dict[str, int], first: Injector
    ) -> None:
        second = Injector()
        error = self._attempt(second)
        lives = {self._life(run) for run in second.runs if run.id}
        if lives != {Life.DONE}:
            found = [f"it is {', '.join(lives)}", f"error: {error!r}"]
            self._chaos.fail("the run was interrupted and did not go on", round_, where, found, "")
        self._completed(round_, where, world, counts, (first, second))

    def _handed_over(self, round_: ChaosRound, where: str, world: World, injector: Injector) -> None:
        """Let a human take back what the agent could not: by now the service works again."""
        for run in injector.runs:
            report = run.report
            if report is not None and report.verdict in TAKEN_BACK and self._life(run) is Life.HANDED_OVER:
                self._chaos.fail("a human was called for nothing", round_, where, [str(report)], "")
        verdicts = self._undo(injector.runs)
        blind = [
            call for call in injector.calls if call.effect not in ("none", "restorable") and not call.check
        ]
        if all(one in TAKEN_BACK for one in verdicts):
            if found := world.differences():
                self._blame_residue(
                    "the report says that all was taken back, and it was not", round_, where, found
                )
            self._result.taken_back += 1
        elif not blind:
            found = [f"the undo is {one.value}" for one in verdicts]
            self._chaos.fail(
                "it was left to a human, although every call has a check", round_, where, found, ""
            )
        else:
            self._result.handed_over += 1
            if self._subject.reset is None and world.differences():
                raise UsageError(
                    f"after `{round_}` a human has to look: {blind[0].name} ({blind[0].function}) has no check",
                    hint="declare check=, or give reset= so that the next round can begin",
                )

    def _leftovers(self, round_: ChaosRound, where: str, runs: Sequence[Run], temporary: set[str]) -> None:
        self._tb.recover()
        ended = [run for run in runs if run.id and self._life(run) in (Life.DONE, Life.FAILED)]
        found = [text for run in ended for text in witness.left_by(run)]
        found += witness.left_in(self._tb)
        found += [f"the temporary file {name}" for name in sorted(self._chaos.temporary() - temporary)]
        if found:
            self._chaos.fail("something is left behind", round_, where, found, "")

    # What it is made of

    def _attempt(self, injector: Injector) -> BaseException | None:
        """Let the agent work once. Return what it raised."""
        runs = self._tb.parts.runs
        assert isinstance(runs, ChaosRuns)
        runs.injector = injector
        random.seed(self._chaos.seed)  # an agent that throws dice throws the same in each round
        on_disk = self._chaos.store != MEMORY
        try:
            with injector.at_work(), crash.hooked(injector.disk) if on_disk else nullcontext():
                self._subject.work(self._tb)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  what the agent raises is judged by what it leaves
            return error
        finally:
            runs.injector = Injector()
        return None

    def _undo(self, runs: Sequence[Run], injector: Injector | None = None) -> list[Verdict]:
        """Take back what still stands of some runs, the last one first."""
        verdicts: list[Verdict] = []
        standing = [run for run in runs if run.id and self._life(run) is not Life.FAILED]
        with (injector or Injector()).at_work():
            for run in reversed(standing):
                try:
                    verdicts.append(self._tb.try_undo(run.id).verdict)
                except ConflictError:
                    verdicts.append(Verdict.CONFLICT)
        return verdicts

    def _life(self, run: Run) -> Life:
        return self._tb.history.runs[run.id].life

    # Failures

    def _doubled(
        self, round_: ChaosRound, where: str, found: list[str], first: Injector, second: Injector | None
    ) -> None:
        blame = diagnosis.blame_for_doubles(first, second)
        self._chaos.fail("not everything is there exactly once", round_, where, found, blame)

    def _blame_residue(self, what: str, round_: ChaosRound | None, where: str, found: list[str]) -> None:
        """Fail, after the same round again with a look around every call."""
        blame = ""
        if self._subject.world or self._subject.service:
            self._subject.start_over()
            suspicion = diagnosis.Suspicion(self._subject.seen(None), self._subject.agent)
            fault, place = (round_.fault, round_.place) if round_ else (None, None)
            injector = Injector(fault, place, suspicion)
            with suspicion.tracing():
                self._attempt(injector)
            if not all(self._life(run) is Life.FAILED for run in injector.runs):
                # What it left to undo is taken back under the same eyes.
                injector.forgive()
                self._undo(injector.runs, injector)
            blame = diagnosis.blame_for_residue(suspicion, injector.calls)
            if not blame and self._subject.reset is None:
                # What was left is there already, so the second attempt may change nothing.
                blame = "the line was not found; with reset= the kit can look for it in an empty world"
        self._chaos.fail(what, round_, where, found, blame)


def _named(chosen: Sequence[str | Fault], store: str) -> tuple[Fault, ...]:
    return faults.named(chosen or (faults.IN_PROCESS if store == MEMORY else tuple(faults.FAULTS)))


def _where(injector: Injector, place: FaultPlace) -> str:
    """Return the call of a place, with its line."""
    found: Any = next((call for call in injector.calls if place == FaultPlace(CALL, call.number)), None)
    return f" ({found.name}, {found.site})" if found else ""
