"""An agent at work, as a process that a test kills: for each step it sends a message, then says that it is done.

Called with the address of the sink. It uses nothing but scripts/checkpoint_tool.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.request import Request, urlopen

TOOL, SINK, STEPS = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
ME = ("--owner-pid", str(os.getpid()))


def tool(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-I", "-S", TOOL, *words], check=True, capture_output=True, text=True
    )
    return None if done.stdout == "NO_CHECKPOINT\n" else json.loads(done.stdout)


def main() -> None:
    first, *rest = STEPS
    begin = ("--workflow", "send", "--agent", "sender", "--step", first, "--idempotency", "batch-1")
    if tool("start", *begin, "--remaining", *rest)["status"] == "done":
        return
    found = tool("resume", "--workflow", "send", *ME)
    if found is None:
        sys.exit("held by another")
    for step in STEPS:
        if step not in found["completedSteps"]:
            key = f"{found['idempotencyKey']}:{step}"
            urlopen(Request(SINK, step.encode(), {"Idempotency-Key": key})).close()
            tool("update", "--workflow", "send", "--complete", step, *ME)
    tool("complete", "--workflow", "send", *ME)


main()
