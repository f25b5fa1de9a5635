"""What a checkpoint of LangGraph costs with our saver and with the official ones, in the same run.

    ./dev bench savers [--quick]

Only ratios carry over to another machine. All are durable: each commit is synced. A put stores a state of 25 kB and
more, with one message more than before; put_writes stores one message; a graph step is a node that adds a message,
with durability="sync". The size is that of the store after 150 such steps. The bare commit is one of 500 bytes with
the driver alone: no saver can be quicker. CPU time is that of the program, without that of a server: it shows what is
ours to improve, whatever the disk does.
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
from tests.resources.postgres.world import Server

RIVALS = {
    "Takeback, file": "SqliteSaver",
    "Takeback, file, async": "AsyncSqliteSaver",
    "Takeback, PostgreSQL": "PostgresSaver",
}
AHEAD_MIN = 1.0
"""Each of our figures is at most that of its rival."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first impression")
    given = parser.parse_args()
    server = Server(durable=True)
    with tempfile.TemporaryDirectory(prefix="takeback-bench-home-") as home:
        command = [python_of("langgraph"), "-m", "benchmarks._savers_inside"]
        command += [server.make(""), "quick" if given.quick else ""]
        env = variables() | {"TAKEBACK_HOME": home}
        done = subprocess.run(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    server.stop()
    if done.returncode:
        return done.returncode
    results: dict[str, dict[str, float]] = json.loads(done.stdout)
    behind = []
    for what, found in results.items():
        unit = "MB" if what == "size" else "ms"
        print(f"\n{what}")
        for name, value in found.items():
            print(f"  {name:24} {value:8.3f} {unit}")
        for ours, theirs in RIVALS.items():
            if ours in found and theirs in found:
                ratio = found[theirs] / found[ours]
                print(f"  {theirs} / {ours}: {ratio:.2f}")
                if ratio < AHEAD_MIN and not what.endswith("CPU time"):
                    behind.append(f"{what}: {ours} is behind {theirs}, {ratio:.2f}")
    print(f"\nload while measuring: {os.getloadavg()[1]:.1f}")
    print("\n".join(behind) if behind else "Ahead in each.")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
