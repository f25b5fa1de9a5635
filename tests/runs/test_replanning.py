"""Going back within a run and on from there; steps inside steps; a human and other agents at work meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import RollbackIncomplete, RunBusy
from takeback.testing.forks import end, start
from takeback.workspace.opening import open_workspace
from tests.runs import tools
from tests.runs.scene import Scene, items, made


def stage(scene: Scene, run: Any, name: str) -> Any:
    with run.step(name) as step:
        scene.human(name, name)
        run.memory[name] = {"n": len(run.memory)}
        run.call(tools.book, name)
    return step


@pytest.mark.parametrize("granularity", ["step", "action"])
def test_back_to_a_step_and_another_way(scene: Scene, granularity: str) -> None:
    with scene.tb.run("plan", checkpoint=granularity) as run:
        stage(scene, run, "one")
        after_one = scene.look()
        two = stage(scene, run, "two")
        stage(scene, run, "three")
        preview = run.rollback(to=two, preview=True)
        assert preview.preview and items() == {"one": 1, "two": 1, "three": 1}
        assert run.rollback(to=two).verdict is Verdict.CLEAN
        assert after_one.residue(scene.look()) == []
        assert run.memory == {"one": {"n": 0}}
        stage(scene, run, "other")
    assert items() == {"one": 1, "other": 1}
    # The history of the plan stays.
    names = [step.name for step in scene.tb.history.runs[run.id].steps.values()]
    assert names == ["one", "two", "three", "other"]
    scene.tb.undo(run.id)
    assert items() == {} and scene.read("one") is None and scene.read("other") is None


def test_back_to_a_checkpoint_also_inside_a_step(scene: Scene) -> None:
    with scene.tb.run("plan") as run:
        with run.step("one"):
            scene.human("early", "kept")
            run.call(tools.book, "early")
            run.memory["list"] = [1]
            here = run.checkpoint("before the risky part")
            scene.human("plan", "risky")
            scene.human("late", "risky")
            run.memory["list"].append(2)
            run.call(tools.book, "late")
            assert run.rollback(to=here).verdict is Verdict.CLEAN
            assert (scene.read("plan"), scene.read("late"), scene.read("early")) == ("old", None, "kept")
            assert run.memory == {"list": [1]} and items() == {"early": 1}
        with run.step("two"):
            run.call(tools.book, "two")
        assert run.rollback(to=here.id).verdict is Verdict.CLEAN
    assert items() == {"early": 1} and scene.memories()[run.id] == {"list": [1]}


def test_back_to_an_action(scene: Scene) -> None:
    with scene.tb.run("plan", checkpoint="action") as run, run.step("one"):
        scene.human("early", "kept")
        run.call(tools.book, "early")
        run.call(tools.book, "late")
        scene.human("late", "gone")
        late = [a.id for a in scene.tb.history.actions.values() if a.name == "book"][-1]
        assert run.rollback(to=late).verdict is Verdict.CLEAN
        assert (scene.read("early"), scene.read("late")) == ("kept", None) and items() == {"early": 1}


@pytest.mark.parametrize("granularity", ["step", "action", "run"])
def test_steps_inside_steps(scene: Scene, granularity: str) -> None:
    before = scene.look()

    def plan(*, fails: bool) -> None:
        with scene.tb.run("nested", key="K", checkpoint=granularity) as run:
            with run.step("outer") as outer:
                scene.human("outer", "1")
                for n in range(2):
                    with run.step("inner"):
                        scene.human(f"inner-{n}", "1")
                        run.call(tools.book, f"inner-{n}")
                scene.human("outer", "2")
            with run.step("next"):
                run.call(tools.book, "next")
            if granularity != "run":
                run.rollback(to=outer)
                assert before.residue(scene.look()) == []
            if fails:
                raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        plan(fails=True)
    assert before.residue(scene.look()) == []
    plan(fails=False)
    names = [step.name for step in list(scene.tb.history.runs.values())[-1].steps.values()]
    assert names == ["outer", "outer/inner", "outer/inner#2", "next"]


def test_a_failing_inner_step_that_is_caught_stays_until_it_is_taken_back(scene: Scene) -> None:
    with scene.tb.run("plan") as run:
        with run.step("good"):
            scene.human("good", "1")
        with pytest.raises(ValueError), run.step("bad") as bad:  # noqa: PT011
            scene.human("bad", "1")
            raise ValueError
        assert scene.read("bad") == "1"
        run.rollback(to=bad)
        assert (scene.read("bad"), scene.read("good")) == (None, "1")


# The human


def test_a_human_edit_between_is_kept(scene: Scene) -> None:
    """Between two runs it is drift, and known as the human's."""
    with scene.tb.run("first") as first, first.step("one"):
        scene.human("shared", "agent")
        scene.human("plan", "agent")
    scene.human("shared", "human")
    scene.human("mine", "human")
    with pytest.raises(ValueError), scene.tb.run("second") as second:  # noqa: PT011
        with second.step("one"):
            scene.human("shared", "agent again")
        raise ValueError
    assert (scene.read("shared"), scene.read("mine")) == ("human", "human")
    report = scene.tb.undo(first.id, on_conflict="keep")
    assert report.verdict is Verdict.CLEAN and "shared" in [
        str(i.target) for i in report.items if i.did == "kept"
    ]
    assert (scene.read("shared"), scene.read("plan")) == ("human", "old")


def test_a_human_edit_after_a_rollback_is_kept_by_the_next(scene: Scene) -> None:
    with scene.tb.run("plan", key="K") as run:
        stage(scene, run, "one")
    scene.tb.undo(run.id)
    scene.human("one", "human")
    with pytest.raises(ValueError), scene.tb.run("plan", key="K") as run:  # noqa: PT011
        stage(scene, run, "one")
        raise ValueError
    assert scene.read("one") == "human" and items() == {} and made("one") == 2


# Others


def test_two_agents_that_overlap_share_what_changed(scene: Scene) -> None:
    """Nobody can tell whose a file is: a failing run leaves it and says so; its calls are its own."""
    other = open_workspace(scene.root, watching=False)
    with other.run("other", actor="b") as second:
        with pytest.raises(ValueError), scene.tb.run("one", actor="a") as first:  # noqa: PT011
            with first.step("work"), second.step("work"):
                scene.human("both", "whose?")
                first.call(tools.book, "a")
                second.call(tools.book, "b")
            raise ValueError
        assert first.report is not None
        kept = [str(item.target) for item in first.report.items if item.did == "kept"]
        assert "both" in kept and scene.read("both") == "whose?"
        assert "both" in str(first.report) and items() == {"b": 1}
    # With both selected there is no doubt.
    assert scene.tb.undo(first.id, second.id).verdict is Verdict.CLEAN
    assert scene.read("both") is None and items() == {}
    other.close()


def test_stop_hands_over_what_is_shared(scene: Scene) -> None:
    other = open_workspace(scene.root, watching=False)
    with other.run("other"):
        with pytest.raises(RollbackIncomplete), scene.tb.run("one", on_conflict="stop") as run:
            scene.human("both", "whose?")
            raise ValueError
        assert scene.tb.history.runs[run.id].life is Life.HANDED_OVER
        assert scene.read("both") == "whose?"
    other.close()


def test_an_undo_does_not_cut_into_an_open_run(scene: Scene) -> None:
    with scene.tb.run("open") as run:
        run.call(tools.book, "room")
        with pytest.raises(RunBusy):
            scene.tb.undo(run.id)
    assert items() == {"room": 1}


def agent(folder: Path, name: str, *, fails: bool) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        try:
            with tb.run(name, actor=name) as run:
                for n in range(3):
                    with run.step(f"step {n}"):
                        run.call(tools.book, f"{name}-{n}")
                        run.memory[f"{n}"] = name
                if fails:
                    raise ValueError
        except ValueError:
            return


def test_agents_in_processes_of_their_own(scene: Scene, tmp_path: Path) -> None:
    """Four at once, every second one fails: its bookings are gone, all the others are there."""

    def of(n: int) -> int:
        work = lambda folder, name: agent(folder, name, fails=n % 2 == 1)  # noqa: E731
        return start(work, tmp_path, f"agent{n}", errors=tmp_path / "errors")

    pids = [of(n) for n in range(4)]
    assert [end(pid) for pid in pids] == [0] * 4, (tmp_path / "errors").read_text()
    assert items() == {f"agent{n}-{m}": 1 for n in (0, 2) for m in range(3)}
    remembered = sorted(len(memory) for memory in scene.memories().values())
    assert remembered == [0, 0, 3, 3]


def test_memory_read_while_another_process_takes_it_back(scene: Scene) -> None:
    """A live run sees an outside undo at its next access."""
    with scene.tb.run("first") as first:
        first.memory["a"] = 1
    with open_workspace(scene.root, watching=False) as other:
        other.undo(first.id)
    assert first.memory == {}


# Memory


def test_values_deep_inside_record_their_changes(scene: Scene) -> None:
    before = {"m": [{"role": "user", "parts": ["a", {"b": [1]}]}], "d": {"x": {"y": {"z": [1, 2]}}}}
    with scene.tb.run("deep") as run:
        run.memory.update(before)
        here = run.checkpoint()
        run.memory["m"][0]["role"] = "agent"
        run.memory["m"][0]["parts"][1]["b"].append(2)
        run.memory["m"].append({"role": "tool", "from": run.memory["d"]})
        run.memory["d"]["x"]["y"]["z"][0] = run.memory["m"]
        del run.memory["m"][0]["parts"][0]
        changed = scene.memories()[run.id]
        assert changed["m"][0] == {"role": "agent", "parts": [{"b": [1, 2]}]}
        assert changed["m"][1] == {"role": "tool", "from": before["d"]}
        assert changed["d"]["x"]["y"]["z"][0][0]["role"] == "agent"
        run.rollback(to=here)
        assert run.memory == before
    assert scene.memories()[run.id] == before
