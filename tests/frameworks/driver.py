"""What the driver of a framework does, and what it tells.

A driver is a module `tests.frameworks.NAME.agent`, run as `agent COMMAND [WORD]` in the environment of its framework
and in a process of its own. The folder WORK is the workspace, and SHOP has the other systems. Its model follows
`shop.PLANS`, and gives its calls other ids in each process, as real models do. All commands speak of one
conversation:

| command | what the driver does |
|---|---|
| say WORD | one turn: the human says WORD |
| stream WORD | the same, through the streaming interface of the framework |
| resume WORD | goes on after a kill in the turn that WORD began, as a user of the framework would |
| answer yes, answer no | answers the question that the turn `pay` stopped at, and goes on |
| back WORD | takes conversation and world back to the end of the turn that WORD began |
| cancel WORD | begins a turn, and cancels it with `shop.cancel_when_begun` |

If the variable DIE says so, `shop.die("in book")` kills the process inside of a tool; a driver itself calls
`shop.die("after book")` when Takeback has recorded the call, and the framework has not stored its result. With the
variable BARE the same agent runs without Takeback. Before it ends, a driver prints its `Account`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field


@dataclass
class Account:
    """What a driver tells of the conversation, after its command."""

    said: list[str] = field(default_factory=list)
    """The texts in the framework's own state: what the human said, and the model's final answers ("done")."""
    results: list[list[str]] = field(default_factory=list)
    """The results of tools in that state, in order: the tool and "ok" or "error"."""
    asked: str = ""
    """The tool that waits for approval."""
    verdict: str = ""
    """The verdict of `back`."""
    error: str = ""
    """The error that the turn ended with, if the framework raised one."""

    def print(self) -> None:
        """Print it, as the last thing that a driver does."""
        os.write(1, (json.dumps(vars(self)) + "\n").encode())
