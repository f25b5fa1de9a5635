"""What a round of the chaos kit costs beyond the agent's own work, in memory. Goal: at most 30 ms.

    ./dev bench chaos

The agent's own work in a round is an attempt with the same fault in an ordinary test: the same workspace in memory,
and no witness. The agent books three rooms in two steps, and writes a file.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import takeback
from takeback.testing.chaos import Chaos
from takeback.testing.chaos.faults import ChaosError
from takeback.testing.chaos.inject import ChaosRuns, FaultPlace, Injector
from tests.chaos import agents
from tests.chaos.office import office

GOAL_MS = 30.0
ROUNDS = 60


def own_ms(folder: Path) -> float:
    """The median time of an attempt that fails at its last call and is taken back."""
    took: list[float] = []
    fault = Chaos(folder / "unused", faults=["exception"]).faults[0]
    folder.mkdir(parents=True)
    with takeback.open(folder, store="memory", watching=False) as tb:
        tb.parts.runs = runs = ChaosRuns(tb.parts.runs.shared)
        for number in range(ROUNDS):
            runs.injector = Injector(fault, FaultPlace("call", 1 + number % 4))
            began = time.perf_counter()
            try:
                agents.sound(tb)
            except ChaosError:
                took.append((time.perf_counter() - began) * 1e3)
    assert len(took) == ROUNDS
    return statistics.median(took)


def round_ms(folder: Path) -> float:
    """The median time of a round with all its witnesses and checks, over several agents' whole rounds."""
    took: list[float] = []
    while len(took) * 4 < ROUNDS:
        chaos = Chaos(folder / str(len(took)), at="every call", faults=["exception"])
        result = chaos(agents.sound, world=office.world, service=office.counts, reset=office.empty)
        # The first attempt, opening and closing belong to the kit, too.
        took.append(result.took_s * 1e3 / result.rounds)
    return statistics.median(took)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        own_ms(Path(folder) / "warm")
        office.empty()
        whole = round_ms(Path(folder) / "rounds")
        office.empty()
        own = own_ms(Path(folder) / "own")
    cost = whole - own
    print(f"a round {whole:.1f} ms, of it the agent {own:.1f} ms, the kit {cost:.1f} ms (goal {GOAL_MS:.0f})")
    return 0 if cost <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
