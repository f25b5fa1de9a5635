"""What a recorded action costs, against the floor that SQLite sets, in the same run; and whether cost grows.

    python benchmarks/runs.py [--quick]

Only ratios carry over to another machine. The floor is a bare commit to a WAL database with synchronous = FULL.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import takeback
from benchmarks.journal import bare_database, timed
from takeback import Call, Workspace

COST_MAX = 3.0
GROWTH_MAX = 1.3
LINEAR_MAX = 1.3

booked: set[str] = set()


def cancel(call: Call) -> None:
    booked.discard(call.key)


def find(call: Call) -> object:
    return call.key if call.key in booked else takeback.ABSENT


@takeback.action(undo=cancel, check=find)
def book(number: int) -> str:
    booked.add(takeback.current_call().key)
    return f"booking {number}"


def write(number: int) -> int:
    """Return an answer and do nothing else, so that only the record costs anything."""
    return number


def one_action(tb: Workspace, folder: Path, count: int) -> tuple[float, float, float, float]:
    """Return the medians of a recorded call, a compensable call, its floor and a bare commit, in seconds.

    They take turns. The floor of a compensable call is two bare commits: its begin is durable before the other
    system is called, and its end after.
    """
    bare = bare_database(folder / "bare.db")
    body = bytes(440)
    ours: list[float] = []
    outside: list[float] = []
    floor: list[float] = []
    theirs: list[float] = []
    with tb.run("one action") as run, run.step("calls"):

        def commit() -> None:
            bare.execute("INSERT INTO bare (body) VALUES (?)", (body,))

        def commit_twice() -> None:
            commit()
            commit()

        turns: list[tuple[list[float], Callable[[], object]]] = [
            (ours, lambda: run.call(write, 1)),
            (outside, lambda: run.call(book, 1)),
            (floor, commit_twice),
            (theirs, commit),
        ]
        for _ in range(count):
            random.shuffle(turns)
            for times, work in turns:
                times.append(timed(work))
    bare.close()
    booked.clear()
    medians = [statistics.median(times) for times in (ours, outside, floor, theirs)]
    return medians[0], medians[1], medians[2], medians[3]


def many_actions(tb: Workspace, count: int) -> tuple[float, float]:
    """Return the median costs of the first and of the last tenth of the actions of one run."""
    with tb.run("many actions") as run, run.step("calls"):
        times = [timed(functools.partial(run.call, write, number)) for number in range(count)]
    part = count // 10
    return statistics.median(times[:part]), statistics.median(times[-part:])


def rollback(tb: Workspace, count: int) -> float:
    """Return the cost of taking back one of this many calls."""
    with tb.run(f"{count} calls") as run:
        for number in range(count):
            run.call(book, number)
    start = time.perf_counter()
    report = tb.undo(run.id)
    taken = time.perf_counter() - start
    assert report.verdict == "clean" and not booked, report
    return taken / count


def line(what: str, figures: str, goal: str, *, met: bool) -> None:
    print(f"{what:<44} {figures:<44} {goal:<12} {'met' if met else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure recorded actions against bare SQLite")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    part = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        os.environ["TAKEBACK_HOME"] = str(folder / "state")
        with takeback.open(folder / "work") as tb:
            ours, outside, floor, theirs = one_action(tb, folder, 3000 // part)
            ratio = ours / theirs
            figures = f"{ours * 1e6:.0f} µs / {theirs * 1e6:.0f} µs = {ratio:.2f}"
            line("one recorded action / a bare commit", figures, f"≤ {COST_MAX}", met=ratio <= COST_MAX)
            ratio = outside / theirs
            figures = (
                f"{outside * 1e6:.0f} µs / {theirs * 1e6:.0f} µs = {ratio:.2f}, floor {floor / theirs:.2f}"
            )
            line("a compensable one / a bare commit", figures, f"≤ {COST_MAX}", met=ratio <= COST_MAX)
            first, last = many_actions(tb, 10_000 // part)
            ratio = last / first
            figures = f"{first * 1e6:.0f} µs, then {last * 1e6:.0f} µs = {ratio:.2f}"
            line(
                f"{10_000 // part:,} actions, last / first tenth",
                figures,
                f"≤ {GROWTH_MAX}",
                met=ratio <= GROWTH_MAX,
            )
            few, many = rollback(tb, 100 // part), rollback(tb, 1000 // part)
            ratio = many / few
            figures = f"{few * 1e6:.0f} µs, then {many * 1e6:.0f} µs = {ratio:.2f}"
            line(
                f"taking back one of {1000 // part:,} / of {100 // part}",
                figures,
                f"≤ {LINEAR_MAX}",
                met=ratio <= LINEAR_MAX,
            )


if __name__ == "__main__":
    main()
