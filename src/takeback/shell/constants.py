"""Variables that a line itself sets to texts that stand in it: `D=/srv; rm "$D/a"`, `for n in a b; do rm "$n"; done`.

A word refers to a variable by marks, and the walk puts in what the variable may hold where the command runs. What
is set in any other way (read, eval, arithmetic, a file that is sourced) is not known, and neither is what was there
before the line. A child shell does not see these variables, unless they are exported; so it knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from takeback.shell.parse import Block, Doubt, Part, Simple
from takeback.shell.words import BARE, HOLE, QUOTED, WILD, is_known

VALUES_MAX = 16
"""The most texts that one variable may hold; beyond it, it is unknown."""
WAYS_MAX = 64
"""The most ways in which the variables of one command are put in."""

ALL = "*"
"""Stands for every variable, when an unknown one may change."""

LAST_JOB = "%+"
"""What `$!` is taken for: the process that this shell started last."""

_REFERENCE = re.compile(f"([{BARE}{QUOTED}])([A-Za-z_]\\w*|!)\x06")
_SPLIT = re.compile(rf"[\s*?\[\\{WILD}]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OWN = re.compile(
    r"BASH\w*|SHELLOPTS|COLUMNS|LINES|COPROC|DIRSTACK|EPOCH\w+|E?UID|FUNCNAME|GROUPS|HISTCMD|HOME|IFS|LINENO|MAPFILE|OLDPWD|OPTARG|OPTIND|PIPESTATUS"
    r"|PPID|PWD|S?RANDOM|REPLY|SECONDS|SHLVL|_"
)
"""Variables that a shell changes by itself."""
_ANY = {"eval", "source", ".", "trap", "builtin", "command", "enable", "alias", "complete", "bind"}
_SOME = {
    *("read", "mapfile", "readarray", "getopts", "let", "unset", "coproc"),
    *("declare", "typeset", "local", "export", "readonly", "vared", "zparseopts"),
}

Way = Mapping[str, str]


class Constants:
    """The values that variables may have at one place of a line. Empty: nothing is known about any."""

    def __init__(self, known: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._known: dict[str, tuple[str, ...]] = dict(known or {})
        self._never: set[str] = set()
        self._changed: dict[int, frozenset[str]] = {}

    def now(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self._known)

    def back_to(self, then: Mapping[str, tuple[str, ...]]) -> None:
        """Go back to an earlier state after a subshell; variables that can never be known stay unknown."""
        self._known = {name: held for name, held in then.items() if name not in self._never}
        if ALL in self._never:
            self._known = {}

    def join(self, others: Iterable[Mapping[str, tuple[str, ...]]]) -> None:
        """Join several branches: a variable may have the value of any of them."""
        for other in others:
            both = self._known.keys() | other.keys()
            met = {n: (*self._known.get(n, (HOLE,)), *other.get(n, (HOLE,))) for n in both}
            self._known = {name: tuple(dict.fromkeys(held)) for name, held in met.items()}
        self._known = {name: held for name, held in self._known.items() if len(held) <= VALUES_MAX}

    def set(self, name: str, values: Iterable[str]) -> None:
        held = tuple(dict.fromkeys(values))
        if name in self._never or ALL in self._never or _OWN.fullmatch(name) or len(held) > VALUES_MAX:
            self._known.pop(name, None)
        else:
            self._known[name] = held

    def forget(self, names: Iterable[str], *, for_good: bool = False) -> None:
        names = frozenset(names)
        if for_good:
            self._never |= names
        self._known = {n: held for n, held in self._known.items() if ALL not in names and n not in names}

    def after(self, simple: Simple, words: Sequence[str]) -> None:
        """Forget what a command may have changed, apart from plain assignments."""
        self.forget(simple.assigned if words else ())
        self.forget(_changed_by_words(words))

    def changed_in(self, part: Part) -> frozenset[str]:
        """Return every variable that may be changed somewhere in a part of the line."""
        if id(part) not in self._changed:
            self._changed[id(part)] = frozenset(self._changes(part))
        return self._changed[id(part)]

    def _changes(self, part: Part) -> Iterator[str]:
        match part:
            case Simple():
                yield from part.assigned
                yield from (name for name, _ in part.values)
                yield from _changed_by_words(part.words)
                for one in part.inside:
                    yield from self.changed_in(one)
            case Block():
                if part.name:
                    yield part.name
                for one in part.parts:
                    yield from self.changed_in(one)
            case Doubt():
                yield ALL

    # Putting them in

    def ways(self, texts: Iterable[str]) -> list[Way]:
        """Return every combination of values of the variables in these texts. An unknown value is a hole."""
        names = list(dict.fromkeys(match[2] for text in texts for match in _REFERENCE.finditer(text)))
        held = [self._known.get(name, (LAST_JOB,) if name == "!" else (HOLE,)) for name in names]
        count = 1
        for values in held:
            count *= len(values)
        if count > WAYS_MAX:
            held = [values if len(values) == 1 else (HOLE,) for values in held]
        return [dict(zip(names, way, strict=True)) for way in product(*held)]


def several(word: str, way: Way) -> list[str]:
    """Return the words that one word becomes: an unquoted variable is split, if that is unambiguous."""
    reference = _REFERENCE.fullmatch(word)
    value = way.get(reference[2], HOLE) if reference else ""
    if reference and reference[1] == BARE and re.fullmatch(r"[\w ./:@=+,-]*[ ][\w ./:@=+,-]*", value):
        return value.split()
    return [resolved(word, way)]


def resolved(text: str, way: Way, *, splits: bool = True) -> str:
    """Return a text with its variables replaced. What a shell would split, or match with files, is a hole."""

    def one(match: re.Match[str]) -> str:
        value = way.get(match[2], HOLE)
        if splits and match[1] == BARE and (not value or _SPLIT.search(value)):
            return HOLE
        return value

    return _REFERENCE.sub(one, text)


def _changed_by_words(words: Sequence[str]) -> Iterator[str]:
    """Yield the variables that a shell builtin may change."""
    if not words:
        return
    name, first = words[0], words[1] if len(words) > 1 else ""
    if name == "time":
        # A word of the shell's own: what follows it runs in this shell, be it an assignment.
        rest = [word for word in words[1:] if not word.startswith("-")]
        yield from (word.partition("=")[0] for word in rest if "=" in word)
        yield from _changed_by_words(rest)
    if not is_known(name) or name in _ANY:
        yield ALL
    elif name in _SOME or (name in ("printf", "wait") and first.startswith(("-", HOLE, BARE))):
        for word in words[1:]:
            yield from (ALL,) if not is_known(word) else _NAME.findall(word)
