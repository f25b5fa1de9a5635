"""Actions inside actions, beside each other, outliving their command, and cut off in the middle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.world.cli import REPOSITORY, Workspace, items

from .inside import Inside
from .processes import PYTHON, end_command, ended, kill, start, until, wait_for, wait_for_file, wait_for_proof

SOURCES = REPOSITORY / "src"


# Paths outside are written in a way that nobody foresees who reads the command: those that are named outright are
# captured too, and would be further changes.


def entries(world: Workspace) -> dict[str, dict[str, Any]]:
    """What the log says, by name; the latest of each."""
    found = world.do("log", "--json", "-n", "0").json["entries"]
    return {entry["name"] or entry["kind"]: entry for entry in reversed(found)}


def targets(world: Workspace, name: str) -> set[str]:
    """Which files an action changed."""
    shown = world.do("show", "--json", entries(world)[name]["id"]).json
    return {change["target"] for change in shown["changed"]} - {"."}


def shell(world: Workspace, name: str, script: str) -> list[str]:
    return ["run", "--name", name, "--", "bash", "-c", script]


@pytest.fixture
def world(inside: Inside) -> Inside:
    return inside


# One inside another


def test_a_change_belongs_to_the_innermost_action(world: Workspace) -> None:
    inner = f"PYTHONPATH={SOURCES} {PYTHON} -m takeback run --name inner -- sh -c 'echo x > by-inner'"
    world.agent(f"echo x > before; {inner}; echo x > after", name="outer")
    assert targets(world, "inner") == {"by-inner"}
    assert targets(world, "outer") == {"before", "after"}
    world.undo(entries(world)["inner"]["id"])
    assert not world.has("by-inner") and world.has("before") and world.has("after")
    world.do("redo")
    assert world.has("by-inner")
    # The outer one stands for all that happened in it.
    world.undo(entries(world)["outer"]["id"])
    assert not world.has("by-inner") and not world.has("before") and not world.has("after")


# Two at once


def test_overlapping_changes_are_shared_and_only_both_go_back(world: Workspace, tmp_path: Path) -> None:
    world.save()
    script = "touch $(echo ../{0}-is-here); echo {0} > {0}.md; " + until("../go-{0}")
    one = start(world, *shell(world, "one", script.format("one")))
    two = start(world, *shell(world, "two", script.format("two")))
    for name in ("one", "two"):
        wait_for_file(tmp_path / f"{name}-is-here")
    wait_for(lambda: world.has("one.md") and world.has("two.md"))
    (tmp_path / "go-one").touch()
    assert ended(one).code == 0
    (tmp_path / "go-two").touch()
    assert ended(two).code == 0
    a, b = (entries(world)[name]["id"] for name in ("one", "two"))
    before = world.look()
    for alone in (a, b):
        done = world.do("undo", "--json", alone, code=3)
        assert "conflict" in items(done).values()
        assert world.changes_since(before) == []
    world.undo(a, b)
    assert not world.has("one.md") and not world.has("two.md")
    world.do("redo")
    assert world.changes_since(before) == []


def test_undo_waits_for_an_action_that_is_about_to_end(world: Workspace, tmp_path: Path) -> None:
    """`undo` waits up to 10 s for an open action to end; it must not keep it from ending."""
    world.save()
    running = start(world, *shell(world, "agent", "echo new > plan.md; touch $(echo ../here); sleep 1"))
    wait_for_file(tmp_path / "here")
    done = world.run("undo")
    assert ended(running).code == 0
    assert done.code == 0, done
    assert world.read("plan.md") == "old\n"


# One that outlives its command


def test_what_a_process_left_behind_changes_is_in_doubt_and_no_drift(
    world: Workspace, tmp_path: Path
) -> None:
    world.save()
    later = f"{until('../go')}; echo late > late.md; touch $(echo ../wrote); {until('../end')}"
    done = world.agent(f"echo new > plan.md; ({later}) > /dev/null 2>&1 &", name="agent")
    assert "still running" in done.stderr
    assert entries(world)["agent"]["state"] == "background"
    refused = world.do("undo", entries(world)["agent"]["id"], code=3)
    assert "still has processes running" in refused.stderr and "kill" in refused.stderr

    (tmp_path / "go").touch()
    wait_for_file(tmp_path / "wrote")
    world.save("while it runs")
    assert "outside" not in entries(world)
    assert targets(world, "agent") == {"plan.md", "late.md"}

    (tmp_path / "end").touch()
    agent = entries(world)["agent"]["id"]
    wait_for(lambda: world.run("save").code == 0 and entries(world)["agent"]["state"] == "done")
    conflicts = items(world.do("undo", "--json", agent, code=3))
    assert conflicts["late.md"] == "conflict" and conflicts["plan.md"] == "untouched"
    world.undo(agent, "--on-conflict", "overwrite")
    assert world.read("plan.md") == "old\n" and not world.has("late.md")


SHED = """
import os, resource, sys
resource.setrlimit(10, (7, 7))
os.setsid()
os.execve("/bin/sh", ["sh", "-c", sys.argv[1]], {})
"""


@pytest.mark.parametrize("way", ["", "nohup", "setsid", "env -i setsid", "shed all that is inherited"])
def test_what_a_command_left_behind_is_taken_back_with_it(way: str, world: Workspace, tmp_path: Path) -> None:
    world.human("src/main.py", "work of months\n")
    world.save()
    (tmp_path / "shed.py").write_text(SHED)
    way = f"{PYTHON} {tmp_path}/shed.py" if way.startswith("shed") else f"{way} sh -c"
    os.mkfifo(tmp_path / "go")
    later = f"read go < {tmp_path}/go; rm -rf {world.root}/src"
    told = world.agent(f"{way} '{later}' > /dev/null 2>&1 < /dev/null &", name="agent")
    assert "still running" in told.stderr
    # There is nothing to take back as yet: that is no reason to say that all is well.
    busy = world.run("undo")
    assert busy.code == 3 and "still has processes running" in busy.stderr and "kill" in busy.stderr
    (tmp_path / "go").write_text("go\n")
    wait_for(lambda: "still running" not in world.do("status").stdout)
    assert not world.has("src")
    assert "outside" not in entries(world)
    world.undo()
    assert world.read("src/main.py") == "work of months\n"


def test_orphans_that_have_ended_do_not_stay_as_zombies(world: Workspace, tmp_path: Path) -> None:
    script = f"(true &); (true &); touch $(echo ../here); {until('../end')}"
    running = start(world, *shell(world, "agent", script))
    wait_for_file(tmp_path / "here")
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    wait_for(lambda: len(children.read_text().split()) == 1)
    (tmp_path / "end").touch()
    assert ended(running).code == 0


def test_what_failed_and_still_runs_is_not_taken_back_and_says_so(world: Workspace, tmp_path: Path) -> None:
    world.save()
    script = f"echo new > plan.md; ({until('../end')}) > /dev/null 2>&1 & exit 3"
    done = world.run("run", "--undo-on-failure", "--", "bash", "-c", script)
    (tmp_path / "end").touch()
    assert done.code == 3 and "still has processes running" in done.stderr
    assert "not recorded" not in done.stderr and world.read("plan.md") == "new\n"


def test_status_names_what_still_runs(world: Workspace, tmp_path: Path) -> None:
    world.agent(f"({until('../end')}) > /dev/null 2>&1 &", name="agent")
    said = world.do("status").stdout
    (tmp_path / "end").touch()
    assert "agent" in said and "still running" in said and "kill " in said, said


# One that is cut off


def killed_while_working(world: Workspace, script: str, until: Path, *, proved: str = "") -> int:
    """Kill `takeback run` itself, so that its command is left alone, once it is provable that the command wrote the
    file `proved`. Return the command's process number."""
    process = start(world, *shell(world, "agent", f"echo $$ > $(echo ../pid); {script}"))
    wait_for_file(until)
    if proved:
        wait_for_proof(world, entries(world)["agent"]["id"], proved)
    kill(process)
    return int((world.root.parent / "pid").read_text())


def test_killed_before_anything_changed(world: Workspace, tmp_path: Path) -> None:
    world.save()
    pid = killed_while_working(world, "touch $(echo ../here); exec sleep 60", tmp_path / "here")
    end_command(pid)
    world.save()
    assert entries(world)["agent"]["state"] == "settled"
    assert entries(world)["agent"]["changes"] == 0
    assert "interrupted" in world.do("status").stdout
    report = world.undo().json
    # Where it writes is not foreseen here, so an undo names it all the same.
    assert (report["items"], report["unknown"]) == ([], [entries(world)["agent"]["id"]])


@pytest.mark.parametrize("looked", [False, True])
def test_killed_after_it_changed_something(looked: bool, world: Workspace, tmp_path: Path) -> None:
    """What it had changed at its last sign of life is its own; what came later is in doubt, whoever looked."""
    world.human("own.md", "old\n")
    world.human("doubtful.md", "old\n")
    world.save()
    script = f"echo new > own.md; touch $(echo ../here); {until('../go')}; "
    script += "echo new > doubtful.md; touch $(echo ../wrote); exec sleep 60"
    pid = killed_while_working(world, script, tmp_path / "here", proved="own.md")
    (tmp_path / "go").touch()
    wait_for_file(tmp_path / "wrote")
    if looked:
        # Nothing is settled while a process of it lives.
        world.save()
        assert entries(world)["agent"]["state"] == "open"
    end_command(pid)
    said = world.do("status").stdout
    assert "interrupted" in said, said
    world.save()
    agent = entries(world)["agent"]
    assert agent["state"] == "settled"
    did = items(world.do("undo", "--json", agent["id"], code=3))
    assert (did["own.md"], did["doubtful.md"]) == ("untouched", "conflict")
    world.undo(agent["id"], "--on-conflict", "keep")
    assert (world.read("own.md"), world.read("doubtful.md")) == ("old\n", "new\n")


def test_the_next_command_says_what_it_settled(world: Workspace, tmp_path: Path) -> None:
    world.save()
    end_command(
        killed_while_working(
            world, "echo new > plan.md; touch $(echo ../here); exec sleep 60", tmp_path / "here"
        )
    )
    assert "interrupted" in world.do("save").said
