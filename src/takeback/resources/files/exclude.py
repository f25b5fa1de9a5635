"""Which paths are left out, by the user's patterns.

What is excluded is excluded with everything below it, and every mark says so. What a pattern means is said in
core/globs.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from takeback.core import globs

OWN = rb"\.git(/.*)?"
"""The workspace's own repository belongs to git; nested ones are files like any other."""


def excluder(patterns: Iterable[str], hidden: Iterable[bytes] = ()) -> Callable[[bytes], bool]:
    """A test for paths relative to the root. `hidden` are paths of our own."""
    own = [OWN, *(re.escape(path) + rb"(/.*)?" for path in hidden)]
    return globs.matcher([*own, *(globs.expression(os.fsencode(pattern)) for pattern in patterns)])
