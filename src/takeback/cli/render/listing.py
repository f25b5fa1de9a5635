"""Lists of changes on a terminal: what matters first, and no wider than the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from takeback.cli.text import folded, paint, room, width, wrapped
from takeback.core.change import Change, Target
from takeback.core.listing import SHOWN, ListLine, ListPlace, Rank, is_folder, lines_of, listed, shortened
from takeback.workspace.describe import verb

HEAD = 10
"""The width of the words in front of a list: `restored`."""
INDENT = " " * (HEAD + 3)
_ONE_BY_ONE = (Rank.GIT, Rank.DATABASE, Rank.ELSEWHERE)
REST = "--all lists them"
_VERBS = ("deleted", "changed", "created", "touched")

Say = Callable[[ListLine], str]
Tell = Callable[[Change], str]


def shown(lines: Sequence[ListLine], say: Say, *, everything: bool = False, most: int = SHOWN) -> list[str]:
    """Return a list as indented text: git and databases line by line, names side by side.

    With `everything`, each name has a line of its own and none is left out.
    """
    if everything:
        return [f"{INDENT}{say(line)}" for line in lines]
    few, left = shortened(lines, most)
    text: list[str] = []
    for one_by_one, some in groupby(few, key=lambda line: line.is_folded or line.rank in _ONE_BY_ONE):
        if one_by_one:
            text += [part for line in some for part in folded(say(line), INDENT)]
        else:
            text += wrapped([fitted(say(line), room() - len(INDENT)) for line in some], INDENT)
    return _with_more(text, left)


def headed(head: str, text: Sequence[str]) -> list[str]:
    """Return indented lines with a word in front of the first."""
    first, *rest = text
    return [f"  {paint(head.ljust(HEAD), bold=True)} {first[len(INDENT) :]}", *rest]


def change_lines(
    changes: Iterable[Change],
    places: Mapping[Target, ListPlace],
    tell: Tell,
    *,
    everything: bool = False,
    most: int = SHOWN,
    words: Mapping[str, str] = {},
    rest: str = REST,
) -> list[str]:
    """Return what was changed as lines, each with what was done: `deleted    app.py, .env`.

    `words` says other verbs, such as `delete`, and `rest` where to find what is left out.
    """
    found = list(changes)
    # A folder in which something came or went has another time, which says nothing more.
    telling = [change for change in found if change.before != change.after or not is_folder(change)]
    every = {change.target: change for change in telling or found}

    def did(line: ListLine) -> str:
        if line.rank is Rank.GIT:
            return "git"
        verbs = {verb(every[target]) for target in line.targets}
        return verbs.pop() if len(verbs) == 1 else "changed"

    def say(line: ListLine) -> str:
        return line.said if line.is_folded else tell(every[line.targets[0]]) or line.name

    lines = lines_of((listed(change, places) for change in every.values()), folding=not everything)
    lines.sort(key=lambda line: (line.rank, _VERBS.index(did(line)) if line.rank is not Rank.GIT else 0))
    few, left = (lines, 0) if everything else shortened(lines, most)
    text: list[str] = []
    for head, some in groupby(few, key=did):
        told = shown(list(some), say, everything=everything, most=len(few))
        text += headed(words.get(head, head), told)
    return _with_more(text, left, rest)


def _with_more(text: list[str], left: int, rest: str = REST) -> list[str]:
    """Return the lines of a list, with how many more there are."""
    if not left:
        return text
    more = f"and {left:,} more; {rest}"
    if text and len(text[-1]) + len(more) < width():
        return [*text[:-1], f"{text[-1]} {more}"]
    return [*text, f"{INDENT}{more}"]


def fitted(text: str, most: int) -> str:
    """Return a text that fits: the middle of a longer one is left out, since its ends say more."""
    if len(text) <= most:
        return text
    end = (most - 1) * 2 // 3
    return f"{text[: most - 1 - end]}…{text[-end:]}"


def way(does: str, command: str, column: int = 37) -> list[str]:
    """Return what a command does and the command: on one line, or on two if there is no room."""
    line = f"  {does.ljust(column)}{'' if len(does) < column else '  '}{command}"
    return [line] if len(line) <= room() else [f"  {does}", f"      {command}"]
