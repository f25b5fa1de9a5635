"""One intent, one effect: over restarts, over processes that race, and over attempts with another request id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from takeback.core.events import ActionBegan
from takeback.core.rollback import Verdict
from takeback.errors import ConflictError, RollbackIncomplete, UsageError
from takeback.testing.forks import end, killed_at, run, start
from takeback.workspace.opening import open_workspace
from tests.runs import tools
from tests.runs.scene import Scene, items, made
from tests.runs.service import Refused, ask


def booking(folder: Path, *more: str) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        with tb.run("book", key="K") as run:
            with run.step("one"):
                numbers = [run.call(tools.book, "room")["id"], run.call(tools.book, "room")["id"]]
                run.call(tools.add, 1, 2)
            for item in more:
                run.call(tools.book, item)
        with (folder / "numbers").open("a") as file:
            file.write(f"{numbers}\n")


def keys_of(item: str) -> list[str]:
    return [booking["key"] for booking in ask("world")["bookings"] if booking["item"] == item]


@pytest.mark.parametrize("racing", [2, 4])
def test_one_key_in_many_processes(scene: Scene, tmp_path: Path, racing: int) -> None:
    """One runs, the others wait, and all have the same results."""
    pids = [start(booking, tmp_path, errors=tmp_path / "errors") for _ in range(racing)]
    assert [end(pid) for pid in pids] == [0] * racing
    assert made("room") == 2
    assert len(set((tmp_path / "numbers").read_text().splitlines())) == 1


def test_a_committed_run_gives_its_results_and_does_nothing(scene: Scene, tmp_path: Path) -> None:
    booking(tmp_path)
    before = ask("world")["asked"]
    booking(tmp_path)
    assert ask("world")["asked"] == before
    with pytest.raises(UsageError, match="committed without this call"):
        booking(tmp_path, "another")
    assert made("another") == 0


def test_a_committed_run_gone_through_again_has_its_own_copy_of_the_memory(scene: Scene) -> None:
    def count() -> Any:
        with scene.tb.run("count", key="K") as run:
            run.memory["n"] = 1
            run.memory["n"] += run.call(tools.add, 1, 1)
            return run.memory["n"]

    assert count() == count() == 3
    (id,) = scene.tb.history.runs
    assert scene.memories() == {id: {"n": 3}}


def test_after_an_undo_the_provider_gets_another_key(scene: Scene, tmp_path: Path) -> None:
    booking(tmp_path)
    first = keys_of("room")
    (id,) = scene.tb.history.runs
    assert scene.tb.undo(id).verdict is Verdict.CLEAN
    booking(tmp_path)
    second = keys_of("room")
    assert len({*first, *second}) == 4 and items() == {"room": 2}
    generations = [run.began.generation for run in scene.tb.history.runs.values()]
    assert generations == [1, 2]


def test_taken_back_within_the_run_it_gets_another_key(scene: Scene) -> None:
    with scene.tb.run("again") as run:
        with run.step("one") as step:
            run.call(tools.book, "room", key="mine")
        first = keys_of("room")
        run.rollback(to=step)
        with run.step("one again"):
            run.call(tools.book, "room", key="mine")
    assert keys_of("room") != first and len(keys_of("room")) == 1


def test_brought_back_by_a_redo_a_call_is_made_again_only_when_it_is_asked_for(scene: Scene) -> None:
    """Redo makes no calls. A run that goes on afterwards does, with a key that the provider has not seen."""
    with scene.tb.run("again") as run:
        with run.step("one") as step:
            run.call(tools.book, "room", key="mine")
        first = keys_of("room")
        run.rollback(to=step)
        again = run.call(tools.book, "room", key="mine")
        assert run.call(tools.book, "room", key="mine") == again
    assert keys_of("room") != first and made("room") == 2
    scene.tb.undo(run.id)
    with pytest.raises(RollbackIncomplete, match="kept"):
        scene.tb.redo()
    assert items() == {}


@pytest.mark.parametrize("how", ["place", "name"])
def test_volatile_fields_do_not_count(scene: Scene, how: str) -> None:
    def attempt(request: str) -> Any:
        with scene.tb.run("volatile", key="K") as run:
            if how == "name":
                return run.call(tools.book_as, item="room", request_id=request)
            return run.call(tools.book_as, "room", request)

    assert attempt("1") == attempt("2") == attempt("3")
    assert made("room") == 1


def test_an_explicit_key_is_the_intent(scene: Scene) -> None:
    with scene.tb.run("explicit") as run:
        first = run.call(tools.book, "room", key="the room")
        with run.step("later"):
            assert run.call(tools.book, "room", key="the room") == first
    assert made("room") == 1


def test_an_explicit_key_for_something_else_is_refused(scene: Scene) -> None:
    """A recorded result of another call would be a lie. Other arguments are the user's: the key names the action."""
    with scene.tb.run("explicit") as run:
        booked = run.call(tools.book, "room", key="K")
        with pytest.raises(UsageError, match="key"):
            run.call(tools.add, 1, 2, key="K")
        with pytest.raises(UsageError, match="other arguments"):
            run.call(tools.book, "the same in other words", key="K")
        assert run.call(tools.book, "room", key="K") == booked
    assert items() == {"room": 1}


def test_a_call_in_doubt_is_tried_again_with_the_same_key(scene: Scene, tmp_path: Path) -> None:
    """Killed before the request left: the next process asks with the very same key."""
    assert killed_at("call-recorded", booking, tmp_path, errors=tmp_path / "errors")
    calls = [a.began for a in scene.tb.history.actions.values() if isinstance(a.began, ActionBegan)]
    recorded = [began.call_key for began in calls if began.call_key]
    assert made("room") == 0
    assert run(booking, tmp_path, errors=tmp_path / "errors") == 0
    assert keys_of("room")[0] == recorded[0] and made("room") == 2


def test_a_silent_answer_is_looked_into_before_it_is_tried_again(scene: Scene) -> None:
    """The booking was made, the answer was lost: the check finds it, and it is not made twice."""
    ask("fail", operation="book", item="room", when="silent", times=1)
    with scene.tb.run("patient") as run:
        assert run.call(tools.book_patiently, "room")["item"] == "room"
    assert made("room") == 1


def test_what_is_transient_is_tried_again_and_what_is_not_is_not(scene: Scene) -> None:
    ask("fail", operation="book", item="room", when="mute", times=2)
    with scene.tb.run("patient") as run:
        run.call(tools.book_patiently, "room")
    assert made("room") == 1 and ask("world")["asked"]["book room"] == 3
    ask("fail", operation="book", item="car", when="before")
    with pytest.raises(Refused), scene.tb.run("impatient") as run:
        run.call(tools.book_patiently, "car")
    assert ask("world")["asked"]["book car"] == 1


def test_a_run_that_was_taken_back_in_part_is_not_begun_again(scene: Scene) -> None:
    with scene.tb.run("parts", key="K") as run:
        with run.step("one") as step:
            run.call(tools.book, "room")
        with run.step("two"):
            run.call(tools.book, "car")
    scene.tb.undo(step.id)
    assert items() == {"car": 1}
    with pytest.raises(ConflictError, match="in part"):
        scene.tb.run("parts", key="K").__enter__()
    scene.tb.undo(run.id)
    with scene.tb.run("parts", key="K") as again:
        again.call(tools.book, "room")
    assert items() == {"room": 1}
