"""Every crash point that the parts of a workspace declare, for tests that list them."""

from __future__ import annotations

import takeback.workspace.parts  # noqa: F401  a module declares its crash points when it is loaded
from takeback.system import crash_points


def declared() -> frozenset[str]:
    """Return the names of all crash points, whatever the test itself has loaded."""
    return crash_points.known()
