"""Workflows in Python: steps that are done once, over any number of restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from takeback.errors import RunBusy, UsageError
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.owners import in_words
from takeback.workflows.record import is_unfinished


class WorkflowStep:
    """One step. Python cannot skip a `with` body, so the body has to check `done`."""

    def __init__(self, name: str, *, done: bool, key: str) -> None:
        self.name = name
        self.done = done
        self.key = key
        """The same in every attempt at this step: pass it to any service that takes an idempotency key."""

    def __repr__(self) -> str:
        return f"<Step {self.name}{' done' if self.done else ''}>"


class Workflow:
    """A workflow that this process works on. Its file is written after each step, and survives a power cut."""

    def __init__(self, checkpoints: Checkpoints, record: dict[str, Any], token: str) -> None:
        self._checkpoints = checkpoints
        self._token = token
        self.record = record
        """The checkpoint as it is in its file."""

    @property
    def id(self) -> str:
        return str(self.record["workflowId"])

    @property
    def finished(self) -> bool:
        return not is_unfinished(self.record)

    @property
    def remaining(self) -> list[str]:
        """The steps that are still to be done, in their order."""
        if self.record["status"] == "done":
            return []
        done = set(self.record["completedSteps"])
        steps = [self.record["currentStep"], *self.record["remainingSteps"]]
        return [step for step in dict.fromkeys(steps) if step not in done]

    @contextmanager
    def step(self, name: str) -> Iterator[WorkflowStep]:
        """Open a step; it counts as done when its body ends without an exception."""
        key = f"{self.record['idempotencyKey']}:{name}"
        # A workflow can be declared done without naming steps: then all of them are done.
        done = name in self.record["completedSteps"] or self.record["status"] == "done"
        step = WorkflowStep(name, done=done, key=key)
        if not step.done and self.record["currentStep"] != name:
            self._update(step=name)
        yield step
        if not step.done:
            self._update(complete=name)
            step.done = True

    def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call this function as a step, unless the step has been done."""
        with self.step(name) as step:
            if not step.done:
                function(*args, **kwargs)

    def note(self, text: str) -> None:
        self._update(notes=text)

    def block(self, why: str) -> None:
        """Mark the workflow as blocked, with the reason for whoever looks at it next."""
        self._update(status="blocked", notes=why)

    def go_on(self) -> None:
        """Mark the workflow as no longer blocked."""
        self._update(status="in_progress")

    def end(self, status: str) -> None:
        """Finish as `done` or `failed`; with any other status, release the workflow so that it can be resumed."""
        if not self.finished and status in ("done", "failed"):
            self._update(status=status, force=True)  # the caller knows which steps were needed
        elif not self.finished:
            self._checkpoints.release(self.id, self._token)

    def _update(self, **changes: Any) -> None:
        self.record = self._checkpoints.update(self.id, token=self._token, **changes)

    def __enter__(self) -> Workflow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._checkpoints:
            self.end("done" if error is None and not self.remaining else "unfinished")

    def __repr__(self) -> str:
        done = len(self.record["completedSteps"])
        return f"<Workflow {self.id} {self.record['status']}, {done} done, {len(self.remaining)} remaining>"


def workflow(
    id: str,
    *,
    key: str,
    steps: Sequence[str],
    root: str | os.PathLike[str] = ".",
    agent: str = "python",
    notes: str = "",
    ttl_days: float = 7,
) -> Workflow:
    """Start a workflow, or continue it where it stopped: completed steps are not done again.

    Use it in a `with` block. If the block ends without an exception and every step is done, the workflow is done;
    otherwise it can be resumed. In a workflow that is done, every step is done. Raise RunBusy while another living
    process works on it, and UsageError if it failed or expired.
    """
    if not steps:
        raise UsageError("a workflow needs at least one step; nothing was done")
    checkpoints = Checkpoints(str(Path(root)))
    try:
        first, *rest = steps
        record = checkpoints.start(
            id, agent=agent, step=first, key=key, remaining=rest, notes=notes, ttl_days=ttl_days
        )
        found = checkpoints.resume(id, owner_pid=os.getpid()) if is_unfinished(record) else None
        if found is None:
            return Workflow(checkpoints, _finished(checkpoints, id), "")
        return Workflow(checkpoints, *found)
    except BaseException:
        checkpoints.close()
        raise


def _finished(checkpoints: Checkpoints, id: str) -> dict[str, Any]:
    """Return the record of a workflow that is done. Raise if it could not be resumed for another reason."""
    entry = checkpoints.get(id)
    record = entry.record
    assert record is not None
    if record["status"] == "done":
        return record
    if record["status"] == "failed":
        raise UsageError(
            f"{id} has failed; nothing was done",
            hint="start over with another id and key; or, to continue it after all, "
            f"`takeback workflow update --workflow {id} --status in_progress`",
        )
    if holder := checkpoints.holder(entry):
        raise RunBusy(
            f"{id} is held by {in_words(holder)}; nothing was done",
            hint="wait, or use `takeback workflow resume --steal-lock`",
        )
    if checkpoints.has_expired(record):
        raise UsageError(
            f"{id} expired at {record['expiresAt']}; nothing was done",
            hint="start over with another id and key; or, to continue it after all, "
            f"`takeback workflow update --workflow {id}`, which renews it",
        )
    raise RunBusy(f"{id} was held until just now; nothing was done", hint="try again")
