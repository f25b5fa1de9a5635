"""A newcomer has nothing but README.md: they reach the undo of a real agent's change, and remove all of it again."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.house.repository import document
from tests.world.picture import Picture, differences, picture

from . import clients, stories

pytestmark = pytest.mark.timeout(300)

FIVE_MINUTES_S = 300


def typed(heading: str) -> list[str]:
    """The commands of the first shell block under a heading of README.md, without their remarks."""
    part = document("README.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    block = re.search(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert block, heading
    lines = [line.partition("  #")[0].strip() for line in block[1].splitlines()]
    return [line for line in lines if line]


def on_a_terminal(line: str, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Type a line into a shell, and say yes to whatever it asks. Return its exit code, and all that was shown."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-c", line], env)
    os.write(fd, b"y\n")
    shown = b""
    with contextlib.suppress(OSError):  # the terminal goes away with its last user
        while data := os.read(fd, 65536):
            shown += data
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)  # only now: it would hang up a shell that is still at work
    return code, shown.decode()


def test_five_minutes_with_a_real_agent_and_then_without_a_trace(tmp_path: Path) -> None:
    begun = time.monotonic()
    desk = clients.Desk.at(tmp_path)
    env = {name: text for name, text in os.environ.items() if not name.startswith(("TAKEBACK", "XDG_"))}
    env |= {
        "HOME": str(desk.home),
        "TERM": "dumb",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    def type_in(line: str) -> str:
        code, shown = on_a_terminal(line, desk.project, env)
        assert code == 0, (line, shown)
        return shown

    def left_at_home() -> list[str]:
        return sorted(str(path) for path in desk.home.rglob("*") if "takeback" in path.name.lower())

    stories.begin(desk.project)
    (desk.project / ".env").write_text("API_KEY=secret\n")
    type_in("git init -q . && git add -A")

    def project(*without: bytes) -> Picture:
        """All of the project. The time of its folder is that of the last installation."""
        seen = picture(os.fsencode(desk.project))
        return {path: entry for path, entry in seen.items() if path not in (b".", *without)}

    before = project()
    script: stories.Script = {
        "tidy": [
            stories.turn(stories.tool("Bash", command="rm .env && echo two > app.py", description="work")),
            stories.turn(text="Done."),
        ]
    }
    try:
        with clients.model(tmp_path, script) as model:
            for line in typed("Five minutes"):
                if line.startswith(("pipx", "cd ")):
                    continue  # it is installed, as the tests are, and this is the project
                if line == "claude":
                    clients.claude_code(model, desk, "[scene tidy] go")
                    assert not (desk.project / ".env").exists()
                    continue
                said = type_in(line)
                if line == "takeback undo":
                    assert ".env" in said and "app.py" in said and "Verified" in said, said
                    assert differences(before, project(b".claude", b".claude/settings.local.json")) == []
        assert time.monotonic() - begun < FIVE_MINUTES_S
        assert not (desk.project / ".env").exists(), "changed your mind?"
        type_in("takeback undo")
    finally:
        for line in typed("Remove it"):
            if not line.startswith("pipx"):
                type_in(line)
    assert differences(before, project()) == []
    assert left_at_home() == []
    assert (
        f"{desk.home}/.local/state" not in subprocess.run(["ps", "ax"], capture_output=True, text=True).stdout
    )
