"""A morning in a small project, as it really happens: two coding agents, their hooks, and a human between them.

Only the clock is not real, and the place of the project: both would make each picture another one.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from takeback.agents import hook
from takeback.cli import main

BEGINNING_S = 1_773_306_000.0
"""Thursday, 12 March 2026, 09:00."""
SHOWN_AS = "~/shop"
FILES = {
    "app.py": "from limits import allowed\n\n\ndef login(user):\n    return allowed(user)\n",
    "limits.py": "def allowed(user):\n    return True\n",
    "README.md": "# Shop\n\nSells shoes.\n",
    ".env": "API_KEY=not-a-real-key\n",
    ".gitignore": ".env\nbuild/\n",
    "run-tests.sh": "echo 1 failed, 3 passed; exit 1\n",
    "tests/test_login.py": "from app import login\n\n\ndef test_login():\n    assert login('ann')\n",
}


class _TerminalText(io.StringIO):
    """What a terminal gets."""

    def isatty(self) -> bool:
        return True


class Scene:
    """The project, the agents that work in it, and a clock that only goes on when the story does."""

    def __init__(self, folder: Path) -> None:
        self.root, self._home = folder / "shop", folder / "state"
        self._now_s = BEGINNING_S
        self._calls = 0
        self._env = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "TAKEBACK_HOME": str(self._home),
            "TZ": "UTC",
            "XDG_DATA_HOME": str(folder / "data"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _ANN.items()},
        }

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let the story happen in this block: with its clock and its environment."""
        with (
            mock.patch.dict(os.environ, self._env, clear=True),
            mock.patch("time.time", self._now),
            mock.patch("time.time_ns", self._tick),
        ):
            time.tzset()
            try:
                yield
            finally:
                pass
        time.tzset()

    def _now(self) -> float:
        return self._now_s

    def _tick(self) -> int:
        self._now_s += 0.001
        return int(self._now_s * 1e9)

    def later(self, minutes: float) -> None:
        self._now_s += minutes * 60

    def build(self) -> None:
        for name, text in FILES.items():
            self.human(name, text)
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "The shop")

    def human(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words: str) -> None:
        dated = {f"GIT_{who}_DATE": f"{int(self._now_s)} +0000" for who in ("AUTHOR", "COMMITTER")}
        subprocess.run(["git", *words], cwd=self.root, env=self._env | dated, check=True, capture_output=True)

    def takeback(self, *words: str, columns: int = 80, colour: bool = False) -> str:
        """Run a command; return what a terminal of so many columns shows."""
        shown = _TerminalText()
        more = {"COLUMNS": str(columns), "TERM": "xterm-256color"} | ({} if colour else {"NO_COLOR": "1"})
        with (
            mock.patch.dict(os.environ, more),
            chdir(self.root),
            redirect_stdout(shown),
            redirect_stderr(shown),
        ):
            try:
                main(words)
            except SystemExit as stop:
                if stop.code not in (0, None):
                    raise RuntimeError(f"takeback {' '.join(words)}: {shown.getvalue()}") from stop
        return shown.getvalue().replace(str(self.root), SHOWN_AS)


class AgentAtWork:
    """A session of a coding agent, as its hooks tell of it."""

    def __init__(self, scene: Scene, agent: str, session: str) -> None:
        self._scene, self._agent, self._session = scene, agent, session
        self._prompts = 0
        self._calls = 0

    def tell(self, name: str, **more: Any) -> None:
        turn = f"{self._session}-{self._prompts}"
        said: Mapping[str, Any] = {
            "hook_event_name": name,
            "session_id": self._session,
            "cwd": str(self._scene.root),
            "prompt_id": turn,
            "turn_id": turn,
        }
        hook.handle(self._agent, json.dumps({**said, **more}).encode(), os.environ)

    def prompt(self, text: str) -> None:
        self._prompts += 1
        self.tell("UserPromptSubmit", prompt=text)

    def edit(self, name: str, text: str) -> None:
        is_new = not (self._scene.root / name).exists()
        tool = "apply_patch" if self._agent == "codex" else "Write" if is_new else "Edit"
        self._call(tool, name, text=text)

    def bash(self, command: str, *, failed: bool = False, runs: bool = True) -> None:
        """Run a command; `runs` is False for one that may not run here, such as a push."""
        self._call("Bash", command, failed=failed, runs=runs)

    def end(self) -> None:
        self.tell("Stop")
        self.tell("SessionEnd")

    def _call(
        self, tool: str, subject: str, *, text: str = "", failed: bool = False, runs: bool = True
    ) -> None:
        self._calls += 1
        self._scene.later(0.3)
        is_shell = tool == "Bash"
        given = {"command": subject} if is_shell else {"file_path": str(self._scene.root / subject)}
        if tool == "apply_patch":
            given = {"command": f"*** Begin Patch\n*** Update File: {subject}\n+{text}*** End Patch\n"}
        call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"{self._session}-{self._calls}"}
        self.tell("PreToolUse", **call)
        if not is_shell:
            self._scene.human(subject, text)
        elif runs and subject.startswith("git "):
            self._scene.git(*shlex.split(subject)[1:])
        elif runs:
            subprocess.run(["sh", "-c", subject], cwd=self._scene.root, capture_output=True, check=False)
        self.tell("PostToolUseFailure" if failed else "PostToolUse", **call)


_ANN = {"NAME": "Ann", "EMAIL": "ann@example.org"}


LIMITED = """\
SEEN = {}


def allowed(user):
    SEEN[user] = SEEN.get(user, 0) + 1
    return SEEN[user] < 5
"""
TEST_OF_LIMIT = """

def test_limit():
    assert not all(login("bob") for _ in range(9))
"""


def morning(scene: Scene) -> None:
    """The story: rate limiting by one agent, your own edit, and quicker tests by another."""
    scene.build()
    scene.takeback("init")
    scene.later(12)
    claude = AgentAtWork(scene, "claude-code", "one")
    claude.prompt("add rate limiting to the login endpoint")
    claude.bash("cat app.py limits.py")
    claude.bash("grep -rn login .")
    claude.edit("limits.py", LIMITED)
    claude.bash("sh run-tests.sh > report.txt", failed=True)
    claude.edit("tests/test_login.py", FILES["tests/test_login.py"] + TEST_OF_LIMIT)
    claude.bash("mkdir -p build && for n in 1 2 3 4 5 6 7 8 9; do echo $n > build/part$n.js; done")
    scene.later(12)
    claude.prompt("now clean up and commit")
    claude.bash("rm -f report.txt .env")
    claude.bash("git commit -q -am 'Rate limiting'")
    claude.bash("git push origin main", runs=False)
    claude.end()
    scene.later(6)
    scene.human("README.md", FILES["README.md"] + "Now with hats.\n")
    scene.takeback("save", "before lunch")
    scene.later(3)
    codex = AgentAtWork(scene, "codex", "two")
    codex.prompt("speed up the tests")
    codex.bash("ls tests")
    codex.edit("app.py", FILES["app.py"].replace("allowed(user)", "True"))
    codex.edit("tests/conftest.py", "import pytest\n")
    codex.end()
    scene.later(4)


def begin(folder: Path) -> Scene:
    """Return a scene below this folder, which must not exist."""
    folder.mkdir(parents=True)
    (folder / "shop").mkdir()
    return Scene(folder)


def end(folder: Path) -> None:
    shutil.rmtree(folder)
