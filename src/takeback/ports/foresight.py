"""The port of foresight: which paths outside the workspace a command may touch, found before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class Reached(msgspec.Struct, frozen=True):
    """A path that an action is going to write or delete, judging by its words."""

    path: str
    """Absolute."""
    really: str = ""
    """The path with links resolved, if that is known to be another place."""
    somewhere: bool = False
    """True if it is a folder and something below it is written."""
    names: str | None = None
    """If not None, it is a folder, and names in it with this prefix are written."""
    makes: bool = False
    """True if `names` includes names that do not exist yet."""
    deletes: bool = False
    perhaps: bool = False
    """True if it is only named, and may not be written."""


class Survey(msgspec.Struct, frozen=True):
    """Which of the paths that an action names outside the workspace are captured."""

    places: tuple[str, ...] = ()
    """The captured places, each with everything below it. One that ends in `*/` means all names with that prefix."""
    missed: tuple[str, ...] = ()
    """What is not captured although it may be lost, as text for people."""
    stated: tuple[str, ...] = ()
    """What else is not captured, but does not keep the action from running."""


class Surveyor(Protocol):
    """The function that finds out which of the paths that an action names are captured."""

    def __call__(self, named: Iterable[Reached], known: Iterable[str] = (), /) -> Survey:
        """Return the survey of these paths. `known` are places that are looked at anyway."""
