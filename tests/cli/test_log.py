"""How the log reads: what was taken back, what only in part, and runs of several actions; and ids for the shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from takeback.core import events as e
from takeback.system.processes import this_process
from takeback.workspace.opening import open_workspace
from tests.world.cli import Workspace, environment

from .inside import Inside


def log(world: Workspace, *words: str, columns: int = 200) -> list[str]:
    """The lines of the log, on a screen that is so wide that each entry has one."""
    done = world.run("log", *words, env={"COLUMNS": str(columns)})
    assert done.code == 0, done
    return done.stdout.splitlines()


def row(world: Workspace, id: str) -> str:
    return next(line for line in log(world) if id in line.split()[:4])


def entry(world: Workspace, id: str) -> dict[str, object]:
    found = {entry["id"]: entry for entry in world.do("log", "--json").json["entries"]}
    return dict(found[id])


def test_a_part_taken_back_is_not_called_taken_back(inside: Inside) -> None:
    inside.human("other.md", "old\n")
    inside.agent("echo new > plan.md; echo new > other.md")
    action = inside.action("agent")
    assert "taken back" not in row(inside, action)
    inside.do("undo", "--path", "plan.md")
    assert "partly taken back" in row(inside, action)
    assert entry(inside, action)["partly_taken_back"] and not entry(inside, action)["taken_back"]
    inside.do("undo", action)
    assert "partly" not in row(inside, action) and "taken back" in row(inside, action)
    assert entry(inside, action)["taken_back"] and not entry(inside, action)["partly_taken_back"]
    inside.do("redo")
    assert "partly taken back" in row(inside, action)
    assert any("redone" in line for line in inside.do("log").stdout.splitlines())


def test_an_interrupted_action_is_called_so(inside: Inside) -> None:
    with open_workspace(inside.root, home=inside.home, watching=False) as tb:
        tb.save()
        gone = msgspec.structs.replace(this_process(), pid=2**22 + 1)
        marks = tuple(tb.history.marks.values())
        began = e.ActionBegan("nightly", e.Effect.RESTORABLE, marks=marks, process=gone)
        record = tb.parts.ledger.append([e.RunBegan("nightly"), began], "")[1]
    inside.human("plan.md", "new\n")
    inside.do("save")
    assert "interrupted" in row(inside, record.id)


def several(world: Workspace) -> tuple[str, list[str]]:
    """A run of two actions, as a program with steps will record them."""
    with open_workspace(world.root, home=world.home, watching=False) as tb:
        (run,) = tb.parts.ledger.append([e.RunBegan("add billing", actor="planner")], "")
        actions = []
        for name in ("edit", "migrate"):
            marks = tb.parts.tracker.observe()
            began = e.ActionBegan(name, e.Effect.RESTORABLE, marks=marks)
            (record,) = tb.parts.ledger.append([began], run.id)
            world.human(f"by-{name}", "x")
            tb.parts.tracker.end(record.id, e.Outcome.DONE)
            actions.append(record.id)
    return run.id, actions


def test_a_run_of_several_actions_has_a_row_of_its_own(inside: Inside) -> None:
    inside.save()
    run, actions = several(inside)
    assert (
        "run add billing" in row(inside, run)
        and "planner" in row(inside, run)
        and row(inside, run).endswith("2 calls, 2 files")
    )
    assert entry(inside, run)["actions"] == actions
    inside.do("undo", actions[1])
    assert "partly taken back" in row(inside, run)
    inside.do("undo", run)
    assert not inside.has("by-edit") and not inside.has("by-migrate")
    assert "partly" not in row(inside, run) and "taken back" in row(inside, run)
    assert inside.do("show", run).stdout.startswith(f"{run}  run add billing")


def test_a_run_of_one_action_is_that_action(inside: Inside) -> None:
    inside.agent("echo new > plan.md")
    assert not any(word.startswith("r") for line in log(inside) for word in line.split()[:3])


def complete(
    world: Workspace, line: str, *, shell: str = "zsh", cwd: Path | None = None, word: int = 0
) -> str:
    asked = {"_TAKEBACK_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(word or len(line.split(" ")) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "takeback"],
        env=environment(world.home) | asked,
        cwd=cwd or world.root,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def offered(world: Workspace, line: str, *, cwd: Path | None = None) -> list[str]:
    return [
        found.split(",")[1] for found in complete(world, line, shell="bash", cwd=cwd).split("\n") if found
    ]


def test_the_shell_completes_ids(world: Workspace, tmp_path: Path) -> None:
    checkpoint = world.save("before the migration")
    world.agent("echo new > plan.md", name="clumsy")
    clumsy = world.action("clumsy")
    world.agent("true", name="idle")
    world.agent("echo x > made", name="second")
    second = world.action("second")
    assert offered(world, "takeback undo ") == [second, clumsy]
    assert offered(world, f"takeback undo {clumsy}") == [clumsy]
    moments = [checkpoint, "last-clean", "today", "yesterday"]
    assert offered(world, "takeback undo --to ") == offered(world, "takeback restore ") == moments
    assert (
        offered(world, "takeback bisect --good last")
        == offered(world, "takeback diff last")
        == ["last-clean"]
    )
    at = complete(world, 'takeback restore "before ', shell="bash", word=2)
    assert {f"plain,before {id}" for id in (clumsy, second, checkpoint)} <= set(at.splitlines())
    assert {clumsy, second, checkpoint} < set(offered(world, "takeback show "))
    assert {clumsy, second, checkpoint} < set(offered(world, "takeback diff "))
    assert clumsy in offered(world, f"takeback -C {world.root} undo ", cwd=tmp_path)
    assert clumsy in offered(world, f"takeback undo -C {world.root} ", cwd=tmp_path)
    told = complete(world, "takeback undo ").split("\n")
    assert "clumsy" in told[told.index(clumsy) + 1]
    told = complete(world, "takeback restore ").split("\n")
    assert "before the migration" in told[told.index(checkpoint) + 1]


def test_where_there_is_nothing_to_complete_nothing_is_said(world: Workspace, tmp_path: Path) -> None:
    assert offered(world, "takeback undo ") == []
    assert complete(world, "takeback diff pl", shell="bash") == "file,pl\n"
    world.save()
    journal = next(world.home.rglob("journal.db"))
    journal.write_bytes(b"damaged" * 1000)
    assert offered(world, "takeback undo ") == []
