"""What the doctor found, each with a way to mend it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class DiagnosisState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but not as it could; or it cannot be told."""
    PROBLEM = "problem"
    """What the agent does is not protected."""


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    check: str
    state: DiagnosisState
    said: str
    fix: str = ""


def ok(check: str, said: str) -> Diagnosis:
    return Diagnosis(check, DiagnosisState.OK, said)


def warning(check: str, said: str, fix: str = "") -> Diagnosis:
    return Diagnosis(check, DiagnosisState.WARNING, said, fix)


def problem(check: str, said: str, fix: str) -> Diagnosis:
    return Diagnosis(check, DiagnosisState.PROBLEM, said, fix)
