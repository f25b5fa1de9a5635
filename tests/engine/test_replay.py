"""A run once more, from its record: the same moments, the recorded results, and how things stood at each."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import takeback
from takeback.core.history import History
from takeback.engine.describe.replay import ReplayMoment, memory_of, position, run_of
from takeback.settings import environment
from takeback.system import processes
from tests.engine import remote

from .conftest import Desk


@pytest.fixture
def watching() -> bool:
    return False


@pytest.fixture(autouse=True)
def _remote() -> None:
    remote.WORLD.clear()
    remote.MADE.clear()


def told(desk: Desk, run: str, to: str = "") -> list[ReplayMoment]:
    return list(desk.tb.replay(run, to))


def a_run(desk: Desk) -> str:
    """Two steps, two calls, some memory; and then the whole of it is taken back."""
    with desk.tb.run("billing", key="billing") as run:
        with run.step("edit"):
            desk.human("plan", "new")
            run.call(remote.add, 1, 2)
            run.memory["goal"] = {"name": "billing", "left": ["a", "b"]}
        with run.step("book"):
            run.call(remote.book, "room", token="tok-" + "x" * 20)
            run.memory["goal"]["left"].append("c")
            del run.memory["goal"]["name"]
    desk.tb.undo(run.id)
    return str(run.id)


def test_the_same_sequence_with_the_recorded_results_and_no_effect(desk: Desk) -> None:
    run = a_run(desk)
    made, head = list(remote.MADE), desk.tb.journal.head().count
    moments = told(desk, run)
    assert [m.seq for m in moments] == sorted({m.seq for m in moments})
    recorded = [r.seq for r in desk.tb.journal.read(stream=run)]
    assert set(recorded) <= {m.seq for m in moments}, "every event of the run is there"
    results = [m.result for m in moments if m.result is not None]
    assert results == [3, {"room": "room"}]
    assert made == remote.MADE and desk.tb.journal.head().count == head
    assert remote.WORLD == {} and desk.read("plan") == "old"


def test_the_memory_after_each_moment(desk: Desk) -> None:
    run = a_run(desk)
    seen: list[object] = []
    for moment in told(desk, run):
        if not seen or seen[-1] != moment.memory:
            seen.append(moment.memory)
    first = {"goal": {"name": "billing", "left": ["a", "b"]}}
    second = {"goal": {"name": "billing", "left": ["a", "b", "c"]}}
    assert seen == [{}, first, second, {"goal": {"left": ["a", "b", "c"]}}, {}]


@pytest.mark.parametrize(
    "point",
    [lambda m: m.what == "step edit began", lambda m: m.event == "action-noted", lambda m: m.seq == 4],
)
def test_to_any_point(desk: Desk, point: Callable[[ReplayMoment], bool]) -> None:
    run = a_run(desk)
    every = told(desk, run)
    named = next(moment for moment in every if point(moment))
    for to in (named.id, str(named.seq)):
        part = told(desk, run, to)
        assert part == every[: len(part)]
        assert part[-1].id == named.id
    assert told(desk, run, str(every[-1].seq)) == every


def test_secrets_are_in_the_result_and_not_in_the_words(desk: Desk) -> None:
    with desk.tb.run("secret") as run:
        run.call(remote.login, "ada", password="correct horse battery")
    desk.reopen()
    moments = told(desk, run.id)
    (given,) = [m for m in moments if m.result is not None]
    assert given.result == {"user": "ada", "token": "battery staple"}
    assert given.shown == {"user": "ada", "token": "[hidden]"}
    assert not any("horse" in m.what or "staple" in m.what for m in moments)


def test_how_things_stood_then(desk: Desk) -> None:
    run = a_run(desk)
    edit, book = desk.tb.history.runs[run].steps
    (state,) = desk.tb.states_at(edit)
    assert list(state.run.steps) == [edit] and state.memory["goal"]["name"] == "billing"
    assert [a.name for a in state.history.actions.values() if a.result is not None] == ["add"]
    (state,) = desk.tb.states_at(book)
    assert state.memory == {"goal": {"left": ["a", "b", "c"]}}
    (state,) = desk.tb.states_at(run)
    assert state.memory == {}, "as it stands now: taken back"


def test_a_checkpoint_tells_of_the_runs_that_were_open(desk: Desk) -> None:
    outside = desk.tb.save()
    assert desk.tb.states_at(outside.id) == []
    with desk.tb.run("open") as run:
        run.memory["n"] = 1
        inside = run.checkpoint("here")
        run.memory["n"] = 2
    (state,) = desk.tb.states_at(inside.id)
    assert state.run.id == run.id and state.memory == {"n": 1}
    assert inside.id in {moment.id for moment in told(desk, run.id)}
    assert told(desk, run.id, inside.id)[-1].memory == {"n": 1}


def test_a_state_is_what_the_journal_says_up_to_then(desk: Desk) -> None:
    """The definition is the fold of all records up to that moment. Nothing is read but what speaks of the run."""
    run = a_run(desk)
    with desk.tb.run("pay", approve=lambda _: True, key="pay") as pays, pays.step("wire"):
        pays.call(remote.wire, 5)
        pays.memory["paid"] = {"sum": 5}
        desk.tb.save("meanwhile")
    desk.tb.try_undo(pays.id)
    desk.tb.save("after")
    history, journal = desk.tb.history, desk.tb.parts.ledger.journal
    records = list(journal.read())
    about = [record.id for record in records if record.id and record.id[0] in "apcs"]
    assert len(about) > 10 and run in history.runs
    for id in about:
        if id in history.actions and not run_of(history, id):
            assert desk.tb.states_at(id) == []
            continue
        until = position(records, id)
        then = History.of(records[:until])
        wanted = [run_of(then, id)] if run_of(then, id) else sorted(r.id for r in then.open_runs())
        states = desk.tb.states_at(id)
        assert sorted(state.run.id for state in states) == wanted
        for state in states:
            known, own = then.runs[state.run.id], state.run
            assert (state.seq, state.at_us) == (until, records[until - 1].at_us)
            assert (own.steps, own.life, list(own.actions)) == (known.steps, known.life, list(known.actions))
            assert own.is_listed == known.is_listed and state.memory == memory_of(then, own.id)
            for action in own.actions:
                assert state.history.actions[action] == then.actions[action]
                assert state.history.is_undone(action) == then.is_undone(action)
            assert state.history.approvals_of(own.id) == then.approvals_of(own.id)


def test_a_state_of_something_that_is_not_there(desk: Desk) -> None:
    for id in ("a999", "s999", "p999", "c999"):
        with pytest.raises(takeback.UsageError, match=f"there is no .* {id}"):
            desk.tb.states_at(id)


def test_what_went_wrong_is_told_too(desk: Desk) -> None:
    with pytest.raises(takeback.RefusedError), desk.tb.run("wild", autopilot=True) as run:
        run.call(remote.wire, 5)
    with pytest.raises(takeback.HandedOver), desk.tb.run("stuck", key="stuck") as stuck, stuck.step("ask"):
        stuck.hand_over("which one?")
    desk.tb.take(stuck.id)
    desk.tb.give_back(stuck.id, "the second")
    with desk.tb.run("stuck", key="stuck") as again, again.step("ask"):
        pass
    words = [moment.what for moment in told(desk, run.id)]
    assert any(
        w.startswith("wire(5) was refused: ") and "on autopilot there is no human to ask" in w for w in words
    )
    assert again.id == stuck.id
    words = [moment.what for moment in told(desk, stuck.id)]
    for text in (
        "the run was handed over to a human: which one?",
        "a human took the run",
        "a human returned the run: the second",
        "the run was resumed",
        "the run was committed",
    ):
        assert text in words


def test_a_question_and_its_answer(desk: Desk) -> None:
    with desk.tb.run("pay", approve=lambda _: True) as run:
        run.call(remote.wire, 5)
    (approval,) = desk.tb.history.approvals
    words = [moment.what for moment in told(desk, run.id)]
    assert any(text.startswith("wire(5) waits for a human's approval: ") for text in words)
    assert "wire was allowed by callback" in words
    (state,) = desk.tb.states_at(approval)
    assert state.run.id == run.id and state.history.approvals[approval].life == "used"


def test_who_looks_after_a_run(desk: Desk) -> None:
    with pytest.raises(takeback.HandedOver), desk.tb.run("stuck", key="stuck") as run:
        run.hand_over("which one?")
    (waiting,) = desk.tb.handovers()
    assert (waiting.id, waiting.why, waiting.taken_by) == (run.id, "which one?", "")
    assert desk.tb.take(run.id).taken_by == "you"
    assert desk.tb.handovers()[0].why == "which one?", "taking it does not answer it"
    assert [r.id for r in desk.tb.resume()] == [run.id]
    assert desk.tb.give_back(run.id).taken_by == ""
    assert desk.tb.handovers() == []


def test_the_command_line_is_recorded_unless_it_holds_a_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "agent.py", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", "agent.py", "--fast"])
    with desk.tb.run("one") as one:
        pass
    began = desk.tb.history.runs[one.id].began
    assert began.command == (sys.executable, "agent.py", "--fast") and began.folder
    monkeypatch.setattr(sys, "orig_argv", ["python", "agent.py", "--password", "hunter2"])
    assert environment.command_line() == ()
    monkeypatch.delattr(main, "__file__")
    monkeypatch.setattr(sys, "orig_argv", ["python"])
    assert environment.command_line() == ()
    with desk.tb.run("two", command=["make", "all"]) as two:
        pass
    assert desk.tb.history.runs[two.id].began.command == ("make", "all")


def test_the_processes_above_this_one() -> None:
    above = processes.lineage()[1:]
    assert above and all(processes.is_alive(process) for process in above)
    assert processes.this_process() not in above
