"""What the doctor found, each with a way to mend it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but not as it could; or it cannot be told."""
    PROBLEM = "problem"
    """What the agent does is not protected."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    check: str
    state: State
    said: str
    fix: str = ""


def ok(check: str, said: str) -> Finding:
    return Finding(check, State.OK, said)


def warning(check: str, said: str, fix: str = "") -> Finding:
    return Finding(check, State.WARNING, said, fix)


def problem(check: str, said: str, fix: str) -> Finding:
    return Finding(check, State.PROBLEM, said, fix)
