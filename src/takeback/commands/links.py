"""Links that a line makes and then goes through: they are not there yet, so looking does not find them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from takeback.commands.judgement import Reach, Touched
from takeback.commands.paths import Ground, below, place
from takeback.commands.words import WILD, is_known

PLACES_MAX = 100
"""Where one path may lead through the links of a line; then nobody goes after it any further."""


def links_made(ground: Ground, words: Sequence[str], folder: str | None) -> dict[str, str]:
    """The links that a command makes from this folder, each with where it leads."""
    if not words or not _links(posixpath.basename(words[0]), words[1:]):
        return {}
    operands = [word for word in words[1:] if not word.startswith("-")]
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
            led = place(ground, target, posixpath.dirname(link))
            if led is not None and led.path != link:
                found[link] = led.path
    return found


def through(ground: Ground, touched: Touched, links: Mapping[str, str]) -> Iterator[Touched]:
    """Where a path really is if it goes through these links. Who deletes a link itself deletes no more."""
    pending, seen = [touched], {touched.path}
    while pending and len(seen) <= PLACES_MAX:
        here = pending.pop()
        for link, target in links.items():
            led = _led(ground, here, link, target)
            if led is not None and led.path not in seen:
                seen.add(led.path)
                pending.append(led)
                yield led
    if pending:
        yield Touched(touched.path, Reach.UNKNOWN, exact=False, deletes=touched.deletes)


def _led(ground: Ground, touched: Touched, link: str, target: str) -> Touched | None:
    """Where one link leads a path that goes through it."""
    inside = touched.path.startswith(f"{link}/")
    itself = touched.path == link and (touched.names is not None or not touched.deletes)
    if not inside and not itself:
        return None
    wild = "" if touched.names is None else f"/{touched.names}{WILD}"
    found = place(ground, target + touched.path[len(link) :] + wild, None, deletes=touched.deletes)
    return found and msgspec.structs.replace(found, exact=found.exact and touched.exact)


def _links(program: str, words: Sequence[str]) -> bool:
    """Whether a command makes links: of either kind, for what is written through a hard link is written there too."""
    return program in ("ln", "link") or (program == "cp" and any(map(_makes_links, words)))


def _makes_links(word: str) -> bool:
    """Whether an option tells `cp` to make links."""
    short = word.startswith("-") and not word.startswith("--") and set("ls") & set(word)
    return bool(short) or word in ("--link", "--symbolic-link")
