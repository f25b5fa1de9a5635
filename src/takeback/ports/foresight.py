"""The port of foresight: which paths outside the workspace a command may touch, found before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class Reached(msgspec.Struct, frozen=True):
    """A path that an action is going to write or delete, as far as its words tell."""

    path: str
    """Absolute."""
    really: str = ""
    """Where it really leads, links followed, where that is known to be another place."""
    somewhere: bool = False
    """It is a folder, and something below it is written."""
    names: str | None = None
    """It is a folder, and what in it begins so is written."""
    makes: bool = False
    """Such names are meant too that are not there yet."""
    deletes: bool = False
    perhaps: bool = False
    """It is only named: nobody says that it is written."""


class Survey(msgspec.Struct, frozen=True):
    """What of the paths that an action names outside the workspace is captured."""

    places: tuple[str, ...] = ()
    """These, each with everything below it. One that ends in `*/` is all that begins so."""
    missed: tuple[str, ...] = ()
    """What is not captured although it may be lost, in words."""
    stated: tuple[str, ...] = ()
    """What is not captured either, but is no reason to hold the action back."""


class Surveyor(Protocol):
    """Finds out what of the paths that an action names is captured."""

    def __call__(self, named: Iterable[Reached], known: Iterable[str] = (), /) -> Survey:
        """`known` are places that are looked at anyway."""
