"""Which paths are left out, by the user's patterns.

What is excluded is excluded with everything below it, and every mark says so. What a pattern means is said in
core/globs.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from takeback.core import globs
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
    own = [OWN, WORKFLOWS, *(re.escape(path) + rb"(/.*)?" for path in hidden)]
    return globs.matcher([*own, *(globs.expression(os.fsencode(pattern)) for pattern in patterns)])


def workflow_folders(root: Path) -> list[str]:
    """Which folders of checkpoints there are, in words: each mark says that it does not cover them."""
    top = os.fsencode(root) + b"/"
    try:
        agents = sorted(os.listdir(top + b"agents"))
    except OSError:
        agents = []
    places = [*(b"agents/%s/memory/checkpoints" % agent for agent in agents), b"memory/checkpoints"]
    found = [place for place in places if os.path.exists(top + place)]
    return [f"kept by `takeback workflow`: {text_of(place)}/*.json" for place in found]
