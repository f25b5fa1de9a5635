"""Wrong use is told clearly, before anything happens where that is possible; and nothing is lost."""

from __future__ import annotations

import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import (
    HandedOver,
    InvariantBroken,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    UsageError,
)
from tests.runs import tools
from tests.runs.scene import Scene, items, made
from tests.runs.service import ask

# Handlers


def closure() -> Any:
    def undo(call: takeback.Call) -> None:
        raise AssertionError

    return undo


class Holder:
    def undo(self, call: takeback.Call) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    "undo", [lambda call: None, closure(), Holder().undo], ids=["lambda", "closure", "bound"]
)
def test_a_handler_that_no_other_process_finds(scene: Scene, undo: Any) -> None:
    @takeback.action(undo=undo)
    def book(item: str) -> Any:
        return ask("book", item=item, key=takeback.current_call().key)

    with (
        pytest.raises(UsageError, match=r"found by its name|is not the function that was passed"),
        scene.tb.run("bad") as run,
    ):
        run.call(book, "room")
    assert made("room") == 0


def test_a_handler_that_is_gone_when_it_is_needed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its module has changed since. The rest is taken back, the run is handed over, and later it can be finished."""
    text = textwrap.dedent(
        """
        import takeback
        from tests.runs import tools
        def cancel_it(call): tools.cancel(call)
        @takeback.action(undo=cancel_it, check=tools.find)
        def book_it(item): return tools._book(item)
        """
    )
    (tmp_path / "vanishing.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module: Any = __import__("vanishing")
    cancel_it = module.cancel_it
    with pytest.raises(RollbackIncomplete) as caught, scene.tb.run("gone") as run:
        with run.step("one"):
            scene.human("plan", "new")
            run.call(module.book_it, "room")
        del module.cancel_it
        raise ValueError
    assert "cannot be imported" in str([item.why for item in caught.value.report.items])
    assert scene.read("plan") == "old" and items() == {"room": 1}
    assert scene.tb.history.runs[run.id].life is Life.HANDED_OVER
    module.cancel_it = cancel_it
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN
    assert items() == {}
    del sys.modules["vanishing"]


# Values


def test_an_argument_that_cannot_be_kept(scene: Scene) -> None:
    with pytest.raises(UsageError, match="argument 1 of book"), scene.tb.run("bad") as run:
        run.call(tools.book, object())
    assert ask("world")["asked"] == {}


def returns_anything(item: str) -> Any:
    tools._book(item)
    return threading.Lock()


odd = takeback.action(undo=tools.cancel, check=tools.find)(returns_anything)


def test_a_result_that_cannot_be_kept(scene: Scene) -> None:
    """The booking was made, so it is known and taken back all the same."""
    with pytest.raises(UsageError, match="what returns_anything returned"), scene.tb.run("bad") as run:
        run.call(odd, "room")
    assert made("room") == 1 and items() == {}
    assert run.report is not None and run.report.verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, float("nan"), 2**70, [{"deep": {"er": object()}}]], ids=range(5)
)
def test_memory_that_cannot_be_kept(scene: Scene, value: Any) -> None:
    with scene.tb.run("memory") as run:
        run.memory["kept"] = {"a": [1]}
        with pytest.raises(UsageError, match="memory"):
            run.memory["bad"] = value
        with pytest.raises(UsageError, match="memory"):
            run.memory["kept"]["a"].append(value)
        with pytest.raises(UsageError, match="keys of the memory are strings"):
            run.memory[1] = "one"  # type: ignore[index]
        assert run.memory == {"kept": {"a": [1]}}
    assert scene.memories()[run.id] == {"kept": {"a": [1]}}


# Declarations


def test_unknown_words(scene: Scene) -> None:
    with pytest.raises(UsageError, match="not an effect"):
        takeback.action(effect="harmless")(tools.add)
    with pytest.raises(UsageError, match="undo handler"):
        takeback.action(effect="compensable")(tools.add)
    with pytest.raises(UsageError, match="compensable, not none"):
        takeback.action(effect="none", undo=tools.cancel)(tools.add)
    with pytest.raises(UsageError, match="granularity"):
        scene.tb.run("bad", checkpoint="often")
    with pytest.raises(UsageError, match="not a choice"):
        scene.tb.run("bad", on_conflict="shrug")
    with pytest.raises(UsageError, match="no call here"):
        takeback.current_call()
    assert scene.tb.history.runs == {}


@takeback.action(effect="deferred")
def later() -> None:
    raise AssertionError


def test_deferred_waits_for_the_outbox(scene: Scene) -> None:
    with pytest.raises(UsageError, match="outbox"), scene.tb.run("bad") as run:
        run.call(later)


def test_going_back_to_what_is_not_there(scene: Scene) -> None:
    with scene.tb.run("bad") as run:
        scene.human("plan", "new")
        for wrong in ("c999", "a999", "s999", "nonsense", run.step("never begun")):
            with pytest.raises(UsageError):
                run.rollback(to=wrong)
    assert scene.read("plan") == "new"


def test_going_back_to_a_moment_without_a_picture(scene: Scene) -> None:
    """It would take back more than was asked for, so it is refused."""
    with scene.tb.run("coarse", checkpoint="run") as run:
        scene.human("before", "kept")
        with run.step("one") as step:
            scene.human("inside", "new")
        with pytest.raises(UsageError, match="checkpoint"):
            run.rollback(to=step)
        assert scene.read("before") == "kept"
    with scene.tb.run("steps") as run, run.step("one"):
        scene.human("early", "kept")
        run.call(tools.book, "room")
        (call,) = [a.id for a in scene.tb.history.actions.values() if a.name == "book"]
        with pytest.raises(UsageError, match="checkpoint"):
            run.rollback(to=call)
    assert scene.read("early") == "kept" and items() == {"room": 1}


# Runs


def test_a_run_is_over_when_it_is_over(scene: Scene) -> None:
    with scene.tb.run("over") as run:
        run.memory["a"] = 1
    for late in (
        lambda: run.call(tools.book, "room"),
        lambda: run.memory.update(a=2),
        lambda: run.step("late").__enter__(),
        lambda: run.rollback(to="s1"),
    ):
        with pytest.raises(UsageError):
            late()
    assert made("room") == 0
    assert run.memory == {"a": 1}


def test_a_run_that_is_not_interrupted_is_not_resumed(scene: Scene) -> None:
    with scene.tb.run("done") as run:
        pass
    for id, words in ((run.id, "nothing to resume"), ("r99", "no run")):
        with pytest.raises(UsageError, match=words):
            scene.tb.parts.runs.resume(id)
    assert scene.tb.parts.runs.resume() == []


def test_resumed_twice(scene: Scene) -> None:
    """While one goes on with it, another waits no longer than it wants to."""
    with scene.tb.run("first", key="K") as run:
        run.call(tools.book, "room")
        with pytest.raises(RunBusy, match="another"):
            scene.tb.run("second", key="K", wait_s=0.1).__enter__()
        assert scene.tb.history.runs[run.id].life is Life.OPEN
    with scene.tb.run("second", key="K") as again:
        assert again.id == run.id
    assert made("room") == 1


def test_a_broken_invariant_stops_at_once(scene: Scene) -> None:
    calls = []

    @takeback.action(retries=3, retry_on=(Exception,))
    def try_it() -> None:
        calls.append(1)
        run.require(scene.read("plan") == "old", "the plan was touched")

    with pytest.raises(InvariantBroken, match="the plan was touched"), scene.tb.run("strict") as run:
        run.call(tools.book, "room")
        scene.human("plan", "new")
        run.call(try_it)
    assert len(calls) == 1
    assert scene.read("plan") == "old" and items() == {}


def test_invariants_hold_at_the_end_of_every_step(scene: Scene) -> None:
    def intact() -> bool:
        return scene.read("plan") == "old"

    reached = []
    with pytest.raises(InvariantBroken, match="intact"), scene.tb.run("strict", invariants=[intact]) as run:
        with run.step("one"):
            scene.human("other", "new")
        with run.step("two"):
            scene.human("plan", "new")
        reached.append("three")
    assert reached == [] and scene.read("plan") == "old" and scene.read("other") is None


def test_handed_over_and_given_back(scene: Scene) -> None:
    with pytest.raises(HandedOver), scene.tb.run("ask", key="K") as run:
        with run.step("one"):
            run.call(tools.book, "room")
            scene.human("plan", "agent")
        run.hand_over("please look")
    assert scene.read("plan") == "agent" and items() == {"room": 1}
    with pytest.raises(HandedOver, match="please look"):
        scene.tb.run("ask", key="K").__enter__()
    scene.tb.parts.runs.take(run.id, "human")
    scene.human("mine", "human")
    with pytest.raises(UsageError, match="not a call"):
        scene.tb.parts.runs.give_back(run.id, "human", happened=["a1"])
    scene.tb.parts.runs.give_back(run.id, "human")
    with pytest.raises(UsageError, match="not handed over"):
        scene.tb.parts.runs.give_back(run.id, "human")
    with pytest.raises(ValueError), scene.tb.run("ask", key="K") as again:  # noqa: PT011
        assert again.id == run.id
        with again.step("one") as step:
            assert step.done and again.call(tools.book, "room")["item"] == "room"
        raise ValueError
    assert made("room") == 1 and items() == {}
    assert (scene.read("plan"), scene.read("mine")) == ("old", "human")


# Approvals


def waiting(scene: Scene) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := scene.tb.parts.runs.approvals():
            return found[0].id
        time.sleep(0.01)
    raise AssertionError("nobody asked")


def wiring(scene: Scene, item: str, **options: Any) -> tuple[threading.Thread, list[BaseException]]:
    """A run in a thread that wants to wire money, and what comes of it."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with scene.tb.run("wire", **options) as run:
                run.call(tools.wire, item)
        except BaseException as error:  # noqa: BLE001  told to the test
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, raised


def test_an_approval_is_for_one_payload_and_holds_once(scene: Scene) -> None:
    thread, raised = wiring(scene, "100")
    id = waiting(scene)
    runs = scene.tb.parts.runs
    with pytest.raises(RefusedError, match="another payload"):
        runs.answer(id, granted=True, actor="human", payload="sha256:other")
    with pytest.raises(RefusedError, match="inside a7"):
        runs.answer(id, granted=True, actor="human", inside="a7")
    with pytest.raises(UsageError, match="no request"):
        runs.answer("p999", granted=True, actor="human")
    assert made("100") == 0
    payload = scene.tb.history.approvals[id].asked.payload
    runs.answer(id, granted=True, actor="human", payload=payload)
    thread.join()
    assert raised == [] and made("100") == 1
    assert scene.tb.history.approvals[id].life is Life.USED
    with pytest.raises(UsageError, match="already used"):
        runs.answer(id, granted=True, actor="human")
    # The same again is asked about again.
    thread, raised = wiring(scene, "100")
    assert waiting(scene) != id
    runs.answer(waiting(scene), granted=False, actor="human", why="once is enough")
    thread.join()
    assert isinstance(raised[0], RefusedError) and "once is enough" in str(raised[0])
    assert made("100") == 1


def test_an_agent_cannot_allow_itself(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs inside an action, by its environment, cannot approve; from outside it can be answered."""
    thread, raised = wiring(scene, "100", approval_wait_s=20)
    id = waiting(scene)
    with monkeypatch.context() as inside:
        inside.setenv("TAKEBACK_ACTION", f"{scene.tb.state.name}:a3")
        with pytest.raises(RefusedError, match="inside a3"):
            scene.tb.approve(id)
    assert made("100") == 0 and scene.tb.history.approvals[id].life is Life.OPEN
    scene.tb.parts.runs.answer(id, granted=True, actor="human")
    thread.join()
    assert raised == [] and made("100") == 1


def test_an_approval_runs_out(scene: Scene) -> None:
    with pytest.raises(RefusedError, match="in time"), scene.tb.run("wire", approval_wait_s=0.05) as run:
        run.call(tools.wire, "100")
    (id,) = scene.tb.history.approvals
    with pytest.raises(RefusedError, match="expired"):
        scene.tb.parts.runs.answer(id, granted=True, actor="human")
    assert scene.tb.parts.runs.approvals() == [] and made("100") == 0


def test_a_callback_decides(scene: Scene) -> None:
    asked = []

    def approve(question: Any) -> bool:
        asked.append(question.asked.arguments["args"][0])
        return bool(asked[-1] != "too much")

    with pytest.raises(RollbackIncomplete) as caught, scene.tb.run("wire", approve=approve) as run:
        run.call(tools.wire, "10")
        run.call(tools.wire, "10")  # the same payload once more is another approval
        run.call(tools.wire, "too much")
    assert isinstance(caught.value.__cause__, RefusedError)
    assert asked == ["10", "10", "too much"] and items() == {"10": 2}


def test_on_autopilot_nothing_irreversible_happens(scene: Scene) -> None:
    with pytest.raises(RefusedError, match="autopilot"), scene.tb.run("wire", autopilot=True) as run:
        run.call(tools.book, "room")
        run.call(tools.wire, "100")
    assert made("100") == 0 and items() == {}


def test_what_cannot_be_taken_back_is_never_done_again(scene: Scene) -> None:
    """The run failed after the money had gone. It is handed over, and continued it does not send it once more."""
    yes: Any = {"approve": lambda _: True, "key": "K"}
    with pytest.raises(RollbackIncomplete) as caught, scene.tb.run("wire", **yes) as run:
        run.call(tools.book, "room")
        run.call(tools.wire, "100")
        raise ValueError
    assert "cannot be taken back" in str([item.why for item in caught.value.report.items])
    assert items() == {"100": 1}
    scene.tb.parts.runs.give_back(run.id, "human")
    with scene.tb.run("wire", **yes) as again:
        again.call(tools.book, "room")
        assert again.call(tools.wire, "100")["item"] == "100"
    assert items() == {"100": 1, "room": 1} and made("100") == 1
    # Neither after an undo of the whole.
    with pytest.raises(RollbackIncomplete):
        scene.tb.undo(run.id)
    with pytest.raises(takeback.ConflictError, match="in part"):
        scene.tb.run("wire", **yes).__enter__()
    assert made("100") == 1


def test_two_threads_do_not_share_an_approval(scene: Scene) -> None:
    """The same payload twice at once is two requests."""
    asked = []

    def approve(question: Any) -> bool:
        asked.append(question.id)
        return len(asked) == 1

    def wire() -> str:
        try:
            run.call(tools.wire, "100")
        except RefusedError:
            return "refused"
        return "wired"

    with scene.tb.run("wire", approve=approve) as run, ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: wire(), range(4)))
    assert sorted(done) == ["refused", "refused", "refused", "wired"]
    assert made("100") == 1 and len(set(asked)) == 4


@takeback.action(undo=tools.cancel, check=tools.find)
def interrupted(item: str) -> None:
    tools._book(item)
    raise KeyboardInterrupt


def test_interrupted_by_the_user(scene: Scene) -> None:
    with pytest.raises(KeyboardInterrupt), scene.tb.run("long") as run, run.step("one"):
        scene.human("plan", "new")
        run.call(interrupted, "room")
    assert made("room") == 1 and items() == {} and scene.read("plan") == "old"


def test_no_signs_of_life_are_left(scene: Scene) -> None:
    with scene.tb.run("one", checkpoint="action") as run, run.step("step"):
        run.call(tools.book, "room")
    with pytest.raises(ValueError), scene.tb.run("two"):  # noqa: PT011
        raise ValueError
    assert list((scene.tb.state / "alive").iterdir()) == []
