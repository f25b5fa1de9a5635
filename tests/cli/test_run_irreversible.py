"""`takeback run` knows before a command starts that it cannot be taken back: says so, records it, refuses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.cli import Result, Workspace

CANNOT = "this cannot be taken back"


@pytest.fixture
def remote(world: Workspace, tmp_path: Path) -> Path:
    """Another repository, which the workspace's pushes to."""
    bare = tmp_path / "remote.git"
    for words in (
        ["git", "init", "-q", "--bare", str(bare)],
        ["git", "init", "-q", "-b", "main"],
        [
            "git",
            "-c",
            "user.name=me",
            "-c",
            "user.email=me@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "a",
        ],
        ["git", "remote", "add", "origin", str(bare)],
    ):
        subprocess.run(words, cwd=world.root, check=True)
    return bare


def pushed(remote: Path) -> bool:
    done = subprocess.run(["git", "rev-parse", "-q", "--verify", "main"], cwd=remote, capture_output=True)
    return done.returncode == 0


def test_a_push_is_said_to_be_irreversible_before_it_starts(world: Workspace, remote: Path) -> None:
    done = world.run("run", "--", "sh", "-c", "echo running >&2; git push -q origin main")
    assert done.code == 0
    assert pushed(remote)
    said, ran = done.stderr.index(CANNOT), done.stderr.index("running")
    assert said < ran
    assert "git push" in done.stderr
    assert "--force-with-lease" in done.stderr
    (action,) = actions(world)
    assert action["effect"] == "irreversible"


@pytest.mark.parametrize(
    "words", [["git", "push", "origin", "main"], ["bash", "-c", "'g'it push origin main"]]
)
def test_on_autopilot_it_is_refused_and_never_started(
    words: list[str], world: Workspace, remote: Path
) -> None:
    done = world.run("run", "--autopilot", "--", *words)
    assert done.code == 125
    assert not pushed(remote)
    assert "was refused" in done.stderr
    assert "It was not started" in done.stderr
    assert "without --autopilot" in done.stderr
    assert actions(world) == []
    assert world.do("status", "--json").json["open_actions"] == []
    assert world.do("verify").code == 0


def test_an_agent_that_is_refused_is_not_told_how_to_get_around_it(world: Workspace, remote: Path) -> None:
    inner = f"{sys.executable} -m takeback run --autopilot -- git push origin main; true"
    done = world.run("run", "--", "sh", "-c", inner)
    assert not pushed(remote)
    assert "the rule is autopilot" in done.stderr
    assert "without --autopilot" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["env"] * 9 + ["git", "push", "origin", "main"],
        ["bash", "-c", "(" * 60 + "git push origin main" + " )" * 60],
        ["bash", "-c", "git push origin main #" + "x" * 100_000],
    ],
    ids=["wrappers", "parentheses", "comment"],
)
def test_on_autopilot_a_command_that_is_not_read_to_its_end_is_refused(
    words: list[str], world: Workspace, remote: Path
) -> None:
    done = world.run("run", "--autopilot", "--", *words)
    assert done.code == 125
    assert not pushed(remote)
    assert "was refused" in done.stderr


@pytest.mark.parametrize("words", [["sh", "push.sh"], ["./push.sh"], ["python3", "push.py"]], ids=" ".join)
def test_a_script_that_pushes_is_refused_on_autopilot_and_named(
    words: list[str], world: Workspace, remote: Path
) -> None:
    script = world.root / "push.sh"
    script.write_text("#!/bin/sh\nset -e\ngit push -q origin main\n")
    script.chmod(0o755)
    (world.root / "push.py").write_text("import os\n\nos.system('git push -q origin main')\n")
    done = world.run("run", "--autopilot", "--", *words)
    assert done.code == 125
    assert not pushed(remote)
    assert "git push -q origin main" in done.stderr
    assert f"(rule git push, {words[-1].removeprefix('./')}:3)" in done.stderr


def test_a_refusal_is_recorded(world: Workspace, remote: Path) -> None:
    refused = world.run("run", "--autopilot", "--json", "--", "git", "push")
    assert json.loads(refused.stderr)["error"]["code"] == "refused"
    told = world.do("replay", "r2").stdout
    assert "refused" in told
    assert "git push" in told


def test_on_autopilot_anything_else_runs(world: Workspace) -> None:
    done = world.run("run", "--autopilot", "--", "sh", "-c", "echo new > plan.md")
    assert (done.code, world.read("plan.md")) == (0, "new\n")
    assert CANNOT not in done.stderr
    world.undo()
    assert world.read("plan.md") == "old\n"


def test_files_of_an_irreversible_command_are_taken_back_and_the_rest_is_named(
    world: Workspace, remote: Path
) -> None:
    world.run("run", "--", "sh", "-c", "echo new > plan.md; git push -q origin main")
    done = world.run("undo")
    assert done.code == 6  # the repository knows of the push, and says how to put it back
    assert world.read("plan.md") == "old\n"
    assert pushed(remote)
    assert "stays" in done.stdout
    assert "git push" in done.stdout


def test_a_path_outside_is_named(world: Workspace, tmp_path: Path) -> None:
    done = world.run("run", "--", "sh", "-c", "echo x > ../outside.txt")
    assert done.code == 0
    assert "captured outside the workspace: " in done.stderr
    assert os.fspath(tmp_path) in done.stderr


def test_a_crash_in_the_middle_leaves_no_question(world: Workspace, remote: Path) -> None:
    """What it did elsewhere nobody can look at; what it changed here is settled by looking."""
    done: Result = world.run(
        "run", "--", "sh", "-c", "echo new > plan.md; kill -9 $PPID; git push -q origin main"
    )
    assert done.code != 0
    world.do("save")
    assert world.do("status", "--json").json["open_actions"] == []
    assert world.do("verify").code == 0


def actions(world: Workspace) -> list[dict[str, str]]:
    return [entry for entry in world.do("log", "--json").json["entries"] if entry["kind"] == "action"]


def test_on_autopilot_what_you_have_allowed_runs_and_nothing_beside_it(
    world: Workspace, remote: Path
) -> None:
    world.configure('[rules.commands]\nallow = ["git push -q origin"]\n')
    assert world.run("run", "--autopilot", "--", "git", "push", "origin", "main").code == 125
    assert (
        world.run("run", "--autopilot", "--", "sh", "-c", "git push -q origin main; kill 999999").code == 125
    )
    assert not pushed(remote)
    done = world.run("run", "--autopilot", "--", "git", "push", "-q", "origin", "main")
    assert done.code == 0, done
    assert pushed(remote)
    assert CANNOT in done.stderr, "it is said all the same"
    world.configure('[rules.commands]\nallow = ["git push"]\nask = ["git push"]\n')
    assert world.run("run", "--autopilot", "--", "git", "push", "origin", "main").code == 125
