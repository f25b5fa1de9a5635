"""What no undo reaches is held, by every client in its own way: on autopilot it is refused, else a human is asked.

The agent tries to push to a repository beside the project. Whether it got through is seen there.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.world.picture import Picture, picture

from . import clients, scenes, stories, talking
from .conversations import conversation
from .protection import Protected, of_npm, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

AUTOPILOT = "[agents]\nautopilot = true\n"
AGENTS = ["claude-code", "codex", of_npm("gemini"), of_npm("opencode")]


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def with_remote(project: Protected, *, autopilot: bool) -> Path:
    """Make the project a repository with one commit, and give the one that it could push to."""
    remote = project.project.parent / "remote.git"
    git(remote.parent, "init", "--quiet", "--bare", str(remote))
    git(project.project, "init", "--quiet")
    git(project.project, "remote", "add", "origin", str(remote))
    git(project.project, "add", "--all")
    git(project.project, "commit", "--quiet", "--message", "begin")
    if autopilot:
        project.world.human("takeback.toml", AUTOPILOT)
    return remote


def seen(remote: Path) -> Picture:
    return picture(bytes(remote))


def heard(model: clients.Model) -> str:
    """All that the model was told."""
    return "\n".join(str(request["body"]) for request in model.requests())


def nothing_was_pushed(project: Protected, remote: Path, before: Picture) -> None:
    assert seen(remote) == before
    # What came after it was done, and nothing is half open.
    assert (project.project / "published.txt").exists()
    ended = {e["id"]: (e["state"], e["changes"]) for e in project.entries() if e["kind"] == "action"}
    assert [changes > 0 for state, changes in ended.values() if state == "done"] == [True], ended
    # A call that its human refused in the client was begun, and has ended without effect.
    assert [both for both in ended.values() if both[0] != "done"] in ([], [("failed", 0)]), ended


@pytest.mark.parametrize("agent", AGENTS)
def test_on_autopilot_it_is_refused(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        remote = with_remote(project, autopilot=True)
        before = seen(remote)
        script = scenes.of(agent, project.project, tmp_path)
        with (
            clients.model(tmp_path, script) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene publish] go")
        nothing_was_pushed(project, remote, before)
        assert "autopilot" in heard(model)
        assert not project.takeback("approvals", "--json").json["approvals"]


@pytest.mark.parametrize("agent", ["codex", of_npm("gemini"), of_npm("opencode")])
def test_a_client_that_cannot_ask_is_told_how_a_human_allows_it(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        remote = with_remote(project, autopilot=False)
        before = seen(remote)
        script = scenes.of(agent, project.project, tmp_path)
        with (
            clients.model(tmp_path, script) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene publish] go")
            nothing_was_pushed(project, remote, before)
            (question,) = project.takeback("approvals", "--json").json["approvals"]
            assert f"takeback approve {question['id']}" in heard(model)
            project.takeback("approve", question["id"])
            client.say("[scene insist] go")
        assert git(remote, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_claude_code_asks_its_human(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        remote = with_remote(project, autopilot=False)
        before = seen(remote)
        script = scenes.of("claude-code", project.project, tmp_path)
        with (
            clients.model(tmp_path, script) as model,
            talking.claude_code(model, project.desk) as talk,
        ):
            talk.say("[scene publish] go")
            assert [asked["input"]["command"] for asked in talk.asked] == [scenes.PUSH]
            nothing_was_pushed(project, remote, before)

            talk.human = lambda asked: True
            talk.say("[scene insist] go")
        assert len(talk.asked) == 2
        assert git(remote, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
        # The human said yes to their client, so it is on the record, and an undo says that it stays.
        pushed = [e for e in project.entries() if e.get("effect") == "irreversible" and e["state"] == "done"]
        assert len(pushed) == 1, project.entries()


def test_a_push_that_failed_does_not_keep_undo_from_what_was_done_before_it(tmp_path: Path) -> None:
    removal = scenes.shell("claude-code", "rm old.txt")
    script = {"push": [stories.turn(removal), stories.turn(scenes.shell("claude-code", scenes.PUSH))]}
    with protected(tmp_path, "claude-code") as project:
        git(project.project, "init", "--quiet")  # without a remote, so that nothing can be pushed
        before = project.look()
        with (
            clients.model(tmp_path, script) as model,
            talking.claude_code(model, project.desk) as talk,
        ):
            talk.human = lambda asked: True
            talk.say("[scene push] go")
        assert not (project.project / "old.txt").exists()
        first = project.takeback("undo", code=6)
        assert "it is unknown whether it happened" in first.stdout and "takeback settle a" in first.stderr
        project.undo()
        assert project.changes_since(before) == []
