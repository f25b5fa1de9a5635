"""Files that a command writes beside those it names: a backup, a compressed copy, rejects of a patch."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from takeback.shell.options import Given
from takeback.shell.rules import Rule
from takeback.shell.words import WILD

ARCHIVES = {".tgz": ".tar", ".taz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tzst": ".tar"}
BESIDE = ("write", "delete", "into", "target")
"""What is done to a path beside which something may be written."""
_TEMPLATE = re.compile(r"X{3,}[^/X]*$")


def companions(rule: Rule, given: Given, word: str) -> Iterator[str]:
    """Yield what a command may write beside this path, by its rule and options; a wildcard is the rest of a name."""
    path = word.rstrip("/")
    if not path or path == "-":
        return
    for suffix in (*rule.beside.split(), *given.values("ending")):
        yield path + suffix.replace("*", WILD)
        if suffix and path.endswith(suffix):
            yield path.removesuffix(suffix)
    if rule.beside:
        yield from (path.removesuffix(end) + tar for end, tar in ARCHIVES.items() if path.endswith(end))
    suffixes = [suffix for suffix in given.values("suffix") if suffix]
    if given.has("backup") or suffixes:
        yield from (path + suffix for suffix in suffixes or ["~"])
        yield f"{path}.~{WILD}"
    for suffix in filter(None, given.values("inplace")):
        yield from in_place_backups(path, suffix)


def in_place_backups(path: str, suffix: str) -> Iterator[str]:
    """Yield the backups that `sed -i` and similar leave: `*` in the suffix stands for the file's name."""
    # Without quotes it comes as a wildcard; it is one that a shell seldom finds a file for.
    suffix = suffix.replace(WILD, "*")
    if "*" not in suffix:
        yield path + suffix
        return
    # By their documents the name alone is put in, and what has no slash stays in the folder; some put in the path.
    folder, name = posixpath.split(path)
    backup = suffix.replace("*", name)
    yield backup if "/" in backup else posixpath.join(folder, backup)
    yield suffix.replace("*", path)


def made_of(role: str, word: str) -> str:
    """Return the names that a command derives from an operand that is only their prefix or folder."""
    match role:
        case "prefix":
            return word + WILD
        case "template":
            return _TEMPLATE.sub("", word) + WILD if _TEMPLATE.search(word) else word
        case "renamed" if "/" in word:
            return word[: word.rindex("/") + 1] + WILD
        case _:
            return ""
