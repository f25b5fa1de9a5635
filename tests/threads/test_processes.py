"""A thread in many processes: killed, resumed elsewhere, asked in one and answered in another."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.core.rollback import IN_DOUBT, Verdict
from takeback.testing.forks import end, killed_at, run, start
from tests.runs.scene import Scene, items, made
from tests.threads import desk

PLACES = ["call-recorded", "call-made", "action-ending", "action-ended", "call-ended"]
"""Before the tool runs; after its effect and before our record; and after our record."""


def resumed(scene: Scene) -> None:
    folder = scene.root.parent
    assert run(desk.converse, folder, errors=folder / "errors") == 0, (folder / "errors").read_text()


def killed_in_the_second(scene: Scene, place: str) -> bool:
    """Kill the program where its second call, that to the other system, passes a place."""
    folder, left = scene.root.parent, 2

    def count_down(name: str) -> None:
        nonlocal left
        left -= name == place
        if left == 0:
            os.kill(os.getpid(), 9)

    return end(start(desk.converse, folder, hook=count_down, errors=folder / "errors")) == -9


@pytest.mark.parametrize("place", PLACES)
def test_killed_around_the_effect_it_happens_once(scene: Scene, place: str) -> None:
    assert killed_in_the_second(scene, place)
    scene.human("plan", "mine, after the crash")
    resumed(scene)
    assert made("room") == 1 and items() == {"room": 1}
    thread = scene.tb.thread(key="T")
    assert [action.outcome for action in thread.actions()][-1] == "done"
    # Whether the human or a process of the call changed the plan after the kill is unknown: it stays, as is said.
    report = thread.rollback()
    in_doubt = [item.target.said for item in report.items if item.why == IN_DOUBT]
    assert report.verdict is (Verdict.UNKNOWN if in_doubt else Verdict.CLEAN)
    assert in_doubt == ([] if place in PLACES[3:] else ["plan"])
    assert items() == {} and scene.read("made") is None and scene.read("plan") == "mine, after the crash"


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_killed_anywhere_it_happens_once(scene: Scene) -> None:
    folder = scene.root.parent
    for place in itertools.count(1):
        was_killed = killed_at(place, desk.converse, folder, errors=folder / "errors")
        resumed(scene)
        assert items() == {"room": 1}, place
        report = scene.tb.thread(key="T").rollback()
        # What was written after the last sign of life of its process may be a human's: it stays, and that is said.
        kept = scene.read("made") is not None
        assert report.verdict is (Verdict.UNKNOWN if kept else Verdict.CLEAN) and items() == {}, place
        assert ("kept made" in str(report)) == kept, place
        assert ("changed what was kept" in str(report)) == kept == bool(report.data()["unknown"]), place
        (scene.root / "made").unlink(missing_ok=True)
        if not was_killed:
            assert place > 10
            return


def test_a_file_half_written_is_cut_short_and_written_again(scene: Scene) -> None:
    folder = scene.root.parent
    assert killed_at("call-recorded", desk.converse, folder, errors=folder / "errors")
    scene.tb.recover()
    thread = scene.tb.thread(key="T")
    known = thread.begin("write", {"path": str(scene.root / "made")}, call_id="w1", effect="restorable")
    assert isinstance(known, takeback.Action) and known.outcome == "cut-short" and known.error
    thread.pause()
    resumed(scene)
    assert scene.read("made") == "by the agent"
    assert thread.rollback().verdict is Verdict.CLEAN and scene.read("made") is None


def test_a_question_outlives_its_process_and_its_id(scene: Scene) -> None:
    folder = scene.root.parent
    errors = folder / "errors"
    assert run(desk.ask_for_money, folder, errors=errors) == 0, errors.read_text()
    assert [approval.asked.name for approval in scene.tb.approvals()] == ["pay"]
    assert run(desk.approve, folder, errors=errors) == 0, errors.read_text()
    # The model gives the call another id when it is asked again: the approval is for what is done.
    assert run(desk.pay, folder, "p2", errors=errors) == 0, errors.read_text()
    assert items() == {"rent": 1} and scene.tb.approvals() == []
    assert run(desk.pay, folder, "p2", errors=errors) == 0, errors.read_text()
    assert made("rent") == 1


def hold(folder: Path) -> None:
    with desk.opened(folder) as tb, tb.thread(key="T") as thread:
        action = desk.begun(thread, "write", {"path": "held"}, call_id="c1", effect="restorable")
        with action:
            (folder / "held").touch()
            while not (folder / "go").exists():
                pass


def test_a_call_that_another_process_makes_is_not_made_here(scene: Scene) -> None:
    folder = scene.root.parent
    holding = start(hold, folder, errors=folder / "errors")
    while not (folder / "held").exists():
        assert os.waitpid(holding, os.WNOHANG) == (0, 0)
    thread = scene.tb.thread(key="T")
    with pytest.raises(takeback.RunBusy, match=f"is being made by process {holding}"):
        thread.begin("write", {"path": "held"}, call_id="c1", effect="restorable")
    # Its other calls go on.
    desk.write(thread, scene.root / "beside", "c2")
    (folder / "go").touch()
    assert end(holding) == 0
    done = thread.begin("write", {"path": "held"}, call_id="c1", effect="restorable")
    assert isinstance(done, takeback.Action) and done.outcome == "done"


def test_a_process_that_died_beside_us_is_noticed(scene: Scene) -> None:
    """The thread is open here when another process dies in it: nothing has to be opened again."""
    thread = scene.tb.thread(key="T")
    assert thread.id
    assert killed_in_the_second(scene, "call-made")
    (stuck,) = scene.tb.history.open_actions()
    found = desk.booked(thread, "room", call_id="c1")
    assert found["item"] == "room" and made("room") == 1
    assert scene.tb.history.actions[stuck.id].life is Life.SETTLED
