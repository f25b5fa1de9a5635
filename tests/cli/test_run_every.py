"""`takeback run --every`: a command that is under way for long is taken back in parts."""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.world.cli import REPOSITORY, Workspace, items

from .inside import Inside
from .processes import PYTHON, end_command, ended, kill, start, until, wait_for, wait_for_file, wait_for_proof

SOURCES = REPOSITORY / "src"


@pytest.fixture
def world(inside: Inside) -> Inside:
    inside.save()
    return inside


def begin(world: Workspace, script: str, *options: str) -> subprocess.Popen[bytes]:
    """Begin a command that is cut into parts of one second."""
    words = ["run", "--every", "1s", "--name", "agent", *options, "--", "bash", "-c", script]
    return start(world, *words)


def parts(world: Workspace) -> list[dict[str, Any]]:
    """The parts of the command, in order."""
    found = world.do("log", "--json", "-n", "0").json["entries"]
    return [entry for entry in reversed(found) if re.fullmatch("part [0-9]+ of agent", entry["name"])]


def entry(world: Workspace, kind: str, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = world.do("log", "--json", "-n", "0").json["entries"]
    return next(entry for entry in found if entry["kind"] == kind and entry["name"] == name)


def is_in_part(world: Workspace, number: int) -> bool:
    return len(parts(world)) >= number


def in_two_parts(world: Workspace, first: str, second: str, *options: str) -> subprocess.Popen[bytes]:
    """Do the first, and the second in a part of its own; it does not end before ../end is there."""
    process = begin(world, f"{first}; {until('../second')}; {second}; {until('../end')}", *options)
    wait_for(lambda: is_in_part(world, 2))
    (world.root.parent / "second").touch()
    return process


def live_on(world: Workspace) -> None:
    """Wait for three more signs of life of the command: meanwhile, it is time for another part."""
    id = entry(world, "action", "agent")["id"]
    wait_for(lambda: list(world.home.rglob(f"*/{id}")))
    (sign,) = world.home.rglob(f"*/{id}")
    for _ in range(3):
        last_ns = sign.stat().st_mtime_ns
        wait_for(partial(_is_newer, sign, last_ns))


def _is_newer(sign: Path, last_ns: int) -> bool:
    return sign.stat().st_mtime_ns > last_ns


def let_end(world: Workspace, process: subprocess.Popen[bytes]) -> str:
    (world.root.parent / "end").touch()
    done = ended(process)
    assert done.code == 0, done
    return done.stderr


# Taking back


def test_undo_takes_back_the_newest_part_and_the_run_everything(world: Workspace) -> None:
    before = world.look()
    said = let_end(world, in_two_parts(world, "echo 1 > plan.md; echo 1 > one.md", "echo 2 > plan.md"))
    run = entry(world, "run", "agent")["id"]
    assert f"takeback undo {run}" in said and "In 2 parts it changed" in said, said
    after = world.look()
    told = world.do("undo").stdout
    assert (
        "Took back part 2 of agent" in told and f"takeback undo {run}" in told and "inside of" not in told
    ), told
    assert world.read("plan.md") == "1\n" and world.has("one.md")
    world.undo()
    assert world.changes_since(before) == []
    assert world.undo().json["verdict"] == "nothing"
    world.do("redo")
    world.do("redo")
    assert world.changes_since(after) == []
    world.undo(run)
    assert world.changes_since(before) == []


def test_one_part_alone_by_its_id(world: Workspace) -> None:
    let_end(world, in_two_parts(world, "echo 1 > one.md", "echo 2 > two.md"))
    first = parts(world)[0]
    shown = world.do("show", first["step"]).stdout
    assert "one.md" in shown and "two.md" not in shown
    world.undo(first["step"])
    assert not world.has("one.md") and world.has("two.md")
    world.undo(parts(world)[1]["id"])
    assert not world.has("two.md")


def test_between_two_parts_there_is_a_checkpoint(world: Workspace) -> None:
    let_end(world, in_two_parts(world, "echo 1 > plan.md", "echo 2 > plan.md; echo 2 > two.md"))
    checkpoint = entry(world, "checkpoint", "after part 1 of agent")["id"]
    world.do("restore", checkpoint)
    assert world.read("plan.md") == "1\n" and not world.has("two.md")
    assert world.do("verify").code == 0


def test_a_while_in_which_nothing_changed_is_no_part(world: Workspace) -> None:
    process = begin(world, f"{until('../second')}; echo 2 > two.md; {until('../end')}")
    wait_for(lambda: parts(world))
    live_on(world)
    assert len(parts(world)) == 1
    (world.root.parent / "second").touch()
    wait_for(lambda: is_in_part(world, 2))
    let_end(world, process)
    assert [part["changes"] for part in parts(world)] == [2, 0]  # the file, and the time of its folder


def test_undo_on_failure_takes_all_parts_back(world: Workspace) -> None:
    before = world.look()
    process = in_two_parts(world, "echo 1 > plan.md", "echo 2 > two.md; exit 3", "--undo-on-failure")
    assert ended(process).code == 3
    assert world.changes_since(before) == []


def test_what_is_not_known_of_the_command_is_not_known_of_its_parts(world: Workspace) -> None:
    world.human("work.py", "print('x', file=open('made.md', 'w'))\n")
    let_end(world, in_two_parts(world, "true > made.txt", f"{PYTHON} work.py"))
    done = world.undo()
    assert done.json["verdict"] == "unknown" and done.json["unknown"] == [parts(world)[1]["id"]]


def test_json_names_the_parts(world: Workspace) -> None:
    told = json.loads(let_end(world, in_two_parts(world, "echo 1 > one.md", "echo 2 > two.md", "--json")))
    assert told["parts"] == [part["id"] for part in parts(world)] and len(told["parts"]) == 2
    assert told["changes"] == 2
    done = world.run("run", "--json", "--", "true")
    assert json.loads(done.stderr)["parts"] == []


# What is inside, what stays behind, and what is cut off


def test_an_action_inside_is_not_cut_and_shares_nothing(world: Workspace, tmp_path: Path) -> None:
    inner = f"PYTHONPATH={SOURCES} {PYTHON} -m takeback run --name inner -- bash -c"
    script = f"echo 1 > one.md; {until('../second')}; {inner} 'echo i > inner.md; {until('../go')}'"
    process = begin(world, f"{script}; echo 3 > three.md; {until('../end')}")
    wait_for(lambda: is_in_part(world, 2))
    (tmp_path / "second").touch()
    wait_for(lambda: world.has("inner.md"))
    live_on(world)
    assert len(parts(world)) == 2  # it waits for the end of what is inside of it
    (tmp_path / "go").touch()
    wait_for(lambda: is_in_part(world, 3))
    let_end(world, process)
    world.undo(entry(world, "action", "inner")["id"])
    assert not world.has("inner.md") and world.has("one.md") and world.has("three.md")
    world.undo(entry(world, "run", "agent")["id"])
    assert not world.has("one.md") and not world.has("three.md")


def test_what_it_leaves_running_is_of_its_last_part(world: Workspace, tmp_path: Path) -> None:
    world.human("src/main.py", "work of months\n")
    later = f"{{ ({until('../late')}; rm -r src) > /dev/null 2>&1 & }}"
    said = let_end(world, in_two_parts(world, "echo 1 > one.md", f"echo 2 > two.md; {later}"))
    assert "still running" in said
    assert "still has processes running" in world.do("undo", code=3).stderr
    (tmp_path / "late").touch()
    wait_for(lambda: "still running" not in world.do("status").stdout)
    assert not world.has("src")
    world.undo()
    assert world.read("src/main.py") == "work of months\n"
    assert not world.has("two.md") and world.has("one.md")
    world.undo()
    assert not world.has("one.md")


@pytest.mark.parametrize("whole", [False, True])
def test_killed_in_its_second_part(whole: bool, world: Workspace, tmp_path: Path) -> None:
    before = world.look()
    script = "echo $$ > $(echo ../pid); echo 1 > one.md"
    later = "echo 2 > two.md; touch $(echo ../here)"
    process = in_two_parts(world, script, later, "--every", "3s")
    wait_for_file(tmp_path / "here")
    wait_for_proof(world, parts(world)[1]["id"], "two.md")
    kill(process)
    end_command(int((tmp_path / "pid").read_text()))
    said = world.do("save").said
    assert "(agent) was interrupted: nothing had changed apart from what was done inside it" in said, said
    assert "interrupted" in world.do("status").stdout
    if whole:
        world.undo(entry(world, "run", "agent")["id"])
    else:
        assert set(items(world.undo())) == {".", "two.md"}
        assert world.has("one.md")
        world.undo()
    assert world.changes_since(before) == []
    assert world.do("verify").code == 0


def test_killed_between_two_parts(world: Workspace, tmp_path: Path) -> None:
    script = (
        f"echo $$ > $(echo ../pid); echo 1 > one.md; {until('../second')}; echo 2 > two.md; {until('../end')}"
    )
    words = ["takeback", "run", "--every", "1s", "--name", "agent", "--", "bash", "-c", script]
    process = start(world, "command-cut", "1", "--", *words, program="takeback.testing.crash")
    process.wait(60)
    kill(process)
    (tmp_path / "second").touch()
    wait_for(lambda: world.has("two.md"))
    end_command(int((tmp_path / "pid").read_text()))
    world.save()
    assert [part["changes"] for part in parts(world)] == [2]
    # Nobody has seen when the second one came, so it goes only if somebody says so.
    run = entry(world, "run", "agent")["id"]
    assert items(world.do("undo", "--json", run, code=3))["two.md"] == "conflict"
    world.undo(run, "--on-conflict", "overwrite")
    assert not world.has("one.md") and not world.has("two.md")


def test_a_checkpoint_that_fails_does_not_disturb_the_command(world: Workspace, tmp_path: Path) -> None:
    process = begin(world, f"echo 1 > one.md; {until('../end')}; exit 7")
    wait_for(lambda: parts(world))
    (lock,) = world.home.rglob("lock")
    lock.rename(tmp_path / "lock")
    lock.mkdir()
    live_on(world)
    lock.rmdir()
    (tmp_path / "lock").rename(lock)
    (tmp_path / "end").touch()
    done = ended(process)
    assert done.code == 7 and "no checkpoint" in done.stderr and str(lock) in done.stderr, done
    world.undo()
    assert not world.has("one.md")


@pytest.mark.parametrize("text", ["", "0s", "x", "5", "-1m", "0.5s", "99999999999h", "5 m s"])
def test_an_interval_that_is_none(text: str, world: Workspace) -> None:
    done = world.do("run", "--every", text, "--", "touch", "made.md", code=2)
    assert "5m" in done.stderr and not world.has("made.md")
