"""What events mean: a session is a run, a prompt a step, a call an action, whatever is missing, early or doubled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from takeback.agents import hook_tampering
from takeback.agents.settings import apply
from takeback.cli.render.history import what
from takeback.core.codec import one_line
from takeback.core.entities import RecordedRun, RecordedStep
from takeback.core.lifecycle import Life
from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from .driving import AGENTS, Agent, refusal


def run_of(tb: Workspace) -> RecordedRun:
    (run,) = [run for run in tb.history.runs.values() if run.actions]
    return run


def steps(tb: Workspace) -> list[RecordedStep]:
    return list(run_of(tb).steps.values())


def texts(desk: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(desk.iterdir())}


@pytest.mark.parametrize("agent", AGENTS)
def test_each_prompt_is_a_step_that_is_taken_back_alone(agent: str, desk: Path, tb: Workspace) -> None:
    begun = texts(desk)
    client = Agent(agent, desk)
    client.prompt("write a plan", "p1")
    client.write("plan.md", "plan\n")
    client.stop()
    planned = texts(desk)
    client.prompt("now do it", "p2")
    client.write("app.py", "print('two')\n")
    client.write("more.py", "more\n")
    client.stop()
    first, second = steps(tb)
    assert [step.name for step in (first, second)] == ["write a plan", "now do it"]
    assert {step.life for step in (first, second)} == {Life.DONE}

    # The session is still open: it goes on after each of these.
    assert run_of(tb).life is Life.OPEN
    assert tb.undo(second.id).verdict in ("clean", "unknown")
    assert texts(desk) == planned
    client.prompt("again", "p3")
    client.write("app.py", "print('three')\n")
    assert tb.undo(run_of(tb).id).verdict in ("clean", "unknown")
    assert texts(desk) == begun
    assert run_of(tb).life is Life.OPEN


def test_a_call_belongs_to_its_prompt_also_when_that_is_over(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("one", "p1")
    client.write("a", "a\n")
    client.stop()
    client.prompt("two", "p2")
    client.turn = "p1"
    client.write("late", "late\n", agent_id="a1", agent_type="Explore")
    one, two = steps(tb)
    named = {action.began.step for action in tb.history.actions.values() if action.is_tool}  # type: ignore[union-attr]
    assert named == {one.id}
    assert tb.history.actions[run_of(tb).actions[-1]].actor == "claude-code:Explore:a1"
    assert two.ref == "p2"


def test_a_prompt_that_is_told_twice_is_one(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    for _ in range(2):
        client.prompt("go", "t1")
    client.write("a", "a\n")
    assert [(step.name, step.ref) for step in steps(tb)] == [("go", "t1")]


def test_a_prompt_is_named_by_its_first_words_without_secrets(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    secret = "ghp_" + "abcdefghij" * 3
    client.prompt(f"push\nwith {secret} " + "and so on " * 50, "p1")
    client.write("a", "a\n")
    (step,) = steps(tb)
    assert step.name.startswith("push with [hidden] and so on")
    assert len(step.name) <= 80
    assert all(secret not in str(record.event) for record in tb.journal.read())


def test_reading_needs_no_record_but_keeps_the_rules(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("look", "p1")
    read = {"file_path": str(desk / "app.py")}
    assert refusal(client.pre("Read", read, "r1")) == ""
    client.post("Read", read, "r1")
    client.pre("mcp__files__Read", read, "r2")
    (desk / "by-mcp").write_text("written by what is called Read\n")
    client.post("mcp__files__Read", read, "r2")
    assert [action.name for action in tb.history.actions.values()] == ["mcp__files__Read"]
    assert tb.undo().verdict in ("clean", "unknown")
    assert not (desk / "by-mcp").exists()
    client.end()  # beside a session a change of the settings would not hold by itself
    (desk / "takeback.toml").write_text('[rules.tools]\ndeny = ["Read"]\n')
    client = Agent("claude-code", desk, "session-2")
    client.prompt("look again", "p2")
    assert "Read was refused" in refusal(client.pre("Read", read, "r3"))


def test_a_session_of_prompts_alone_shows_nowhere(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("what is this?", "p1")
    client.stop()
    client.end()
    world = World(desk, tb.state.parent.parent)
    assert world.run("log").stdout.strip() == "Nothing has happened yet."


def test_log_show_and_status_read_as_session_prompts_and_calls(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("fix the login", "p1")
    client.write("login.py", "fixed\n")
    client.prompt("now test it", "p2")
    client.shell("make test", "t1")
    (desk / "report.txt").write_text("half\n")
    world = World(desk, tb.state.parent.parent)
    (one, two), run = steps(tb), run_of(tb)
    log = world.run("log").stdout
    for text in (
        f"claude-code  {run.id}",
        'prompt "fix the login"',
        'prompt "now test it"',
        "Write login.py",
    ):
        assert text in log
    live = world.run("status").stdout
    assert f"Session {run.id} of claude-code is open" in live
    assert f"working on prompt {two.id}" in live and "now test it" in live
    assert "running a" in live and "make test" in live
    assert "not yet recorded:\n    created    report.txt\n" in live
    data = world.run("status", "--json").json["sessions"][0]
    assert (data["prompt"]["id"], data["changed_so_far"]) == (two.id, ["report.txt"])
    assert tb.history.open_actions()[0].id in data["running"]
    assert "prompt fix the login" in world.run("show", one.id).stdout
    client.ran("make test", "t1")
    assert "not yet recorded" not in world.run("status").stdout


def test_takeback_inside_of_the_agent_does_not_wait_for_itself(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    client.shell("takeback undo", "t1")
    assert tb.undo().verdict in ("clean", "unknown")
    client.ran("takeback undo", "t1")
    assert not (desk / "a").exists()
    for hidden in (
        "takeback undo; rm app.py",
        "./takeback undo",
        "takeback run -- rm x",
        "takeback undo $(rm x)",
    ):
        client.shell(hidden, hidden)
        assert tb.history.open_actions(), hidden
        client.ran(hidden, hidden)


def test_the_transcript_and_the_calls_own_ids_are_recorded(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    run = run_of(tb)
    assert run.began.ref.endswith("transcript.jsonl")
    assert tb.history.calls_of(run.id, "call-1") == run.actions[:1]
    entry = json.loads(World(desk, tb.state.parent.parent).run("show", run.actions[0], "--json").stdout)
    assert (entry["call"], entry["step"]) == ("call-1", steps(tb)[0].id)


def test_the_report_of_one_call_names_its_prompt(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("tidy up", "t1")
    client.write("a", "a\n")
    client.write("b", "b\n")
    said = World(desk, tb.state.parent.parent).run("undo").stdout
    (offered,) = [line for line in said.splitlines() if 'all of the prompt "tidy up"' in line]
    assert offered.endswith(f"takeback undo {steps(tb)[0].id}")


def test_a_call_that_takes_out_the_hooks_is_told_to_the_human_at_once(desk: Path, tb: Workspace) -> None:
    place = apply.place("claude-code", project=desk, home=desk, user=False)
    apply.installing("claude-code", place, "takeback-hook claude-code").make()
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    client.shell("rm -r .claude", "c1")
    shutil.rmtree(desk / ".claude")
    said = json.loads(client.ran("rm -r .claude", "c1").stdout)["systemMessage"]
    assert "the hooks of Claude Code" in said and "were removed by" in said
    client.write("b", "b\n")


@pytest.mark.parametrize(
    "agent, name, switch",
    [
        ("claude-code", ".claude/settings.local.json", {"disableAllHooks": True}),
        ("claude-code", ".claude/settings.json", {"disableAllHooks": True}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}),
    ],
)
def test_a_call_that_switches_all_hooks_off_is_told_too(
    agent: str, name: str, switch: dict[str, object], desk: Path, tb: Workspace
) -> None:
    """Our entries stand as before, and are not run in the next session."""
    place = apply.place(agent, project=desk, home=desk, user=False)
    apply.installing(agent, place, f"takeback-hook {agent}").make()
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    client.shell("python setup.py", "c1")
    path = desk / name
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | switch))
    said = json.loads(client.ran("python setup.py", "c1").stdout or b"{}").get("systemMessage", "")
    assert f"in {name} were switched off by" in said
    tb.undo()
    assert hook_tampering.warnings(tb) == []


def test_words_of_an_agent_cannot_steer_the_terminal(desk: Path, tb: Workspace) -> None:
    """What hides a part of a line, or turns it round, would show the human another one."""
    client = Agent("claude-code", desk)
    client.prompt("tidy \x1b[8mup\x1b[0m \u202enow\x07", "p1")
    client.shell("make \x1b[2Kall\r", "c1")
    (desk / "made").write_text("made\n")
    client.ran("make \x1b[2Kall\r", "c1")
    (step,) = steps(tb)
    assert step.name.isprintable() and "tidy" in step.name and "up" in step.name
    assert one_line("a\x1b[8mb\rc\n\td\u202e", 60) == r"a\x1b[8mb c d\u202e"
    (row,) = [what(tb.history, action) for action in tb.history.actions.values()]
    assert row.isprintable() and "make" in row and "all" in row
