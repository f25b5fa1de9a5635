"""Events through the daemon: each is its caller's, and what others do meanwhile is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeback.core.entities import RecordedAction
from takeback.daemon import client, control
from takeback.workspace.opening import open_workspace
from tests.cli.processes import on_terminal
from tests.world.cli import Workspace
from tests.world.picture import picture

from .agent import Agent


def recorded(world: Workspace) -> list[RecordedAction]:
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        return list(opened.history.actions.values())


def changed(action: RecordedAction) -> list[str]:
    """The files that an action changed; folders only show that something was done in them."""
    return [c.target.name for c in action.changes if "d:" not in (c.before.id[:2], c.after.id[:2])]


def test_what_is_done_between_two_events_is_taken_back(agent: Agent, world: Workspace) -> None:
    before = picture(os.fsencode(world.root))
    agent.bash("echo more >> a.txt; rm -r sub")
    first = agent.daemon()
    agent.bash("mkdir new; echo x > new/file")
    assert first and agent.daemon() == first
    assert [changed(action) for action in recorded(world)] == [["a.txt", "sub/b.txt"], ["new/file"]]
    world.undo()
    world.undo()
    assert picture(os.fsencode(world.root)) == before


def test_what_others_do_meanwhile_is_known(agent: Agent, world: Workspace) -> None:
    agent.bash("echo agent > a.txt")
    world.undo()
    agent.bash("echo again > a.txt")
    world.agent("echo run > c.txt")
    world.human("d.txt", "mine\n")
    world.do("gc")
    agent.bash("echo last > e.txt")
    found = [action for action in recorded(world) if changed(action) and not action.is_rollback]
    by_tools = [changed(action) for action in found if action.is_tool]
    assert by_tools == [["a.txt"], ["a.txt"], ["c.txt"], ["e.txt"]]
    assert [changed(action) for action in found if not action.is_tool] == [["d.txt"]]
    assert not any(change.shared_with or change.in_doubt for a in recorded(world) for change in a.changes)


def test_the_daemon_is_nobodys_child(agent: Agent, world: Workspace) -> None:
    agent.more |= {"TAKEBACK_ACTION": "elsewhere:a1", "API_KEY": "secret", "GIT_DIR": "/nowhere"}
    agent.bash("echo x > x")
    pid = agent.daemon()
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"TAKEBACK_HOME" in environment
    assert not any(name in environment for name in (b"TAKEBACK_ACTION", b"API_KEY", b"GIT_DIR"))
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)} == {os.devnull}
    assert os.getsid(pid) == pid


def test_relative_paths_are_meant_from_where_the_agent_is(agent: Agent, world: Workspace) -> None:
    world.human("takeback.toml", "[rules.paths]\nallow = ['sub/**']\n")
    inside = agent.tell(agent.call("PreToolUse", "Write", cwd=world.root / "sub", path="x.txt"))
    outside = agent.tell(agent.call("PreToolUse", "Write", path="x.txt"))
    assert not inside.refusal, inside
    assert "x.txt" in outside.refusal, outside


def test_settings_hold_from_the_next_event_on(agent: Agent, world: Workspace) -> None:
    assert not agent.bash("true").refusal
    world.human("takeback.toml", "[rules.tools]\ndeny = ['Bash']\n")
    assert not agent.bash("true").refusal, "beside a session anybody may have written it"
    assert on_terminal(world, "init", "--accept-config", answer="y")[0] == 0
    assert "tools.deny" in agent.bash("true").refusal
    world.human("takeback.toml", "[rules.tools]\ndeny = ['Write']\n")
    assert on_terminal(world, "init", "--accept-config", answer="y")[0] == 0
    assert not agent.bash('echo "[rules]" > takeback.toml').refusal
    # What the agent wrote there holds when a human has accepted it.
    assert "tools.deny" in agent.tell(agent.call("PreToolUse", "Write", file_path="x")).refusal
    assert on_terminal(world, "init", "--accept-config", answer="y")[0] == 0
    assert not agent.tell(agent.call("PreToolUse", "Write", file_path="x")).refusal


def test_a_workspace_that_was_made_anew_is_another_one(agent: Agent, world: Workspace) -> None:
    agent.bash("echo x > x")
    shutil.rmtree(world.root)
    world.root.mkdir()
    world.human("other.txt", "other\n")
    assert not agent.bash("rm other.txt").refusal
    world.undo()
    assert (world.root / "other.txt").read_text() == "other\n"


def test_a_workspace_that_is_gone_is_told(agent: Agent, world: Workspace, tmp_path: Path) -> None:
    agent.bash("true")
    shutil.rmtree(world.root)
    said = agent.tell(agent.call("PreToolUse", "Bash", command="true"), cwd=tmp_path)
    assert "is not a folder" in said.refusal


def test_state_that_was_removed_is_made_anew(agent: Agent, world: Workspace) -> None:
    agent.bash("echo x > x")
    first = agent.daemon()
    shutil.rmtree(world.home)
    agent.bash("echo y > y")
    assert agent.daemon() != first
    assert [changed(action) for action in recorded(world)] == [["y"]]


def test_a_journal_that_is_replaced_by_something_else_is_told_each_time(
    agent: Agent, world: Workspace
) -> None:
    agent.bash("true")
    (journal,) = world.home.glob("workspaces/*/journal.db")
    journal.unlink()
    journal.write_bytes(b"nothing that was ever a journal" * 1000)
    for _ in range(3):
        assert "Takeback cannot protect this" in agent.bash("true").refusal


@pytest.mark.parametrize("name", ["SessionStart", "Notification", "SubagentStart"])
def test_what_needs_no_record_opens_nothing(agent: Agent, world: Workspace, name: str) -> None:
    assert agent.tell(agent.event(name)).out == b""
    assert not (world.home / "workspaces").exists()


def test_a_daemon_is_known_by_what_it_runs(agent: Agent) -> None:
    agent.bash("true")
    assert client.is_daemon(agent.daemon())
    assert not client.is_daemon(os.getpid()) and not client.is_daemon(1)


def test_a_fake_daemon_is_not_believed(agent: Agent, world: Workspace) -> None:
    """It is one of the same user's processes, where the daemon's socket is, and allows everything."""
    agent.bash("true")
    control.stop(world.home)
    fake = subprocess.Popen([sys.executable, Path(__file__).with_name("fake.py"), world.home])
    try:
        while not (world.home / client.SOCKET.decode()).exists():
            assert fake.poll() is None
            time.sleep(0.01)
        agent.bash("rm a.txt")
        assert (world.home / "asked").exists(), "it was there"
    finally:
        fake.kill()
        fake.wait()
    assert client.is_daemon(agent.daemon()), "the daemon has taken its place"
    world.undo()
    assert world.read("a.txt") == "one\n"
