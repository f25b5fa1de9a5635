"""Blame: who wrote each line, from the recorded changes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.blame import Whose, Written, blame, lines_of
from takeback.core.change import ABSENT, Change, Target, Version

F = Target("files", "f")


class Texts:
    """Contents by their versions, and a list of changes."""

    def __init__(self, first: str | None = None) -> None:
        self.kept: dict[str, bytes] = {}
        self.made: list[Written] = []
        self.now = self.version(first)

    def version(self, text: str | None) -> Version:
        if text is None:
            return ABSENT
        self.kept[text] = text.encode()
        return Version(text or "empty", data=text)

    def write(self, text: str | None, *, rollback: bool = False) -> int:
        after = self.version(text)
        self.made.append(Written(Change(F, self.now, after), rollback))
        self.now = after
        return len(self.made) - 1

    def read(self, version: Version) -> bytes | None:
        return self.kept.get(version.data)

    def blame(self, text: str) -> list[int]:
        return blame(text.encode(), self.made, self.read)


def test_lines_belong_to_the_change_that_wrote_them() -> None:
    f = Texts("a\nb\nc\n")
    first = f.write("a\nB\nc\n")
    second = f.write("zero\na\nB\nc\n")
    third = f.write("zero\na\nB\nc\nd")
    assert f.blame("zero\na\nB\nc\nd") == [second, Whose.FIRST, first, Whose.FIRST, third]


def test_a_file_that_an_action_made_is_all_its_own() -> None:
    f = Texts()
    made = f.write("a\nb\n")
    assert f.blame("a\nb\n") == [made, made]
    gone = f.write(None)
    again = f.write("a\n")
    assert gone == 1 and f.blame("a\n") == [again]


def test_what_nobody_recorded_is_nobodys() -> None:
    f = Texts("a\n")
    f.write("a\nb\n")
    assert f.blame("a\nmine\nb\n") == [Whose.FIRST, Whose.UNRECORDED, 0]
    f.now = f.version("a\nb\nc\n")  # somebody wrote c between two looks
    f.write("a\nb\nc\nd\n")
    assert f.blame("a\nb\nc\nd\n") == [Whose.FIRST, 0, Whose.UNRECORDED, 1]


def test_nothing_recorded_and_nothing_in_it() -> None:
    assert Texts().blame("a\nb") == [Whose.FIRST, Whose.FIRST]
    f = Texts("a\n")
    f.write("")
    assert f.blame("") == []


def test_an_undo_brings_back_the_lines_of_others() -> None:
    f = Texts("a\n")
    mine = f.write("a\nmine\n")
    theirs = f.write("a\ntheirs\n")
    f.write("a\nmine\n", rollback=True)
    assert f.blame("a\nmine\n") == [Whose.FIRST, mine]
    f.write("a\ntheirs\n", rollback=True)  # a redo
    assert f.blame("a\ntheirs\n") == [Whose.FIRST, theirs]
    f.write("a\n", rollback=True)  # to before the first record: no change left this version
    assert f.blame("a\n") == [Whose.FIRST]


def test_an_undo_brings_back_lines_that_were_gone_altogether() -> None:
    f = Texts("a\n")
    mine = f.write("a\nmine\n")
    f.write("theirs\n")
    f.write("a\nmine\n", rollback=True)
    assert f.blame("a\nmine\n") == [Whose.FIRST, mine]


def test_an_undo_puts_back_what_was_written_last() -> None:
    f = Texts()
    f.write("a\n")
    f.write("")
    again = f.write("a\n")
    f.write("b\n")
    f.write("a\n", rollback=True)
    assert f.blame("a\n") == [again]


def lines(text: str) -> str:
    """Return a text with one line for each letter."""
    return "".join(f"{letter}\n" for letter in text)


@pytest.mark.parametrize(
    "texts, whose",
    [
        # The lines before and after are the same, and something moved in between.
        (("qz", "xqz", "pxz"), [1, 0, Whose.FIRST]),
        (("pxz", "xqz"), [Whose.FIRST, 0, Whose.FIRST]),
        # A last line that is there twice is the last one.
        (("abz", "azbz", "cz"), [1, Whose.FIRST]),
        # Lines between others that are new.
        (("amb", "amnb", "cdmne"), [1, 1, Whose.FIRST, 0, 1]),
    ],
)
def test_a_line_is_followed_to_where_it_was(texts: tuple[str, ...], whose: list[int]) -> None:
    f = Texts(lines(texts[0]))
    for text in texts[1:]:
        f.write(lines(text))
    assert f.blame(lines(texts[-1])) == whose


def test_a_line_that_is_there_very_often_is_followed_too() -> None:
    f = Texts(lines("a" + "x" * 300 + "b"))
    f.write(lines("c" + "x" * 300 + "d"))
    assert f.blame(lines("c" + "x" * 300 + "d")) == [0, *[Whose.FIRST] * 300, 0]


def test_an_undo_that_merged_wrote_only_what_is_new() -> None:
    f = Texts("a\n")
    agent = f.write("a\nagent\n")
    human = f.write("a\nagent\nhuman\n")
    merged = f.write("a\nhuman\nmerged\n", rollback=True)
    assert f.blame("a\nhuman\nmerged\n") == [Whose.FIRST, human, merged] and agent == 0


def test_an_undo_that_removes_puts_no_earlier_version_back() -> None:
    f = Texts()
    f.write("a\n")
    f.write(None, rollback=True)
    again = f.write("a\n")
    assert f.blame("a\n") == [again]


def test_what_is_no_longer_kept_is_said() -> None:
    f = Texts("a\n")
    first = f.write("a\nb\n")
    second = f.write("a\nb\nc\n")
    del f.kept["a\n"]
    assert f.blame("a\nb\nc\n") == [Whose.GONE, Whose.GONE, second] and first == 0
    del f.kept["a\nb\nc\n"]
    assert f.blame("a\nb\nc\n") == [Whose.GONE] * 3


def test_no_number_of_a_change_is_taken_for_another_writer() -> None:
    assert {whose.name: whose.value for whose in Whose} == {"FIRST": -1, "UNRECORDED": -2, "GONE": -3}
    assert not Written(Change(F, ABSENT, ABSENT)).is_rollback


def test_lines_end_at_newlines_alone() -> None:
    assert lines_of(b"a\r\nb\x0cc\n\nd") == [b"a\r\n", b"b\x0cc\n", b"\n", b"d"]
    assert lines_of(b"") == []


TEXTS = st.lists(st.sampled_from("abc"), max_size=6).map(lambda letters: "".join(f"{x}\n" for x in letters))


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_each_line_was_written_by_a_change_that_has_it(texts: list[str]) -> None:
    f = Texts(texts[0])
    for text in texts[1:]:
        f.write(text)
    last = texts[-1]
    for line, whose in zip(lines_of(last.encode()), f.blame(last), strict=True):
        if whose == Whose.FIRST:
            assert line in lines_of(texts[0].encode())
        else:
            after = lines_of(texts[whose + 1].encode())
            before = lines_of(texts[whose].encode())
            assert after.count(line) > 0 and after != before
