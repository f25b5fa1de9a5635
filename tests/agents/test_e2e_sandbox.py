"""Commands of a real client that run in the sandbox: its rules, folders, exit codes and output stay its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from takeback.system import landlock, namespaces
from tests.cli.processes import wait_for

from . import clients, scenes, stories, talking
from .conversations import conversation
from .protection import Protected, of_npm, protected

pytestmark = [
    pytest.mark.timeout(900),  # the first time, hundreds of megabytes are fetched
    pytest.mark.skipif(
        landlock.version() < landlock.LEAST or bool(namespaces.why_refused()),
        reason="not on this platform: the kernel has no Landlock, or allows no namespaces",
    ),
]

EVERY = '[sandbox]\ncommands = "all"\n'
UNKNOWN = "[agents]\nautopilot = true\n"
BUILD = """\
grep NoNewPrivs /proc/self/status > held.txt
echo "built in $(basename "$PWD")"
echo mine > .claude/settings.json
echo mine > ../takeback.toml
true
"""


def begun(project: Protected, settings: str) -> None:
    project.world.configure(settings)
    (project.project / "data/build.sh").write_text(BUILD)


def told(model: clients.Model) -> str:
    """What the model was told last."""
    return json.dumps(model.requests()[-1]["body"])


@pytest.mark.parametrize("agent", ["claude-code", of_npm("opencode")])
def test_what_cannot_be_judged_runs_in_the_sandbox(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        begun(project, UNKNOWN)
        before = project.look()
        script = {
            "build": [
                stories.turn(scenes.shell(agent, 'cd data && sh -c "$(cat build.sh)"')),
                stories.turn(scenes.shell(agent, "pwd > /dev/stderr; echo plain > plain.txt; false")),
            ]
        }
        with (
            clients.model(tmp_path, script) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene build] go")
        heard = told(model)
        assert "NoNewPrivs:\\t1" in json.dumps((project.project / "data/held.txt").read_text())
        assert "built in data" in heard
        assert "Takeback: the sandbox denied an attempt by sh to write" in heard
        assert "[sandbox] write" not in heard  # how to allow it is for the human
        assert (project.project / "takeback.toml").read_text() == UNKNOWN
        done = [e for e in project.entries() if e["kind"] == "action"]
        # The log has the agent's own words, and what could not leave is not unknown.
        assert [e.get("effect") for e in done] == ["restorable", "restorable"], done
        assert all("takeback-" not in json.dumps(e) and ".sh;" not in json.dumps(e) for e in done), done
        if agent == "claude-code":
            # Its shell stays where the command went.
            assert (project.project / "data/plain.txt").exists()
        for _ in done:
            project.undo()
        own = ("'.opencode",)  # what the client itself writes
        assert [line for line in project.changes_since(before) if not line.startswith(own)] == []


def test_the_rules_of_the_client_still_see_the_command(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        begun(project, EVERY)
        settings: dict[str, Any] = json.loads(project.settings.read_text())
        project.settings.write_text(json.dumps(settings | {"permissions": {"deny": ["Bash(rm:*)"]}}))
        bash = scenes.shell
        script = {
            "work": [
                stories.turn(bash("claude-code", "rm old.txt")),
                stories.turn(bash("claude-code", "echo seven; exit 7")),
                stories.turn(
                    bash("claude-code", "echo one > one.txt; trap 'echo bye > bye.txt' EXIT; sleep 0.1")
                ),
            ]
        }
        with clients.model(tmp_path, script) as model, talking.claude_code(model, project.desk) as talk:
            talk.say("[scene work] go")
        assert (project.project / "old.txt").exists()
        assert "denied" in told(model)
        assert "Exit code 7" in told(model)
        assert (project.project / "one.txt").exists()
        assert (project.project / "bye.txt").exists()


def test_a_command_in_the_background_goes_on_in_the_sandbox(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        begun(project, EVERY)
        go, gone = tmp_path / "go", tmp_path / "gone"
        line = f"until [ -e {go} ]; do sleep 0.02; done; grep NoNewPrivs /proc/self/status > late.txt; touch {gone}"
        work = stories.tool("Bash", command=line, description="work", run_in_background=True)
        script = {
            "work": [stories.turn(work)],
            "more": [stories.turn(scenes.shell("claude-code", "echo 1 > more"))],
        }
        with clients.model(tmp_path, script) as model, talking.claude_code(model, project.desk) as talk:
            talk.say("[scene work] go")
            go.touch()
            wait_for(gone.exists)
            talk.say("[scene more] go")
        assert (project.project / "late.txt").read_text() == "NoNewPrivs:\t1\n"
        assert (project.project / "more").exists()
