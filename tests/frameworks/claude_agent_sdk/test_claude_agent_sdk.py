"""The options for the Claude Agent SDK, with its real program and a scripted model: the contract of adapters, and its
own ways of approving, resuming and storing."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import takeback
from takeback.errors import UsageError
from takeback.frameworks import supported
from takeback.frameworks.claude_agent_sdk import orphans
from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, start, variables
from tests.resources.postgres.world import Server

EXAMPLE = ROOT / "examples/claude_agent_sdk_agent.py"


class TestClaudeAgentSdk(AdapterContract):
    framework = "claude_agent_sdk"

    @pytest.mark.parametrize("when", ["in book", "after book"])
    def test_a_call_is_made_once_over_a_kill(self, when: str, world: World) -> None:
        # The program goes on only if it is told something, so the transcript has one message more.
        world.killed(when, "say", "prepare")
        assert world.rooms == ["attic"]
        assert orphans.left_behind(str(world.work)), "the program should outlive its host"
        account = world.agent("resume", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "go on", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]
        assert not orphans.left_behind(str(world.work))

    # Each turn starts the real program, so that what others show already is left to the long run.

    @pytest.mark.sweep
    def test_a_streamed_turn_is_recorded_alike(self, world: World) -> None:
        super().test_a_streamed_turn_is_recorded_alike(world)

    @pytest.mark.sweep
    def test_a_payment_is_refused(self, world: World) -> None:
        super().test_a_payment_is_refused(world)

    def test_the_tools_of_the_program_are_actions_too(self, world: World) -> None:
        world.agent("say", "nothing")
        account = world.agent("say", "own")
        assert sorted(account.results) == [["Bash", "ok"], ["Write", "ok"]]
        assert world.files == ["f.txt", "g.txt"]
        with (
            takeback.open(world.work) as tb,
            tb.thread(key=f"claude_agent_sdk/{session_of(world)}") as thread,
        ):
            names = [(action.name, action.outcome) for action in thread.actions()]
        assert names in ([("Bash", "done"), ("Write", "done")], [("Write", "done"), ("Bash", "done")])
        assert world.agent("back", "nothing").verdict == "clean"
        assert world.files == []

    @pytest.mark.sweep
    def test_a_command_of_a_killed_host_ends_before_its_session_goes_on(self, world: World) -> None:
        world.agent("say", "nothing")
        with start(self.framework, "tests.frameworks.claude_agent_sdk.agent", "say", "slow") as host:
            deadline = time.monotonic() + 60
            while not (world.work / "begun").exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            host.kill()
        assert orphans.left_behind(str(world.work))
        (world.shop / "release").touch()
        account = world.agent("resume", "slow")
        assert account.said == ["nothing", "done", "slow", "go on", "done"]
        assert account.results == [["Bash", "error"]]  # the model is told that it was cut short
        assert world.files == ["begun", "late.txt"] and not orphans.left_behind(str(world.work))

    @pytest.mark.sweep
    def test_the_calls_of_a_subagent_go_back_with_its_session(self, world: World) -> None:
        world.agent("say", "prepare")
        account = world.agent("say", "delegate")
        assert account.results[2:] == [["Agent", "ok"]]
        assert world.files == ["a.txt", "s.txt"] and world.rooms == ["attic", "cellar"]
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.files == ["a.txt"] and world.rooms == ["attic"]

    def test_a_human_approves_a_command_at_the_terminal(self, world: World) -> None:
        """The program's own tool waits like any other, also beside another call, and without can_use_tool."""
        (world.work / "takeback.toml").write_text('[rules.tools]\nask = ["Bash"]\n')
        account = world.agent("say", "own")
        assert account.asked == "Bash" and account.results == [["Write", "ok"]]
        with takeback.open(world.work) as tb:
            [asked] = tb.approvals()
            tb.approve(asked.id)
        account = world.agent("deferred", "")
        assert account.asked == "" and account.results == [["Write", "ok"], ["Bash", "ok"]]
        assert (world.work / "f.txt").exists()


def session_of(world: World) -> str:
    place = next((world.shop / "home/.claude/projects").glob("*/*.jsonl"))
    return str(json.loads(place.read_text().splitlines()[0])["sessionId"])


def conforms(address: str, folder: Path) -> None:
    module = "tests.frameworks.claude_agent_sdk.conforming"
    done = driven("claude_agent_sdk", module, address, str(folder))
    assert done.returncode == 0 and "stores conform" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("address", ["", "memory"])
def test_the_store_conforms(address: str, tmp_path: Path) -> None:
    conforms(address, tmp_path)


@pytest.mark.sweep
def test_the_store_conforms_on_a_server(server: Server, tmp_path: Path) -> None:
    conforms(server.make(""), tmp_path)


def test_nothing_of_the_sdk_is_imported_before_it_is_used() -> None:
    import takeback.frameworks.claude_agent_sdk as adapter

    assert "claude_agent_sdk" not in sys.modules  # it is not even installed here
    with pytest.raises(UsageError, match="claude-agent-sdk is not installed") as missing:
        _ = adapter.options
    assert "pip install 'takeback[claude-agent-sdk]'" in missing.value.hint
    with pytest.raises(AttributeError, match="no attribute 'option'"):
        _ = adapter.option  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "version, works", [("0.2.181", False), ("0.2.182", True), ("0.2.200", True), ("0.3.0", False)]
)
def test_a_version_that_does_not_work_is_named(
    version: str, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    if works:
        supported.require("claude-agent-sdk", supported.CLAUDE_AGENT_SDK)
        return
    with pytest.raises(UsageError, match=f"claude-agent-sdk {version} does not work") as refused:
        supported.require("claude-agent-sdk", supported.CLAUDE_AGENT_SDK)
    assert refused.value.hint == "pip install 'claude-agent-sdk>=0.2.182,<0.3'"


@pytest.mark.sweep  # each of its processes reads the framework
def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("claude_agent_sdk"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    took = [line for line in lines if line.startswith("  Took back 1 change: compensated")]
    assert took and "Verified 1 of 1" in took[0], done.stdout
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
