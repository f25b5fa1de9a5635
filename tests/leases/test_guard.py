"""What one agent has locked is guarded against the others: in `takeback run` and in sessions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from takeback.core.events import ActionRefused
from takeback.core.leases import Holder
from takeback.engine.runs.actions import Action, Denied
from takeback.errors import RefusedError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.agents.driving import Agent
from tests.world import cli, settings
from tests.world.cli import Result

WARN = '[locks]\non-foreign = "warn"\n'
SLY = "import sys; open('src/' + sys.argv[1], 'w').write('x')"


@pytest.fixture(autouse=True)
def _locked(tb: Workspace) -> None:
    tb.leases.store.acquire("src", Holder("r999", "ann"), 600)


def takeback(tb: Workspace, *words: str) -> Result:
    return cli.run(words, cwd=tb.root, home=tb.state.parent.parent)


@pytest.mark.parametrize(
    "command", ["touch src/new.py", "rm -rf src", "echo x > src/a.py", "mv src/a.py b.py", "rm -rf ."]
)
def test_a_command_that_says_it_writes_there_is_not_started(tb: Workspace, root: Path, command: str) -> None:
    done = takeback(tb, "run", "--", "sh", "-c", command)
    assert done.code == 125
    assert "is locked by r999 (ann)" in done.stderr and "It was not started" in done.stderr
    assert "takeback locks release src" in done.stderr
    assert [path.name for path in (root / "src").iterdir()] == ["a.py"]
    assert (root / "src/a.py").read_text() == "one\n"


@pytest.mark.parametrize("command", ["touch docs.md", "cat src/a.py", "cp src/a.py b.py"])
def test_what_does_not_write_there_is(tb: Workspace, command: str) -> None:
    done = takeback(tb, "run", "--", "sh", "-c", command)
    assert done.code == 0, done.said
    assert "locked" not in done.stderr


def test_what_wrote_there_all_the_same_is_told(tb: Workspace) -> None:
    done = takeback(tb, "run", "--", sys.executable, "-c", SLY, "b.py")
    assert done.code == 0
    assert "changed although locked: src/b.py is locked by r999 (ann)" in done.stderr
    done = takeback(tb, "run", "--json", "--", sys.executable, "-c", SLY, "c.py")
    assert json.loads(done.stderr)["locked_by_others"] == ["src/c.py is locked by r999 (ann)"]


def test_by_the_settings_it_is_only_said(tb: Workspace, root: Path) -> None:
    settings.write(root, WARN)
    done = takeback(tb, "run", "--", "touch", "src/new.py")
    assert done.code == 0
    assert f"takeback: {root}/src/new.py is locked by r999 (ann)" in done.stderr
    assert "changed although locked: src/new.py" in done.stderr


# Sessions


def begun(tb: Workspace, call: str, tool: str, arguments: dict[str, Any]) -> Action | Denied:
    found = tb.session("agent", key="S").begin(tool, arguments, call_id=call)
    assert isinstance(found, Action | Denied)
    return found


def test_a_call_is_refused(tb: Workspace, root: Path) -> None:
    found = begun(tb, "1", "Write", {"file_path": str(root / "src/a.py"), "content": "x"})
    assert isinstance(found, Denied)
    assert (found.rule, "is locked by r999 (ann)" in found.reason) == ("locks.on-foreign", True)
    assert isinstance(begun(tb, "2", "Bash", {"command": f"rm {root}/src/a.py"}), Denied)
    free = begun(tb, "3", "Write", {"file_path": str(root / "b.py"), "content": "x"})
    assert isinstance(free, Action) and not free.warning
    free.end()


def test_or_begun_with_a_warning(tb: Workspace, root: Path) -> None:
    settings.write(root, WARN)
    with open_workspace(root, watching=False) as again:
        found = begun(again, "1", "Write", {"file_path": str(root / "src/a.py"), "content": "x"})
        assert isinstance(found, Action) and "is locked by r999 (ann)" in found.warning
        found.end()


def test_what_the_session_itself_has_locked_is_its_own(tb: Workspace, root: Path) -> None:
    tb.leases.release([lease.fence for lease in tb.leases.live()])
    session = tb.session("agent", key="S")
    tb.leases.store.acquire("src", Holder(session.id), 600)
    found = begun(tb, "1", "Write", {"file_path": str(root / "src/a.py"), "content": "x"})
    assert isinstance(found, Action)
    found.end()
    assert takeback(tb, "run", "--", "touch", "src/x").code == 125


def test_an_agent_with_hooks_hears_of_it(tb: Workspace, root: Path) -> None:
    agent = Agent("claude-code", root)
    agent.prompt("do it", "p1")
    place = {"file_path": str(root / "src/a.py"), "content": "x"}
    refused = agent.tell("PreToolUse", tool_name="Write", tool_input=place, tool_use_id="t1")
    assert b"is locked by r999 (ann)" in refused.stdout + refused.stderr
    command = {"command": "make all"}
    agent.tell("PreToolUse", tool_name="Bash", tool_input=command, tool_use_id="t2")
    subprocess.run([sys.executable, "-c", SLY, "made.py"], cwd=root, check=True)
    told = agent.tell(
        "PostToolUse", tool_name="Bash", tool_input=command, tool_use_id="t2", tool_response={"stdout": ""}
    )
    assert b"changed what another run has locked: src/made.py is locked by r999 (ann)" in told.stdout


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


def test_a_call_of_a_program_is_refused_before_it_is_made(tb: Workspace, root: Path) -> None:
    with tb.run("program") as run:
        with pytest.raises(RefusedError, match=r"is locked by r999 \(ann\)\. It was not started"):
            run.call(write, str(root / "src/a.py"), "mine")
        run.call(write, str(root / "b.py"), "mine")
    assert (root / "src/a.py").read_text() == "one\n"
    assert [record.event.rule for record in tb.journal.read() if isinstance(record.event, ActionRefused)] == [
        "locks.on-foreign"
    ]


def test_or_made_with_a_warning(tb: Workspace, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings.write(root, WARN)
    with open_workspace(root, watching=False) as again, again.run("program") as run:
        run.call(write, str(root / "src/a.py"), "mine")
    assert "is locked by r999 (ann)" in caplog.text
    assert (root / "src/a.py").read_text() == "mine"


def test_what_the_run_itself_has_locked_is_its_own(tb: Workspace, root: Path) -> None:
    tb.leases.release([lease.fence for lease in tb.leases.live()])
    with tb.run("program") as run, run.lock("src"):
        run.call(write, str(root / "src/a.py"), "mine")
    assert (root / "src/a.py").read_text() == "mine"


def test_what_a_human_locked_holds_off_also_what_the_same_human_starts(tb: Workspace, root: Path) -> None:
    takeback(tb, "locks", "release", "src")
    takeback(tb, "locks", "take", "src")
    done = takeback(tb, "run", "--", "touch", "src/new.py")
    assert (done.code, (root / "src/new.py").exists()) == (125, False), done.said
    assert "is locked by a human" in done.stderr and "takeback locks release src" in done.stderr
    done = takeback(tb, "run", "--", sys.executable, "-c", SLY, "b.py")
    assert "changed although locked: src/b.py is locked by a human" in done.stderr
    with tb.run("program") as run, pytest.raises(RefusedError, match="is locked by a human"):
        run.call(write, str(root / "src/a.py"), "mine")
