"""Two runs are the same, or the differences are named: other arguments, another outcome, one alone, order apart."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from takeback.core.run_comparison import Deed, PairKind, RunAccount, RunQuestion, compare, relative_to


def deed(tool: str, *args: Any, outcome: str = "done", **more: Any) -> Deed:
    return Deed(f"a{len(args)}", tool, {"args": list(args)}, "restorable", outcome, **more)


def run(*deeds: Deed, id: str = "r1", **more: Any) -> RunAccount:
    return RunAccount(id, "report", "done", deeds, **more)


def kinds(first: RunAccount, second: RunAccount) -> list[str]:
    return [pair.kind.name for pair in compare(first, second).pairs]


def test_the_same_calls_are_the_same_whatever_time_they_took() -> None:
    first = run(deed("write", "a", took_us=5), deed("send", "x"), took_us=9)
    found = compare(first, run(deed("write", "a"), deed("send", "x"), id="r2"))
    assert found.is_same
    assert [pair.kind for pair in found.pairs] == [PairKind.SAME, PairKind.SAME]


def test_what_is_not_told_took_no_time_and_was_made() -> None:
    assert deed("a").took_us == run().took_us == 0 and not deed("a").intended


def test_each_difference_has_its_kind() -> None:
    first = run(deed("write", "a"), deed("send", "x"), deed("read", "q"), deed("test"))
    second = run(deed("write", "b"), deed("send", "x"), deed("test", outcome="failed"), deed("push", "main"))
    assert kinds(first, second) == ["ARGUMENTS", "SAME", "ONLY_FIRST", "OUTCOME", "ONLY_SECOND"]
    assert not compare(first, second).is_same


def test_another_order_is_told_and_is_no_difference() -> None:
    first = run(deed("a"), deed("b"), deed("c"), deed("d"))
    second = run(deed("d"), deed("a"), deed("b"), deed("c"))
    assert kinds(first, second) == ["SAME", "SAME", "SAME", "MOVED"]
    assert compare(first, second).is_same


def test_a_call_made_twice_by_one_is_once_alone() -> None:
    assert kinds(run(deed("a"), deed("a")), run(deed("a"))) == ["SAME", "ONLY_FIRST"]


def test_other_arguments_pair_in_order_and_leave_what_is_the_same_alone() -> None:
    first = run(deed("a", 1), deed("a", 2), deed("a", 3))
    second = run(deed("a", 1), deed("a", 4), deed("a", 5))
    pairs = compare(first, second).pairs
    assert [(pair.first, pair.second) for pair in pairs] == list(zip(first.deeds, second.deeds, strict=True))


def test_arguments_that_are_only_shown_in_part_compare_in_full() -> None:
    first, second = (deed("write", "long…", exactly=text) for text in ("long one", "long two"))
    assert kinds(run(first), run(second)) == ["ARGUMENTS"]


def test_effects_compare_by_what_is_left() -> None:
    first = run(effects={"a": ("0", "1"), "b": ("0", "2"), "c": ("0", "3")})
    second = run(effects={"a": ("9", "1"), "b": ("0", "7"), "d": ("0", "3")}, id="r2")
    found = compare(first, second)
    assert found.effects_alike == 1
    assert not found.is_same
    assert [(one.target, bool(one.first), bool(one.second)) for one in found.effects] == [
        ("b", True, True),
        ("c", True, False),
        ("d", False, True),
    ]


def test_questions_of_one_alone_are_named() -> None:
    asked, refused = RunQuestion("send", [], "granted"), RunQuestion("push", [], "refused by effects")
    found = compare(run(questions=(asked, asked)), run(questions=(asked, refused), id="r2"))
    assert found.questions == (("r1", asked), ("r2", refused))
    assert not found.is_same


def test_a_question_is_named_as_often_as_one_asked_it_more() -> None:
    one, other = RunQuestion("send", [], "granted"), RunQuestion("push", [], "granted")
    found = compare(run(questions=(one,)), run(questions=(one, one, other, one), id="r2"))
    assert found.questions == (("r2", one), ("r2", other), ("r2", one))


def test_a_file_in_a_view_is_the_same_file() -> None:
    given = {"args": ["/work/a.md", "/work", "see /work/b and /workshop", 7]}
    assert relative_to(given, ["/work"]) == {"args": ["./a.md", ".", "see ./b and /workshop", 7]}
    roots = ["", "/work", "/work/view/"]  # a run without a view has no folder of one
    assert relative_to(["/work/view/a.md", "/work/a.md", "/etc"], roots) == ["./a.md", "./a.md", "/etc"]


CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=12)


@given(CALLS, CALLS)
def test_every_call_is_told_once_and_alike_means_equal(some: list[Any], others: list[Any]) -> None:
    first, second = (run(*(deed(tool, n) for tool, n in calls)) for calls in (some, others))
    pairs = compare(first, second).pairs
    assert [pair.first for pair in pairs if pair.first] == list(first.deeds)
    told = [pair.second for pair in pairs if pair.second]
    assert Counter(map(repr, told)) == Counter(map(repr, second.deeds))
    assert compare(first, second).is_same == (Counter(some) == Counter(others))
    alike = [pair for pair in pairs if pair.kind in (PairKind.SAME, PairKind.MOVED)]
    assert len(alike) == (Counter(some) & Counter(others)).total()
