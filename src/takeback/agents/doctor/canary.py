"""A trial: the command that the agent would start, with events as the agent sends them, and then an undo.

It has a folder and a state of its own, which are removed afterwards. So it shows that the command and the program
behind it work; whether the agent starts the command depends on the agent's settings.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from takeback.agents.doctor import script
from takeback.agents.doctor.scratch import scratch
from takeback.errors import TakebackError
from takeback.settings import environment, toml
from takeback.workspace.opening import open_workspace

CALLS = 5
TIME_S_MAX = 60.0
SAID_MAX = 300


class Trial(msgspec.Struct, frozen=True):
    """How a trial ended."""

    failed: str = ""
    """What went wrong; empty if everything was taken back."""
    taken_back: int = 0
    latency_s: float = 0.0
    """The time of one event, from the start of the process to its end; the median, without the first call."""
    events: int = 0
    version: str = ""
    """The version of the Takeback that the command belongs to."""


class _Failed(Exception):
    """A trial that failed, with the reason."""


def trial(agent: str, command: str) -> Trial:
    """Let a scripted agent change a folder under the protection of this command, take it back, and compare."""
    with scratch() as folder:
        try:
            return _Canary(agent, command, folder).fly()
        except _Failed as failed:
            return Trial(str(failed))
        except TakebackError as error:
            return Trial(error.message)


class _Canary:
    def __init__(self, agent: str, command: str, folder: Path) -> None:
        self._agent = agent
        self._command = ["/bin/sh", "-c", command]  # as agents do
        self._root, self._state = folder / "work", folder / "state"
        self._times: list[float] = []

    def fly(self) -> Trial:
        self._root.mkdir()
        # This marks the root, whatever is above the folder of temporary files.
        (self._root / toml.FILE).touch()
        (self._root / "changed.txt").write_text("0\n")
        (self._root / "removed.txt").write_text("kept\n")
        before = _seen(self._root)
        for number in range(1, CALLS + 1):
            told = script.call(self._agent, str(self._root), number)
            self._tell(told.begin)
            (self._root / "made.txt").write_text("made\n")
            (self._root / "changed.txt").write_text(f"{number}\n")
            (self._root / "removed.txt").unlink(missing_ok=True)
            self._tell(told.end)
        self._tell(script.call(self._agent, str(self._root), CALLS).over)
        return self._taken_back(before)

    def _taken_back(self, before: dict[str, bytes]) -> Trial:
        with open_workspace(self._root, home=self._state, watching=False) as workspace:
            history = workspace.history
            calls = [action for action in history.actions.values() if action.is_tool and action.changes]
            if not calls:
                raise _Failed("the command succeeded, but recorded nothing")
            report = workspace.undo(*history.runs)
            version = history.began.version if history.began else ""
        if report.verdict != "clean":
            raise _Failed(f"the undo of the trial was {report.verdict}: {report}")
        if (now := _seen(self._root)) != before:
            differ = sorted(name for name in before | now if before.get(name) != now.get(name))
            raise _Failed(f"after the undo these differ from before: {', '.join(differ)}")
        # The first call starts the daemon and looks at everything once.
        later = self._times[2:]
        return Trial(
            taken_back=len(report.items),
            latency_s=statistics.median(later),
            events=len(later),
            version=version,
        )

    def _tell(self, event: dict[str, Any]) -> None:
        surroundings = environment.environment_with(
            script.environment(str(self._root)) | {"TAKEBACK_HOME": str(self._state)}
        )
        began = time.perf_counter()
        try:
            done = subprocess.run(
                self._command,
                input=json.dumps(event).encode(),
                cwd=self._root,
                env=surroundings,
                capture_output=True,
                timeout=TIME_S_MAX,
            )
        except subprocess.TimeoutExpired:
            raise _Failed(f"the command did not end within {TIME_S_MAX:.0f} s") from None
        except OSError as error:
            raise _Failed(f"the command cannot be started: {error.strerror}") from None
        self._times.append(time.perf_counter() - began)
        # Any output is a warning or a refusal: either way the call was not protected.
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        if done.returncode or said:
            code = f"exit code {done.returncode}" if done.returncode else "a complaint"
            raise _Failed(f"the command answered with {code}: {said[:SAID_MAX]}")


def _seen(root: Path) -> dict[str, bytes]:
    """Return the content of every file, by its name."""
    return {path.name: path.read_bytes() for path in root.iterdir()}
