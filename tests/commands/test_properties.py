"""No disguise makes a harmful command safe, and no text whatsoever is judged safe by accident."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from takeback.shell import parse
from takeback.shell.judgement import Reach
from takeback.shell.parse import Block, Part, Simple
from takeback.shell.rules import program

from .corpus import SAFE, judge, of

q = shlex.quote
WRAPPERS: list[Callable[[str], str]] = [
    lambda line: f"bash -c {q(line)}",
    lambda line: f"sh -xc {q(line)} name",
    lambda line: f"sudo -u bob sh -c {q(line)}",
    lambda line: f"env -i A=1 bash -lc {q(line)}",
    lambda line: f"nohup timeout -k 1 5 nice -n 3 bash -c {q(line)} &",
    lambda line: f"eval {q(line)}",
    lambda line: f"echo {q(line)} | sh",
    lambda line: f"bash <<< {q(line)}",
    lambda line: f"xargs -I% sh -c {q(line)}",
    lambda line: f"find . -name x -exec sh -c {q(line)} \\;",
    lambda line: f"trap {q(line)} EXIT",
    lambda line: f"watch -n 1 {q(line)}",
    lambda line: f"ssh host {q(line)}",
    lambda line: f"flock lock -c {q(line)}",
    lambda line: f"command builtin exec bash -c {q(line)}",
    lambda line: f"({line}\n)",
    lambda line: f"{{ {line}\n}}",
    lambda line: f"if true; then {line}\nfi",
    lambda line: f"for i in 1 2; do {line}\ndone",
    lambda line: f"while true; do {line}\ndone",
    lambda line: f"f() {{ {line}\n}}; f",
    lambda line: f"case x in *) {line}\n;; esac",
    lambda line: f"x=$({line}\n)",
    lambda line: f"echo \"a $({line}\n) b\"",
    lambda line: f"cat <({line}\n)",
    lambda line: f"ls -la\n{line}",
    lambda line: f"cd . && {line}",
    lambda line: f"true || {line}",
    lambda line: f"ls > /dev/null; {line}",
]  # fmt: skip

HARM = of("irreversible", "outside")


@given(st.sampled_from(HARM), st.lists(st.sampled_from(WRAPPERS), max_size=4))
def test_no_stack_of_wrappers_makes_harm_safe(line: str, wrappers: list[Callable[[str], str]]) -> None:
    for wrap in wrappers:
        line = wrap(line)
    assert judge(line).reach not in SAFE, line


@given(st.sampled_from([line for line in of("irreversible") if " " in line]), st.data())
def test_no_quoting_makes_harm_safe(line: str, data: st.DataObject) -> None:
    """Letters in quotes or behind a backslash are the same letters."""
    start = len(line) - len(line.lstrip("abcdefghijklmnopqrstuvwxyz"))
    quoted = "".join(
        data.draw(st.sampled_from([letter, f"'{letter}'", f'"{letter}"', f"\\{letter}", f"$'{letter}'"]))
        if place < start
        else letter
        for place, letter in enumerate(line)
    )
    word = line[:start]
    if word not in (
        "if",
        "while",
        "until",
        "for",
        "case",
        "function",
        "export",
        "local",
        "time",
        "f",
        "ls",
        "arr",
    ):
        assert judge(quoted).reach not in SAFE, quoted


@given(st.text(max_size=60), st.sampled_from(["\n", " ; ", "\n\n"]))
def test_nothing_that_stands_before_it_hides_harm(before: str, between: str) -> None:
    """Unless it makes something else of it: an open quote or a backslash, and then it is not known."""
    if not before.rstrip(" \t").endswith("\\") and "#" not in before:
        assert judge(f"{before}{between}git push").reach not in SAFE


@given(st.text(max_size=60).filter(lambda text: "-" not in text))
def test_nothing_that_stands_after_it_hides_harm(after: str) -> None:
    assert judge(f"git push {after}").reach not in SAFE


SHELL = st.text(alphabet="abgitpush rm-/.$(){}[]<>|&;'\"`\\\n#*?~=!%@0", max_size=40)


@given(st.one_of(st.text(max_size=80), SHELL, st.binary(max_size=80).map(lambda b: b.decode("latin-1"))))
def test_any_text_is_judged_and_none_only_where_every_program_is_known(line: str) -> None:
    if judge(line).reach is Reach.NONE:
        names = [simple.words[0].rpartition("/")[2] for simple in simples(parse.read(line)) if simple.words]
        assert all(name in ("cd", "pushd", "popd") or program(name) for name in names)


@given(
    st.lists(
        st.one_of(st.text(max_size=10), st.sampled_from(["git", "push", "-c", "sh", "sudo", "--", "xargs"]))
    )
)
def test_any_arguments_are_judged(words: list[str]) -> None:
    from takeback.shell.classify import classify

    judged = classify(words, root="/project", cwd="/project", home="/home/me")
    assert judged.reach in Reach


def simples(part: Part) -> Iterator[Simple]:
    if isinstance(part, Simple):
        yield part
        for inner in part.inside:
            yield from simples(inner)
    elif isinstance(part, Block):
        for inner in part.parts:
            if part.kind != parse.FUNCTION:
                yield from simples(inner)
