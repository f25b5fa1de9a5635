"""Agents in worktrees of git: protected like the project, and their history is found from both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from takeback.daemon import control
from takeback.errors import UsageError
from takeback.workspace.locate import find_root, project_of, registry_of_user, worktrees_of
from takeback.workspace.opening import open_workspace
from tests.world.cli import Workspace as World
from tests.world.picture import differences, picture

from . import clients, stories
from .driving import Agent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in git with a commit."""
    made = tmp_path / "shop"
    made.mkdir()
    (made / "app.py").write_text("one\n")
    git(made, "init", "-q", "-b", "main")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    return made


def git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=You", "-c", "user.email=you@example.org"]
    done = subprocess.run(["git", *named, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def world(root: Path) -> World:
    return World(root, registry_of_user().home)


def names(root: Path) -> list[str]:
    entries = world(root).do("log", "--json").json["entries"]
    return [entry["name"] for entry in entries if entry["kind"] == "action"]


def work(client: Agent, folder: Path, script: str, call: str, cwd: Path, **more: Any) -> None:
    """One call of the agent's shell, which stands in `cwd`."""
    given = {"tool_name": "Bash", "tool_input": {"command": script}, "tool_use_id": call, "cwd": str(cwd)}
    client.tell("PreToolUse", **given, **more)
    subprocess.run(["sh", "-c", script], cwd=cwd, check=True, capture_output=True)
    client.tell("PostToolUse", **given, **more)


def test_an_agent_that_begins_in_a_worktree_beside_the_project(project: Path) -> None:
    with open_workspace(project, watching=False):
        pass
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    before, main = picture(os.fsencode(beside)), picture(os.fsencode(project), git=False)
    heads = git(project, "for-each-ref")
    client = Agent("claude-code", beside)
    client.prompt("go", "p1")
    commit = "git -c user.name=A -c user.email=a@example.org commit -qam work"
    work(client, beside, f"echo two > app.py && echo new > more.py && {commit}", "c1", beside)
    client.stop()
    client.end()
    assert git(project, "for-each-ref") != heads and len(names(beside)) == 1
    said = world(project).do("log")
    assert "also in the worktree ../shop-feature: takeback -C ../shop-feature log" in said.stdout
    assert "../shop-feature" in world(project).do("status").stdout
    assert world(project).do("log", "--json").json["worktrees"] == [{"root": str(beside), "exists": True}]
    assert "also in the worktree ../shop" in world(beside).do("log").stdout
    world(project).do("-C", "../shop-feature", "undo")
    assert differences(before, picture(os.fsencode(beside))) == []
    assert git(project, "for-each-ref") == heads
    assert differences(main, picture(os.fsencode(project), git=False)) == []


def test_a_subagent_in_a_worktree_beside_the_project_of_its_session(project: Path) -> None:
    """The client names the project of the session, whatever worktree its subagent works in."""
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    client = Agent("claude-code", project, CLAUDE_PROJECT_DIR=str(project))
    client.prompt("go", "p1")
    work(client, project, "echo main > main.txt", "c1", project)
    before = picture(os.fsencode(beside))
    sub = {"agent_id": "a1", "agent_type": "general"}
    script = "python3 -c \"open('app.py', 'w').write('sub')\""
    work(client, beside, script, "c2", beside, **sub)
    work(client, project, "echo more > more.txt", "c3", project)
    client.stop()
    assert len(names(project)) == 2 and len(names(beside)) == 1
    with open_workspace(beside, watching=False) as tb:
        assert not tb.history.open_actions()
        (action,) = tb.history.actions.values()
        assert action.actor == "claude-code:general:a1"
    world(beside).do("undo")
    assert differences(before, picture(os.fsencode(beside))) == []
    client.end()
    with open_workspace(beside, watching=False) as tb:
        assert not tb.history.open_runs(), "the end of the session is told there, too"
    state = registry_of_user().state_of(project)
    assert list((state / "beside").iterdir()) == []


def test_a_call_that_ends_in_another_worktree_than_it_began(project: Path) -> None:
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    client = Agent("claude-code", project, CLAUDE_PROJECT_DIR=str(project))
    client.prompt("go", "p1")
    call = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "cd ../shop-feature"}}
    client.tell("PreToolUse", **call, cwd=str(project))
    client.tell("PostToolUse", **call, cwd=str(beside))
    with open_workspace(project, watching=False) as tb:
        assert not tb.history.open_actions() and len(tb.history.actions) == 1


@pytest.mark.parametrize("first", ["the project", "the worktree"])
def test_a_worktree_inside_the_project_is_a_part_of_it(project: Path, first: str) -> None:
    if first == "the project":
        with open_workspace(project, watching=False):
            pass
    (project / ".gitignore").write_text(".claude/worktrees\n")
    inside = project / ".claude/worktrees/fix"
    git(project, "worktree", "add", "-q", "-b", "fix", str(inside))
    client = Agent("claude-code", inside, CLAUDE_PROJECT_DIR=str(inside))
    client.prompt("go", "p1")
    before = picture(os.fsencode(project))
    work(client, inside, "rm app.py && echo new > more.py", "c1", inside)
    client.stop()
    assert not registry_of_user().knows(inside)
    assert names(project) == names(inside) and len(names(project)) == 1
    world(inside).do("undo")
    assert differences(before, picture(os.fsencode(project))) == []


def test_what_a_human_accepted_for_the_project_holds_in_its_worktrees(project: Path) -> None:
    (project / "takeback.toml").write_text('[files]\nexclude = ["*.log"]\n')
    git(project, "add", ".")
    git(project, "commit", "-qm", "settings")
    with open_workspace(project, watching=False, accept_config=True):
        pass
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    with open_workspace(beside, watching=False) as tb:
        assert tb.settings.files.exclude == ("*.log",)
    other = project.parent / "shop-other"
    git(project, "worktree", "add", "-q", "-b", "other", str(other))
    (other / "takeback.toml").write_text('[files]\nexclude = ["*"]\n')
    with open_workspace(other, watching=False) as tb:
        assert tb.settings.files.exclude == (), "another value was never accepted"


def test_the_history_of_a_worktree_that_was_removed_is_still_found(project: Path) -> None:
    with open_workspace(project, watching=False):
        pass
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    client = Agent("claude-code", beside)
    client.prompt("go", "p1")
    work(client, beside, "echo two > app.py", "c1", beside)
    client.end()
    git(project, "worktree", "remove", "--force", str(beside))
    assert worktrees_of(project) == [beside]
    assert "../shop-feature, which is gone" in world(project).do("log").stdout
    git(project, "worktree", "add", "-q", str(beside), "feature")
    assert len(names(beside)) == 1


def test_a_file_that_names_a_project_is_not_believed_alone(project: Path, tmp_path: Path) -> None:
    """A folder from elsewhere could otherwise get what was accepted for a project of the user's."""
    beside = project.parent / "shop-feature"
    git(project, "worktree", "add", "-q", "-b", "feature", str(beside))
    assert project_of(beside) == project and worktrees_of(beside) == [project]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(beside / ".git", foreign / ".git")
    assert project_of(foreign) is None and find_root(foreign) == foreign
    (foreign / ".git").write_text("gitdir: /nowhere\n")
    assert project_of(foreign) is None and worktrees_of(foreign) == []
    with pytest.raises(UsageError):
        find_root(tmp_path / "missing")


@pytest.mark.sweep
def test_the_real_client_in_a_worktree_and_its_shell_in_another(tmp_path: Path) -> None:
    home = tmp_path / "state"
    desk = clients.Desk.at(tmp_path)
    desk = clients.Desk(desk.project, desk.home, {"TAKEBACK_HOME": str(home)})
    stories.begin(desk.project)
    git(desk.project, "init", "-q", "-b", "main")
    git(desk.project, "add", ".")
    git(desk.project, "commit", "-qm", "first")
    beside = tmp_path / "beside"
    git(desk.project, "worktree", "add", "-q", "-b", "feature", str(beside))
    before = picture(os.fsencode(beside))
    main = World(desk.project, home)
    installed = main.run("install", "claude-code", "--user", "-y", env={"HOME": str(desk.home)})
    assert installed.code == 0, installed

    def bash(command: str) -> dict[str, Any]:
        return stories.turn(stories.tool("Bash", command=command, description="work"))

    script: stories.Script = {
        "work": [bash("rm app.py && echo new > more.py"), stories.turn(text="Done.")],
        "wander": [
            bash("echo 1 > one.txt"),
            bash(f"cd {beside} && echo 2 > two.txt"),
            bash("echo 3 > three.txt"),
        ],
    }
    try:
        with clients.model(tmp_path, script) as model:
            clients.claude_code(model, clients.Desk(beside, desk.home, desk.more), "[scene work] go")
            clients.claude_code(model, desk, "[scene wander] go", "--add-dir", str(beside))
    finally:
        control.stop(home)
    assert "also in the worktree ../beside" in main.do("log").stdout
    for root, count in ((desk.project, 2), (beside, 2)):
        its = World(root, home)
        assert its.do("status", "--json").json["open_actions"] == []
        entries = its.do("log", "--json").json["entries"]
        assert sum(entry["kind"] == "action" for entry in entries) == count, entries
        its.undo(*[entry["id"] for entry in entries if entry["kind"] == "run"])
    assert differences(before, picture(os.fsencode(beside))) == []
    assert not (desk.project / "one.txt").exists()
