"""A call of which it is unknown whether it happened: an undo reports it once, and does not get stuck at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from .driving import Agent

PUSH = "git push origin main"


def ran_badly(desk: Path, *commands: str) -> Agent:
    """An agent removes app.py; then each of these fails, after its human had allowed it."""
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.shell("rm app.py", "c0")
    (desk / "app.py").unlink()
    client.ran("rm app.py", "c0")
    for number, command in enumerate(commands, 1):
        client.shell(command, f"c{number}")
        failed(client, command, f"c{number}")
    return client


def failed(client: Agent, command: str, call: str) -> None:
    client.tell(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": command},
        tool_use_id=call,
        error="Exit code 1",
    )


@pytest.fixture
def world(desk: Path, tb: Workspace) -> World:
    return World(desk, tb.state.parent.parent)


@pytest.mark.parametrize("command", ["kill 999999", PUSH])
def test_a_failed_call_does_not_keep_undo_from_the_action_before_it(
    command: str, desk: Path, world: World
) -> None:
    ran_badly(desk, command)
    for _ in range(2):
        world.run("undo")
    assert (desk / "app.py").read_text() == "print('one')\n"


def test_it_is_reported_once_with_how_to_settle_it(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH)
    *_, pushed = tb.history.actions
    first = world.run("undo")
    assert first.code == 6
    assert "it is unknown whether it happened" in first.stdout
    assert f"takeback settle {pushed}" in first.said
    assert f"{PUSH}: it is unknown" in first.stdout, "it is named as a person knows it"
    assert "against the disk" not in first.stdout, "nothing was read there"
    preview = world.run("undo", "--preview")
    assert preview.code == 0 and "app.py" in preview.stdout
    second = world.run("undo")
    assert (second.code, (desk / "app.py").exists()) == (0, True)
    third = world.run("undo")
    assert third.code == 0 and "Nothing else to take back" in third.stdout
    assert pushed in third.stdout, "that it is unsettled is not forgotten"
    assert world.run("undo", "--json").json["unsettled"] == [pushed]


def test_two_of_them_are_reported_one_after_the_other(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH, f"{PUSH} --tags")
    _, first, second = tb.history.actions
    assert [world.run("undo", "--json").json["of"] for _ in range(3)] == [
        [second],
        [first],
        [next(iter(tb.history.actions))],
    ]
    assert (desk / "app.py").exists()


def test_by_its_id_it_is_reported_each_time(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH)
    *_, pushed = tb.history.actions
    for _ in range(2):
        done = world.run("undo", pushed)
        assert done.code == 6 and f"takeback settle {pushed}" in done.said


def test_redo_after_it_goes_back_to_where_it_was(desk: Path, world: World) -> None:
    ran_badly(desk, PUSH)
    assert [world.run("undo").code for _ in range(2)] == [6, 0]
    assert world.run("redo").code == 0
    assert not (desk / "app.py").exists()
    assert world.run("undo").code == 0
    assert (desk / "app.py").exists()


def test_what_it_changed_here_is_taken_back_with_the_report(desk: Path, tb: Workspace, world: World) -> None:
    client = ran_badly(desk)
    client.shell(f"touch made && {PUSH}", "c1")
    (desk / "made").touch()
    failed(client, f"touch made && {PUSH}", "c1")
    assert world.run("undo").code == 6
    assert not (desk / "made").exists() and not (desk / "app.py").exists()
    assert world.run("undo").code == 0
    assert (desk / "app.py").exists()


def test_what_it_changed_here_comes_back_also_where_the_call_did_not_happen(
    desk: Path, tb: Workspace, world: World
) -> None:
    client, command = ran_badly(desk), f"touch made && {PUSH}"
    client.shell(command, "c1")
    (desk / "made").touch()
    failed(client, command, "c1")
    *_, pushed = tb.history.actions
    said = world.run("settle", pushed, "--did-not").stdout
    assert "taken back" not in said
    log = world.run("log").stdout
    assert "did not happen" in log and "taken back" not in log
    done = world.run("undo")
    assert done.code == 0 and not (desk / "made").exists()
    assert world.run("undo").code == 0 and (desk / "app.py").exists()
    assert "did not happen, taken back" in world.run("log").stdout


def test_what_was_settled_after_an_undo_is_not_called_incomplete(
    desk: Path, tb: Workspace, world: World
) -> None:
    ran_badly(desk, PUSH)
    *_, pushed = tb.history.actions
    assert world.run("status", "--json").json["in_doubt"] == [pushed]
    assert world.run("undo").code == 6
    assert "is incomplete" in world.run("status").stdout
    world.run("settle", pushed, "--did-not")
    said = world.run("status")
    assert "incomplete" not in said.stdout and "unknown" not in said.stdout
    assert world.run("status", "--json").json["in_doubt"] == []


def test_an_undo_that_changed_nothing_offers_no_redo(desk: Path, world: World) -> None:
    """It would bring back something else: what was taken back before."""
    ran_badly(desk, PUSH)
    done = world.run("undo")
    assert done.code == 6 and "takeback redo" not in done.said
    assert "it is unknown whether 1 thing is as before" in done.stderr and "not as before" not in done.stderr
    assert "takeback redo" in world.run("undo").stdout


def test_what_one_agent_left_unsettled_is_said_too(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH)
    *_, pushed = tb.history.actions
    assert [world.run("undo", "--agent", "claude-code").code for _ in range(2)] == [6, 0]
    assert pushed in world.run("undo", "--agent", "claude-code").stdout


def test_a_human_settles_it(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH, f"{PUSH} --tags")
    _, first, second = tb.history.actions
    said = world.run("status").stdout
    assert f"takeback settle {first}" in said and f"takeback settle {second}" in said
    assert world.run("settle", second, "--did-not").code == 0
    told = world.run("settle", first, "--happened", "--json")
    assert told.json == {"action": first, "happened": True}
    assert "takeback settle" not in world.run("status").stdout
    # What happened cannot be taken back, and is said once; what did not happen is nothing.
    assert world.run("undo", "--json").json["of"] == [first]
    assert world.run("undo").code == 0
    assert (desk / "app.py").exists()
    again = world.run("settle", first, "--happened")
    assert again.code == 2 and "not in doubt" in again.stderr


@pytest.mark.parametrize("words", [(), ("--happened", "--did-not")])
def test_settling_needs_one_answer(words: tuple[str, ...], desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH)
    *_, pushed = tb.history.actions
    done = world.run("settle", pushed, *words)
    assert done.code == 2 and "--happened or --did-not" in done.stderr


def test_an_agent_does_not_settle_its_own_call(desk: Path, tb: Workspace, world: World) -> None:
    ran_badly(desk, PUSH)
    removal, pushed = tb.history.actions
    done = world.run("settle", pushed, "--did-not", env={"TAKEBACK_ACTION": f"{tb.state.name}:{removal}"})
    assert done.code == 3 and "a human" in done.stderr
