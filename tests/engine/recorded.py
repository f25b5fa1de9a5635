"""Events as another process has recorded them, one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from takeback.core import events as e
from takeback.core import ids
from takeback.system.processes import VARIABLE
from tests.engine import remote
from tests.engine.conftest import Desk


def appended(desk: Desk, event: e.Event, stream: str = "") -> str:
    return desk.tb.parts.ledger.append([event], stream)[0].id


def begun(desk: Desk, run: str = ids.WORKSPACE, name: str = "work", **about: Any) -> str:
    """An action as a process that is gone has recorded it."""
    return appended(desk, e.ActionBegan(name, about.pop("effect", e.Effect.RESTORABLE), **about), run)


def called(desk: Desk, run: str, key: str, **about: Any) -> str:
    """A call to another system, which has a check."""
    handlers = e.Handlers(check=f"{remote.__name__}:find")
    return begun(desk, run, key, effect=e.Effect.COMPENSABLE, handlers=handlers, call_key=key, **about)


@contextmanager
def started_by(desk: Desk, action: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that the action has started and that lives for as long as this block lasts."""
    env = os.environ | {VARIABLE: desk.tb.parts.tracker.token(action)}
    command = [sys.executable, "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate()
