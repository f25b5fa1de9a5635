"""The rules are data: every one of them is well formed, and is found by every name that it has."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest

from takeback.shell import rules
from takeback.shell.judgement import Reach
from takeback.shell.languages import readers
from takeback.shell.options import REST
from takeback.shell.rules import FOLDER, Rule, RulesHeader, program

EFFECTS = {*map(str, Reach), "paths"} - {"restorable"}
ROLES = {*REST, "-", "read", "write", "delete", "into", "target", "maybe", "irreversible", "unknown", "code"}
ROLES |= {"sql", "prefix", "template", "renamed", "edited"}
OPTIONS = {
    *(
        "flag",
        "value",
        "optional",
        "harmless",
        "rehearsal",
        "shows",
        "list",
        "irreversible",
        "unknown",
        "background",
    ),
    *(
        "write",
        "delete",
        "here",
        "chdir",
        "repository",
        "line",
        "argv",
        "sql",
        "method",
        "form",
        "get",
        "config",
        "sshoption",
    ),
    *(
        "source",
        "exec",
        "placeholder",
        "braces",
        "command",
        "backup",
        "suffix",
        "ending",
        "prefix",
        "inplace",
    ),
    *("beyond", "url", "full"),
}
FOR_READERS = {
    *(
        "file",
        "sed",
        "inplace",
        "global",
        "system",
        "gets",
        "sets",
        "runs",
        "deletes",
        "two",
        "packs",
        "unpacks",
    ),
    *("reads", "archive", "folder", "removes", "top", "notes"),
}


def files() -> dict[str, dict[str, Any]]:
    return {
        path.name: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))
    }


def every() -> dict[str, Rule]:
    return {
        name: msgspec.convert(rule, Rule)
        for file in files().values()
        for name, rule in file["program"].items()
    }


def test_the_files_are_toml_and_each_rule_is_found_line_by_line() -> None:
    for file in files().values():
        msgspec.convert({key: value for key, value in file.items() if key != "program"}, RulesHeader)
    lines = [line for lines in rules.book().lines.values() for line in lines]
    assert len(lines) == len(every())
    assert {name for line in lines for name in tomllib.loads(line)} == set(every())


def test_each_rule_is_found_by_each_of_its_names() -> None:
    for name, rule in every().items():
        first, *below = name.split()
        for other in (first, *(rule.also.split() if not below else ())):
            known = program(other.replace("*", "x"))
            for word in below:
                assert known is not None, name
                known = known.next(word) or known.patterns.get(word)
            assert known is not None, (name, other)
            assert known.rule == rule, (name, other)


def test_no_program_has_two_rules() -> None:
    every_name = [n for name, rule in every().items() if " " not in name for n in (name, *rule.also.split())]
    every_name += [name for name, below in rules.book().reads.items() if "" in below]
    assert [name for name in set(every_name) if every_name.count(name) > 1] == []
    for name in every_name:
        program(name.replace("*", "x"))  # raises for a subcommand that has two


@pytest.mark.parametrize("name, rule", every().items())
def test_each_word_of_a_rule_means_something(name: str, rule: Rule) -> None:
    known = OPTIONS | (FOR_READERS if rule.reader else set())
    meanings = {word for text in (rule.options | rule.everywhere).values() for word in text.split()}
    assert meanings <= known, name
    assert {role.removesuffix("...") for role in rule.operands.split()} <= ROLES, name
    assert {rule.effect, rule.alone or "none", *rule.verbs.values()} <= EFFECTS, name
    assert rule.stdin in ("", "shell", "sql")
    assert not rule.reader or rule.reader in readers.READERS
    assert all(option.startswith("-") for names in rule.options for option in names.split()), name
    assert rule.why or rule.effect != "irreversible", (
        "who is told that it cannot be taken back wants to know why"
    )


def test_no_rule_that_only_reads_may_hide_an_option_that_does_more() -> None:
    """A name in `reads` has no options; whoever has dangerous ones needs a rule."""
    reads = {(name, below) for name, names in rules.book().reads.items() for below in names}
    with_rules = {tuple(name.partition(" ")[::2]) for name in every()}
    assert reads & with_rules == set()


def test_a_word_without_meaning_is_found() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"effect": "none", "operand": "write"}, Rule)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"why": "no effect is said"}, Rule)
