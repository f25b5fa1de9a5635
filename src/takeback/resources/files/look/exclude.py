"""The paths that are left out by the user's patterns.

An excluded path is excluded with everything below it, and every mark says so. core/globs.py defines what a pattern
means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from takeback.core import globs
from takeback.core.codec import text_of

OWN = rb"\.git(/.*)?"
"""The workspace's own repository belongs to the git resource; nested ones are files like any other."""

WORKFLOWS = (
    rb"(?:agents/[^/]+/)?memory/checkpoints/(?:[^/]*\.json|[^/]*\.lock|\.[^/]*\.tmp|set-aside(?:/.*)?)"
)
"""Checkpoints of workflows are Takeback's own. Taking them back would make finished steps run a second time."""

WORKFLOW_RULE = "workflow checkpoints are claimed"
"""Distinguishes caches of this version from those of older ones, whose trees include the checkpoints."""


def excluder(patterns: Iterable[str], hidden: Iterable[bytes] = ()) -> Callable[[bytes], bool]:
    """Return a test for paths relative to the root. `hidden` are paths of our own."""
    own = [OWN, WORKFLOWS, *(re.escape(path) + rb"(/.*)?" for path in hidden)]
    return globs.matcher([*own, *(globs.expression(os.fsencode(pattern)) for pattern in patterns)])


def workflow_folders(root: Path) -> list[str]:
    """Return the folders of workflow checkpoints as texts: each mark says that it does not cover them."""
    top = os.fsencode(root) + b"/"
    try:
        agents = sorted(os.listdir(top + b"agents"))
    except OSError:
        agents = []
    places = [*(b"agents/%s/memory/checkpoints" % agent for agent in agents), b"memory/checkpoints"]
    found = [place for place in places if os.path.exists(top + place)]
    return [f"kept by `takeback workflow`: {text_of(place)}/*.json" for place in found]
