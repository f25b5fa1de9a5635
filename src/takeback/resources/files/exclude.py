"""Which paths are left out, by the user's patterns.

A pattern without a slash means a name anywhere; with one, a path from the root. `*` stays within a name, `**`
crosses folders. What is excluded is excluded with everything below it, and every mark says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from takeback.core.codec import text_of

OWN = rb"\.git(/.*)?"
"""The workspace's own repository belongs to git; nested ones are files like any other."""

WORKFLOWS = (
    rb"(?:agents/[^/]+/)?memory/checkpoints/(?:[^/]*\.json|[^/]*\.lock|\.[^/]*\.tmp|set-aside(?:/.*)?)"
)
"""Checkpoints of workflows are Takeback's own. Taken back, they would have finished steps done a second time."""

WORKFLOW_RULE = "workflow checkpoints are claimed"
"""Told apart from what older versions knew of a tree, which had them in it."""


def excluder(patterns: Iterable[str], hidden: Iterable[bytes] = ()) -> Callable[[bytes], bool]:
    """A test for paths relative to the root. `hidden` are paths of our own."""
    parts = [OWN, WORKFLOWS, *(re.escape(path) + rb"(/.*)?" for path in hidden), *map(_expression, patterns)]
    found = re.compile(b"|".join(b"(?:" + part + b")" for part in parts), re.DOTALL).fullmatch
    return lambda path: found(path) is not None


def workflow_folders(root: Path) -> list[str]:
    """Which folders of checkpoints there are, in words: each mark says that it does not cover them."""
    patterns = ("memory/checkpoints", "agents/*/memory/checkpoints")
    found = sorted(path.relative_to(root) for pattern in patterns for path in root.glob(pattern))
    return [f"kept by `takeback workflow`: {text_of(os.fsencode(path))}/*.json" for path in found]


def _expression(pattern: str) -> bytes:
    text = os.fsencode(pattern.strip("/"))
    start = b"" if "/" in pattern.rstrip("/") else rb"(?:.*/)?"
    body = b"".join(_TOKENS.get(token, re.escape(token)) for token in re.split(rb"(\*\*/|\*\*|\*|\?)", text))
    return start + body + rb"(/.*)?"


_TOKENS = {b"**/": rb"(?:.*/)?", b"**": rb".*", b"*": rb"[^/]*", b"?": rb"[^/]"}
