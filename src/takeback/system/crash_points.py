"""Named places where a test may interrupt.

`reach(name)` normally does nothing. A test sets a hook that kills the process, raises an error or counts.
So every crash test hits exactly the line it names, and an injected disk error takes the path of a real one.
"""

from __future__ import annotations

from collections.abc import Callable

Hook = Callable[[str], None]

_hook: Hook | None = None
_known: set[str] = set()


def crash_point(name: str) -> str:
    """Declare a crash point when its module is imported, so that tests find it in `known()`."""
    _known.add(name)
    return name


def known() -> frozenset[str]:
    """Return every crash point of the modules imported so far."""
    return frozenset(_known)


def reach(name: str) -> None:
    """Pass a crash point."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> Hook | None:
    """Install the hook for all crash points, and return the one before. For tests only."""
    global _hook
    before, _hook = _hook, hook
    return before
