"""The rules about programs, as data: what is in the folder `rules`. docs/COMMANDS.md tells their form."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from takeback.commands.judgement import Reach

FOLDER = Path(__file__).parent / "rules"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What is known of a program, or of one of its subcommands."""

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
    writes: str = ""
    """A folder below which it writes, besides what it names."""
    remote: bool = False
    """What it runs, runs elsewhere: there nothing is captured."""
    alone: str = ""
    """The effect where it is given no command to run; for a program that runs none, where it is given nothing."""
    appends: bool = False
    """It gives the command that it runs further words, which only it knows."""
    assigns: bool = False
    """Words like NAME=value before its command are variables."""
    stdin: str = ""
    """`shell`: it runs what it reads, if it is given nothing else."""
    background: bool = False
    verbs: dict[str, str] = {}
    """For deep grammars: what any of its words means, wherever it stands."""
    reader: str = ""
    """The function that reads its words, where a table cannot tell."""


class Known(msgspec.Struct):
    """A place in the tree of programs and subcommands."""

    name: str = ""
    rule: Rule | None = None
    below: dict[str, Known] = {}
    patterns: dict[str, Known] = {}

    def next(self, word: str) -> Known | None:
        """The subcommand of this name: exactly, or by the first pattern that fits."""
        if word in self.below:
            return self.below[word]
        return next((k for pattern, k in self.patterns.items() if fnmatch.fnmatchcase(word, pattern)), None)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reads: str = ""
    """Programs and subcommands that only read, whatever they are given: separated by commas."""
    variables: str = ""
    """Variables that make other commands of the ones that follow."""
    settings: str = ""
    """Settings of git that make no other program run."""
    program: dict[str, Rule] = {}


@cache
def files() -> tuple[_File, ...]:
    return tuple(msgspec.toml.decode(path.read_bytes(), type=_File) for path in sorted(FOLDER.glob("*.toml")))


@cache
def programs() -> Known:
    """Every rule, by the words of its program."""
    top = Known()
    for file in files():
        for name, rule in file.program.items():
            for words in _names(name, rule):
                _plant(top, words, name, rule)
            for other in rule.also.split() if " " not in name else ():
                # Another name of a program has all of its subcommands.
                if other in top.below:
                    raise ValueError(f"two rules for {other}")
                top.below[other] = top.below[name]
        for name in filter(None, (name.strip() for name in file.reads.replace("\n", " ").split(","))):
            _plant(top, name.split(), name, Rule("none"))
    return top


def changes_behaviour(variable: str) -> bool:
    """Whether a variable makes something else of the commands that see it."""
    return any(fnmatch.fnmatchcase(variable, name) for file in files() for name in file.variables.split())


def is_plain(setting: str) -> bool:
    """Whether a setting of git makes no other program run."""
    return any(fnmatch.fnmatchcase(setting, name) for file in files() for name in file.settings.split())


def _names(name: str, rule: Rule) -> Iterator[list[str]]:
    words = name.split()
    yield words
    if len(words) > 1:
        yield from ([*words[:-1], other] for other in rule.also.split())


def _plant(top: Known, words: list[str], name: str, rule: Rule) -> None:
    here = top
    for word in words:
        kids = here.patterns if set("*?[") & set(word) and word != "[" else here.below
        here = kids.setdefault(word, Known())
    if here.rule is not None:
        raise ValueError(f"two rules for {name}")
    here.name, here.rule = name, rule


def reach_of(effect: str) -> Reach:
    return Reach.NONE if effect == "paths" else Reach(effect)
