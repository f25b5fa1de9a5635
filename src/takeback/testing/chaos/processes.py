"""Rounds with processes of their own: one is killed with SIGKILL at each place in turn, or two work at once.

The other system has to be outside of these processes: what a fork changes in its own memory is lost with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from takeback.core.lifecycle import Life
from takeback.errors import UsageError
from takeback.testing import forks
from takeback.testing.chaos import witness
from takeback.testing.chaos.faults import FAULTS, KILL, TWO
from takeback.testing.chaos.inject import ChaosRuns, FaultPlace
from takeback.testing.chaos.rounds import TAKEN_BACK, ChaosResult, ChaosRound, Subject, since
from takeback.testing.chaos.witness import World

if TYPE_CHECKING:
    from takeback.testing.chaos.kit import Chaos
    from takeback.workspace.workspace import Workspace

BOUNDARIES = ("call-", "action-", "checkpoint-", "outbox-")
"""The beginnings of the names of places at which a process is killed: around calls, steps and messages."""


class Processes:
    """The rounds of one agent that need processes."""

    def __init__(self, chaos: Chaos, subject: Subject, result: ChaosResult) -> None:
        self._chaos = chaos
        self._subject = subject
        self._result = result
        self._expected: dict[str, int] = {}
        self._keyed = False

    def run(self) -> None:
        passed = self._undisturbed()
        wanted = {fault.name for fault in self._chaos.faults}
        places = [n for n, name in enumerate(passed, 1) if _is_chosen(passed, n, name)]
        rounds = [ChaosRound(FAULTS[KILL], FaultPlace("place", n)) for n in places if KILL in wanted]
        if TWO in wanted:
            if not self._keyed:
                raise UsageError(
                    "two agents at once do two tasks, because the run has no key", hint='tb.run(…, key="…")'
                )
            rounds.append(ChaosRound(FAULTS[TWO], FaultPlace("all", 1)))
        for round_ in self._chaos.chosen(rounds):
            self._result.rounds += 1
            self._subject.start_over()
            root = self._chaos.fresh(self._subject)
            world, counts = self._subject.seen(root), self._subject.counts()
            if round_.fault.name == TWO:
                self._both(round_, root)
                self._judge(round_, "", root, world, counts)
            else:
                where = f" ({passed[round_.place.number - 1]})"
                if not forks.killed_at(round_.place.number, self._work, root, errors=self._errors(root)):
                    self._fail("the agent does not come to the same place again", round_, where, [])
                self._after_the_kill(round_, where, root, world, counts)

    def _undisturbed(self) -> list[str]:
        """Run the agent in a process of its own. Return the places that it passed."""
        self._subject.start_over()
        root = self._chaos.fresh(self._subject)
        world, counts = self._subject.seen(None), self._subject.counts()
        passed = forks.places(self._work, root, errors=self._errors(root))
        self._expected = self._since(counts)
        if text := self._said(root):
            raise UsageError(f"the agent fails by itself in a process of its own: {text}")
        if not world.differences():
            raise UsageError(
                "what the agent does in a process of its own is not seen from here, so nothing could be judged",
                hint="kill and two at once need a service outside of the process; leave them out otherwise",
            )
        with self._chaos.open(root) as tb:
            self._keyed = all(run.began.key for run in tb.history.runs.values())
            for id in reversed(list(tb.history.runs)):
                tb.try_undo(id)
        return passed

    def _work(self, root: Path) -> None:
        with self._chaos.open(root) as tb:
            runs = tb.parts.runs
            assert isinstance(runs, ChaosRuns)
            with runs.injector.at_work():
                self._subject.work(tb)

    def _both(self, round_: ChaosRound, root: Path) -> None:
        pids = [forks.start(self._work, root, errors=self._errors(root)) for _ in range(2)]
        codes = [forks.end(pid) for pid in pids]
        if any(codes):
            self._fail("one of two at once failed", round_, "", [self._said(root)])

    def _after_the_kill(
        self, round_: ChaosRound, where: str, root: Path, world: World, counts: dict[str, int]
    ) -> None:
        """Let another process continue, or take back what a run without a key left."""
        if self._keyed:
            code = forks.run(self._work, root, errors=self._errors(root))
            with self._chaos.open(root) as tb:
                waits = any(run.life is Life.HANDED_OVER for run in tb.history.runs.values())
            if code and not waits:
                self._fail("the run was interrupted and did not go on", round_, where, [self._said(root)])
        self._judge(round_, where, root, world, counts)

    def _judge(
        self, round_: ChaosRound, where: str, root: Path, world: World, counts: dict[str, int]
    ) -> None:
        with self._chaos.open(root) as tb:
            tb.recover()
            lives = {run.life for run in tb.history.runs.values()}
            if Life.HANDED_OVER in lives:
                self._result.handed_over += 1
                if self._subject.reset is None:
                    raise UsageError(
                        f"after `{round_}` a human has to look: a call has no check",
                        hint="declare check=, or give reset= so that the next round can begin",
                    )
                return
            if self._keyed and lives != {Life.DONE}:
                self._fail("the run did not reach its end", round_, where, [f"it is {', '.join(lives)}"])
            if self._keyed and (found := witness.not_once(self._since(counts), self._expected)):
                self._fail("not everything is there exactly once", round_, where, found)
            self._undo(tb, round_, where)
            if found := world.differences():
                self._fail("not everything was taken back", round_, where, found)
            if found := witness.left_in(tb):
                self._fail("something is left behind", round_, where, found)
            self._result.resumed += self._keyed
            self._result.taken_back += not self._keyed

    def _undo(self, tb: Workspace, round_: ChaosRound, where: str) -> None:
        for id in reversed(list(tb.history.runs)):
            # What a killed process wrote last may be somebody else's by its records. Here nobody else is.
            report = tb.try_undo(id, on_conflict="overwrite")
            if report.verdict not in TAKEN_BACK:
                self._fail("what was done cannot be taken back", round_, where, [str(report)])

    def _since(self, counts: dict[str, int]) -> dict[str, int]:
        return since(counts, self._subject.counts())

    def _errors(self, root: Path) -> Path:
        return root.parent / f"{root.name}-errors"

    def _said(self, root: Path) -> str:
        errors = self._errors(root)
        return errors.read_text() if os.path.exists(errors) else ""

    def _fail(self, what: str, round_: ChaosRound, where: str, found: list[str]) -> None:
        self._chaos.fail(what, round_, where, found, "")


def _is_chosen(passed: list[str], n: int, name: str) -> bool:
    """Return whether to kill at the n-th place: of each name the first, the last and one in the middle."""
    same = [number for number, one in enumerate(passed, 1) if one == name]
    return name.startswith(BOUNDARIES) and n in (same[0], same[len(same) // 2], same[-1])
