"""What all adapters do around a call, without any framework."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

import takeback
from takeback import RunBusy
from takeback.frameworks.calling import RECENT_MAX, Failure, Threads, Told, keep, making


class Broken(Exception):
    """Of a tool."""


def test_a_call_whose_result_cannot_be_stored_is_not_made_again(tmp_path: Path) -> None:
    with takeback.open(tmp_path) as tb:
        threads = Threads(tb, "x")
        thread = threads.of("1")
        begun = threads.begin(thread, "list", {}, call_id="c")
        assert isinstance(begun, takeback.Action)
        with making(thread, begun):
            keep(begun, ["a name that is not UTF-8: \udcff"])
        told = threads.begin(thread, "list", {}, call_id="c")
        assert begun.outcome == "done" and isinstance(told, Told)
        assert not told.is_done and "could not be stored" in told.why


def test_a_server_forgets_conversations_that_are_over_and_none_that_is_at_work(tmp_path: Path) -> None:
    """Each is found again by its id, whatever was forgotten of it."""
    with takeback.open(tmp_path) as tb:
        threads = Threads(tb, "x")
        held, open_, counting = (threads.of(name) for name in ("held", "open", "counting"))
        begun = threads.begin(open_, "book", {}, call_id="c")
        assert isinstance(begun, takeback.Action)
        counted = threads.begin(counting, "book", {"room": 1})
        assert isinstance(counted, takeback.Action)
        counted.end()
        forgotten = threads.of("forgotten")
        with making(forgotten, done := _begun(threads, forgotten)):
            keep(done, "booked")
        gone = weakref.ref(forgotten)
        ids = [id(open_), id(counting)]
        del forgotten, open_, counting, done
        for number in range(RECENT_MAX):
            threads.of(f"another {number}")
        gc.collect()
        assert gone() is None and len(threads._recent) == RECENT_MAX
        assert threads.of("held") is held
        assert [id(threads.of("open")), id(threads.of("counting"))] == ids
        assert len(threads._recent) == RECENT_MAX
        told = threads.begin(threads.of("forgotten"), "book", {}, call_id="c")
        assert isinstance(told, Told) and told.value == "booked"


def _begun(threads: Threads, thread: takeback.Thread) -> takeback.Action:
    begun = threads.begin(thread, "book", {}, call_id="c")
    assert isinstance(begun, takeback.Action)
    return begun


def test_a_failure_is_told_again_only_if_the_model_went_on(tmp_path: Path) -> None:
    with takeback.open(tmp_path) as tb:
        threads = Threads(tb, "x")
        thread = threads.of("1")
        text = "closed, " * 200
        for _ in range(2):  # as often as its framework tries it
            begun = threads.begin(thread, "book", {}, call_id="c1")
            assert isinstance(begun, takeback.Action)
            with pytest.raises(Broken), making(thread, begun):
                raise Broken(text)
        thread.answer("what now?", lambda: "book again")
        begun = threads.begin(thread, "book", {}, call_id="c2")
        assert isinstance(begun, takeback.Action)
        with making(thread, begun):
            keep(begun, "booked")
        told = threads.begin(thread, "book", {}, call_id="c1")
        assert isinstance(told, Told) and told.failure == Failure("Broken", text)


def test_a_call_that_is_at_work_in_this_process_is_not_begun_beside_itself(tmp_path: Path) -> None:
    with takeback.open(tmp_path) as tb, takeback.open(tmp_path) as other:
        threads, beside = Threads(tb, "x"), Threads(other, "x")
        begun = threads.begin(threads.of("1"), "book", {}, call_id="c")
        assert isinstance(begun, takeback.Action)
        with begun, pytest.raises(RunBusy, match="is being made in this process"):
            beside.begin(beside.of("1"), "book", {}, call_id="c")
