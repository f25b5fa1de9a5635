"""Where protection cannot be had, a call is refused with the reason, or goes on with a warning, in each dialect."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.storage.state.lock import WorkspaceLock
from takeback.workspace.workspace import Workspace
from tests.world.cli import environment

from .driving import AGENTS, NAMES, Agent, refusal


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow any more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def warned(agent: str, stdout: bytes) -> str:
    said = json.loads(stdout or b"{}")
    return str(said.get("systemMessage") or said.get("user_message") or said.get("warning") or "")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_full_disk_blocks_or_warns_as_configured(agent: str, desk: Path, tb: Workspace) -> None:
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    with full_disk():
        refused = client.shell("rm app.py", "c1")
    assert "Takeback cannot protect this" in refusal(refused)
    (desk / "takeback.toml").write_text('[agents]\nwhen-unprotected = "warn"\n')
    tb.trusted.accept_offer(tb.trusted.offer())
    with full_disk():
        allowed = client.shell("rm app.py", "c2")
        stopped = client.stop()
    assert refusal(allowed) == ""
    assert "Takeback cannot protect this" in warned(agent, allowed.stdout)
    assert stopped.code == 0 and refusal(stopped) == ""
    # As soon as there is room, all goes on.
    client.write("a", "a\n")
    assert tb.undo().verdict in ("clean", "unknown")


def test_an_agent_cannot_turn_the_refusal_into_a_warning(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("takeback.toml", '[agents]\nwhen-unprotected = "warn"\n')
    assert tb.history.actions
    with full_disk():
        assert "Takeback cannot protect this" in refusal(client.shell("rm app.py", "c1"))


@pytest.mark.parametrize("damage", ["journal", "owner"])
def test_state_that_cannot_be_used_blocks(damage: str, desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    if damage == "owner" and os.geteuid() != 0:
        pytest.skip("not on this platform: only root can give a folder away")
    if damage == "owner":
        os.chown(tb.state.parent.parent, 12345, -1)
    else:
        (tb.state / "journal.db").write_bytes(b"no database" * 1000)
    answer = client.shell("rm app.py", "c1")
    assert "Takeback cannot protect this" in refusal(answer)


def test_a_locked_store_blocks(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    code = (
        "import sys, takeback; tb = takeback.open(sys.argv[1])\n"
        "with tb.lock.held():\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(desk)],
        env=environment(tb.state.parent.parent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WorkspaceLock.__init__, "__kwdefaults__", {"wait_s": 0.2})
            answer = client.shell("rm app.py", "c1")
        holder.stdin.close()
    assert "Takeback cannot protect this" in refusal(answer)
    assert not tb.history.open_actions()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_call_of_which_too_little_is_told_is_refused(agent: str, desk: Path, tb: Workspace) -> None:
    """It was let happen, with a warning, though nothing of it had been recorded."""
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    shell = {"tool_name": 7, "tool": 7, "tool_input": {"command": "rm app.py"}}
    assert "could not read" in refusal(client.tell(NAMES[agent][1], **shell))
    # Where nothing is about to happen, there is nothing to refuse.
    ended = client.tell(NAMES[agent][2], **shell)
    assert refusal(ended) == "" and b"could not read" in ended.stdout + ended.stderr
