"""The queue of `durable`: filled, drained and listed; also alone in a fresh process, to measure its memory.

python _durable_queue.py WAY FOLDER COUNT
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from takeback.core.events import Event, RunBegan
from takeback.core.intents import IntentDeferred, IntentsReleased
from takeback.engine.outbox.delivery import Delivery, Manner
from takeback.engine.outbox.worker import Worker
from takeback.ports.journal import Journal
from takeback.system.clock import SystemClock
from takeback.workspace.opening import open_workspace

HANDLER = "benchmarks._durable_queue:nothing"
EACH = 100
BODY = "x" * 200


def nothing(text: str) -> None:
    """Do nothing, so that only the queue itself costs anything."""


def drained(journal: Journal, count: int) -> float:
    """Fill the queue, and return the seconds that one worker needs to drain it."""
    for first in range(0, count, EACH):
        fill(journal, range(first, min(count, first + EACH)))
    clock = SystemClock()
    courier = Worker(journal.outbox, Delivery(_view, clock, Manner()), clock)
    start = time.perf_counter()
    tally = courier.run(once=True)
    taken = time.perf_counter() - start
    assert tally.delivered == count, tally
    return taken


def _view(arguments: Any, _full: str) -> Any:
    return arguments


def fill(journal: Journal, numbers: range) -> None:
    """Append what a run appends that defers these intents and commits."""
    stream = journal.append([RunBegan("queue")], stream="")[0].stream
    wanted: list[Event] = [
        IntentDeferred(
            HANDLER,
            "nothing",
            f"key {number}",
            stream,
            f"{stream} {number}",
            arguments={"args": [BODY], "kwargs": {}},
        )
        for number in numbers
    ]
    made = journal.append(wanted, stream=stream)
    journal.append([IntentsReleased(tuple(record.id for record in made))], stream=stream)


# Memory


def defer(folder: Path, count: int) -> None:
    """Defer through the whole engine, in runs of a hundred."""
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        for first in range(0, count, EACH):
            with tb.run(f"run {first}") as run:
                for number in range(first, first + EACH):
                    run.defer(nothing, f"{number} {BODY}")


def drain(folder: Path, count: int) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        assert tb.courier().run(once=True).delivered == count


def page(folder: Path, count: int) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        after, seen = "", 0
        while found := tb.outbox.page(after=after, limit=1000):
            after, seen = found[-1].id, seen + len(found)
        assert seen == count


WAYS = {"defer": defer, "drain": drain, "list": page}

_folders: dict[int, tempfile.TemporaryDirectory[str]] = {}


def peak_mb(way: str, count: int) -> float:
    """What this takes at the most, in a fresh process; the ways come in their order, in one folder for each count."""
    if count not in _folders:
        _folders[count] = tempfile.TemporaryDirectory(prefix="takeback-bench-")
        (Path(_folders[count].name) / "work").mkdir()
    command = [sys.executable, __file__, way, _folders[count].name, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    # Run as a module, so that any process can import `nothing`.
    from benchmarks import _durable_queue

    way, where, number = sys.argv[1:]
    _durable_queue.WAYS[way](Path(where), int(number))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20))
