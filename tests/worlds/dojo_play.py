"""Plays the user tasks of an AgentDojo suite, with a failure at each position. Run in AgentDojo's own environment.

python -m tests.worlds.dojo_play SUITE FOLDER [forget=TOOL] [TASK…]

With `forget` the undo of a tool does nothing, to see that this is found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agentdojo.task_suite.load_suites import get_suites

from takeback import Workspace
from takeback.testing.chaos import Chaos, ChaosFailure
from tests.worlds.dojo import BEFORE_AND_BACK, act, hall, look

VERSION = "v1.2"


def play(suite: Any, task: Any, folder: Path) -> dict[str, int]:
    """Make the calls of a task's ground truth, failing before each and at the end. Raise if something is left."""
    hall.enter(suite)
    calls = [(call.function, dict(call.args)) for call in task.ground_truth(hall.environment)]
    hall.enter(suite)  # to find out what is right, some tasks change their environment

    def agent(tb: Workspace) -> None:
        with tb.run(task.ID) as run:
            for tool, arguments in calls:
                run.call(act if tool in BEFORE_AND_BACK else look, tool, arguments)

    untouched = hall.environment.model_copy(deep=True)
    chaos = Chaos(folder, at="every call", faults=["exception"])
    result = chaos(agent, world=lambda: hall.environment)
    assert hall.environment == untouched
    deeds = sum(tool in BEFORE_AND_BACK for tool, _ in calls)
    return {"tasks": 1, "calls": len(calls), "deeds": deeds, "rounds": result.rounds}


def main(arguments: list[str]) -> int:
    name, folder, *chosen = arguments
    suite = get_suites(VERSION)[name]
    for tool in [word.removeprefix("forget=") for word in chosen if word.startswith("forget=")]:
        BEFORE_AND_BACK[tool] = (BEFORE_AND_BACK[tool][0], lambda *_: None)
    chosen = [word for word in chosen if not word.startswith("forget=")]
    total: dict[str, int] = {}
    wrong: list[str] = []
    for id, task in suite.user_tasks.items():
        if chosen and id not in chosen:
            continue
        try:
            played = play(suite, task, Path(folder) / id)
        except ChaosFailure as failure:
            wrong.append(f"{id}: {str(failure)[:2000]}")
        else:
            total = {key: total.get(key, 0) + count for key, count in played.items()}
    sys.stdout.write(json.dumps(total | {"wrong": wrong}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
