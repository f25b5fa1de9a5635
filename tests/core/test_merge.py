"""Three-way merge: examples a person can read, what must hold for any text, and git as a second opinion."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from takeback.core import merge as module
from takeback.core.merge import Merged, Overlap, merge

BASE = b"one\ntwo\nthree\nfour\nfive\n"


def test_changes_in_different_places_are_both_there() -> None:
    ours = BASE.replace(b"one", b"ONE")
    theirs = BASE.replace(b"five\n", b"five\nsix\n")
    assert merge(BASE, ours, theirs) == Merged(b"ONE\ntwo\nthree\nfour\nfive\nsix\n")


def test_the_same_change_twice_is_one() -> None:
    ours = BASE.replace(b"two", b"2").replace(b"five", b"5")
    theirs = BASE.replace(b"two", b"2").replace(b"four", b"4")
    assert merge(BASE, ours, BASE.replace(b"two", b"2")).data == ours
    assert merge(BASE, ours, theirs).conflicts == (Overlap((4, 5), (4, 5), (4, 5)),)
    far = BASE.replace(b"two", b"2") + b"six\nseven\n"
    assert merge(BASE, BASE.replace(b"two", b"2").replace(b"four", b"4"), far).data == (
        b"one\n2\nthree\n4\nfive\nsix\nseven\n"
    )


def test_different_changes_of_one_line_are_an_overlap() -> None:
    merged = merge(BASE, BASE.replace(b"two", b"2"), BASE.replace(b"two", b"II\nii"))
    assert merged == Merged(None, (Overlap((2, 2), (2, 2), (2, 3)),))


def test_every_overlap_is_named() -> None:
    ours = b"x\n" + BASE.replace(b"one", b"1").replace(b"five", b"5")
    theirs = BASE.replace(b"one", b"I").replace(b"five", b"V")
    assert merge(BASE, ours, theirs).conflicts == (
        Overlap((1, 1), (1, 2), (1, 1)),
        Overlap((5, 5), (6, 6), (5, 5)),
    )


def test_hunks_that_touch_are_an_overlap_and_those_a_line_apart_are_not() -> None:
    ours = BASE.replace(b"two", b"2")
    assert merge(BASE, ours, BASE.replace(b"three", b"3")).conflicts == (Overlap((2, 3), (2, 3), (2, 3)),)
    assert merge(BASE, ours, BASE.replace(b"four", b"4")).data == b"one\n2\nthree\n4\nfive\n"


def test_two_insertions_at_one_place_have_no_order() -> None:
    merged = merge(b"a\nb\n", b"a\nx\nb\n", b"a\ny\nz\nb\n")
    assert merged == Merged(None, (Overlap((2, 1), (2, 2), (2, 3)),))


def test_a_removal_against_a_change() -> None:
    merged = merge(BASE, b"one\nfour\nfive\n", BASE.replace(b"three", b"3"))
    assert merged == Merged(None, (Overlap((2, 3), (2, 1), (2, 3)),))


def test_hunks_chain_into_one_region() -> None:
    base = b"".join(b"%d\n" % n for n in range(8))
    ours = base.replace(b"1\n2\n", b"A\n").replace(b"5\n", b"B\n")
    theirs = base.replace(b"2\n3\n4\n5\n", b"C\n")
    assert merge(base, ours, theirs).conflicts == (Overlap((2, 6), (2, 5), (2, 3)),)


def test_line_ends_are_content() -> None:
    base = b"a\r\nb\r\nc\r\nd"
    assert merge(base, base.replace(b"a", b"A"), base + b"\r\n").data == b"A\r\nb\r\nc\r\nd\r\n"
    assert merge(base, base.replace(b"\r", b""), base.replace(b"b", b"B")).data is None
    alone = b"a\rb\nc\nd\n"
    assert merge(alone, alone.replace(b"d", b"D"), alone.replace(b"b", b"B")).data == b"a\rB\nc\nD\n"


def test_a_missing_last_newline_stays_at_the_end() -> None:
    assert merge(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nc").data == b"A\nb\nc"
    assert merge(b"a\nb\nc", b"A\nb\nc", b"a\nb\nc\n").data == b"A\nb\nc\n"
    assert merge(b"a\nb\n", b"a\nb", b"a\nb\nc\n").data is None


def test_what_is_not_text_is_not_merged() -> None:
    base, ours, theirs = b"a\nb\nc\n\0", b"A\nb\nc\n\0", b"a\nb\nC\n\0"
    assert merge(base, ours, theirs) == Merged(None)
    assert merge(base, ours, base) == merge(base, base, ours) == merge(base, ours, ours) == Merged(ours)
    text = b"a\nb\nc\n"
    assert (
        merge(text, b"A\nb\nc\n", b"a\nb\nc\0\n") == merge(text, b"a\0\nb\nc\n", b"a\nb\nC\n") == Merged(None)
    )


def test_what_was_not_text_is_not_merged_though_both_sides_made_text_of_it() -> None:
    assert merge(b"\0\nb\nc\nd\n", b"x\nb\nc\nd\n", b"x\nb\nc\nD\n") == Merged(None)


def test_an_empty_base() -> None:
    assert merge(b"", b"a\n", b"a\n").data == b"a\n"
    assert merge(b"", b"a\n", b"b\n").conflicts == (Overlap((1, 0), (1, 1), (1, 1)),)


def test_the_same_insertion_beside_an_equal_line_is_one() -> None:
    # A second blank line: before the first one or after it? What else a side changed must not decide that.
    base = b"head\n\ntail\nrest\nend\n"
    ours = b"head\n\n\ntail\nrest\nEND\n"
    theirs = b"\nhead\n\n\ntail\nrest\nend\n"
    assert merge(base, ours, theirs).data == b"\nhead\n\n\ntail\nrest\nEND\n"


def test_the_same_removal_beside_an_equal_line_is_one() -> None:
    base = b"top\nhead\n\n\ntail\nrest\nend\n"
    ours = b"top\nhead\n\ntail\nrest\nEND\n"
    theirs = b"TOP\nhead\n\ntail\nrest\nend\n"
    assert merge(base, ours, theirs).data == b"TOP\nhead\n\ntail\nrest\nEND\n"
    assert module._settled([module.Hunk(0, 1, 0, 0)], [b"a", b"a"], [b"a"]) == [module.Hunk(1, 2, 1, 1)]


def test_insertions_that_move_down_until_they_meet() -> None:
    assert module.hunks([b"a", b"a", b"c"], [b"a", b"a", b"a", b"b", b"c"]) == [module.Hunk(2, 2, 2, 4)]
    assert module.hunks([b"a", b"b", b"a", b"b"], [b"a", b"b"]) == [module.Hunk(2, 4, 2, 2)]
    thrice = [b"a", b"b", b"c"]
    assert module._settled([module.Hunk(0, 0, 0, 3)], thrice, thrice * 2) == [module.Hunk(3, 3, 3, 6)]
    settled = module._settled([module.Hunk(0, 0, 0, 1), module.Hunk(1, 1, 2, 3)], [b"a"], [b"a"] * 3)
    assert settled == [module.Hunk(1, 1, 1, 3)]


def test_where_there_are_too_many_edits_lines_that_occur_once_divide_the_text() -> None:
    base, other = [b"H", b"x", b"m", b"x", b"x", b"T"], [b"G", b"x", b"m", b"x", b"U"]
    with patch.object(module, "EDITS_MAX", 0):
        found = module.hunks(base, other)
    # m divides it; the x before it has one mate, those after it have too many.
    assert found == [module.Hunk(0, 1, 0, 1), module.Hunk(3, 6, 3, 5)]


def test_from_a_text_to_the_same_no_hunk_leads() -> None:
    assert (
        module.hunks([], []) == module.hunks([b"a"], [b"a"]) == module.hunks([b"a", b"b"], [b"a", b"b"]) == []
    )


def test_the_shortest_script_is_looked_for_up_to_its_limit() -> None:
    """The time that a merge may take is the square of it."""
    assert module._shortest([b"x"] * 257, [b"x"]) is not None
    assert module._shortest([b"x"] * 258, [b"x"]) is None


# Any text

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"}\n", b"long line\n"]), max_size=25)
TEXTS = st.builds(lambda lines, cut: b"".join(lines)[: -1 if cut else None], LINES, st.booleans())
EDITS = st.sampled_from([module.EDITS_MAX, 3, 0])  # with fewer allowed, the text is divided instead


@given(TEXTS, TEXTS)
def test_one_sided_changes_are_taken(base: bytes, other: bytes) -> None:
    assert merge(base, other, base) == merge(base, base, other) == merge(base, other, other) == Merged(other)


@given(TEXTS, TEXTS, TEXTS, EDITS)
def test_the_sides_are_equals(base: bytes, ours: bytes, theirs: bytes, edits: int) -> None:
    with patch.object(module, "EDITS_MAX", edits):
        there, back = merge(base, ours, theirs), merge(base, theirs, ours)
    assert there.data == back.data
    assert [(o.base_lines, o.our_lines, o.their_lines) for o in there.conflicts] == [
        (o.base_lines, o.their_lines, o.our_lines) for o in back.conflicts
    ]
    assert (there.data is None) == bool(there.conflicts)


@given(TEXTS, TEXTS, TEXTS, TEXTS, EDITS)
def test_changes_far_from_each_other_are_both_there(
    one: bytes, one_after: bytes, two: bytes, two_after: bytes, edits: int
) -> None:
    between = b"\n-- a line that\n-- nobody changes\n"
    with patch.object(module, "EDITS_MAX", edits):
        merged = merge(one + between + two, one_after + between + two, one + between + two_after)
    assert merged.data == one_after + between + two_after


@given(LINES, LINES, EDITS)
def test_hunks_lead_from_one_to_the_other(base: list[bytes], other: list[bytes], edits: int) -> None:
    with patch.object(module, "EDITS_MAX", edits):
        hunks = module.hunks(base, other)
    result: list[bytes] = []
    at = 0
    for hunk in hunks:
        assert hunk.start > at or hunk is hunks[0], "hunks of one side do not touch"
        result += base[at : hunk.start] + other[hunk.first : hunk.last]
        at = hunk.end
    assert result + base[at:] == other


@given(TEXTS, TEXTS, TEXTS)
def test_overlaps_name_lines_that_are_there(base: bytes, ours: bytes, theirs: bytes) -> None:
    end = 0
    for overlap in merge(base, ours, theirs).conflicts:
        assert overlap.base_lines[0] > end, "in order, each line in one overlap"
        end = overlap.base_lines[1]
        for text, (first, last) in zip(
            (base, ours, theirs),
            (overlap.base_lines, overlap.our_lines, overlap.their_lines),
            strict=True,
        ):
            assert 1 <= first <= last + 1 <= len(module._split(text)) + 1


# Which line is which

FEW = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12)


def longest(one: list[bytes], other: list[bytes]) -> int:
    """How many lines two texts can have in common, by trying everything."""
    before = [0] * (len(other) + 1)
    for line in one:
        row = [0]
        for place, twin in enumerate(other):
            row.append(before[place] + 1 if line == twin else max(before[place + 1], row[place]))
        before = row
    return before[-1]


def is_rising(pairs: Sequence[module.Pair]) -> bool:
    return all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@given(FEW, FEW)
def test_the_shortest_script_leaves_the_most_lines_as_they_are(one: list[bytes], other: list[bytes]) -> None:
    pairs = module._shortest(one, other)
    assert pairs is not None and is_rising(pairs) and len(pairs) == longest(one, other)
    assert all(one[mine] == other[theirs] for mine, theirs in pairs)


def test_the_shortest_script_of_texts_with_nothing_in_common_takes_every_edit() -> None:
    assert module._shortest([b"a"], [b"b"]) == module._shortest([b"a"] * 3, [b"b"] * 2) == []


@given(st.permutations(range(7)))
def test_of_pairs_the_longest_choice_that_rises_is_taken(places: list[int]) -> None:
    pairs = list(enumerate(places))
    sizes = range(len(pairs), 0, -1)
    most = next(size for size in sizes if any(map(is_rising, combinations(pairs, size))))
    found = module._rising(pairs)
    assert is_rising(found) and len(found) == most and set(found) <= set(pairs)


def test_lines_that_occur_once_on_both_sides_divide_the_text() -> None:
    mine = [b"twice", b"here", b"once", b"twice", b"last"]
    assert module._unique(mine, [b"once", b"there", b"last"]) == [(2, 0), (4, 2)]
    assert module._unique(mine, [b"once", b"once", b"twice", b"last"]) == [(4, 3)]
    assert module._unique(mine, []) == []


def test_lines_without_a_mate_are_not_looked_at() -> None:
    base, other = [b"a", b"mine", b"b"], [b"theirs", b"b", b"a", b"theirs"]
    assert module._shared(base, other, range(3), range(4)) == ([0, 2], [1, 2])
    assert module._shared(base, other, range(1, 3), range(2)) == ([2], [1])


# Large


def large(lines: int) -> list[bytes]:
    """Like code: every third line is blank or a brace, the others differ."""
    return [(b"\n", b"    }\n", b"    call(%d);\n" % n)[n % 3] for n in range(lines)]


def test_a_large_file_with_few_changes() -> None:
    base = large(20_000)
    ours, theirs, both = base.copy(), base.copy(), base.copy()
    for text, places in (
        (ours, (0, 7_000, 19_999)),
        (theirs, (3_000, 12_000)),
        (both, (0, 3_000, 7_000, 12_000, 19_999)),
    ):
        for place in places:
            text[place] = b"changed at %d\n" % place
    assert merge(b"".join(base), b"".join(ours), b"".join(theirs)).data == b"".join(both)


def test_a_large_file_that_was_rewritten() -> None:
    base = large(6_000)
    mixed = base.copy()
    random.Random(5).shuffle(mixed)
    theirs = [*base[:3_000], b"new\n", *base[3_000:]]
    assert merge(b"".join(base), b"".join(mixed), b"".join(theirs)).data is None
    repeated = [b"a\n", b"b\n"] * 1_000
    assert merge(b"".join(repeated), b"".join(repeated[::-1] * 2), b"new\n" + b"".join(repeated)).data is None


def test_many_changes_are_found_by_the_lines_between_them() -> None:
    base = large(3_000)
    ours = [b"ours %d\n" % n if n % 12 == 2 else line for n, line in enumerate(base)]
    theirs = [b"theirs %d\n" % n if n % 12 == 8 else line for n, line in enumerate(base)]
    both = [mine if mine != line else other for mine, other, line in zip(ours, theirs, base, strict=True)]
    assert merge(b"".join(base), b"".join(ours), b"".join(theirs)).data == b"".join(both)


# Git as a second opinion


def git(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The result of `git merge-file`, or None where it sees a conflict."""
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_bytes(data)
    command = ["git", "merge-file", "-p", "--quiet", "ours", "base", "theirs"]
    done = subprocess.run(command, cwd=folder, capture_output=True)
    assert done.returncode < 128, done.stderr
    return done.stdout if done.returncode == 0 else None


@st.composite
def stories(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A base and two edits of it in which no line occurs twice: there is one way to tell them."""
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    size = draw(st.integers(0, 9))
    drop_end = st.sampled_from([False, False, False, True])

    def text(lines: list[bytes]) -> bytes:
        data = b"".join(line + end for line in lines)
        return data[: -len(end)] if draw(drop_end) else data

    def edit() -> bytes:
        lines = []
        for place in range(size + 1):
            lines += draw(
                st.sampled_from([[], [], [], [], [b"new %d" % place], [b"more %d" % place, b"+%d" % place]])
            )
            what = draw(st.sampled_from(["keep", "keep", "keep", "remove", "change", "my change"]))
            if place < size and what != "remove":
                mark = {"keep": b"", "change": b"changed ", "my change": b"changed again "}[what]
                lines.append(mark + b"line %d" % place)
        return text(lines)

    return text([b"line %d" % place for place in range(size)]), edit(), edit()


@given(stories())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_as_git_does_where_there_is_one_way_to_tell_it(
    tmp_path: Path, story: tuple[bytes, bytes, bytes]
) -> None:
    assert merge(*story).data == git(tmp_path, *story)


def test_mostly_as_git_does_where_lines_repeat(tmp_path: Path) -> None:
    # Where equal lines stand side by side there are several shortest scripts, and git takes another at times:
    # what it sees as a conflict can be merged here, and the other way round, and the same insertion made by
    # both sides can be one here and two there. Besides, git takes data for text if the first 8,000 bytes are.
    chance = random.Random(11)
    agreed = 0
    for _ in range(60):
        story = tuple(b"".join(lines) for lines in repeating(chance))
        agreed += merge(*story).data == git(tmp_path, *story)
    assert agreed >= 55


def repeating(chance: random.Random) -> tuple[list[bytes], list[bytes], list[bytes]]:
    lines = [b"a\n", b"b\n", b"c\n", b"}\n", b"\n"]
    base = chance.choices(lines, k=chance.randrange(15))
    sides: list[list[bytes]] = [[], []]
    for side in sides:
        for line in base:
            side.extend(chance.choices(lines, k=chance.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 2))))
            side.extend([line] * (chance.random() > 0.12))
    return base, sides[0], sides[1]


@pytest.mark.sweep
def test_mostly_as_git_does_over_many(tmp_path: Path) -> None:
    chance = random.Random(12)
    stories = [tuple(b"".join(lines) for lines in repeating(chance)) for _ in range(1_000)]
    agreed = sum(merge(*story).data == git(tmp_path, *story) for story in stories)
    assert agreed >= 965
