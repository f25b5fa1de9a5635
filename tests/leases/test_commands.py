"""`takeback locks`, as a person, a script or an agent uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from takeback.core.leases import Holder
from takeback.system import processes
from takeback.workspace.workspace import Workspace
from tests.world import cli
from tests.world.cli import Result


def takeback(tb: Workspace, *words: str, code: int = 0, env: dict[str, str] | None = None) -> Result:
    done = cli.run(words, cwd=tb.root, home=tb.state.parent.parent, env=env)
    assert done.code == code, done.said
    return done


def listed(tb: Workspace) -> list[Any]:
    found: list[Any] = takeback(tb, "locks", "list", "--json").json["locks"]
    return found


def test_take_list_release(tb: Workspace) -> None:
    assert "Nothing is locked." in takeback(tb, "locks", "list").stdout
    taken = takeback(tb, "locks", "take", "src", "--ttl", "120", "--json", env={"TAKEBACK_ACTOR": "ann"}).json
    assert (taken["name"], taken["fence"], taken["run"], taken["actor"]) == ("src", 1, None, "ann")
    assert taken["since"] < taken["until"]
    for words in ("locks",), ("locks", "list"):
        head, row = takeback(tb, *words).stdout.splitlines()
        assert head.split() == ["what", "who", "run", "since", "for", "fence"]
        assert row.split()[:4] == ["src", "a", "human", "(ann)"] and row.endswith(" 1")
    assert takeback(tb, "locks", "--json").json["locks"][0]["name"] == "src"
    longer = takeback(tb, "locks", "take", "src", "--ttl", "900.9").stdout
    assert "Locked src for 15 min" in longer
    assert [lock["fence"] for lock in listed(tb)] == [2]
    assert "Released 1 lock." in takeback(tb, "locks", "release", "src").stdout
    assert listed(tb) == []
    assert "is not locked" in takeback(tb, "locks", "release", "src", code=2).stderr
    assert "use --all" in takeback(tb, "locks", "release", code=2).stderr


def test_who_comes_second_is_told_who_was_first(tb: Workspace) -> None:
    tb.leases.take("src", Holder("r999", "ann", processes.this_process()), ttl_s=60)
    refused = takeback(tb, "locks", "take", "src/a.py", "--json", code=3).json["error"]
    assert refused["code"] == "locked"
    assert f"src/a.py is locked by r999 (ann), process {os.getpid()}" in refused["message"]
    (lock,) = listed(tb)
    assert (lock["run"], lock["pid"]) == ("r999", os.getpid())
    assert "after 0.2 s" in takeback(tb, "locks", "take", "src", "--wait", "0.2", code=3).stderr


def test_a_lock_ends_with_its_time(tb: Workspace) -> None:
    takeback(tb, "locks", "take", "src", "--ttl", "0.05")
    time.sleep(0.1)
    assert listed(tb) == []


def test_inside_of_a_run_it_is_the_runs_and_ends_with_it(tb: Workspace) -> None:
    program = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    me = (sys.executable, "-m", "takeback", "locks")
    takeback(tb, "run", "--", sys.executable, "-c", program, *me, "take", "src", "--ttl", "900")
    assert listed(tb) == []
    inner = f"{' '.join(me)} take src --ttl 900 && {' '.join(me)} list && touch src/b"
    done = takeback(tb, "run", "--", "sh", "-c", inner)
    assert " src    r" in done.stdout and "process" in done.stdout
    assert (tb.root / "src/b").exists()


def test_an_agent_cannot_let_go_of_what_others_have(tb: Workspace) -> None:
    with tb.run("one") as run, run.lock("src"):
        me = (sys.executable, "-m", "takeback", "locks", "release", "src")
        done = takeback(tb, "run", "--", *me, code=3)
        assert "a human can release it" in done.stderr
        assert len(listed(tb)) == 1


def test_a_human_can(tb: Workspace) -> None:
    tb.leases.take("src", Holder("r999", "ann", processes.this_process()), ttl_s=60)
    assert "Released 1 lock." in takeback(tb, "locks", "release", "--all").stdout
    assert listed(tb) == []


def interrupted(tb: Workspace, ttl_s: float = 600) -> str:
    """A run that has locked src, wrote half of what it wanted to write there, and was killed."""
    program = (
        "import os, signal, sys, takeback\n"
        "with takeback.open('.') as tb, tb.run('half') as run, run.lock('src', ttl_s=float(sys.argv[1])):\n"
        "    open('src/a.py', 'w').write(f'half of {run.id}')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "TAKEBACK_HOME": str(tb.state.parent.parent)}
    words = [sys.executable, "-c", program, str(ttl_s)]
    assert subprocess.run(words, cwd=tb.root, env=env).returncode == -signal.SIGKILL
    return list(tb.history.runs)[-1]


def test_the_lock_of_a_run_that_died_is_listed_as_such_and_can_be_released(tb: Workspace) -> None:
    dead = interrupted(tb)
    (lock,) = listed(tb)
    assert (lock["run"], lock["died"]) == (dead, True)
    shown = takeback(tb, "locks").stdout
    assert "which died" in shown
    for way in (f"takeback resume {dead}", f"takeback undo {dead}", "takeback locks release src"):
        assert way in shown
    refused = takeback(tb, "run", "--", "touch", "src/b.py", code=125).stderr
    assert f"is locked by {dead}, process" in refused and f"takeback undo {dead}" in refused
    assert "Released 1 lock." in takeback(tb, "locks", "release", "src").stdout
    assert "Locked src" in takeback(tb, "locks", "take", "src").stdout


def test_whoever_takes_the_lock_of_one_that_died_is_told_what_it_left(tb: Workspace) -> None:
    dead = interrupted(tb, ttl_s=0.05)
    taken = takeback(tb, "locks", "take", "src", "--wait", "60", "--json").json
    assert taken["left"] == [{"run": dead, "name": "src", "targets": ["src/a.py"], "perhaps": []}]
    takeback(tb, "locks", "release", "src")
    dead = interrupted(tb, ttl_s=0.05)
    said = takeback(tb, "locks", "take", "src", "--wait", "60").stdout
    assert f"had locked src and left changes to src/a.py. `takeback resume {dead}` continues it" in said


def test_whoever_takes_another_part_of_it_is_told_too(tb: Workspace) -> None:
    dead = interrupted(tb, ttl_s=0.05)
    for name in ("src/b.py", "src/c.py"):
        taken = takeback(tb, "locks", "take", name, "--wait", "60", "--json").json
        assert [(one["run"], one["name"]) for one in taken["left"]] == [(dead, "src")]
    assert [lock["name"] for lock in listed(tb)] == ["src/b.py", "src/c.py"]


def test_a_lock_that_ended_well_says_nothing_of_that(tb: Workspace) -> None:
    takeback(tb, "locks", "take", "src", "--ttl", "0.05")
    assert takeback(tb, "locks", "take", "src/a.py", "--wait", "60", "--json").json["left"] == []
