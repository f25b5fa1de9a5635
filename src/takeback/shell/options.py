"""Which words of a command are options, which are their values, and which are operands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from takeback.shell.words import HOLE, WILD

REST = {"argv", "line", "script"}
"""Operands that are a command: all that follows belongs to it, whatever it looks like."""
WITH_VALUE = {"value", "source", "write", "delete", "chdir", "line", "method", "argv", "prefix"}


class Given(msgspec.Struct):
    """The words of a command, sorted."""

    options: list[tuple[str, tuple[str, ...], str]] = []
    """Each option with its meaning and its value."""
    operands: list[str] = []
    rest: list[str] = []
    """The command that it runs."""
    unclear: list[str] = []
    """Words that may be options or not: only the running shell knows."""
    undeclared: list[str] = []

    def has(self, meaning: str) -> bool:
        return any(meaning in meanings for _, meanings, _ in self.options)

    def values(self, meaning: str) -> list[str]:
        return [value for _, meanings, value in self.options if meaning in meanings]


class Spelling:
    """The options of a rule, by each of their names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.single = False
        self.meaning: dict[str, tuple[str, ...]] = {}
        for names, meaning in options.items():
            for name in names.split():
                self.meaning[name] = tuple(meaning.split())
                self.single |= len(name) > 2 and name[1] != "-"

    def long(self, name: str) -> tuple[str, ...] | None:
        """Return what a long option means. It may be cut short; of several that fit, the more serious counts."""
        if name in self.meaning:
            return self.meaning[name]
        fitting = (
            [meaning for known, meaning in self.meaning.items() if known.startswith(name)]
            if len(name) > 3
            else []
        )
        return max(fitting, key=_seriousness, default=None)


def _seriousness(meaning: tuple[str, ...]) -> int:
    order = ("irreversible", "unknown", "line", "argv", "method", "write", "delete")
    return max((len(order) - order.index(word) for word in meaning if word in order), default=0)


def spelling(options: Mapping[str, str]) -> Spelling:
    return _spelling(tuple(options.items()))


@lru_cache(maxsize=256)
def _spelling(items: tuple[tuple[str, str], ...]) -> Spelling:
    return Spelling(dict(items))


def sort_words(
    words: Sequence[str], options: Mapping[str, str], roles: Sequence[str], *, first: bool = False
) -> Given:
    """Sort the words after a program's name. With `first` it stops at the first operand: a subcommand follows."""
    known = spelling(options)
    given = Given()
    before = next((n for n, role in enumerate(roles) if role in REST), None)
    pending = deque(words)
    only_operands = False
    while pending:
        word = pending.popleft()
        if not only_operands and word == "--":
            only_operands = True
        elif not only_operands and len(word) > 1 and word[0] == "-":
            taken = _option(word, known, given, pending)
            if taken is None:
                given.undeclared.append(word)
            if given.rest:
                break
        elif before is not None and len(given.operands) >= before:
            if not only_operands and word.startswith((HOLE, WILD)):
                given.unclear.append(word)
            given.rest = [word, *pending]
            break
        else:
            if not only_operands and word.startswith((HOLE, WILD)):
                given.unclear.append(word)
            given.operands.append(word)
            if first:
                given.rest = list(pending)
                break
    return given


def _option(word: str, spelling: Spelling, given: Given, pending: deque[str]) -> bool | None:
    """Read one option with its value. Return None for an undeclared one."""
    name, equals, value = word.partition("=")
    if word.startswith("--") or (spelling.single and (name in spelling.meaning or len(name) > 2)):
        meaning = spelling.long(name)
        if meaning is None and word.startswith("--"):
            given.options.append((name, (), value))
            return True if equals else None
        if meaning is not None:
            if not equals and takes_value(meaning):
                value = _taken(meaning, given, pending)
            given.options.append((name, meaning, value))
            return True
    return _short(word, spelling, given, pending)


def _short(word: str, spelling: Spelling, given: Given, pending: deque[str]) -> bool | None:
    """Read grouped letters: the first that takes a value takes the rest."""
    known: bool | None = True
    for at, letter in enumerate(word[1:], 2):
        meaning = spelling.meaning.get(f"-{letter}")
        if meaning is None:
            known = None
            given.options.append((f"-{letter}", (), ""))
            continue
        if takes_value(meaning):
            value = word[at:].removeprefix("=") if word[at:] else _taken(meaning, given, pending)
            given.options.append((f"-{letter}", meaning, value))
            return known
        if "optional" in meaning:
            given.options.append((f"-{letter}", meaning, word[at:]))
            return known
        given.options.append((f"-{letter}", meaning, ""))
    return known


def takes_value(meaning: Sequence[str]) -> bool:
    return "optional" not in meaning and bool(WITH_VALUE & set(meaning))


def _taken(meaning: Sequence[str], given: Given, pending: deque[str]) -> str:
    if "argv" in meaning:
        given.rest = list(pending)
        pending.clear()
        return ""
    return pending.popleft() if pending else ""


def with_roles(operands: Sequence[str], roles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each operand with what it means. The role with dots takes what the others leave."""
    many = next((n for n, role in enumerate(roles) if role.endswith("...")), None)
    if many is None:
        yield from zip(operands, roles, strict=False)
        return
    after = len(roles) - many - 1
    before = min(many, len(operands))
    tail = max(len(operands) - after, before)
    yield from zip(operands[:before], roles[:many], strict=False)
    for operand in operands[before:tail]:
        yield operand, roles[many].removesuffix("...")
    yield from zip(operands[tail:], roles[many + 1 :], strict=False)
