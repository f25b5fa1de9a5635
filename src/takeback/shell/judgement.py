"""The judgement of a command before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Reach(StrEnum):
    """How far a command reaches, from least to most care: the worst of a line counts."""

    NONE = "none"
    """It reads only."""
    RESTORABLE = "restorable"
    """It writes inside the workspace, where everything is captured."""
    OUTSIDE = "outside"
    """It writes to paths outside the workspace, which it names."""
    UNKNOWN = "unknown"
    """Not known from the words. Never to be taken for safe."""
    IRREVERSIBLE = "irreversible"
    """It does what no undo reaches: sends, publishes, deletes elsewhere, ends processes."""


ORDER = list(Reach)


def worst(reaches: Iterable[Reach]) -> Reach:
    return max(reaches, key=ORDER.index, default=Reach.NONE)


class Reason(msgspec.Struct, frozen=True):
    """One simple command of the line, and the reason for its judgement."""

    reach: Reach
    command: str
    """Its words, as far as they are known. They may hold a secret."""
    rule: str
    """The rule that decided: the words of the program that it is about, or a name in parentheses."""
    why: str
    back: str = ""
    """How its user could put things back by hand, where there is a way."""
    where: str = ""
    """The file that says it, with the line: `deploy.sh:12`. Empty where the command itself does."""
    limit: bool = False
    """True if it was not read to its end because it is too long or deep: what the rest does is unknown."""
    local: bool = False
    """Whether it cannot be taken back, but stays with this session: its processes, servers here, its containers."""


class Touched(msgspec.Struct, frozen=True):
    """A path that the line writes or deletes."""

    path: str
    """Absolute, or what is known of it."""
    reach: Reach
    """Restorable inside the workspace, outside, irreversible for a device; otherwise unknown."""
    exact: bool = True
    """False where it is a folder, somewhere below which the command writes."""
    deletes: bool = False
    really: str = ""
    """Where it leads, links followed, where that is another place."""
    names: str | None = None
    """Where a wildcard was given: how those names in this folder begin that are meant."""
    makes: bool = False
    """Whether such names are meant too that are not there yet."""


class Judgement(msgspec.Struct, frozen=True):
    """What a line would do, with a reason for each simple command that does more than read."""

    reach: Reach
    reasons: tuple[Reason, ...] = ()
    touched: tuple[Touched, ...] = ()
    background: bool = False
    """Whether something of it goes on when the line has ended."""

    @property
    def main(self) -> Reason | None:
        """The first of the worst reasons."""
        return next((reason for reason in self.reasons if reason.reach is self.reach), None)

    @property
    def limit(self) -> Reason | None:
        """The first place at which reading stopped. A line that long or deep may hide anything behind it."""
        return next((reason for reason in self.reasons if reason.limit), None)
