"""A thread: turns and calls in one run without a body, committed and taken back when its program says so."""

from __future__ import annotations

import os
import subprocess
import sys
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback import RunBusy, UsageError
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.testing.crash import child_environment
from tests.runs.scene import Scene, items, made
from tests.runs.service import ask
from tests.threads.desk import begun, booked, write


class Broken(Exception):
    """Of the agent."""


def life(scene: Scene, thread: takeback.Thread) -> Life:
    return scene.tb.history.runs[thread.id].life


def test_only_calls_are_the_threads(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread:
        with thread.turn("m1"):
            write(thread, scene.root / "one")
            scene.human("plan", "mine, in the middle of a turn")
            write(thread, scene.root / "two")
        scene.human("between", "mine, between two turns")
        report = thread.rollback()
    assert report.verdict is Verdict.CLEAN
    assert scene.read("one") is None and scene.read("two") is None
    assert scene.read("plan") == "mine, in the middle of a turn" and scene.read("between") is not None


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, None])
def test_leaving_the_block_keeps_everything(scene: Scene, error: type[BaseException] | None) -> None:
    def converse() -> None:
        with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            write(thread, scene.root / "one", "c1")
            thread.memory["goal"] = "bees"
            if error:
                raise error

    if error:
        with pytest.raises(error):
            converse()
    else:
        converse()
    again = scene.tb.thread(key="T")
    assert scene.read("one") == "by the agent" and again.memory == {"goal": "bees"}
    assert scene.tb.history.runs[again.id].life is Life.OPEN
    (step,) = scene.tb.history.runs[again.id].steps.values()
    assert step.life is (Life.DONE if error is None else Life.FAILED if error is Broken else Life.OPEN)
    assert begun(again, "write", {"path": str(scene.root / "one")}, call_id="c1").result == {"written": 12}


def test_a_turn_taken_back_takes_files_memory_and_calls_along(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread:
        with thread.turn("m1"):
            booked(thread, "room", call_id="c1")
            thread.memory["messages"] = ["hello"]
        with thread.turn("m2") as second:
            booked(thread, "hall", call_id="c2")
            write(thread, scene.root / "two", "c3")
            thread.memory["messages"].append("more")
        assert thread.rollback(to=second, preview=True).items
        assert items() == {"room": 1, "hall": 1}
        assert thread.rollback(to="m2").verdict is Verdict.CLEAN
        assert items() == {"room": 1} and scene.read("two") is None
        assert thread.memory == {"messages": ["hello"]}
        assert [action.call_id for action in thread.actions()] == ["c1"]
        # The same id is a new call now, in a turn of its own, with a new key for the other system.
        with thread.turn("m2") as third:
            booked(thread, "hall", call_id="c2")
        assert third.id != second.id and made("hall") == 2
        thread.rollback(to=third)
    assert items() == {"room": 1}


def test_it_goes_on_after_a_commit(scene: Scene) -> None:
    with scene.tb.thread(key="T", deliver=False) as thread:
        with thread.turn("m1"):
            booked(thread, "room", call_id="c1")
            thread.memory["n"] = 1
        thread.commit()
        assert life(scene, thread) is Life.DONE and thread.undelivered() == []
        thread.commit()  # nothing to commit
        # What was recorded is still known, and the run is not opened for it.
        assert booked(thread, "room", call_id="c1") and made("room") == 1
        assert life(scene, thread) is Life.DONE
        with thread.turn("m2"):
            write(thread, scene.root / "two")
            thread.memory["n"] = 2
        assert life(scene, thread) is Life.OPEN
        assert thread.rollback().verdict is Verdict.CLEAN
        assert life(scene, thread) is Life.STOPPED and thread.memory == {"n": 1} and items() == {"room": 1}
        # Explicitly it goes further back than the commit.
        assert thread.rollback(to="m1").verdict is Verdict.CLEAN
    assert items() == {} and thread.memory == {}
    assert len(scene.tb.history.runs) == 1


def paid(thread: takeback.Thread, item: str) -> None:
    asked = thread.begin("pay", {"item": item}, call_id="p1", effect="irreversible")
    assert isinstance(asked, takeback.Ask)
    granted = asked.grant(by="me")
    assert isinstance(granted, takeback.Action)
    with granted:
        ask("book", item=item)


def test_going_back_once_more_names_what_stays_and_passes_over_it(scene: Scene) -> None:
    """An adapter shortens its conversation after the second time: that must not look as if nothing had stayed."""
    thread = scene.tb.thread(key="T", approvals="host")
    with thread.turn("m1"):
        booked(thread, "room", call_id="c1")
    with thread.turn("m2") as second:
        paid(thread, "rent")
        write(thread, scene.root / "made", "w1")
    with pytest.raises(takeback.RollbackIncomplete, match="kept pay") as raised:
        thread.go_back(second)
    assert "go back once more to shorten it" in raised.value.hint
    assert scene.read("made") is None and items() == {"room": 1, "rent": 1}
    for _ in range(2):
        again = thread.go_back(None)
        assert again.verdict is Verdict.PARTIAL and "kept pay" in str(again)
    # The first call stands, and what was left before it is another matter.
    assert items() == {"room": 1, "rent": 1}
    booked(thread, "attic", call_id="c2")
    assert thread.go_back(None).verdict is Verdict.NOTHING


def test_a_handler_that_fails_is_tried_again_when_a_thread_goes_back_once_more(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    booked(thread, "attic", call_id="c1")
    ask("fail", operation="cancel", item="attic")
    for _ in range(2):
        (first,) = thread.actions()
        with pytest.raises(takeback.RollbackIncomplete, match="failed book") as raised:
            thread.go_back(first)
        assert "is tried again" in raised.value.hint and "shorten" not in raised.value.hint
    ask("heal")
    (first,) = thread.actions()
    assert thread.go_back(first).verdict is Verdict.CLEAN and items() == {}


def test_what_is_deferred_waits_for_the_commit(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread:
        with thread.turn("m1"):
            first = thread.defer("http", "POST", "http://127.0.0.1:9/", json={"n": 1})
        with thread.turn("m2"):
            calling = begun(thread, "tell", {}, call_id="c1", effect="none")
            with calling:
                second = thread.defer("http", "POST", "http://127.0.0.1:9/", json={"n": 1})
        assert first != second
        with thread.turn("m2"):  # resumed: the same call, and in it the same intent
            assert begun(thread, "tell", {}, call_id="c1", effect="none").outcome == "done"
        thread.rollback(to="m2")
        thread.commit()
        intents = scene.tb.history.intents.every
        assert intents[first].state == "due" and intents[second].state == "cancelled"
        with thread.turn("m1"):
            assert thread.defer("http", "POST", "http://127.0.0.1:9/", json={"n": 1}) == first


def test_checkpoints_and_locks(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread, scene.tb.thread(key="U") as other:
        write(thread, scene.root / "one")
        here = thread.checkpoint("before")
        write(thread, scene.root / "two")
        assert thread.rollback(to=here).verdict is Verdict.CLEAN
        assert scene.read("one") and scene.read("two") is None
        with thread.lock("src"), pytest.raises(takeback.LeaseHeld):
            other.lock("src").__enter__()


def test_a_key_is_used_for_one_kind_of_run(scene: Scene) -> None:
    with scene.tb.run("a run", key="R"):
        pass
    scene.tb.session("a session", key="S").begin("x", call_id="1", effect="none")
    thread = scene.tb.thread(key="T")
    assert thread.id
    for key in ("R", "S"):
        with pytest.raises(UsageError, match="is not a thread"):
            scene.tb.thread(key=key).__enter__()
    with pytest.raises(UsageError, match="already used for r"):
        scene.tb.session("a session", key="T")
    with pytest.raises(UsageError, match="already used for r"), scene.tb.run("a run", key="T"):
        pass
    with pytest.raises(UsageError, match="needs a key"):
        scene.tb.thread(key="")


def test_nothing_is_committed_or_taken_back_while_a_call_is_at_work(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread, begun(thread, "write", {}, effect="restorable"):
        with pytest.raises(RunBusy, match="is at work"):
            thread.commit()
        # The call itself may take back what came before it; nobody else may.
        with pytest.raises(RunBusy, match="is at work"):
            Context().run(scene.tb.thread(key="T").rollback)


def test_what_a_rollback_cannot_name(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread, pytest.raises(UsageError, match="no turn or call 'nowhere'"):
        thread.rollback(to="nowhere")


def test_parallel_calls_are_told_apart_by_the_paths_they_name(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    one = begun(thread, "write", {"path": str(scene.root / "one")}, effect="restorable")
    two = begun(thread, "save", {}, effect="restorable", paths=[str(scene.root / "sub")])
    scene.human("one", "1")
    scene.human("sub/two", "2")
    one.end()
    two.end()
    assert scene.tb.undo(one.id).verdict is Verdict.CLEAN
    assert scene.read("one") is None and scene.read("sub/two") == "2"
    assert scene.tb.undo(two.id).verdict is Verdict.CLEAN
    assert scene.read("sub/two") is None


@pytest.mark.parametrize("beside", [{}, {"command": "make"}])
def test_a_call_that_names_no_paths_may_have_written_any(scene: Scene, beside: dict[str, Any]) -> None:
    thread = scene.tb.thread(key="T")
    one = begun(thread, "write", {"path": str(scene.root / "one")}, effect="restorable")
    two = begun(thread, "shell", beside, effect="restorable")
    scene.human("one", "1")
    two.end()
    one.end()
    with pytest.raises(takeback.ConflictError):
        scene.tb.undo(one.id)
    assert scene.tb.undo(one.id, two.id).verdict in (Verdict.CLEAN, Verdict.UNKNOWN)


def test_a_path_that_two_calls_name_is_shared(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    path = {"path": str(scene.root / "one")}
    one, two = (begun(thread, "write", path, effect="restorable") for _ in range(2))
    scene.human("one", "1")
    one.end()
    two.end()
    with pytest.raises(takeback.ConflictError):
        scene.tb.undo(one.id)


def test_threads_beside_each_other_are_told_apart(scene: Scene, tmp_path: Path) -> None:
    one, two = scene.tb.thread(key="T"), scene.tb.thread(key="U")
    first = begun(one, "write", {"path": str(scene.root / "one")}, effect="restorable")
    second = begun(two, "write", {"path": str(scene.root / "two")}, effect="restorable")
    scene.human("one", "1")
    scene.human("two", "2")
    second.end()
    first.end()
    assert one.rollback().verdict is Verdict.CLEAN
    assert scene.read("one") is None and scene.read("two") == "2"


def test_the_command_line_calls_it_a_thread(scene: Scene) -> None:
    def said(*words: str) -> str:
        line = [sys.executable, "-m", "takeback", "-C", str(scene.root), *words]
        known = {**os.environ, **child_environment(), "TAKEBACK_HOME": str(scene.home)}
        done = subprocess.run(line, env=known, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    with scene.tb.thread(key="chat") as thread, thread.turn("a question"):
        write(thread, scene.root / "one")
    status = said("status")
    assert f"Thread {thread.id} (chat) is open" in status and "done with turn s" in status
    assert "thread chat" in said("log")
    assert "there is nothing to resume" in said("resume", thread.id)
    assert "removed" in said("undo", thread.id) and scene.read("one") is None


IDLE = """
import os, sys, threading, time
import takeback

def beating():
    return [thread for thread in threading.enumerate() if thread.name == "takeback-life"]

tb = takeback.open(sys.argv[1], watching=False)
threads = [tb.thread(key=f"idle {number}") for number in range(5)]
for number, thread in enumerate(threads):
    with thread.begin("write", {"path": "a"}, call_id=f"call {number}", effect="restorable"):
        assert len(beating()) == 1
assert len(beating()) == 1
if not (child := os.fork()):
    with tb.thread(key="child").begin("write", {"path": "b"}, call_id="forked", effect="restorable"):
        os._exit(40 + len(beating()))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
assert not beating(), "a fork has no thread that its program did not start"
with threads[0].begin("write", {"path": "b"}, call_id="again", effect="restorable"):
    assert len(beating()) == 1
while beating():
    time.sleep(0.02)
print("idle")
"""


def test_idle_conversations_have_no_thread_of_the_system(scene: Scene) -> None:
    """A server has many conversations, and most of them are idle. Those at work share one thread.

    In a process of its own: what other tests left at work here would share that thread.
    """
    known = {**os.environ, **child_environment(), "TAKEBACK_HOME": str(scene.home)}
    script = [sys.executable, "-c", IDLE, str(scene.root)]
    done = subprocess.run(script, env=known, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "idle\n", done.stderr
