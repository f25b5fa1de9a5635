"""Text on a terminal: times, sizes, colours, and characters that must not reach it raw."""

from __future__ import annotations

import math
import re
import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Iterable
from typing import Any

import click

from takeback.settings import environment


def ago(at_us: int) -> str:
    """Return a time as a person says it."""
    seconds = time.time() - at_us / 1e6
    if seconds < 2:
        return "just now"
    for size, unit in ((60, "s"), (3600, "min"), (86400, "h")):
        if seconds < size:
            return f"{int(seconds / {'s': 1, 'min': 60, 'h': 3600}[unit])} {unit} ago"
    days = int(seconds / 86400)
    return f"{days} day{'s' if days > 1 else ''} ago"


def until(at_us: int) -> str:
    """Return the time left until a moment, as a person says it."""
    seconds = math.ceil(at_us / 1e6 - time.time())
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def iso(at_us: int) -> str:
    """Return a time for machines: ISO 8601, UTC."""
    whole, rest = divmod(at_us, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:06d}Z"


def day(at_us: int) -> str:
    """Return the date of a moment, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at_us // 1_000_000))


def moment(at_us: int) -> str:
    """Return a time to the minute, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_us // 1_000_000))


def clock(at_us: int) -> str:
    """Return the time of day of a moment, where the user is."""
    return time.strftime("%H:%M", time.localtime(at_us // 1_000_000))


def date(at_us: int) -> str:
    """Return the date of a moment, where the user is: `Tue 17 November 2026`."""
    when = time.localtime(at_us // 1_000_000)
    return f"{time.strftime('%a', when)} {when.tm_mday} {time.strftime('%B %Y', when)}"


CONTROLS = re.compile(
    "(?!\x1b\\[[0-9;]{1,9}m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that control a terminal, or reorder its text. Tabs, line ends and colours are not among them."""


def visible(text: str) -> str:
    """Return this text as a terminal may show it: with control characters escaped, including colours."""
    return CONTROLS.sub(_spelt, text.replace("\x1b", "\\x1b"))


def _spelt(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def echo(text: str, *, err: bool = False) -> None:
    """Print for a person. Only colours may control the terminal, whatever file or name the text quotes.

    A file or pipe gets the text unchanged: there, a diff is a patch.
    """
    stream = sys.stderr if err else sys.stdout
    click.echo(tame(text) if stream.isatty() else text, err=err)


def tame(text: str) -> str:
    """Return a line for a terminal: only its colours may control it."""
    return CONTROLS.sub(_spelt, text)


def sized(count: int) -> str:
    """Return a number of bytes as a person says it."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


WIDTH_MIN = 40
UNBOUNDED = 1 << 16


def width() -> int:
    """Return how many columns a line may have: `COLUMNS`, or those of the terminal, or 80."""
    return max(shutil.get_terminal_size().columns, WIDTH_MIN)


def room() -> int:
    """Return how many columns a sentence or a name may have: in a pipe any number, so that programs find it whole.

    `COLUMNS` holds there too.
    """
    bounded = environment.names_columns() or sys.stdout.isatty() or sys.stderr.isatty()
    return width() if bounded else UNBOUNDED


def wrapped(words: Iterable[str], indent: str, between: str = ", ") -> list[str]:
    """Return these words on lines that fit, each line indented. A word that is too long has a line of its own."""
    most = width() - len(indent)
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(between) + len(word) < most:
            lines[-1] += between + word
        else:
            if lines:
                lines[-1] += between.rstrip()
            lines.append(word)
    return [indent + line for line in lines]


def folded(text: str, indent: str, more: str = "  ") -> list[str]:
    """Return a sentence on as many lines as it needs."""
    return textwrap.wrap(
        text,
        room(),
        initial_indent=indent,
        subsequent_indent=indent + more,
        break_on_hyphens=False,
        break_long_words=False,
    )


def joined(one: str, other: str, between: str = " ") -> list[str]:
    """Return two sentences on one line, or on two if there is no room."""
    line = f"{one}{between}{other}"
    return (
        [line] if len(line) <= room() else [*folded(one, ""), *folded(other, "  " if between == "  " else "")]
    )


def fit(lines: Iterable[str]) -> list[str]:
    """Return these lines, with those that are too long broken between words."""
    found: list[str] = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        found += [line] if len(click.unstyle(line)) <= room() else folded(line.strip(), indent)
    return found


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def cells(text: str) -> int:
    """Return how many columns a text takes: some letters take two, and some none."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fitted(text: str, most: int, *, keep_end: bool = False) -> str:
    """Return a text that takes at most so many columns; what is cut off at its end, or its beginning, is a `…`."""
    if cells(text) <= most:
        return text
    kept, room = "", most - 1
    for char in reversed(text) if keep_end else text:
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return f"…{kept[::-1]}" if keep_end else f"{kept}…"


def prose(text: str) -> list[str]:
    """Return a text as lines that a terminal shows whole; elsewhere, as the one line that it is.

    A word is never cut, so that a command can be copied.
    """
    if not sys.stderr.isatty():
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    lines = textwrap.wrap(
        text,
        width(),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return lines or [text]


def padded(text: str, columns: int) -> str:
    """Return a text with spaces after it, so that it takes so many columns."""
    return text + " " * (columns - cells(text))


def colours() -> bool:
    """Return True if the output is a terminal that wants colour."""
    return sys.stdout.isatty() and environment.wants_colour()


def paint(text: str, **style: Any) -> str:
    """Add colour on a terminal only; the meaning never depends on it."""
    return click.style(text, **style) if colours() else text
