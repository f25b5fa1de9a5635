"""Words that stand in the line itself: braces, variables that the line sets, loops over words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from takeback.shell import parse
from takeback.shell.judgement import Reach

from .corpus import judge


def written(line: str) -> set[str]:
    return {touched.path for touched in judge(line).touched}


@pytest.mark.parametrize(
    "line, expected",
    [
        ("rm /v/{a,b}", {"/v/a", "/v/b"}),
        ("rm /v/{a,b{1,2}}.x", {"/v/a.x", "/v/b1.x", "/v/b2.x"}),
        ("rm /v/f{1..3}", {"/v/f1", "/v/f2", "/v/f3"}),
        ("rm {../a,/v/b}", {"/a", "/v/b"}),
        ('D=/v; rm "$D/a"', {"/v/a"}),
        ("D=/v; rm ${D}/a $D/b", {"/v/a", "/v/b"}),
        ("D=/v E=$D/sub; rm $E/a", {"/v/sub/a"}),
        ('export D=/v && rm "$D/a"', {"/v/a"}),
        ('D="/v w"; rm "$D/a"', {"/v w/a"}),
        ("D=~/x; rm $D", {"/home/me/x"}),
        ("D=$HOME/x; rm $D/a", {"/home/me/x/a"}),
        ("for n in a b; do rm /v/$n; done", {"/v/a", "/v/b"}),
        ("for n in {a,b} c; do rm /v/$n.txt; done", {"/v/a.txt", "/v/b.txt", "/v/c.txt"}),
        ("for d in /v /w; do for n in a b; do rm $d/$n; done; done", {"/v/a", "/v/b", "/w/a", "/w/b"}),
        ("D=/v; for n in a b; do echo x > $D/$n; done", {"/v/a", "/v/b"}),
        ("D=/v; cd $D && rm a", {"/v/a"}),
        ("if ls; then D=/v; rm $D/a; else D=/w; rm $D/b; fi", {"/v/a", "/w/b"}),
        ("D=/v; (D=/w; rm $D/a); rm $D/b", {"/w/a", "/v/b"}),
        ("D=/v; tee $D/a < x", {"/v/a"}),
        ("D=$PWD; cd /v && rm $D-old/a", {"/project-old/a"}),
        ("rm -rf $PWD-old ${PWD}x", {"/project-old", "/projectx"}),
        ("D=/v; for n in $D/a; do rm $n; done", {"/v/a"}),
    ],
)
def test_paths_whose_every_word_is_in_the_line(line: str, expected: set[str]) -> None:
    judged = judge(line)
    assert {touched.path for touched in judged.touched} >= expected
    assert judged.reach is Reach.OUTSIDE
    # A part that may not have run leaves the name that was there before, too; nothing beyond both is named.
    assert all(touched.reach is Reach.OUTSIDE for touched in judged.touched)


@pytest.mark.parametrize(
    "line",
    [
        "rm $D/a",
        "D=$(ls)x; rm $D/a",
        "read D; rm $D/a",
        "D=/v; read D; rm $D/a",
        "D=/v; eval 'D=/w'; rm $D/a",
        "D=/v; . ./other; rm $D/a",
        "D=/v; unset D; rm $D/a",
        "D=/v; time D=/w; rm $D/a",
        "D=/v; time -p read D; rm $D/a",
        "readonly D=/v\nD=/w\nrm $D/a",
        "COLUMNS=/v; ls; rm $COLUMNS/a",
        "D=/v; ((D=1)); rm $D/a",
        "D=/v; echo $((D=1)); rm $D/a",
        "D=/v; : ${D:=/w}; rm $D/a",
        "D=/v; D+=x; rm $D/a",
        "D=(/v /w); rm $D/a",
        "D=/v; declare -n E=D; E=/w; rm $D/a",
        "D=/v; printf -v D %s /w; rm $D/a",
        "D=/v; getopts ab D; rm $D/a",
        "D=/v; bash -c 'rm $D/a'",
        "D='/v *'; rm $D/a",
        "D=/v; f() { D=/w; }; f; rm $D/a",
        "f() { rm $D/a; }; D=/v; f",
        "D=/v; while ls; do rm $D/a; D=/w; done",
        "ls && D=/v; rm $D/a",
        "if ls; then D=/v; fi; rm $D/a",
        "case x in a) D=/v;; esac; rm $D/a",
        "ls | read D; rm $D/a",
        "for n; do rm /v/$n; done",
        "for n in $(ls); do rm /v/$n; done",
        "for n in a b; do n=../$n; rm /v/$n; done",
        "D=/v rm $D/a",
        "rm /v/{1..1000}",
        "D=/v; alias x='D=/w'; rm $D/a",
        "PWD=/v; rm $PWD/a $OLDPWD/b",
        "rm ${D}/a ${D%x}/b ${D:-c}",
    ],
)
def test_what_only_the_running_shell_knows_stays_unknown(line: str) -> None:
    assert judge(line).reach is Reach.UNKNOWN


def test_a_variable_may_hold_one_of_several() -> None:
    judged = judge("D=/v; ls && D=/w; rm $D/a")
    assert judged.reach is Reach.OUTSIDE
    assert written("D=/v; ls && D=/w; rm $D/a") == {"/v/a", "/w/a"}


def test_too_many_ways_are_unknown_and_quickly_so() -> None:
    names = "".join(f"for {n} in {{1..40}}; do " for n in "abcdef")
    line = names + "rm /v/$a$b$c$d$e$f" + "; done" * 6
    assert judge(line).reach is Reach.UNKNOWN


BRACES = r"""
{a,b} x{a,b}y {a,b}{c,d} {a,{b,c}} {a} {} a{,b} {a,} {1..5} {5..1} {01..03} {1..9..3} {a..e} {e..a..2} {a,b a,b}
{a,b}} {{a,b} '{a,b}' "{a,b}" \{a,b} {1..a} {1'..'3} {a','b} x{,}y {-1..1} {a..} {,} a{b,c}d{e..g}
"""


@pytest.mark.parametrize("word", BRACES.split())
def test_braces_expand_as_in_a_real_shell(word: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("not on this platform: there is no bash")
    told = subprocess.run([bash, "-c", f"printf '%s\\n' {word}"], capture_output=True, text=True, check=True)
    (part,) = [part for part in parse.read(f"echo {word}").parts if isinstance(part, parse.Simple)]
    words = list(part.words[1:])
    expected = told.stdout.split("\n")[:-1]
    assert [one for one in words if one] == [one for one in expected if one]
