"""Brace expansion: `{a,b}` and `{1..3}` make several words of one, before anything else is expanded.

Only braces that stand outside quotes count. They are told apart by marks, characters that no accepted line contains.
"""

from __future__ import annotations

import re

OPEN, COMMA, CLOSE, DOTS = "\x0e", "\x0f", "\x10", "\x11"
"""An unquoted brace, comma and double dot."""

WORDS_MAX = 64
"""The most words that one word is expanded to. Beyond it, what the words are counts as unknown."""

_MARKED = str.maketrans({"{": OPEN, ",": COMMA, "}": CLOSE})
_PLAIN = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}", DOTS: ".."})
_SEQUENCE = re.compile(rf"(?:(-?\d+){DOTS}(-?\d+)|([A-Za-z]){DOTS}([A-Za-z]))(?:{DOTS}(-?\d+))?")


class TooMany(Exception):
    """The word would expand to more words than are looked at."""


def marked(char: str) -> str:
    """An unquoted character, marked if it is of a brace."""
    return char.translate(_MARKED)


def dotted(text: str) -> str:
    """Unquoted text, with its double dots marked."""
    return text.replace("..", DOTS)


def literal(word: str) -> str:
    """The word as it is where a shell does not expand braces: in an assignment."""
    return word.translate(_PLAIN)


def expanded(word: str) -> list[str]:
    """The words that a shell makes of this one. Raises TooMany."""
    if OPEN not in word:
        return [literal(word)]
    return [literal(one) for one in _expanded(word)]


def known_start(word: str) -> str:
    """What is known of a word that was not expanded: all before its first brace."""
    return literal(word[: word.index(OPEN)])


def _expanded(word: str) -> list[str]:
    at = word.find(OPEN)
    while at >= 0:
        parts, end = _inside(word, at)
        if end >= 0 and (choices := _choices(parts)) is not None:
            before = word[:at]
            after = _expanded(word[end + 1 :])
            made = [before + choice + rest for choice in choices for rest in after]
            if len(made) > WORDS_MAX:
                raise TooMany
            return made
        at = word.find(OPEN, at + 1)
    return [word]


def _inside(word: str, at: int) -> tuple[list[str], int]:
    """The parts between the commas of the brace that opens here, and where it closes; -1 if it does not."""
    depth, parts, start = 0, list[str](), at + 1
    for place in range(at, len(word)):
        match word[place]:
            case mark if mark == OPEN:
                depth += 1
            case mark if mark == COMMA and depth == 1:
                parts.append(word[start:place])
                start = place + 1
            case mark if mark == CLOSE:
                depth -= 1
                if not depth:
                    return [*parts, word[start:place]], place
    return [], -1


def _choices(parts: list[str]) -> list[str] | None:
    """What stands in the place of a brace; None where it is not an expansion, as in `{}`."""
    if len(parts) > 1:
        found = [one for part in parts for one in _expanded(part)]
        if len(found) > WORDS_MAX:
            raise TooMany
        return found
    ends = _SEQUENCE.fullmatch(parts[0])
    return _sequence(*ends.groups(default="")) if ends else None


def _sequence(first: str, last: str, letter: str, end: str, step: str) -> list[str]:
    start, stop = (int(first), int(last)) if first else (ord(letter), ord(end))
    by = abs(int(step or "1")) or 1
    count = abs(stop - start) // by + 1
    if count > WORDS_MAX:
        raise TooMany
    numbers = [start + (by if stop >= start else -by) * n for n in range(count)]
    if not first:
        return [chr(number) for number in numbers]
    padded = any(re.fullmatch(r"-?0\d+", text) for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in numbers]
