"""The judge's own limits: a line that is not read to its end says so, and reading it takes time in proportion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from takeback.shell.judgement import Reach

from .corpus import judge

BEYOND = [
    "env " * 9 + "git push --force",
    "sudo " * 30 + "ls",
    "( " * 250 + "git push --force" + " )" * 250,
    "echo " + "$( " * 150 + "git push" + ")" * 150,
    "git push --force #" + "x" * 100_000,
    "ls;" * 20_000 + "git push",
    "rm " + "a " * 30_000,
]


@pytest.mark.parametrize("line", BEYOND, ids=lambda line: line[:20])
def test_a_line_that_is_not_read_to_its_end_says_so(line: str) -> None:
    judged = judge(line)
    assert judged.reach in (Reach.UNKNOWN, Reach.IRREVERSIBLE)
    assert judged.limit is not None
    assert judged.limit.rule == "(limit)"
    assert judged.limit.why


@pytest.mark.parametrize(
    "line", ["ls", "git push", "./x.sh", "$x push", "env env env ls", "ls )", "echo 'open"]
)
def test_what_is_read_to_its_end_hits_no_limit(line: str) -> None:
    assert judge(line).limit is None


@pytest.mark.parametrize(
    "line", ["((git push) )", "echo $((git push) )", "((ls); (git push))", "(" * 60 + "git push" + " )" * 60]
)
def test_parentheses_that_are_no_arithmetic_are_looked_into(line: str) -> None:
    assert judge(line).reach is Reach.IRREVERSIBLE


LONG: dict[str, Callable[[int], str]] = {
    "arguments": lambda n: "echo " + "a " * n,
    "paths": lambda n: "rm " + "a " * n,
    "quoted": lambda n: "echo " + '"a b" ' * n,
    "substitutions": lambda n: "echo " + "$(ls) " * n,
    "commands": lambda n: "ls;" * n,
    "pipes": lambda n: "ls" + " | ls" * (n // 2),
    "variables": lambda n: "env " + "A=1 " * n + "ls",
    "redirections": lambda n: "ls " + ">a " * n,
    "actions of find": lambda n: "find . " + "-exec ls {} \\; " * n,
    "roots of find": lambda n: "find " + "a " * n + "-delete",
    "settings of git": lambda n: "git " + "-c a=b " * n + "push",
    "links": lambda n: "".join(f"ln -s a{i} b{i};" for i in range(n // 8)) + "rm b0/c;" * (n // 8),
    "assignments": lambda n: "x=1\n" * n,
    "arithmetic": lambda n: "(( x = x + 1 ))\n" * n,
    "here-document": lambda n: "cat > a <<E\n" + "some text\n" * n + "E\n",
}


def steps(line: str) -> int:
    """How much is done for a line: calls of functions, and characters of the line that are copied."""
    count = 0

    def counted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if event == "call" and frame.f_code.co_name == "from_letters":
            count += len(frame.f_locals["text"] or b"") // 50

    sys.setprofile(counted)
    try:
        judge(line)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", LONG)
def test_a_line_of_twice_the_length_takes_about_twice_the_work(name: str) -> None:
    make = LONG[name]
    judge(make(10))  # what is read only once
    short, long = steps(make(200)), steps(make(400))
    assert long < 2.5 * short, (short, long)
