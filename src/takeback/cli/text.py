"""Text on a terminal: times, sizes, colours, and characters that must not reach it raw."""

from __future__ import annotations

import math
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from takeback.settings import environment

if TYPE_CHECKING:
    pass


def ago(at_us: int) -> str:
    """A moment as a person says it."""
    seconds = time.time() - at_us / 1e6
    if seconds < 2:
        return "just now"
    for size, unit in ((60, "s"), (3600, "min"), (86400, "h")):
        if seconds < size:
            return f"{int(seconds / {'s': 1, 'min': 60, 'h': 3600}[unit])} {unit} ago"
    days = int(seconds / 86400)
    return f"{days} day{'s' if days > 1 else ''} ago"


def until(at_us: int) -> str:
    """How long there is until a moment, as a person says it."""
    seconds = math.ceil(at_us / 1e6 - time.time())
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def iso(at_us: int) -> str:
    """A moment for machines: ISO 8601, UTC."""
    whole, rest = divmod(at_us, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:06d}Z"


def shortened(text: str, most: int) -> str:
    """A text on one line, cut where it gets long. What would steer a terminal is spelt out."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


# What would steer a terminal, or reorder what it shows. Tabs, line ends and colours stay.
_STEERING = re.compile(
    "(?!\x1b\\[[0-9;]{1,9}m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    """Return this text as a terminal may show it: what would steer the terminal is spelt out, colours too."""
    return _STEERING.sub(_spelt, text.replace("\x1b", "\\x1b"))


def _spelt(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def echo(text: str, *, err: bool = False) -> None:
    """Print for a person. Only colours may steer their terminal, whatever file or name the text quotes.

    What is not a terminal gets the text as it is: a diff is a patch there.
    """
    stream = sys.stderr if err else sys.stdout
    click.echo(_STEERING.sub(_spelt, text) if stream.isatty() else text, err=err)


def printable(line: str) -> str:
    """A line in which what would steer a terminal, or turn its text around, is spelt out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def sized(count: int) -> str:
    """Bytes as a person says them."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def colours() -> bool:
    """Whether the output is a terminal that wants colour."""
    return sys.stdout.isatty() and environment.wants_colour()


def paint(text: str, **style: Any) -> str:
    """Colour on a terminal only; the meaning never depends on it."""
    return click.style(text, **style) if colours() else text
