"""What a judgement says: how far, by which rule, which paths, and whether something goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.shell.classify import classify
from takeback.shell.judgement import Judgement, Reach, Touched

from .corpus import HOME, ROOT, judge


def paths(judged: Judgement) -> dict[str, Reach]:
    return {touched.path: touched.reach for touched in judged.touched}


# The worst counts, and has a reason


def test_the_worst_command_of_a_line_counts() -> None:
    judged = judge("ls; rm a; rm ../b; git push origin main")
    assert judged.reach is Reach.IRREVERSIBLE
    assert [(r.reach, r.rule) for r in judged.reasons] == [
        (Reach.RESTORABLE, "rm"),
        (Reach.OUTSIDE, "rm"),
        (Reach.IRREVERSIBLE, "git push"),
    ]
    assert judged.main is not None
    assert judged.main.command == "git push origin main"
    assert "force-with-lease" in judged.main.back


def test_reading_needs_no_reason() -> None:
    assert judge("ls -la | wc -l") == Judgement(Reach.NONE)
    assert judge("") == judge("   \n ") == judge("# git push") == Judgement(Reach.NONE)


@pytest.mark.parametrize(
    "line", ["echo 'open", "if true; then git push", "a b )", "${", "$(", "`", "<<<", "&&"]
)
def test_what_cannot_be_parsed_is_unknown_or_worse(line: str) -> None:
    assert judge(line).reach in (Reach.UNKNOWN, Reach.IRREVERSIBLE)


def test_a_broken_line_is_still_searched() -> None:
    assert judge("git push )").reach is Reach.IRREVERSIBLE


@pytest.mark.parametrize(
    "line", ["x" * 200_000, "(" * 5000, "$(" * 3000 + ")" * 3000, "git \0push", "ls\x07"]
)
def test_what_is_too_long_too_deep_or_unprintable_is_unknown(line: str) -> None:
    assert judge(line).reach in (Reach.UNKNOWN, Reach.IRREVERSIBLE)


# Arguments that no shell reads


def test_arguments_are_taken_as_they_are() -> None:
    def given(*words: str) -> Reach:
        return classify(words, root=ROOT, cwd=ROOT, home=HOME).reach

    assert given("git", "push") is Reach.IRREVERSIBLE
    assert given("bash", "-c", "git push") is Reach.IRREVERSIBLE
    assert given("echo", "x; git push") is Reach.NONE
    assert given("git", "commit", "-m", "$(git push) && rm -rf /") is Reach.RESTORABLE
    assert given("rm", "$HOME/x") is Reach.RESTORABLE  # a file of that name, in a folder of that name
    assert given("rm", "*") is Reach.RESTORABLE
    assert given("ls\0x") is Reach.UNKNOWN
    assert given() is Reach.NONE


# Paths


@pytest.mark.parametrize(
    "line, expected",
    [
        ("rm a ../b ~/c /d", {"/project/a": "restorable", "/b": "outside", "/home/me/c": "outside", "/d": "outside"}),
        ("rm src/../../x", {"/x": "outside"}),
        ("rm -rf src/*.py", {"/project/src": "restorable"}),
        ("rm -rf ../*", {"/": "outside"}),
        ("rm -rf src/*/../../..", {"src/*/../../..": "unknown"}),
        ("rm -rf $x", {"…": "unknown"}),
        ("rm -rf src/$x", {"src/…": "unknown"}),
        ("cp a b", {"/project/b": "restorable"}),
        ("mv a ~/b", {"/project/a": "restorable", "/home/me/b": "outside"}),
        ("tar -xf a.tar -C vendor", {"/project/vendor": "restorable"}),
        ("tar xfC a.tar /opt", {"/opt": "outside"}),
        ("sed -i s/a/b/ x y", {"/project/x": "restorable", "/project/y": "restorable"}),
        ("sort -uo out in", {"/project/out": "restorable"}),
        ("echo x > 'a b'", {"/project/a b": "restorable"}),
        ("curl -sSLo x https://example.org", {"/project/x": "restorable"}),
        ("echo > /dev/null 2>&1", {}),
        ("dd if=a of=/dev/sda", {"/dev/sda": "irreversible"}),
    ],
)  # fmt: skip
def test_paths_that_are_written(line: str, expected: dict[str, str]) -> None:
    assert paths(judge(line)) == expected


def test_a_path_says_whether_it_is_exact_and_whether_it_is_deleted() -> None:
    assert judge("rm a").touched == (Touched("/project/a", Reach.RESTORABLE, deletes=True),)
    assert judge("rm src/*").touched == (
        Touched("/project/src", Reach.RESTORABLE, exact=False, deletes=True, names=""),
    )
    assert judge("git clone u lib").touched == (Touched("/project/lib", Reach.RESTORABLE, exact=False),)
    assert judge("touch a").touched == (Touched("/project/a", Reach.RESTORABLE),)


def test_a_link_out_of_the_workspace_is_followed(tmp_path: Path) -> None:
    root, other = tmp_path / "work", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "door").symlink_to(other)

    def reach(line: str, **more: object) -> Reach:
        return classify(line, root=str(root), cwd=str(root), home=HOME, **more).reach  # type: ignore[arg-type]

    assert reach("rm door/x") is Reach.RESTORABLE  # by its words alone
    assert reach("rm door/x", real=os.path.realpath) is Reach.OUTSIDE
    assert reach("rm x", real=os.path.realpath) is Reach.RESTORABLE


# Folders


@pytest.mark.parametrize(
    "line, expected",
    [
        ("cd src && rm a", {"/project/src/a"}),
        ("cd src; rm a", {"/project/a", "/project/src/a"}),  # it may not be there
        ("cd src || exit; rm a", {"/project/a", "/project/src/a"}),
        ("(cd src && rm a) && rm b", {"/project/src/a", "/project/b"}),
        ("cd src && cd .. && rm a", {"/project/a"}),
        ("cd && rm a", {"/home/me/a"}),
        ("cd /etc && (cd / && rm a); rm b", {"/a", "/project/b", "/etc/b"}),
        ("pushd src && rm a", {"/project/src/a"}),
        ("git -C src add .", {"/project/src"}),
        ("env -C src touch a", {"/project/src/a"}),
        ("bash -c 'cd src && rm a'", {"/project/src/a"}),
        ("cd src && rm a && echo x > b", {"/project/src/a", "/project/src/b"}),
        ("cd src && cat > a <<E\nx\nE", {"/project/src/a"}),
        ("cd src || true > a", {"/project/a", "/project/src/a"}),
        ("f() { ls; } > a; f", {"a"}),  # wherever it is called
    ],
)
def test_cd_holds_for_what_follows(line: str, expected: set[str]) -> None:
    assert set(paths(judge(line))) == expected


@pytest.mark.parametrize(
    "line",
    [
        "cd $x && rm a",
        "cd - && rm a",
        "popd && rm a",
        "while true; do cd ..; rm a; done",
        "f() { cd ..; }; f; rm a",
    ],
)
def test_in_an_unknown_folder_a_path_is_unknown(line: str) -> None:
    assert judge(line).reach is Reach.UNKNOWN


# What goes on


@pytest.mark.parametrize(
    "line, goes_on",
    [
        ("sleep 1", False),
        ("sleep 1 &", True),
        ("ls && (sleep 9; touch a) &", True),
        ("nohup sleep 9", True),
        ("setsid sleep 9", True),
        ("coproc sleep 9", True),
        ("bash -c 'sleep 9 &'", True),
        ("sleep 1 && wait", False),
    ],
)
def test_background_work_is_noticed(line: str, goes_on: bool) -> None:
    assert judge(line).background is goes_on


# Options


@pytest.mark.parametrize(
    "line, reach",
    [
        ("git push --dry-run", Reach.NONE),
        ("git push --dry-run --no-dry-run", Reach.IRREVERSIBLE),
        ("kubectl apply -f x --dry-run=client", Reach.NONE),
        ("kubectl apply -f x --dry-run=none", Reach.IRREVERSIBLE),
        ("kubectl apply -f x --dry-run=$x", Reach.IRREVERSIBLE),
        ("npm publish --dry-run", Reach.UNKNOWN),  # it runs scripts
        ("npm run x --dry-run", Reach.UNKNOWN),
        ("python evil.py --version", Reach.UNKNOWN),
        ("wget --spider --post-data=x https://example.org", Reach.IRREVERSIBLE),
        ("curl -X GET -d x https://example.org", Reach.NONE),
        ("sort --compress-prog=x a", Reach.UNKNOWN),
        ("git branch -a", Reach.NONE),
        ("git branch -r -d origin/x", Reach.RESTORABLE),
        ("git remote -v add x y", Reach.RESTORABLE),
        ("bash script.sh -c ls", Reach.UNKNOWN),
        ("bash -c ls git push", Reach.NONE),
        ("command -v git push", Reach.NONE),
    ],
)
def test_options_that_change_what_it_does(line: str, reach: Reach) -> None:
    assert judge(line).reach is reach


# Links that the line itself makes


@pytest.mark.parametrize(
    "line, written",
    [
        ("ln -s ../other o && rm -rf o/src", "/other/src"),
        ("ln -s /etc x; rm -rf x/*", "/etc"),
        ("ln -sfn ~ h\nrm -r h/docs", "/home/me/docs"),
        ("ln -s ~/.bashrc rc; echo x >> rc", "/home/me/.bashrc"),
        ("ln -s /opt/tool; cp a tool/b", "/opt/tool/b"),
        ("sudo ln -s /opt sub && touch sub/opt/x", "/opt/x"),
        ("ln -s /opt a; ln -s a b; rm b/x", "/opt/x"),
        ("ln --symbolic /opt o && cd o && rm x", "/opt/x"),
        ("ln -s ../other o; rm -r o/", "/other"),
        ("ln -s ../other/deep o; rm o/../x", "/other/x"),
        ("ln -s ../other/deep o; cd o; rm ../x", "/other/x"),
        ("ln -s ../other/deep o; cd -P o/..; rm x", "/other/x"),
        ("ln -s ../other/deep o; git -C o/.. clean -fdx", "/other"),
        ("ln ../other/x h; mv h k; echo y > k", "/other/x"),
        ("ln -s ../other o; mv -t sub o; rm sub/o/x", "/other/x"),
        ("ln -s ../other o; cp -P o p; rm p/x", "/other/x"),
    ],
)
def test_a_link_that_the_line_makes_is_gone_through(line: str, written: str) -> None:
    judged = judge(line)
    assert judged.reach is Reach.OUTSIDE
    assert paths(judged).get(written) is Reach.OUTSIDE, paths(judged)


def test_who_removes_a_link_removes_no_more() -> None:
    assert judge("ln -s ../other o; rm -f o").reach is Reach.RESTORABLE
    assert judge("ln -s src/a b && echo x > b").reach is Reach.RESTORABLE
    assert judge("ln -s /opt/tool .; echo x > a").reach is Reach.RESTORABLE
    assert judge("ln -s /opt/tool bin/; echo x > bin/a").reach is Reach.RESTORABLE


@pytest.mark.parametrize("line", ["ls0", "w1 x", "cat2.7 a"])
def test_a_program_with_the_name_of_a_harmless_one_and_a_number_is_unknown(line: str) -> None:
    assert judge(line).reach is Reach.UNKNOWN


@pytest.mark.parametrize("line", ["python3.12 --version", "md5sum a"])
def test_a_version_of_a_known_program_is_that_program(line: str) -> None:
    assert judge(line).reach is Reach.NONE
