"""Links that a line makes and then uses: they do not exist yet, so looking does not find them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from takeback.shell.judgement import Reach, Touched
from takeback.shell.paths import PathContext, below, place
from takeback.shell.words import WILD, is_known

PLACES_MAX = 100
"""The most places that one path is followed to through the links of a line."""


HOPS_MAX = 40
"""Links that are followed one after the other, as many as the kernel does."""


def links_made(
    ground: PathContext, words: Sequence[str], folder: str | None, known: Mapping[str, str]
) -> dict[str, str]:
    """Return the links that a command makes from this folder, with their targets. `known` are those made before.

    What `mv` moves counts as well: a link goes on leading to the same place under its new name.
    """
    if not words or not _links(posixpath.basename(words[0]), words[1:]):
        return {}
    operands = _targets_first(words[1:])
    if not operands or not all(map(is_known, operands)):
        return {}
    *targets, last = operands if len(operands) > 1 else (operands[0], ".")
    at = place(ground, last, folder)
    if at is None or at.reach is Reach.UNKNOWN:
        return {}
    is_folder = last.endswith(("/", ".")) or (folder is not None and below(folder, at.path))
    found: dict[str, str] = {}
    for target in targets:
        # Whether the last word is a folder, in which the link is made, is seldom known: both count.
        name = posixpath.basename(target.rstrip("/"))
        made = ["" if is_folder else at.path, posixpath.join(at.path, name) if name else ""]
        for link in filter(None, made):
            led = place(
                ground, target, posixpath.dirname(link) if posixpath.basename(words[0]) == "ln" else folder
            )
            if led is not None and led.path != link and not _is_plain_copy(words, led, known):
                found[link] = led.path
    return found


def physical(path: str, links: Mapping[str, str]) -> str:
    """Return an absolute path as the kernel resolves it: behind a link, `..` is the parent of the link's target."""
    at, hops = "", 0
    for part in path.split("/"):
        if part == "..":
            at = at.rpartition("/")[0]
        elif part not in ("", "."):
            at = f"{at}/{part}"
        while at in links and hops < HOPS_MAX:
            at, hops = links[at], hops + 1
    return at or "/"


def through(
    ground: PathContext, touched: Touched, links: Mapping[str, str], *, into: bool = False
) -> Iterator[Touched]:
    """Yield where a path really is if it goes through these links.

    Deleting a link deletes only the link; with a slash at the end (`into`) the folder behind it is meant.
    """
    pending, seen = [touched], {touched.path}
    while pending and len(seen) <= PLACES_MAX:
        here = pending.pop()
        for link, target in links.items():
            led = _led(ground, here, link, target, into=into)
            if led is not None and led.path not in seen:
                seen.add(led.path)
                pending.append(led)
                yield led
    if pending:
        yield Touched(touched.path, Reach.UNKNOWN, exact=False, deletes=touched.deletes)


def _led(ground: PathContext, touched: Touched, link: str, target: str, *, into: bool) -> Touched | None:
    """Return where one link leads a path that goes through it."""
    inside = touched.path.startswith(f"{link}/")
    itself = touched.path == link and (into or touched.names is not None or not touched.deletes)
    if not inside and not itself:
        return None
    wild = "" if touched.names is None else f"/{touched.names}{WILD}"
    found = place(ground, target + touched.path[len(link) :] + wild, None, deletes=touched.deletes)
    return found and msgspec.structs.replace(found, exact=found.exact and touched.exact)


def _links(program: str, words: Sequence[str]) -> bool:
    """Return whether a command makes links, symbolic or hard: writing through either writes the target."""
    copies = program == "cp" and any(_makes_links(word) or _copies_links(word) for word in words)
    return program in ("ln", "link", "mv") or copies


def _targets_first(words: Sequence[str]) -> list[str]:
    """Return the operands of a command, with its destination last, even if an option names the destination."""
    operands, into = list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word in ("-t", "--target-directory"):
            into = [f"{next(rest, '')}/"]
        elif word.startswith(("-t", "--target-directory=")):
            into = [f"{word.removeprefix('--target-directory=').removeprefix('-t')}/"]
        elif not word.startswith("-"):
            operands.append(word)
    return operands + into


def _is_plain_copy(words: Sequence[str], source: Touched, known: Mapping[str, str]) -> bool:
    """Return whether `cp` copies something that is not known to be a link."""
    is_copy = posixpath.basename(words[0]) == "cp" and not any(map(_makes_links, words[1:]))
    return is_copy and source.path not in known and not source.really


def _copies_links(word: str) -> bool:
    """Return whether an option tells `cp` to copy links as links."""
    short = word.startswith("-") and not word.startswith("--") and set("adPR") & set(word)
    return bool(short) or word in ("--archive", "--no-dereference", "--recursive")


def _makes_links(word: str) -> bool:
    """Return whether an option tells `cp` to make links."""
    short = word.startswith("-") and not word.startswith("--") and set("ls") & set(word)
    return bool(short) or word in ("--link", "--symbolic-link")
