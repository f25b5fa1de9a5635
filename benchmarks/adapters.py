"""What an adapter adds to a tool call of an agent where nothing in the folder changes, for some frameworks.

    ./dev bench adapters [--quick] [FRAMEWORK ...]

A round is an answer of the model with one call, and the call. Its cost is that of a protected agent above that of a
bare one, and is compared with what the framework's own store of conversations adds in the same run. The cost of the
call is what remains without that of recording an answer, which is measured in the same run, too. Two commits are
synced for each call: its beginning and its end. What they take with the driver alone is the floor. The store is
embedded. CPU time is that of all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.frameworks.environments import ROOT, python_of, variables

FRAMEWORKS = ("langgraph", "openai_agents", "pydantic_ai")
COST_MS_MAX = 3.0
"""How much a call may take above a bare one."""

Found = dict[str, dict[str, float]]
"""Milliseconds for one round, by the kind of agent, then wall and CPU time."""


def measured(framework: str, *, quick: bool) -> Found:
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as scratch:
        command = [python_of(framework), "-m", "benchmarks._adapters_inside", framework, scratch]
        env = variables() | {"TAKEBACK_HOME": os.path.join(scratch, "home")}
        done = subprocess.run(
            [*command, "quick" if quick else ""],
            env=env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: Found = json.loads(done.stdout)
    return found


def told(found: Found) -> bool:
    """Print what was measured. Return whether the goal is met, or only the floor is in its way."""
    for name, told in (
        ("bare", "bare round"),
        ("protected", "protected round"),
        ("own", "with its own store"),
        ("answers", "an answer, recorded"),
        ("syncs", "floor: 2 synced commits"),
    ):
        print(f"  {told:26} {found[name]['wall']:7.2f} ms   {found[name]['cpu']:7.2f} ms CPU")
    both, own = (
        {unit: found[name][unit] - found["bare"][unit] for unit in ("wall", "cpu")}
        for name in ("protected", "own")
    )
    call = {unit: both[unit] - found["answers"][unit] for unit in both}
    floor = found["syncs"]["wall"]
    for told, costs in (
        ("the adapter adds", both),
        ("of that, the call", call),
        ("its own store adds", own),
    ):
        print(f"  {told:26} {costs['wall']:7.2f} ms   {costs['cpu']:7.2f} ms CPU")
    ratios = f"a call takes {call['wall'] / floor:.2f} times the floor"
    if own["wall"] > 0:
        ratios += f", {call['wall'] / own['wall']:.2f} times its own store"
    if call["wall"] <= COST_MS_MAX:
        word, is_fine = "met", True
    elif call["cpu"] <= COST_MS_MAX and call["wall"] - floor <= COST_MS_MAX:
        word, is_fine = "met but for the time that the disk takes to sync", True
    else:
        word, is_fine = "MISSED", False
    print(f"  {ratios}; goal ≤ {COST_MS_MAX:g} ms {word}")
    return is_fine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first impression")
    parser.add_argument("frameworks", nargs="*", default=FRAMEWORKS)
    given = parser.parse_args()
    missed = []
    for framework in given.frameworks:
        print(f"\n{framework}", flush=True)
        if not told(measured(framework, quick=given.quick)):
            missed.append(framework)
    print(f"\nload while measuring: {os.getloadavg()[1]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
