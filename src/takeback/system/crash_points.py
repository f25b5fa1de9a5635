"""Named places where a test may interrupt.

`reach(name)` does nothing in ordinary life. A test sets a hook that kills the process, raises an error or counts.
So every crash test hits exactly the line it names, and an injected disk error takes the road of a real one.
"""

from __future__ import annotations

from collections.abc import Callable

Hook = Callable[[str], None]

_hook: Hook | None = None
_known: set[str] = set()


def crash_point(name: str) -> str:
    """Declare a place by name, once, where its module is read; a test then finds it among `known()`."""
    _known.add(name)
    return name


def known() -> frozenset[str]:
    """Every declared place of the modules imported so far."""
    return frozenset(_known)


def reach(name: str) -> None:
    """Pass a named place."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> Hook | None:
    """Install what happens at a named place; returns the hook before. For tests only."""
    global _hook
    before, _hook = _hook, hook
    return before
