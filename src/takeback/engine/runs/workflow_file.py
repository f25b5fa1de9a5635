"""The restart-safe workflow file of a run, for programs that know only that file.

The journal is the truth and the file follows it. What is only in the journal after a crash is written to it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from takeback.core.codec import digest
from takeback.errors import UsageError
from takeback.workflows.steps import Workflow, workflow


class KeptFile:
    """The file that follows one run. Without steps there is no file, and nothing is done."""

    def __init__(self, root: Path, name: str, key: str, steps: Sequence[str], agent: str) -> None:
        if steps and not key:
            raise UsageError(
                "a run whose steps are kept in a workflow file needs a key; nothing was begun",
                hint="a restarted program finds it by its key: tb.run(name, key=..., steps=[...])",
            )
        self._root = root
        self._name = name
        self._key = key
        self._steps = tuple(steps)
        self._agent = agent or "python"
        self._file: Workflow | None = None

    @contextmanager
    def begun(self, generation: int) -> Iterator[None]:
        """Begin or continue the file before the run itself. Raise RunBusy if a living process holds it.

        If the block, which begins the run, fails, the file is released for the next process.
        """
        self._begin(generation)
        try:
            yield
        except BaseException:
            self.end("unfinished")
            raise

    def _begin(self, generation: int) -> None:
        if self._steps:
            key = self._key if generation == 1 else f"{self._key} (attempt {generation})"
            slug = re.sub(r"[^\w-]+", "-", self._name).strip("-") or "run"
            id = f"{slug[:60]}-{digest(key.encode()).partition(':')[2][:8]}"
            self._file = workflow(id, key=key, steps=self._steps, root=self._root, agent=self._agent)
            if self._file.record["status"] == "blocked":
                self._file.go_on()

    def step_done(self, name: str) -> None:
        if self._file and name in self._steps:
            with self._file.step(name):
                pass

    def end(self, status: str, why: str = "") -> None:
        """End the file as `done`, `failed`, or `blocked` if a human must look."""
        if self._file and not self._file.finished:
            if status == "blocked":
                self._file.block(why)
            self._file.end(status)
