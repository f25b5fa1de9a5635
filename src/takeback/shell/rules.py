"""The rules about programs, as data: what is in the folder `rules`. docs/COMMANDS.md tells their form.

Reading all of TOML takes longer than judging a command. So each rule stands on a line of its own, and only the lines
about a program are read when it is first asked for.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from takeback.shell.judgement import Reach

FOLDER = Path(__file__).parent / "rules"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What is known about a program, or about one of its subcommands."""

    effect: str
    """none, unknown or irreversible; or `paths`: what the paths say that it writes."""
    why: str = ""
    back: str = ""
    also: str = ""
    """Other names of the same program."""
    operands: str = ""
    """What the words that are no options mean, in order; with `...` for as many as there are."""
    options: dict[str, str] = {}
    """What options mean: those of one kind together, separated by spaces."""
    everywhere: dict[str, str] = {}
    """The same for options that may stand before and after each subcommand."""
    beside: str = ""
    """Endings of files that it may write beside each path that it names, with `*` for anything."""
    writes: str = ""
    """A folder below which it writes, in addition to what it names."""
    local: str = ""
    """By which test what it calls irreversible stays with this session: see local.py."""
    remote: bool = False
    """What it runs, runs elsewhere: there nothing is captured."""
    alone: str = ""
    """The effect where it is given no command to run; for a program that runs none, where it is given nothing."""
    appends: bool = False
    """It adds words that only it knows to the command that it runs."""
    assigns: bool = False
    """Words like NAME=value before its command are variables."""
    stdin: str = ""
    """`shell`: it runs what it reads, if it is given nothing else."""
    background: bool = False
    verbs: dict[str, str] = {}
    """For deep grammars: what any of its words means, wherever it stands."""
    hooks: str = ""
    """The hooks of git that it runs."""
    language: str = ""
    """It runs a program in this language, which an option with the meaning `source` gives, a file or its input."""
    reader: str = ""
    """The function that reads its words, where a table cannot tell."""


class RuleNode(msgspec.Struct):
    """A place in the tree of programs and subcommands."""

    name: str = ""
    rule: Rule | None = None
    below: dict[str, RuleNode] = {}
    patterns: dict[str, RuleNode] = {}

    def next(self, word: str) -> RuleNode | None:
        """Return the subcommand of this name: exactly, or by the first pattern that fits."""
        if word in self.below:
            return self.below[word]
        return next((k for pattern, k in self.patterns.items() if fnmatch.fnmatchcase(word, pattern)), None)


class RulesHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header of a file of rules."""

    reads: str = ""
    """Programs and subcommands that only read, whatever they are given: separated by commas."""
    variables: str = ""
    """Variables that make other commands of the ones that follow."""
    settings: str = ""
    """Settings of git that make no other program run."""


class Book(msgspec.Struct):
    """Every file of rules, sorted by program but not yet read."""

    heads: list[RulesHeader] = []
    lines: dict[str, list[str]] = {}
    """The lines with the rules of a program."""
    reads: dict[str, list[str]] = {}
    """The subcommands of a program that only read; empty for all of it."""
    names: dict[str, str] = {}
    """Other names of programs."""


_LINE = re.compile(r'^"(([^" ]+)[^"]*)" = \{.*$', re.MULTILINE)
_ALSO = re.compile(r'\balso = "([^"]*)"')


@cache
def book() -> Book:
    found = Book()
    for path in sorted(FOLDER.glob("*.toml")):
        top, _, rules = path.read_text(encoding="utf-8").partition("\n[program]\n")
        head = msgspec.convert(tomllib.loads(top), RulesHeader)
        found.heads.append(head)
        for name in head.reads.replace("\n", " ").split(","):
            program, _, below = name.strip().partition(" ")
            found.reads.setdefault(program, []).append(below)
        for line in _LINE.finditer(rules):
            found.lines.setdefault(line[2], []).append(line[0])
            if line[1] == line[2] and (also := _ALSO.search(line[0])):
                # Another name of a program has all of its subcommands.
                found.names |= dict.fromkeys(also[1].split(), line[2])
    return found


@cache
def program(name: str) -> RuleNode | None:
    """Return all that is known about a program, by one of its names."""
    every = book()
    name = every.names.get(name, name)
    if name not in every.lines and name not in every.reads:
        fitting = (known for known in every.lines if "*" in known and fnmatch.fnmatchcase(name, known))
        name = next(fitting, "")
        if not name:
            return None
    top = RuleNode()
    rules = msgspec.convert(tomllib.loads("\n".join(every.lines.get(name, ()))), dict[str, Rule])
    for key, rule in rules.items():
        _, *below = key.split()
        _plant(top, below, key, rule)
        for other in rule.also.split() if below else ():
            _plant(top, [*below[:-1], other], key, rule)
    for words in every.reads.get(name, ()):
        _plant(top, words.split(), f"{name} {words}".strip(), Rule("none"))
    return top


def changes_behaviour(variable: str) -> bool:
    """Return whether a variable changes what commands that see it do."""
    return any(
        fnmatch.fnmatchcase(variable, name) for head in book().heads for name in head.variables.split()
    )


def is_plain(setting: str) -> bool:
    """Return whether a setting of git does not make it run another program."""
    return any(fnmatch.fnmatchcase(setting, name) for head in book().heads for name in head.settings.split())


def _plant(top: RuleNode, words: list[str], name: str, rule: Rule) -> None:
    here = top
    for word in words:
        kids = here.patterns if set("*?") & set(word) else here.below
        here = kids.setdefault(word, RuleNode())
    if here.rule is not None:
        raise ValueError(f"two rules for {name}")
    here.name, here.rule = name, rule


def reach_of(effect: str) -> Reach:
    return Reach.NONE if effect == "paths" else Reach(effect)
