"""The words of a shell line, with quotes taken off as a shell does.

What only the running shell knows is left as a hole, and what is matched against files as a wildcard. Both are
characters that no accepted line contains, so a word is one plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


HOLE = "\0"
WILD = "\1"
HOME = "\2"
HERE = "\3"
"""Where a path begins at the home folder, or at the current one by its full name."""

BARE, QUOTED, END = "\4", "\5", "\6"
"""A variable by its name, without quotes around it or inside them, and where the name ends: see constants.py."""

_MARKS = frozenset(f"{HOLE}{WILD}{HOME}{HERE}{BARE}{QUOTED}{END}")
_NOT_A_CHARACTER = re.compile(r"[\x00-\x06\x0e-\x11]")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|(!)|\{(!)\})")

_ANSI = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_EXPANSIONS = {
    "simple_expansion",
    "expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
}
_HERES = {"$PWD", "${PWD}", "$(pwd)", "`pwd`"}
_HOMES = {"$HOME", "${HOME}"}


_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LETTERS = re.compile(r"_u([0-9a-f]{6})_")


def as_letters(text: str) -> str:
    """Return a text for the parser, which may crash on anything but ASCII: every other character becomes letters.

    To a shell, too, they are ordinary characters of a word.
    """
    return _FOREIGN.sub(lambda match: f"_u{ord(match[0]):06x}_", text)


def from_letters(text: bytes | None) -> str:
    """Return the original text that `as_letters` encoded."""

    def back(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        return chr(code) if 0x80 <= code <= 0x10FFFF else match[0]

    return _LETTERS.sub(back, (text or b"").decode("ascii"))


class Misread(Exception):
    """The parser took the text for something that a shell would not."""


def is_known(word: str) -> bool:
    """Return whether these are exactly the characters that a program is given."""
    return _MARKS.isdisjoint(word)


def as_given(word: str) -> str:
    """Return an argument that no shell has processed, with a hole for each character that no word may have."""
    return _NOT_A_CHARACTER.sub(HOLE, word)


def word_of(node: Node) -> str:
    """Return the text of one word. Raise Misread if the parser cannot be right."""
    return _one(_raw(node))


def value_of(node: Node) -> str:
    """Return the text of a word in an assignment, where braces are not expanded."""
    return literal(_raw(node))


def _one(raw: str) -> str:
    words = _several(raw)
    return words[0] if len(words) == 1 else known_start(raw) + HOLE


def _several(raw: str) -> list[str]:
    try:
        return expanded(raw)
    except TooMany:
        return [known_start(raw) + HOLE]


def _raw(node: Node) -> str:
    """Return the text of a word, with its braces marked."""
    text = _text(node)
    if node.has_error:
        raise Misread("a word that does not end")
    match node.type:
        case "concatenation" | "command_name" | "brace_expression":
            return "".join(_parts(node))
        case "string" | "translated_string":
            return _in_quotes(node)
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            return _ansi(text[2:-1])
        case "process_substitution":
            return "/dev/fd/63"
        case kind if kind in _EXPANSIONS:
            return _expanded(text, BARE)
        case "word" | "number" | "extglob_pattern" | "regex" | "test_operator" | "variable_name":
            return _unquoted(text) if node.named_child_count == 0 else HOLE
        case _:
            return HOLE


def words_of(nodes: Sequence[Node]) -> list[str]:
    """Return the words of a command. Parts with nothing, or only a line continuation, between them are one word."""
    return [word for raw in _raws(nodes) for word in _several(raw)]


def target_and_words(nodes: Sequence[Node]) -> tuple[str, list[str]]:
    """Return the first word, which stays one, and the words that follow it."""
    first, *more = _raws(nodes) or [""]
    return _one(first), [word for raw in more for word in _several(raw)]


def _raws(nodes: Sequence[Node]) -> list[str]:
    found: list[str] = []
    # The text of a node is copied whenever it is asked for; once for each word would be quadratic.
    above = nodes[0].parent if nodes else None
    source, start = (above.text or b"", above.start_byte) if above else (b"", 0)
    last: Node | None = None
    for node in nodes:
        word = _raw(node)
        between = source[last.end_byte - start : node.start_byte - start] if last is not None else b" "
        if re.fullmatch(rb"(?:\\\r?\n)*", between):
            found[-1] += word
        else:
            found.append(word)
        last = node
    return found


def _parts(node: Node) -> Iterator[str]:
    """Yield the parts of a word, and what the parser left between them."""
    source, at = node.text or b"", node.start_byte
    for child in node.children:
        yield _unquoted(from_letters(source[at - node.start_byte : child.start_byte - node.start_byte]))
        if child.is_named:
            yield _raw(child)
        else:
            yield _unquoted(_text(child))
        at = child.end_byte
    yield _unquoted(from_letters(source[at - node.start_byte :]))


def _in_quotes(node: Node) -> str:
    """Return a text in double quotes. Text outside expansions is taken from the source, not from the parser."""
    source = node.text or b""
    start, end = source.index(b'"') + 1, len(source) - 1
    found, at = [], start
    for child in node.children:
        if child.type in _EXPANSIONS:
            first, last = child.start_byte - node.start_byte, child.end_byte - node.start_byte
            # The parser counts spaces before a backtick as its own.
            inner = from_letters(source[first:last])
            spaces = inner[: len(inner) - len(inner.lstrip())]
            found += [_escaped(from_letters(source[at:first])), spaces, _expanded(inner.lstrip(), QUOTED)]
            at = last
    found.append(_escaped(from_letters(source[at:end])))
    return "".join(found)


def _expanded(text: str, how: str) -> str:
    if text in _HOMES:
        return HOME
    if text in _HERES:
        return HERE
    named = _VARIABLE.fullmatch(text)
    return f"{how}{next(filter(None, named.groups()))}{END}" if named else HOLE


def _escaped(text: str) -> str:
    """Inside double quotes a backslash counts only before a few characters."""
    plain = re.sub(r"\\[\s\S]", "", text)
    if re.search(r"`|\$[({]|\"|\$[A-Za-z_0-9@*#?!-]", plain):
        raise Misread("an expansion inside quotes")
    return re.sub(r"\\([$`\"\\]|\n)", lambda m: "" if m[1] == "\n" else m[1], text)


_SPECIAL = re.compile(r"[\s;&|<>()`\"']|\$(?=[A-Za-z_0-9({'\"@*#?!-])")


def _unquoted(text: str) -> str:
    """Outside quotes a backslash takes the meaning from any character."""
    if _SPECIAL.search(re.sub(r"\\[\s\S]", "", text)):
        raise Misread("a word with a special character in it")
    found = []
    for plain, escaped in re.findall(r"\\([\s\S])|([\s\S])", text):
        if plain:
            found.append("" if plain == "\n" else plain)
        else:
            found.append(WILD if escaped in "*?[" else marked(escaped))
    return dotted("".join(found))


def _ansi(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        byte, short, long, octal, control, plain = match.groups()
        if byte or octal:
            code = int(byte, 16) if byte else int(octal, 8) & 0xFF
            return as_given(chr(code)) if 0 < code < 0x80 else HOLE
        if short or long:
            return as_given(chr(min(int(short or long, 16), 0x10FFFF)))
        if control:
            return HOLE
        return _ANSI.get(plain, plain if plain in "\\'\"?" else "\\" + plain)

    return _ANSI_ESCAPE.sub(one, text)


def _text(node: Node) -> str:
    return from_letters(node.text)


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
    """Return an unquoted character, marked if it is of a brace."""
    return char.translate(_MARKED)


def dotted(text: str) -> str:
    """Unquoted text, with its double dots marked."""
    return text.replace("..", DOTS)


def literal(word: str) -> str:
    """Return the word without brace expansion, as in an assignment."""
    return word.translate(_PLAIN)


def expanded(word: str) -> list[str]:
    """Return the words that brace expansion makes of this one. Raise TooMany."""
    if OPEN not in word:
        return [literal(word)]
    return [literal(one) for one in _brace_expanded(word)]


def known_start(word: str) -> str:
    """Return the known part of a word that was not expanded: all before its first brace."""
    return literal(word[: word.index(OPEN)])


def _brace_expanded(word: str) -> list[str]:
    at = word.find(OPEN)
    while at >= 0:
        parts, end = _inside(word, at)
        if end >= 0 and (choices := _choices(parts)) is not None:
            before = word[:at]
            after = _brace_expanded(word[end + 1 :])
            made = [before + choice + rest for choice in choices for rest in after]
            if len(made) > WORDS_MAX:
                raise TooMany
            return made
        at = word.find(OPEN, at + 1)
    return [word]


def _inside(word: str, at: int) -> tuple[list[str], int]:
    """Return the parts between the commas of the brace that opens here, and where it closes; -1 if it does not."""
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
    """Return what replaces a brace; None if it is not an expansion, as in `{}`."""
    if len(parts) > 1:
        found = [one for part in parts for one in _brace_expanded(part)]
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
