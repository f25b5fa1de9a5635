"""The doctor's findings, each with a way to fix it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class DiagnosisState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but not as well as it could; or the result is unknown."""
    PROBLEM = "problem"
    """The agent's work is not protected."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The result of one check."""

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
