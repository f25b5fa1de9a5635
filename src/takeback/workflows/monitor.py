"""The monitor, which needs no model: each check alerts once for each stale state, and cleans up old workflows.

A file records which notifier was reached about what, and is written after each delivery. So a notifier that fails is
tried again at the next check, and one that was reached hears nothing until the workflow moves and is stale again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from takeback.errors import BackendError, CorruptionError
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.disk import CheckpointFolder
from takeback.workflows.lines import log_line
from takeback.workflows.notify import send, shown
from takeback.workflows.stale import report_lines, stale

SETTINGS, TOLD, LOG, GUARD = "settings.json", "told.json", "monitor.log", ".lock"
KEEP_DAYS = 7.0


class Monitor:
    """The monitor of one workspace. Its settings, memory and log are in a folder of Takeback's own state."""

    def __init__(self, root: Path, state: Path, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.state = state
        self._clock = clock

    def settings(self) -> dict[str, Any]:
        found = self._read(SETTINGS)
        return {
            "staleMin": 10.0,
            "everyMin": 10,
            "notify": [],
            "scheduler": "",
            "keepDays": KEEP_DAYS,
        } | found

    def configure(self, settings: dict[str, Any]) -> None:
        self._write(SETTINGS, {"root": str(self.root), **settings})

    def forget(self) -> None:
        """Delete the settings and the record of alerts. The log stays, for audit."""
        for name in (SETTINGS, TOLD):
            (self.state / name).unlink(missing_ok=True)

    def run(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Check once. Return what is stale, and the errors of the notifiers."""
        folder = self._folder()
        try:
            with folder.locked(GUARD):
                return self._look()
        finally:
            folder.close()

    def last_look(self) -> dict[str, Any] | None:
        """Return the last line of the log."""
        try:
            lines = (self.state / LOG).read_text("utf-8").splitlines()
            return dict(json.loads(lines[-1])) if lines else None
        except (OSError, ValueError):
            return None

    def _look(self) -> tuple[list[dict[str, Any]], list[str]]:
        settings = self.settings()
        with Checkpoints(str(self.root), self._clock) as checkpoints:
            cleaned = checkpoints.prune(keep_days=settings["keepDays"])
            findings = stale(checkpoints, settings["staleMin"], self._clock())
        for path, did in cleaned:
            self._log("cleaned", path=path, did=did)
        present = {_key(finding): finding for finding in findings}
        told = {key: names for key, names in self._read(TOLD).items() if key in present}
        failures = []
        for notifier in ["log", *settings["notify"]]:
            fresh = [finding for key, finding in present.items() if notifier not in told.get(key, ())]
            if not fresh:
                continue
            message = "\n".join([str(self.root), *report_lines(fresh, settings["staleMin"])])
            try:
                if notifier == "log":
                    self._log("alert", findings=fresh)
                else:
                    send(notifier, message, fresh)
                    self._log("sent", to=shown(notifier), workflows=[f["workflowId"] for f in fresh])
            except BackendError as error:
                failures.append(error.message)
                self._log("failed", to=shown(notifier), why=error.message)
                continue
            for finding in fresh:
                told.setdefault(_key(finding), []).append(notifier)
            self._write(TOLD, told)
        self._write(TOLD, told)
        self._log("looked", stale=len(findings))
        return findings, failures

    def _log(self, what: str, **details: Any) -> None:
        log_line(str(self.state / LOG), {"what": what, **details}, self._clock())

    def _read(self, name: str) -> dict[str, Any]:
        folder = CheckpointFolder.find(str(self.state)) if self.state.is_dir() else None
        if folder is None:
            return {}
        try:
            found = json.loads(folder.read(name))
            return found if isinstance(found, dict) else {}
        except FileNotFoundError:
            return {}
        except (ValueError, CorruptionError) as error:
            raise CorruptionError(
                f"{self.state / name} cannot be read ({error}); nothing was done",
                hint="`takeback monitor install` writes it again",
            ) from error
        finally:
            folder.close()

    def _write(self, name: str, value: dict[str, Any]) -> None:
        folder = self._folder()
        try:
            folder.write(name, json.dumps(value, indent=2).encode() + b"\n")
        finally:
            folder.close()

    def _folder(self) -> CheckpointFolder:
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BackendError(
                f"{self.state} cannot be created: {error.strerror}; nothing was done"
            ) from error
        folder = CheckpointFolder.find(str(self.state))
        assert folder is not None
        return folder


def _key(finding: dict[str, Any]) -> str:
    """Return a name for one stale state: this file with its present content."""
    return f"{finding['file']} {finding['state']}"
