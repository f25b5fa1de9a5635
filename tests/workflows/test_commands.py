"""`takeback workflow` and `takeback monitor`, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeback.cli.commands import monitor, workflow
from tests.cli.conftest import Call
from tests.world.cli import Workspace, environment

from .helpers import TOOL, living, place, read, record, run, start

BEGIN = ("workflow", "start", "--workflow", "w1", "--agent", "a", "--step", "one", "--idempotency", "k1")


def test_the_command_and_the_script_work_on_the_same_files(call: Call, root: Path) -> None:
    said = call(*BEGIN, "--remaining", "two", "three", "--notes", "hi")
    assert said.code == 0 and json.loads(said.stdout) == read(root, "w1")
    assert read(root, "w1")["remainingSteps"] == ["two", "three"]
    assert run(root, "list").stdout == call("workflow", "list").stdout
    assert record(run(root, "update", "--workflow", "w1", "--complete", "one"))["currentStep"] == "two"
    assert json.loads(call("workflow", "resume").stdout) == read(root, "w1")
    with living() as pid:
        other = ("--owner-pid", str(pid))
        said = call("workflow", "resume", *other)
        assert run(root, "resume", *other).stdout == said.stdout == "NO_CHECKPOINT\n"
    assert call("workflow", "complete", "--workflow", "w1", "--force").code == 0
    assert call("workflow", "prune").stdout == "Nothing has expired.\n"
    assert call("workflow", "check").stdout == "OK\n"


def test_help_of_script_and_command_know_the_same_options() -> None:
    from takeback.workflows.script import _COMMANDS

    for name in _COMMANDS:
        helped = subprocess.run(
            [sys.executable, str(TOOL), name, "--help"], capture_output=True, text=True
        ).stdout
        mine = {option for parameter in workflow.command.commands[name].params for option in parameter.opts}
        theirs = {word.strip("[],") for word in helped.split() if word.strip("[],").startswith("--")}
        assert theirs - mine <= {"--root"}, name


def test_a_subfolder_belongs_to_the_workspace_above(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "takeback.toml").touch()
    (root / "deep").mkdir()
    monkeypatch.chdir(root / "deep")
    call(*BEGIN)
    assert place(root, "w1").exists()


WORDS = {
    "init": (),
    "start": ("--workflow", "w2", "--agent", "a", "--step", "one", "--idempotency", "k2"),
    "update": ("--workflow", "w1", "--complete", "one"),
    "resume": (),
    "complete": ("--workflow", "w1"),
    "list": (),
    "check": (),
    "prune": (),
    "wake": ("--", "true"),
}
KEYS = {
    "init": {"root", "written", "action"},
    "start": {"checkpoint"},
    "update": {"checkpoint"},
    "resume": {"checkpoint"},
    "complete": {"checkpoint"},
    "list": {"workflows", "invalid"},
    "check": {"status", "count", "findings"},
    "prune": {"dry_run", "items"},
    "wake": {"ran"},
}


@pytest.mark.parametrize("name", WORDS)
def test_one_object(name: str, call: Call, root: Path) -> None:
    call(*BEGIN, "--owner-pid", "0")
    for words in (("workflow", name, "--json", *WORDS[name]), ("workflow", "--json", name, *WORDS[name])):
        said = call(*words)
        text = said.stderr if name == "wake" else said.stdout
        assert said.code == 0 and text.count("\n") == 1, said
        assert json.loads(text).keys() >= KEYS[name]


def test_every_command_is_here() -> None:
    assert WORDS.keys() == KEYS.keys() == workflow.command.commands.keys()
    assert monitor.command.commands.keys() == {"install", "remove", "status", "run"}


def test_errors_are_sentences_or_one_object(call: Call, root: Path) -> None:
    said = call("workflow", "update", "--workflow", "../x", "--json")
    assert said.code == 2 and json.loads(said.stdout)["error"]["code"] == "usage"
    call(*BEGIN)
    said = call("workflow", "start", *WORDS["start"][:-1], "k1")
    assert said.code == 3 and said.stderr.startswith("takeback: this idempotency key belongs to")
    place(root, "w1").write_text("{")
    said = call("workflow", "resume", "--workflow", "w1")
    assert said.code == 5 and "cannot be trusted" in said.stderr
    assert call("workflow", "list").stdout == "INVALID w1.json it is not complete JSON\n"


# Wake


def test_wake_runs_it_once_for_each_that_is_free(call: Call, root: Path) -> None:
    for id in ("free-1", "free-2", "held", "done"):
        start(root, id)
    run(root, "complete", "--workflow", "done")
    with living() as pid:
        run(root, "resume", "--workflow", "held", "--owner-pid", str(pid))
        said = call("workflow", "wake", "--", "sh", "-c", 'echo "$TAKEBACK_WORKFLOW $TAKEBACK_CHECKPOINT"')
    assert said.stdout == "".join(f"{id} {place(root, id)}\n" for id in ("free-1", "free-2"))
    assert said.code == 0 and "held is held by" in said.stderr
    assert not (root / "memory/checkpoints/free-1.lock").exists(), "it ended, so it holds nothing"


def test_wake_leaves_alone_what_was_just_started(call: Call, root: Path) -> None:
    """By default it is held by who started it."""
    run(root, "start", *WORDS["start"])
    said = call("workflow", "wake", "--", "echo", "woken")
    assert said.stdout == "" and f"w2 is held by process {os.getpid()}" in said.stderr


def test_a_woken_command_holds_its_workflow_and_can_finish_it(call: Call, root: Path) -> None:
    start(root, "w1")
    script = (
        f'{sys.executable} {TOOL} resume --workflow "$TAKEBACK_WORKFLOW" | grep -q w1 && '
        f"env -u TAKEBACK_WORKFLOW_TOKEN sh -c '{sys.executable} {TOOL} resume 2>&1; true'; "
        f'{sys.executable} {TOOL} complete --workflow "$TAKEBACK_WORKFLOW" >/dev/null'
    )
    said = call("workflow", "wake", "--", "sh", "-c", script)
    assert said.code == 0, said
    assert "NO_CHECKPOINT" in said.stdout, "nobody else gets it meanwhile"
    assert read(root, "w1")["status"] == "done"
    assert call("workflow", "wake", "--", "false").code == 0, "nothing is left to wake"


def test_a_command_that_fails_or_is_not_there(call: Call, root: Path) -> None:
    start(root, "w1")
    assert "w1: exit code 3" in call("workflow", "wake", "--", "sh", "-c", "exit 3").stderr
    said = call("workflow", "wake", "--", "no-such-command")
    assert said.code == 4 and "no-such-command: No such file" in said.stderr
    assert record(run(root, "resume"))["workflowId"] == "w1"


def test_when_wake_is_killed_its_command_still_holds_the_workflow(tmp_path: Path) -> None:
    world = Workspace.at(tmp_path)
    start(world.root, "w1")
    ready = tmp_path / "pid"
    waker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "takeback",
            "workflow",
            "wake",
            "--",
            "sh",
            "-c",
            f"echo $$ > {ready}; exec sleep 600",
        ],
        cwd=world.root,
        env=environment(world.home),
    )
    deadline = time.monotonic() + 60
    while not ready.exists() or not ready.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = int(ready.read_text())
    try:
        waker.kill()
        waker.wait()
        assert run(world.root, "resume").stdout == "NO_CHECKPOINT\n", "its command is at work"
    finally:
        os.kill(child, signal.SIGKILL)
    while run(world.root, "resume").stdout == "NO_CHECKPOINT\n":
        assert time.monotonic() < deadline


# The monitor


def test_monitor_run_and_status(call: Call, root: Path) -> None:
    start(root, "w1")
    assert call("monitor", "run").stdout == "OK\n"
    assert call("monitor", "run", "--json").json["status"] == "ok"
    status = call("monitor", "status", "--json").json
    assert (status["installed"], status["last"]["what"]) == (False, "looked")
    assert "No monitor is installed" in call("monitor", "remove").stdout
    assert call("monitor", "install", "--notify", "pigeon", "--scheduler", "cron").code == 2


@pytest.mark.parametrize(
    "kind, word",
    [("systemd", "OnUnitActiveSec=10min"), ("cron", "*/10 * * * *"), ("launchd", "StartInterval")],
)
def test_install_can_show_first(kind: str, word: str, call: Call, root: Path) -> None:
    said = call("monitor", "install", "--scheduler", kind, "--print")
    assert said.code == 0 and word in said.stdout and str(root) in said.stdout
    assert call("monitor", "status", "--json").json["installed"] is False


# init


def test_init_writes_the_section_and_takes_it_out_again(call: Call, root: Path) -> None:
    (root / "CLAUDE.md").write_text("be kind\n")
    said = call("workflow", "init", "--json").json
    assert said["written"] == ["AGENTS.md", "CLAUDE.md"]
    assert "takeback workflow resume" in (root / "AGENTS.md").read_text()
    assert call("workflow", "init", "--json").json["written"] == []
    removed = call("workflow", "init", "--remove", "--json").json["removed"]
    assert removed == ["AGENTS.md", "CLAUDE.md"]
    assert (root / "CLAUDE.md").read_text() == "be kind\n" and not (root / "AGENTS.md").exists()
