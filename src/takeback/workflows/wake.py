"""Waking after a restart: a command is run once for each unfinished workflow that no process works on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from takeback.errors import CorruptionError, UsageError
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.owners import TOKEN_VARIABLE

WORKFLOW_VARIABLE = "TAKEBACK_WORKFLOW"
FILE_VARIABLE = "TAKEBACK_CHECKPOINT"
NOT_FOUND = 127


def wake(
    checkpoints: Checkpoints,
    words: Sequence[str],
    *,
    agent: str | None = None,
    skipped: Callable[[str], None] = lambda _: None,
) -> list[tuple[str, int]]:
    """Run the command for each workflow, one after the other. Return each workflow with the command's exit code."""
    done: list[tuple[str, int]] = []
    for entry in checkpoints.entries():
        if entry.record is None:
            skipped(f"INVALID {entry.name} {entry.reason}")
            continue
        try:
            found = checkpoints.resume(entry.id, agent=agent, owner_pid=os.getpid(), skipped=skipped)
        except (CorruptionError, UsageError) as error:
            skipped(error.message)  # the workflow changed after it was listed
            continue
        if found is None:
            continue
        token = found[1]
        env = {WORKFLOW_VARIABLE: entry.id, FILE_VARIABLE: entry.path, TOKEN_VARIABLE: token}
        code = _run(words, env, partial(checkpoints.hand_to, entry.id, token))
        checkpoints.release(entry.id, token)
        done.append((entry.id, code))
    return done


def _run(words: Sequence[str], env: dict[str, str], begins: Callable[[int], None]) -> int:
    """Run a command that begins only after `begins` has returned: by then it holds the lock.

    So the command never works without holding its workflow, even if we are killed in between.
    """
    ready, go = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go)
            if os.read(ready, 1):
                os.execvpe(words[0], list(words), os.environ | env)
        except OSError as error:
            os.write(2, f"takeback: {words[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(NOT_FOUND)
    os.close(ready)
    try:
        begins(pid)
        os.write(go, b"!")
    finally:
        os.close(go)  # without the byte before it, the command never begins
        status = os.waitpid(pid, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
