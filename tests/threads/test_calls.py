"""What `begin` decides: whether a tool may run, and what is known of a call that was begun before."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import takeback
from takeback import Action, Denied, RefusedError, RunBusy, UsageError
from takeback.core.rollback import Verdict
from tests.runs.scene import Scene, items, made
from tests.runs.service import ask
from tests.threads import desk
from tests.threads.desk import Model, Tool, begun, booked


class Broken(Exception):
    """Of a tool."""


class Shout(str):
    """Text of a framework."""

    __slots__ = ()


def fail_after(action: Action) -> None:
    """Make a booking, and lose the answer."""
    with action:
        desk.book("room")
        raise Broken


def test_a_block_makes_the_call_known_and_ends_it(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    action = begun(thread, "book", {"item": "room"}, call_id="c1", declared=takeback.declared(desk.book))
    with action:
        assert action.outcome == "open"
        assert takeback.current_call().key == action.key
        action.keep(desk.book("room"))
    with pytest.raises(UsageError, match="there is no call here"):
        takeback.current_call()
    outcome: str = action.outcome
    assert outcome == "done" and action.result and not action.found and action.error == ""
    with pytest.raises(UsageError, match="is done, so its tool must not run"), action:
        pass


def test_what_failed_can_be_begun_again(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    said = {"item": "room"}
    first = begun(thread, "book", said, call_id="c1", declared=takeback.declared(desk.book))
    with pytest.raises(Broken), first:
        raise Broken("no connection")
    known = begun(thread, "book", said, call_id="c1", declared=takeback.declared(desk.book))
    assert known.id == first.id and known.outcome == "failed" and known.error == "Broken: no connection"
    again = begun(thread, "book", said, call_id="c1", again=True, declared=takeback.declared(desk.book))
    assert again.id != first.id and again.outcome == "open" and again.key == first.key
    with again:
        again.keep(desk.book("room"))
    # What is done is never begun again.
    assert (
        begun(thread, "book", said, call_id="c1", again=True, effect="compensable", undo=desk.cancel).id
        == again.id
    )
    assert items() == {"room": 1}


def test_a_call_that_raised_and_happened_is_done(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    action = begun(thread, "book", {"item": "room"}, call_id="c1", declared=takeback.declared(desk.book))
    with pytest.raises(Broken):
        fail_after(action)
    assert action.outcome == "done" and action.found and action.result["item"] == "room"
    assert booked(thread, "room", call_id="c1") and made("room") == 1


def test_without_a_check_it_is_in_doubt_until_a_human_says(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    options: dict[str, Any] = {"call_id": "c1", "undo": desk.cancel, "again": True}
    action = begun(thread, "book", {"item": "room"}, **options)
    with pytest.raises(Broken), action:
        raise Broken
    assert begun(thread, "book", {"item": "room"}, **options).outcome == "in-doubt"
    scene.tb.settle(action.id, happened=True, result={"item": "room"})
    known = begun(thread, "book", {"item": "room"}, **options)
    assert known.outcome == "done" and known.result == {"item": "room"} and known.id == action.id


def test_calls_without_an_id_are_told_apart_by_occurrence(scene: Scene) -> None:
    for _ in range(2):
        with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            first, second = booked(thread, "room"), booked(thread, "room")
            assert first["key"] != second["key"] if "key" in first else first != second
    assert made("room") == 2
    with scene.tb.thread(key="T") as thread, thread.turn("m2"):
        booked(thread, "room")
    assert made("room") == 3


def test_ids_that_repeat_are_told_apart_by_their_scope(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    for scope in ("m1", "m2", "m1"):
        booked(thread, "room", call_id="call_0", scope=scope)
    assert made("room") == 2
    with pytest.raises(UsageError, match="with other arguments"):
        booked(thread, "hall", call_id="call_0", scope="m1")


def test_what_was_never_delivered_is_listed(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    with thread.turn("m1") as turn:
        booked(thread, "room", call_id="c1")
        booked(thread, "hall", call_id="c2")
    first, second = thread.undelivered()
    assert (first.call_id, first.arguments, first.turn) == ("c1", {"item": "room"}, turn.id)
    assert [a.id for a in thread.undelivered("book", {"item": "hall"})] == [second.id]
    first.delivered()
    first.delivered()
    assert [action.id for action in scene.tb.thread(key="T").undelivered()] == [second.id]
    thread.delivered()
    assert thread.undelivered() == [] and len(thread.actions(turn)) == 2


def test_pausing_settles_what_nothing_would_end(scene: Scene) -> None:
    with scene.tb.thread(key="T") as thread:
        lost = begun(thread, "book", {"item": "room"}, call_id="c1", declared=takeback.declared(desk.book))
        done = begun(thread, "book", {"item": "hall"}, call_id="c2", declared=takeback.declared(desk.book))
        ask("book", item="hall", key=done.key)
    assert lost.outcome == "cut-short" and done.outcome == "done" and done.found
    with scene.tb.thread(key="T") as thread:
        assert booked(thread, "room", call_id="c1") and booked(thread, "hall", call_id="c2")
    assert items() == {"room": 1, "hall": 1}


@pytest.mark.parametrize(
    "tool",
    [
        desk.book,
        desk.wrapped,
        functools.partial(desk.book, "room"),
        Tool(func=desk.book),
        Tool(function=desk.wrapped),
        Tool(_func=desk.book),
        Tool(fn=desk.book),
        Tool(forward=desk.book),
        Tool(func=None, coroutine=desk.book),
        Tool(func=functools.partial(desk.wrapped)),
    ],
)
def test_a_declaration_is_found_under_any_decorator(tool: Any) -> None:
    found = takeback.declared(tool)
    assert found is not None and found.undo is desk.cancel and found.volatile == ("request_id",)


def test_a_tool_without_a_declaration_has_none() -> None:
    loop = Tool()
    vars(loop)["func"] = loop
    for tool in (len, Tool(func=len), loop, 7, None):
        assert takeback.declared(tool) is None


def test_handlers_may_have_data_of_their_own(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    undo = takeback.handler("tests.threads.desk:cancel_with", item="room", token="hush-hush-4711")
    check = takeback.handler(desk.find_with, item="room")
    action = begun(thread, "call_tool", {"name": "book"}, undo=undo, check=check)
    with action:
        ask("book", item="room", key=takeback.current_call().key)
    shown = [event for event in scene.tb.journal.read() if "hush-hush" in str(event)]
    assert not shown, "the data of a handler is private"
    assert thread.rollback().verdict is Verdict.CLEAN
    assert items() == {}


def test_async_handlers_are_run(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    action = begun(thread, "book", {"item": "room"}, undo=desk.cancel_async, check=desk.find_async)
    with pytest.raises(Broken):
        fail_after(action)
    assert action.outcome == "done"
    assert thread.rollback().verdict is Verdict.CLEAN and items() == {}


def test_a_generator_function_is_not_a_handler(scene: Scene) -> None:
    def lazily(_call: takeback.Call) -> Any:
        yield

    with pytest.raises(UsageError, match="is a generator function"):
        scene.tb.thread(key="T").begin("x", undo=lazily)


def test_values_of_frameworks(scene: Scene) -> None:
    def encode(value: Any) -> Any:
        return {"model": value.text} if isinstance(value, Model) else value

    def decode(value: Any) -> Any:
        return Model(value["model"]) if isinstance(value, dict) and "model" in value else value

    thread = scene.tb.thread(key="T", encode=encode, decode=decode)
    action = begun(thread, "say", {Shout("what"): [Shout("hello")]}, effect="none")
    with action:
        action.keep(Model("hello"))
    assert isinstance(action.result, Model) and action.result.text == "hello"
    # Without a codec, what a framework's object says of itself is kept.
    plain = scene.tb.thread(key="U")
    action = begun(plain, "say", {"to": Model("you")}, effect="none")
    with action:
        action.keep([Model("hello")])
    assert action.result == [{"text": "hello"}] and action.arguments == {"to": {"text": "you"}}


def test_a_value_that_cannot_be_kept_is_refused_before_the_tool_runs(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    seq = scene.tb.history.seq
    for value in (object(), float("nan"), {1: 2}):
        with pytest.raises(UsageError, match=r"arguments of say"):
            thread.begin("say", {"what": value}, effect="none")
    with pytest.raises(UsageError, match="the data of"):
        takeback.handler(desk.cancel, client=object())
    assert scene.tb.history.seq <= seq + 1  # at most the thread itself


def test_a_question_is_answered_by_the_host_only_where_it_may(scene: Scene) -> None:
    said: dict[str, Any] = {"call_id": "p1", "effect": "irreversible", "check": desk.find}
    asked = scene.tb.thread(key="T").begin("pay", {"item": "rent"}, **said)
    assert isinstance(asked, takeback.Ask)
    with pytest.raises(RefusedError, match="leaves answers to a human"):
        asked.grant(by="ann")
    host = scene.tb.thread(key="T", approvals="host")
    asked = host.begin("pay", {"item": "rent"}, **said)
    assert isinstance(asked, takeback.Ask)
    with pytest.raises(RefusedError, match="without a name"):
        asked.grant(by="")
    paying = asked.grant(by="ann", via="langgraph")
    assert isinstance(paying, Action) and paying.outcome == "open"
    (approval,) = scene.tb.history.approvals_of(host.id)
    assert (approval.actor, approval.why) == ("ann", "via langgraph")
    with pytest.raises(UsageError, match="not a way to answer"):
        scene.tb.thread(key="T", approvals="model")


def test_a_refusal_by_the_host_holds_for_that_call(scene: Scene) -> None:
    host = scene.tb.thread(key="T", approvals="host")
    asked = host.begin("pay", {"item": "rent"}, call_id="p1", effect="irreversible")
    assert isinstance(asked, takeback.Ask)
    refused = asked.refuse("too much", by="ann")
    assert isinstance(refused, Denied) and "too much" in refused.reason
    assert isinstance(host.begin("pay", {"item": "rent"}, call_id="p1", effect="irreversible"), Denied)
    # Another call may ask again.
    again = host.begin("pay", {"item": "rent"}, call_id="p2", effect="irreversible")
    assert isinstance(again, takeback.Ask)
    # Without a reason, the model is still told that a human decided.
    refused = again.refuse(by="ann", via="langgraph")
    assert isinstance(refused, Denied) and refused.reason == "it was denied, via langgraph"


def test_a_human_is_asked_ahead_of_a_call(scene: Scene) -> None:
    host = scene.tb.thread(key="T", approvals="host")
    assert host.request("note", {"item": "rent"}, call_id="n1", effect="none") is None
    asked = host.request("pay", {"item": "rent"}, call_id="p1", effect="irreversible")
    assert asked is not None and host.actions() == []
    again = host.request("pay", {"item": "rent"}, call_id="p2", effect="irreversible")
    assert again is not None and again.approval == asked.approval  # bound to what is done, not to the id
    scene.tb.approve(asked.approval)
    assert host.request("pay", {"item": "rent"}, call_id="p1", effect="irreversible") is None
    paid = begun(host, "pay", {"item": "rent"}, call_id="p1", effect="irreversible")
    with paid:
        paid.keep("paid")
    # It was made, so nobody is asked about it; another one of the same kind needs another answer.
    assert host.request("pay", {"item": "rent"}, call_id="p1", effect="irreversible") is None
    assert host.request("pay", {"item": "rent"}, call_id="p3", effect="irreversible") is not None


def test_a_refusal_ahead_of_a_call_holds_for_it(scene: Scene) -> None:
    host = scene.tb.thread(key="T", approvals="host")
    asked = host.request("pay", {"item": "rent"}, call_id="p1", effect="irreversible")
    assert asked is not None
    scene.tb.deny(asked.approval, "too much")
    assert host.request("pay", {"item": "rent"}, call_id="p1", effect="irreversible") is None
    assert isinstance(host.begin("pay", {"item": "rent"}, call_id="p1", effect="irreversible"), Denied)


def test_a_tool_that_is_running_is_not_run_beside_itself(scene: Scene) -> None:
    first, second = scene.tb.thread(key="T"), scene.tb.thread(key="T")
    with begun(first, "write", {"n": 1}, call_id="c"):
        again = begun(second, "write", {"n": 1}, call_id="c")
        with pytest.raises(RunBusy, match="is being made in this process"), again:
            pass
    with pytest.raises(UsageError, match="is done"), again:
        pass
