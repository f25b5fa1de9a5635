"""Begin and end of an action in different processes: hooks, servers, frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import takeback
from takeback.core.change import Change
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.testing.crash import child_environment
from tests.house.repository import ROOT
from tests.runs.scene import Scene, items, made
from tests.runs.service import ask


class Broken(Exception):
    """Of the agent."""


Hook = Callable[..., dict[str, Any]]


@pytest.fixture
def hook(scene: Scene) -> Hook:
    """Run a hook to its end, as a process of its own."""

    def run(*words: Any, pid: int = 0) -> dict[str, Any]:
        return finished(starting(scene, *words, pid=pid))

    return run


def starting(scene: Scene, do: str, *words: Any, pid: int = 0) -> subprocess.Popen[str]:
    said = [word if isinstance(word, str) else json.dumps(word) for word in words]
    environment = {**child_environment(), "TAKEBACK_HOME": str(scene.home), "AGENT_PID": str(pid)}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.runs.hook", str(scene.root), do, *said],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def paths(scene: Scene, id: str) -> list[str]:
    return sorted(str(change.target) for change in changes(scene, id))


def changes(scene: Scene, id: str) -> list[Change]:
    """What an action changed, but for the times of the folder."""
    return [c for c in scene.tb.history.actions[id].changes if str(c.target) != "."]


def test_what_changes_between_begin_and_end_is_the_actions(scene: Scene, hook: Hook) -> None:
    scene.human("mine", "before")
    began = hook("begin", "S", "c1", "Write", {"path": "made"})
    scene.human("made", "by the agent")
    ended = hook("end", "S", "c1", {"result": {"ok": True}})
    assert ended["action"] == began["action"] and ended["result"] == {"ok": True}
    scene.human("mine", "after")
    assert paths(scene, began["action"]) == ["made"]
    # The processes that began it are gone, and it goes on all the same.
    scene.tb.recover()
    assert scene.tb.history.runs[began["run"]].life is Life.OPEN
    assert scene.tb.undo().verdict is Verdict.CLEAN
    assert scene.read("made") is None and scene.read("mine") == "after"
    second = hook("begin", "S", "c2", "Edit")
    scene.human("plan", "new")
    hook("end", "S", "c2", {"result": None})
    assert second["run"] == began["run"]
    hook("over", "S")
    assert scene.tb.history.runs[began["run"]].life is Life.DONE
    assert scene.tb.undo(began["run"]).verdict is Verdict.CLEAN
    assert scene.read("plan") == "old"


def test_nothing_is_done_twice(scene: Scene, hook: Hook) -> None:
    first = hook("begin", "S", "c1", "Write", {"path": "made"})
    assert hook("begin", "S", "c1", "Write", {"path": "made"}) == first
    scene.human("made", "by the agent")
    hook("end", "S", "c1", {"result": 1})
    seq = scene.tb.history.seq
    again = hook("begin", "S", "c1", "Write", {"path": "made"})
    assert again["action"] == first["action"] and again["ended"] and again["result"] == 1
    assert hook("end", "S", "c1", {"result": 2})["result"] == 1
    assert hook("end", "S", "c1", {"error": "no"})["result"] == 1
    assert scene.tb.history.seq == seq
    other = hook("begin", "S", "c1", "Write", {"path": "another"})
    assert other["error"] == "UsageError" and "with other arguments" in other["message"]
    assert hook("end", "S", "c9", {"result": 2})["error"] == "UsageError"
    # Taken back, the same intent is a new attempt.
    scene.tb.undo(first["action"])
    assert hook("begin", "S", "c1", "Write", {"path": "made"})["action"] != first["action"]


def test_the_first_of_two_hooks_at_once_begins(scene: Scene) -> None:
    for call in ("c1", "c2", "c3"):
        both = [starting(scene, "begin", "S", call, "Write", {"path": "made"}) for _ in range(3)]
        answers = [finished(process) for process in both]
        assert answers[0] == answers[1] == answers[2] and "action" in answers[0]
    assert len(scene.tb.history.runs) == 1 and len(scene.tb.history.open_actions()) == 3


def test_overlapping_actions_share_what_changes(scene: Scene, hook: Hook) -> None:
    one = hook("begin", "S", "c1", "Task")["action"]
    two = hook("begin", "S", "c2", "Write")["action"]
    scene.human("made", "by one of them")
    hook("end", "S", "c2", {"result": None})
    hook("end", "S", "c1", {"result": None})
    (change,) = changes(scene, two)
    assert change.shared_with == (one,)
    with pytest.raises(takeback.ConflictError):
        scene.tb.undo(two)
    assert scene.tb.undo(one, two).verdict is Verdict.CLEAN
    assert scene.read("made") is None


def test_an_action_inside_of_another_is_no_overlap(scene: Scene, hook: Hook) -> None:
    hook("begin", "S", "task", "Task")
    inner = hook("begin", "S", "c2", "Write", {}, {"parent": "task"})["action"]
    scene.human("made", "by the inner one")
    hook("end", "S", "c2", {"result": None})
    hook("end", "S", "task", {"result": None})
    (change,) = changes(scene, inner)
    assert change.shared_with == ()
    assert scene.tb.undo(inner).verdict is Verdict.CLEAN


def test_denied_says_which_rule_and_how(scene: Scene, hook: Hook) -> None:
    scene.human("takeback.toml", '[rules.tools]\ndeny = ["Bash"]\nask = ["Deploy"]\n')
    scene.tb.accept_config()
    denied = hook("begin", "S", "c1", "Bash", {"command": "rm -rf /"})
    assert "tools.deny" in denied["denied"] and denied["how"] and denied["reason"]
    assert scene.tb.history.open_actions() == []
    asked = hook("begin", "S", "c2", "Deploy", {"to": "production"})
    assert asked["how"] == f"takeback approve {asked['ask']}"
    assert hook("begin", "S", "c2", "Deploy", {"to": "production"}) == asked
    scene.tb.approve(asked["ask"])
    begun = hook("begin", "S", "c2", "Deploy", {"to": "production"})
    assert hook("begin", "S", "c2", "Deploy", {"to": "production"}) == begun and "action" in begun
    # It holds once.
    again = hook("begin", "S", "c3", "Deploy", {"to": "production"})
    scene.tb.deny(again["ask"], "not on Fridays")
    refused = hook("begin", "S", "c3", "Deploy", {"to": "production"})
    assert refused["denied"] == again["ask"] and refused["reason"] == "not on Fridays"


def test_a_session_outlives_hooks_and_not_its_agent(
    scene: Scene, hook: Hook, agent: subprocess.Popen[bytes]
) -> None:
    began = hook("begin", "S", "c1", "Bash", pid=agent.pid)
    scene.human("made", "by whom?")
    scene.tb.recover()
    assert scene.tb.history.actions[began["action"]].life is Life.OPEN
    agent.kill()
    agent.wait()
    scene.tb.recover()
    action, run = scene.tb.history.actions[began["action"]], scene.tb.history.runs[began["run"]]
    assert action.life is Life.SETTLED and run.life is Life.STOPPED
    assert all(change.in_doubt for change in action.changes) and paths(scene, action.id) == ["made"]
    # Nobody saw when it was written: it is not taken back without a word.
    with pytest.raises(takeback.ConflictError):
        scene.tb.undo(action.id)
    assert scene.read("made") == "by whom?"
    later = hook("begin", "S", "c2", "Write")
    assert later["run"] != run.id and scene.tb.history.runs[later["run"]].began.generation == 2


def test_without_an_agent_to_watch_only_a_word_settles_it(
    scene: Scene, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("takeback.engine.rollback.busy.BUSY_WAIT_S", 0.0)
    began = hook("begin", "S", "c1", "Bash")
    scene.human("made", "by whom?")
    with pytest.raises(takeback.RunBusy, match="still running") as busy:
        scene.tb.undo()
    assert f"takeback resume {began['run']}" in busy.value.hint
    assert scene.tb.resume(began["run"]) == []
    assert scene.tb.history.actions[began["action"]].life is Life.SETTLED
    assert scene.tb.history.runs[began["run"]].life is Life.FAILED


def test_actions_of_other_processes_in_the_run_of_a_program(scene: Scene, hook: Hook) -> None:
    with pytest.raises(Broken), scene.tb.run("program") as run:
        begun = hook("attach", run.id, "c1", "Worker")
        scene.human("made", "by the worker")
        mine = run.action("c1")
        assert mine.id == begun["action"]
        mine.end("done")
        assert hook("attach", "r99", "c1", "Worker")["error"] == "UsageError"
        assert paths(scene, mine.id) == ["made"]
        raise Broken
    assert scene.read("made") is None
    assert hook("attach", run.id, "c2", "Worker")["error"] == "UsageError"


def test_a_framework_begins_and_ends_inside_of_a_block(scene: Scene) -> None:
    """Compensable calls too: the other system is taken back with the run, and asked where the end is an error."""
    with pytest.raises(Broken), scene.tb.run("graph") as run:
        with run.step("book"):
            action = begun(run, "book", "one", "c1")
            booked = ask("book", item="one", key=action.key)
            action.end(booked)
            failed = begun(run, "book", "two", "c2")
            failed.end(error=ConnectionError("gone"))
            open_one = begun(run, "book", "three", "c3")
            ask("book", item="three", key=open_one.key)
        assert items() == {"one": 1, "three": 1}
        assert begun(run, "book", "one", "c1").result == booked
        raise Broken
    assert items() == {} and made("one") == made("three") == 1


def begun(run: takeback.Run, name: str, item: str, call: str) -> takeback.Action:
    given = run.begin(name, {"item": item}, call_id=call, undo=cancel, check=find)
    assert isinstance(given, takeback.Action)
    return given


def cancel(call: takeback.Call) -> None:
    ask("cancel", key=call.key, item=call.kwargs["item"])


def find(call: takeback.Call) -> Any:
    return ask("find", key=call.key, item=call.kwargs["item"]) or takeback.ABSENT


def test_a_question_can_be_waited_for_or_answered_by_a_function(scene: Scene) -> None:
    answers = iter([True, False])
    with scene.tb.run("asks", approve=lambda question: next(answers)) as run:
        granted = run.begin("wire", {"to": "ann"}, call_id="c1", effect="irreversible")
        assert isinstance(granted, takeback.Action)
        granted.end()
        assert isinstance(
            run.begin("wire", {"to": "bob"}, call_id="c2", effect="irreversible"), takeback.Denied
        )
    session = scene.tb.session("waits", key="W")
    asked = session.begin("wire", {"to": "ann"}, call_id="c1", effect="irreversible")
    assert isinstance(asked, takeback.Ask) and asked.wait(0.0) is asked
    scene.tb.approve(asked.approval)
    begun = asked.wait()
    assert isinstance(begun, takeback.Action) and not begun.ended
    begun.end({"id": 7})
    assert begun.result == {"id": 7}
    session.end()
    session.end()
    with pytest.raises(takeback.UsageError):
        session.begin("wire", {"to": "ann"}, call_id="c9", effect="irreversible")


def test_without_an_effect_nothing_is_looked_at(scene: Scene) -> None:
    session = scene.tb.session("reads", key="R")
    read = session.begin("Read", {"path": "plan"}, call_id="c1", effect="none")
    assert isinstance(read, takeback.Action)
    scene.human("mine", "meanwhile")
    read.end("old")
    assert scene.tb.history.actions[read.id].changes == ()
    again = session.begin("Read", {"path": "plan"}, call_id="c1", effect="none")
    assert isinstance(again, takeback.Action) and again.result == "old"


@pytest.mark.parametrize(
    "options, says",
    [
        ({"call_id": ""}, "no call_id"),
        ({"call_id": "c", "effect": "maybe"}, "is not an effect"),
        ({"call_id": "c", "effect": "deferred"}, "needs the outbox"),
        ({"call_id": "c", "args": {"x": object()}}, "the arguments of tool"),
        ({"call_id": "c", "parent": "p"}, "no action with the call_id 'p'"),
        ({"call_id": "c", "undo": lambda call: None}, "lambda"),
    ],
)
def test_wrong_use(scene: Scene, options: dict[str, Any], says: str) -> None:
    session = scene.tb.session("wrong", key="W")
    with pytest.raises(takeback.UsageError, match=says):
        session.begin("tool", **options)
    assert scene.tb.history.open_actions() == []


def test_keys_of_sessions_are_their_own(scene: Scene) -> None:
    with scene.tb.run("program", key="K") as run, pytest.raises(takeback.UsageError, match=run.id):
        scene.tb.session("agent", key="K")
    with pytest.raises(takeback.UsageError, match="needs a key"):
        scene.tb.session("agent", key="")
    with pytest.raises(takeback.UsageError, match="no process"):
        scene.tb.session("agent", key="L", pid=2**22 + 1)
    with pytest.raises(takeback.UsageError, match="belongs to a process"), scene.tb.run("own") as run:
        scene.tb.attach(run.id).end()
