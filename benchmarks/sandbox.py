"""What the sandbox costs: the start of a command through it, and each file that the command makes, in one run.

    python benchmarks/sandbox.py [--rounds 30]

All take turns, so that noise of the machine affects them equally; times are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from takeback.engine.sandbox.fence import Fence
from takeback.engine.sandbox.wrapping import starter
from takeback.system import namespaces

MORE_MS_MAX = 30.0
"""How much longer a command may take to start in the sandbox than in bash."""
FILES = 500


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.realpath(folder)
        can = not namespaces.why_refused()
        ways: dict[str, list[str]] = {"bash": []}
        for network in ("full", "loopback") if can else ("full",):
            fence = Fence(root, (root,), network=network, namespaces=can, as_root=os.geteuid() == 0)
            place = Path(root, f"{network}.fence")
            place.write_bytes(fence.written())
            ways[f"sandbox, network {network}"] = [*starter(), str(place), "", "--"]
        plain = [sys.executable, "-I", "-S", "-c", "0"]
        starts = {name: [_timed([*way, "bash", "-c", "true"], root)] for name, way in ways.items()}
        pythons: list[float] = []
        for _ in range(rounds):
            pythons.append(_timed(plain, root))
            for name, way in ways.items():
                starts[name].append(_timed([*way, "bash", "-c", "true"], root))
        line = f"for i in $(seq {FILES}); do : > made-$i; done"
        made = {name: _timed([*way, "bash", "-c", line], root) for name, way in ways.items()}
    base = statistics.median(starts["bash"])
    print(f"start of Python alone   {statistics.median(pythons):6.1f} ms")
    failed = False
    for name, times in starts.items():
        more = statistics.median(times) - base
        each = (made[name] - statistics.median(times)) / FILES * 1e3
        failed |= more > MORE_MS_MAX
        print(f"{name:<24}{statistics.median(times):6.1f} ms, {more:+.1f}; {each:6.0f} µs for each new file")
    if failed:
        raise SystemExit(f"the start takes more than {MORE_MS_MAX:.0f} ms longer than in bash")


def _timed(words: list[str], root: str) -> float:
    begun = time.perf_counter()
    subprocess.run(words, cwd=root, check=True)
    return (time.perf_counter() - begun) * 1e3


if __name__ == "__main__":
    main()
