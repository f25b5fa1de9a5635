"""Undo gets on: what was kept is decided later, and what a branch forbids is done for the files."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from tests.world.cli import Result, Workspace

LINES = "".join(f"{n}\n" for n in range(1, 21))


def git(world: Workspace, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=world.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def kept(world: Workspace) -> Workspace:
    """The agent changed two files, you changed one of them since, and an undo kept that one."""
    world.human("config", LINES)
    world.save()
    world.agent("sed -i s/^2$/agent/ config; echo agent > plan.md")
    world.human("config", (world.root / "config").read_text().replace("18\n", "mine\n"))
    done = world.do("undo", "--on-conflict", "keep")
    assert "kept       config: you changed it since" in done.stdout
    assert f"takeback undo {world.action('agent')} --on-conflict merge|overwrite" in done.stdout
    assert "agent" in world.read("config") and world.read("plan.md") != "agent\n"
    return world


@pytest.mark.parametrize(
    "choice, becomes", [("merge", LINES.replace("18\n", "mine\n")), ("overwrite", LINES)]
)
def test_what_was_kept_is_dealt_with_later(choice: str, becomes: str, kept: Workspace) -> None:
    action = kept.action("agent")
    before = kept.read("config")
    preview = kept.do("undo", action, "--on-conflict", choice, "--preview")
    assert "config" in preview.stdout and "plan.md" not in preview.stdout
    kept.do("undo", action, "--on-conflict", choice)
    assert kept.read("config") == becomes
    assert "taken back" in kept.do("log").stdout and "kept" not in kept.do("log").stdout
    kept.do("redo")
    assert kept.read("config") == before
    assert kept.do("undo", action, "--on-conflict", choice).code == 0 and kept.read("config") == becomes


def test_without_a_choice_what_was_kept_stays(kept: Workspace) -> None:
    before = kept.read("config")
    for words in (("undo", kept.action("agent")), ("undo",)):
        assert "Nothing to take back" in kept.do(*words).stdout
    assert kept.read("config") == before


# A branch that has gone on


@pytest.fixture
def branched(world: Workspace) -> Workspace:
    """The agent committed, and you committed on top of it, in the same file."""
    world.human("app.py", LINES)
    git(world, "init", "-q", "-b", "main")
    git(world, "add", ".")
    git(world, "commit", "-qm", "one")
    world.do("init")
    world.agent("sed -i s/^2$/agent/ app.py; git commit -qam agent")
    world.human("app.py", (world.root / "app.py").read_text().replace("18\n", "mine\n"))
    git(world, "commit", "-qam", "mine")
    return world


def test_the_files_are_offered_where_the_branch_cannot_be_merged(branched: Workspace) -> None:
    stopped = branched.do("undo", code=3)
    assert "branch main: later commits are on top of it" in stopped.stderr
    assert "--on-conflict merge\n" in stopped.stderr
    (offered,) = _commands(stopped, "--path")
    tip = git(branched, "rev-parse", "main")
    done = branched.do(*shlex.split(offered)[1:])
    assert "merged     app.py" in done.stdout
    assert branched.read("app.py") == LINES.replace("18\n", "mine\n")
    assert git(branched, "rev-parse", "main") == tip
    git(branched, "commit", "-qam", "without the agent's part")


def test_the_revert_that_it_names_takes_the_commits_out(branched: Workspace) -> None:
    (command,) = re.findall(r"by hand: (git revert .*)", branched.do("undo", code=3).stderr)
    subprocess.run(command, shell=True, cwd=branched.root, check=True, capture_output=True)
    assert git(branched, "show", "main:app.py") + "\n" == LINES.replace("18\n", "mine\n")


def test_no_revert_is_named_where_the_branch_went_elsewhere(branched: Workspace) -> None:
    git(branched, "reset", "-q", "--hard", "HEAD~2")
    git(branched, "commit", "-q", "--allow-empty", "-m", "another")
    stopped = branched.do("undo", code=3)
    assert "git revert" not in stopped.stderr and "branch main: you changed it since" in stopped.stderr


def _commands(done: Result, containing: str) -> list[str]:
    found = re.findall(r"takeback undo .*", done.stderr)
    return [command for command in found if containing in command]


# Names


def test_who_changed_it_is_said(world: Workspace) -> None:
    world.save()
    world.agent("echo one > plan.md", name="first")
    world.agent("echo two > plan.md", name="second")
    first, second = world.action("first"), world.action("second")
    stopped = world.do("undo", first, code=3).stderr
    assert f"plan.md: {second} changed it since (later: second ({second}, " in stopped
    world.human("plan.md", "mine\n")
    assert "plan.md: you changed it since" in world.do("undo", second, code=3).stderr
