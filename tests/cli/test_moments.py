"""Moments on the command line and in Python: everywhere a checkpoint is accepted."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import takeback
from takeback.core.moments import WAYS
from takeback.errors import ConflictError, UsageError

from .inside import Inside


class Day(Inside):
    """A workspace in which an agent and a human take turns."""

    def act(self, name: str, script: str) -> str:
        self.agent(script, name=name)
        return self.action(name)

    def text(self, name: str = "f") -> str:
        return (self.root / name).read_text()


@pytest.fixture
def day(tmp_path: Path) -> Day:
    made = Day(tmp_path / "day", tmp_path / "state")
    made.root.mkdir()
    made.human("f", "0\n")
    made.save("start")
    return made


def test_restore_goes_before_and_after_an_action_and_back(day: Day) -> None:
    one = day.act("one", "echo 1 > f")
    day.human("f", "mine\n")
    two = day.act("two", "echo 2 > f; echo g > g")
    day.do("restore", f"before {two}")
    assert day.text() == "mine\n" and not (day.root / "g").exists(), "your own edit before it is part of it"
    day.do("redo")
    assert day.text() == "2\n"
    day.do("restore", f"after {one}")
    assert day.text() == "1\n"
    day.do("restore", f"before {one}", "--path", "f")
    assert day.text() == "0\n"
    log = day.do("log").stdout
    assert f'restore "after {one}"' in log and f'restore "before {two}"' in log
    assert day.do("verify").code == 0


def test_undo_takes_back_what_came_after_a_moment(day: Day) -> None:
    one = day.act("one", "echo 1 > f")
    two = day.act("two", "echo 2 > g")
    day.act("three", "echo 3 > h")
    day.undo("--to", f"before {two}")
    assert day.text() == "1\n" and sorted(path.name for path in day.root.iterdir()) == ["f"]
    day.do("redo")
    day.undo("--to", f"after {two}")
    assert sorted(path.name for path in day.root.iterdir()) == ["f", "g"]
    day.undo("--to", "last-clean")
    assert day.text() == "0\n" and [path.name for path in day.root.iterdir()] == ["f"]
    assert one


def test_diff_and_show_take_moments(day: Day) -> None:
    one = day.act("one", "echo 1 > f; echo 1 > other")
    two = day.act("two", "echo 2 > f")
    assert "-0\n+2\n" in day.do("diff", f"before {one}", "--", "f").stdout
    between = day.do("diff", f"after {one}", f"after {two}", "f").stdout
    assert "-1\n+2\n" in between and "other" not in between
    assert "-0\n+1\n" in day.do("diff", one).stdout, "a bare action keeps its meaning"
    assert "-0\n+1\n" in day.do("diff", one, two, "--", "f").stdout, "from before one to before the other"
    data = day.do("show", f"before {two}", "--json").json
    assert (data["kind"], data["name"]) == ("moment", f"before {two}") and data["marks"]
    said = day.do("show", f"before {two}").stdout
    assert f'takeback restore "before {two}" --preview' in said
    assert day.do("show", one).stdout.startswith(one)


def test_a_time_is_what_the_last_look_before_it_saw(day: Day) -> None:
    day.act("one", "echo 1 > f")
    between = datetime.now(UTC).astimezone().replace(tzinfo=None).isoformat(" ")
    day.act("two", "echo 2 > f")
    day.do("restore", between)
    assert day.text() == "1\n"
    assert f'restore "{between}"' in day.do("log").stdout
    day.do("redo")
    day.undo("--to", f"{between}{time.strftime('%z')}")
    assert day.text() == "1\n"
    day.do("redo")
    day.do("restore", "0s ago")
    assert day.text() == "2\n", "a moment ago is what was seen last"


def test_a_relative_time_is_recorded_as_the_time_that_it_was(day: Day) -> None:
    day.act("one", "echo 1 > f")
    day.human("f", "mine\n")
    day.do("restore", "0s ago")
    assert day.text() == "1\n"
    assert f'restore "{datetime.now(UTC).astimezone():%Y-%m-%d}' in day.do("log").stdout


@pytest.mark.parametrize(
    "command", [("restore",), ("undo", "--to"), ("show",), ("stage", "new", "x", "--at")]
)
def test_what_is_wrong_with_a_moment_is_said(day: Day, command: tuple[str, ...]) -> None:
    one = day.act("one", "echo 1 > f")
    before = day.look()
    wrong = {
        "before a99": "there is no action a99",
        "after c99": "there is no checkpoint c99",
        "before lunch": "'lunch' is not an id",
        "25:00": "25:00 is not a time of day",
        "2099-01-01": "2099-01-01 is still to come",
        "3d ago": "nothing had been recorded yet at 3d ago",
    }
    if command != ("show",):
        wrong |= {
            one: f"{one} is an action, which has a beginning and an end",
            "soon": "'soon' is not a moment",
        }
        wrong |= {"": "'' is not a moment"} if command[0] == "restore" else {}
    for text, message in wrong.items():
        done = day.do(*command, text, code=2)
        assert f"takeback: {message}" in done.stderr, (text, done)
        assert "nothing was changed" in done.stderr
    assert day.look() == before
    if command != ("show",):
        assert WAYS in day.do(*command, "soon", code=2).stderr


def test_what_is_open_has_no_end_yet(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("0\n")
    with takeback.open(tmp_path) as tb, tb.recording("slow") as action:
        with pytest.raises(UsageError, match=f"{action} has not ended yet"):
            tb.diff(f"after {action}")
        (tmp_path / "f").write_text("1\n")
        assert [str(change.target) for change in tb.diff(f"before {action}")] == ["f"]


def test_python_takes_moments_too(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("0\n")
    with takeback.open(tmp_path) as tb:
        first = tb.save("first")
        with tb.recording("one") as one:
            path.write_text("1\n")
        with tb.recording("two") as two:
            path.write_text("2\n")
        assert [change.after.id for change in tb.diff(f"before {two}", f"after {two}")]
        assert tb.restore(f"after {one}").is_complete and path.read_text() == "1\n"
        tb.redo()
        assert tb.undo(to=f"after {one}").is_complete and path.read_text() == "1\n"
        assert tb.undo(to="last-clean").is_complete and path.read_text() == "0\n"
        tb.redo()
        assert tb.restore(first).is_complete and path.read_text() == "0\n"
        assert tb.past.moment(first) == tb.past.moment(first.id)


def test_the_steps_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("0\n")
    with takeback.open(tmp_path) as tb:
        with tb.run("task") as run:
            for number in (1, 2, 3):
                with run.step(f"step {number}"):
                    path.write_text(f"{number}\n")
            with pytest.raises(UsageError, match=f"{run.id} has not ended yet"):
                tb.diff(f"after {run.id}")
        steps = list(tb.history.runs[run.id].steps)
        for id, text in (
            (f"before {steps[1]}", "1\n"),
            (f"after {steps[1]}", "2\n"),
            (f"before {run.id}", "0\n"),
        ):
            tb.restore(id)
            assert path.read_text() == text, id
        tb.restore(f"after {run.id}")
        assert path.read_text() == "3\n"


def test_a_run_goes_back_to_a_moment_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("0\n")
    with takeback.open(tmp_path) as tb, tb.run("task") as run:
        with run.step("one"):
            path.write_text("1\n")
        with run.step("two") as step:
            path.write_text("2\n")
        run.rollback(to=f"before {step.id}")
        assert path.read_text() == "1\n"
        with pytest.raises(UsageError, match="25:00 is not a time of day"):
            run.rollback(to="25:00")


def test_a_call_that_nobody_looked_around_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("0\n")

    def write(text: str) -> None:
        path.write_text(text)

    with takeback.open(tmp_path) as tb:
        with tb.run("task") as run, run.step("edit"):
            run.call(write, "1\n", effect="restorable")
        call = [a.id for a in tb.history.actions.values() if a.as_tool.key][-1]
        with pytest.raises(UsageError, match=f"nobody looked at the files around {call}"):
            tb.undo(to=f"before {call}")
        assert path.read_text() == "1\n"


def test_a_pruned_moment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    (tmp_path / "takeback.toml").write_text("[store]\nkeep-checkpoints = 1\n")
    path.write_text("0\n")
    with takeback.open(tmp_path) as tb:
        tb.accept_config()
        ids = []
        for number in range(1, 4):
            with tb.recording(f"write {number}") as id:
                path.write_text(f"{number}\n")
            ids.append(id)
        tb.gc()
        with pytest.raises(ConflictError, match=f"the files of before {ids[0]} were pruned"):
            tb.restore(f"before {ids[0]}")
        assert path.read_text() == "3\n"
