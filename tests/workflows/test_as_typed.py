"""Commands as their users type them: no id where only one workflow can be meant, and no end that was not reached."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.world.cli import Result

from .helpers import SELFCHECK, TOOL, living, read, rewrite, run

Type = Callable[..., Result]
"""Type a command: `start`, `update` and so on, with its words."""


@pytest.fixture(params=["command", "script"])
def type_(request: pytest.FixtureRequest, call: Call, root: Path) -> Type:
    """Both front ends."""

    def by_script(*words: str) -> Result:
        done = subprocess.run([sys.executable, str(TOOL), *words], cwd=root, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def by_command(*words: str) -> Result:
        return call("workflow", *words)

    return by_command if request.param == "command" else by_script


def begin(type_: Type, id: str = "w1", *more: str) -> dict[str, Any]:
    said = type_("start", "--workflow", id, "--step", "one", "--remaining", "two", "three", *more)
    assert said.code == 0, said
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def test_the_only_unfinished_one_is_meant(type_: Type, root: Path) -> None:
    begin(type_)
    assert json.loads(type_("update", "--complete", "one", "--step", "two").stdout)["currentStep"] == "two"
    assert json.loads(type_("resume").stdout)["completedSteps"] == ["one"]
    for step in ("two", "three"):
        assert type_("update", "--complete", step).code == 0
    assert json.loads(type_("complete").stdout)["status"] == "done"
    begin(type_, "w2")
    assert json.loads(type_("update", "--complete", "one").stdout)["workflowId"] == "w2", "w1 is done"


def test_of_several_the_one_that_this_session_holds(type_: Type, root: Path) -> None:
    with living() as other:
        begin(type_, "theirs", "--owner-pid", str(other))
        begin(type_, "mine")
        assert json.loads(type_("update", "--complete", "one").stdout)["workflowId"] == "mine"
        begin(type_, "also-mine")
        said = type_("update", "--complete", "two")
        assert said.code == 2 and "also-mine, mine" in said.stderr and "--workflow" in said.stderr
        assert read(root, "mine")["completedSteps"] == ["one"]


def test_one_that_another_process_holds_is_not_meant(type_: Type, root: Path) -> None:
    with living() as other:
        begin(type_, "theirs", "--owner-pid", str(other))
        for words in (("update", "--complete", "one"), ("complete", "--force")):
            said = type_(*words)
            assert said.code == 3 and f"theirs is held by process {other}" in said.stderr
    assert read(root, "theirs")["completedSteps"] == []
    assert type_("update", "--complete", "one").code == 0, "its holder is dead"


def test_where_none_is_unfinished(type_: Type) -> None:
    said = type_("update", "--complete", "one")
    assert said.code == 2 and "there is no unfinished workflow" in said.stderr


def test_start_asks_only_for_what_it_cannot_know(
    type_: Type, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_ACTOR", "ann")
    found = begin(type_)
    assert (found["agentId"], found["idempotencyKey"]) == ("ann", "w1")
    assert begin(type_) == found, "the same piece of work"
    monkeypatch.setenv("TAKEBACK_ACTOR", "../no/name")
    monkeypatch.setenv("LOGNAME", "bob")
    assert begin(type_, "w2")["agentId"] == "bob"
    said = type_("start", "--workflow", "w3", "--remaining", "first", "second")
    assert json.loads(said.stdout)["currentStep"] == "first"
    said = type_("start", "--workflow", "w4")
    assert said.code == 2 and "--step" in said.stderr


def test_complete_refuses_while_steps_were_never_done(type_: Type, root: Path) -> None:
    begin(type_)
    for words in (
        ("complete",),
        ("update", "--status", "done"),
        ("update", "--complete", "two", "--status", "done"),
    ):
        said = type_(*words)
        assert said.code == 3 and "three" in said.stderr and "never done" in said.stderr
    assert read(root, "w1")["status"] == "in_progress"
    said = type_("complete", "--force")
    assert said.code == 0 and "skipped: one, two, three" in said.stderr
    assert read(root, "w1")["status"] == "done"
    assert (read(root, "w1")["completedSteps"], read(root, "w1")["remainingSteps"]) == (
        [],
        ["one", "two", "three"],
    )


def test_the_end_at_the_last_step_completes_it(type_: Type, root: Path) -> None:
    begin(type_)
    type_("update", "--complete", "one", "--step", "two")
    type_("update", "--complete", "two", "--step", "three")
    assert type_("complete").code == 0
    assert read(root, "w1")["completedSteps"] == ["one", "two", "three"]
    assert type_("complete", "--workflow", "w1").code == 0, "a second time changes nothing"


def test_a_woken_command_means_its_own(call: Call, root: Path) -> None:
    for id in ("w1", "w2"):
        run(root, "start", "--workflow", id, "--step", "one", "--owner-pid", "0")
    script = f"{sys.executable} {TOOL} complete > /dev/null"
    assert call("workflow", "wake", "--", "sh", "-c", script).code == 0
    assert [read(root, id)["status"] for id in ("w1", "w2")] == ["done", "done"]


# The self-check on its own


def test_the_self_check_writes_a_log(tmp_path: Path) -> None:
    log = tmp_path / "looks.log"
    words = ("--log", str(log), "--stale-min", "10")
    run(tmp_path, *words, script=SELFCHECK)
    run(tmp_path, "start", "--workflow", "w1", "--step", "one", "--owner-pid", "0")
    rewrite(tmp_path, "w1", updated_s=1_700_000_000)
    run(tmp_path, *words, script=SELFCHECK, code=1)
    first, second = map(json.loads, log.read_text().splitlines())
    assert (first["status"], first["findings"]) == ("ok", [])
    assert (second["status"], second["findings"][0]["workflowId"]) == ("alert", "w1")
    assert first["at"] <= second["at"]
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    done = run(tmp_path, "--log", str(tmp_path / "link"), script=SELFCHECK, code=4)
    assert "link cannot be written" in done.stderr and done.stdout == "OK\n"
    assert not (tmp_path / "elsewhere").exists()
