"""Checks after a rollback: questions to the world that only its owner can ask, with the answers in the report.

A check is a command of takeback.toml or a function of a run. It looks and changes nothing. Each is asked once, after
everything was put back and recorded; if one fails, the rollback is incomplete.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from takeback.core.redact import redact
from takeback.core.rollback import Verdict
from takeback.core.values import said
from takeback.engine.rollback.report import CheckResult, RollbackReport

WHY_MAX = 300

RollbackCheck = Callable[[RollbackReport], object]
"""Asked after a rollback. It fails if it returns False or raises."""


class CommandChecks(msgspec.Struct, frozen=True):
    """The commands that takeback.toml names. Each runs in the workspace, without a shell."""

    root: Path
    commands: tuple[str, ...] = ()
    timeout_s: float = 60.0

    def ask(self) -> list[CheckResult]:
        return [self._ask(command) for command in self.commands]

    def _ask(self, command: str) -> CheckResult:
        import subprocess  # few workspaces have such commands

        name = redact(command)
        try:
            done = subprocess.run(
                shlex.split(command),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
            )
        except subprocess.TimeoutExpired:
            return CheckResult(name, False, f"it did not end within {self.timeout_s:g} s")
        except (OSError, ValueError, IndexError) as error:
            return CheckResult(name, False, f"it could not be run: {said(error)}")
        if done.returncode == 0:
            return CheckResult(name, True)
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        told = f": {redact(lines[-1])[:WHY_MAX]}" if lines else ""
        return CheckResult(name, False, f"exit code {done.returncode}{told}")


def asked(report: RollbackReport, own: Sequence[RollbackCheck], commands: CommandChecks) -> RollbackReport:
    """Return the report with the answers of all checks. A preview, or a rollback that did not begin, asks none."""
    if report.preview or not report.rollback or not (own or commands.commands):
        return report
    return _with(report, [*(_answer(report, check) for check in own), *commands.ask()])


def _answer(report: RollbackReport, check: RollbackCheck) -> CheckResult:
    name = getattr(check, "__qualname__", "") or type(check).__qualname__
    try:
        found = check(report)
    except Exception as error:  # noqa: BLE001  a check that raises has failed, whatever it raises
        return CheckResult(name, False, redact(said(error))[:WHY_MAX])
    return CheckResult(name, found is not False, "it returned False" if found is False else "")


def _with(report: RollbackReport, checks: Iterable[CheckResult]) -> RollbackReport:
    every = (*report.checks, *checks)
    failed = not all(check.passed for check in every)
    verdict = Verdict.PARTIAL if failed else report.verdict
    return msgspec.structs.replace(report, checks=every, verdict=verdict)
