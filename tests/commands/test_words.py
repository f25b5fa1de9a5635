"""Words are read as a real shell reads them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.shell.parse import Block, Doubt, Part, Simple, read
from takeback.shell.words import BARE, END, HOLE, QUOTED, WILD, is_known

PIECES = st.sampled_from(
    [
        "a",
        "git",
        " ",
        "'",
        '"',
        "\\",
        "$'x'",
        "'a b'",
        '"c d"',
        "\\ ",
        "\\\n",
        "\t",
        "$'\\x41\\n'",
        "\\$",
        "-",
        "=",
        "~",
        ",",
        "é",
        '"\\$x"',
        "'$x'",
        "#",
        '"\\\\"',
        "''",
        "%",
    ]
)


def words_of(line: str) -> tuple[str, ...] | None:
    """The words of one simple command, where all are known; None where there is any doubt."""
    match read(line).parts:
        case Simple(words=words, inside=()) if all(map(is_known, words)):
            return words
    return None


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_words_are_those_of_bash(text: str) -> None:
    """Where we are sure of the words, bash sees the same ones."""
    ours = words_of(f"printf x{text}")
    if ours is None or "~" in text:
        return
    script = f"set -- x{text}\nprintf '%s\\0' \"$@\""
    shown = subprocess.run(["bash", "--norc", "-c", script], capture_output=True)
    theirs = tuple(shown.stdout.decode().split("\0")[:-1])
    assert shown.returncode == 0
    assert ours[1:] == theirs


@pytest.mark.parametrize(
    "line, words",
    [
        ("'g'i\"t\" pu\\sh", ("git", "push")),
        ("$'\\x67it' $'\\160ush'", ("git", "push")),
        ("git \\\n  push", ("git", "push")),
        ("gi\\\nt push", ("git", "push")),
        ("git $1 \"$@\" a${z%x}", ("git", HOLE, HOLE, f"a{HOLE}")),
        ("git $x \"$y\" a${z}", ("git", f"{BARE}x{END}", f"{QUOTED}y{END}", f"a{BARE}z{END}")),
        ("ls *.py a?b '*'", ("ls", f"{WILD}.py", f"a{WILD}b", "*")),
        ("rm {a,b} {} {x}", ("rm", "a", "b", "{}", "{x}")),
        ("> out git push", ("git", "push")),
        ("git > out push", ("git", "push")),
        ("echo \"$(pwd)/x\" a\"$HOME\"", ("echo", "\3/x", "a\2")),
    ],
)  # fmt: skip
def test_words(line: str, words: tuple[str, ...]) -> None:
    (simple,) = (part for part in flat(read(line)) if isinstance(part, Simple) and part.words)
    assert simple.words == words


def flat(part: Part) -> list[Part]:
    return [inner for one in part.parts for inner in flat(one)] if isinstance(part, Block) else [part]


@pytest.mark.parametrize(
    "line",
    [
        "cat <<EOF\na\nEOF\nb\nEOF",
        "cat <<E'O'F\n$(git push)\nEOF",
        "cat <<$x\n$(git push)\n$x",
        "cat <<A <<B\nx\nA\ny\nB",
        "echo `echo \\`git push\\``",
    ],
)
def test_what_the_parser_may_get_wrong_is_in_doubt_or_seen(line: str) -> None:
    parts = flat(read(line))
    inside = [
        inner for part in parts if isinstance(part, Simple) for one in part.inside for inner in flat(one)
    ]
    commands = [part.words[0] for part in parts if isinstance(part, Simple) and part.words]
    assert any(isinstance(part, Doubt) for part in [*parts, *inside]) or len(commands) > 1
