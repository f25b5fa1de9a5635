"""The monitor, which needs no model: each check finds what nobody continues, tells of it once, and cleans up.

A notifier that fails is tried again at the next check. One that was reached hears nothing until the workflow moves
and is stale again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeback.errors import BackendError, CorruptionError, TakebackError
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.disk import CheckpointFolder
from takeback.workflows.lines import log_line
from takeback.workflows.stale import stale
from takeback.workspace.notices import TOLD, folder_of
from takeback.workspace.notices.notifier import LOG, Notifier
from takeback.workspace.notices.waiting import RECORDED, STALE, Notice, command

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace

SETTINGS = "settings.json"
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

    def run(self, workspace: Workspace | None = None) -> tuple[list[dict[str, Any]], list[str]]:
        """Check once, with a `workspace` also what its journal says. Return what is stale, and what failed."""
        settings = self.settings()
        with Checkpoints(str(self.root), self._clock) as checkpoints:
            cleaned = checkpoints.prune(keep_days=settings["keepDays"])
            findings = stale(checkpoints, settings["staleMin"], self._clock())
        self._folder().close()
        for path, did in cleaned:
            self._log("cleaned", path=path, did=did)
        found, kinds, to, failures = [self._notice(one) for one in findings], [STALE], settings["notify"], []
        if workspace is not None:
            try:
                workspace.recover_if_idle()
                found, kinds = [*found, *workspace.notifier.waiting()], [*kinds, *RECORDED]
                to = workspace.notifier.to
            except TakebackError as error:
                failures.append(f"what waits in the journal is unknown: {error.message}")
        failures += Notifier(self.state, self.root, to, lambda: found, kinds, self._clock).tell()
        self._log("looked", stale=len(findings))
        return findings, failures

    def _notice(self, finding: dict[str, Any]) -> Notice:
        """Return a stale workflow, named by its file with its present content."""
        age = f"{finding['ageMinutes']} min without an update"
        about = f"workflow {finding['workflowId']} of {finding['agentId']}, {finding['status']}"
        why = age if finding["reason"] == "stale" else f"{age}, {finding['reason']}"
        answer = command(self.root, "workflow", "resume", "--workflow", finding["workflowId"])
        return Notice(STALE, finding["file"], finding["state"], about, why, (answer,), finding)

    def last_look(self) -> dict[str, Any] | None:
        """Return the last line of the log."""
        try:
            lines = (self.state / LOG).read_text("utf-8").splitlines()
            return dict(json.loads(lines[-1])) if lines else None
        except (OSError, ValueError):
            return None

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


def chosen_at_install(state: Path) -> list[str]:
    """Return the notifiers that were given to `takeback monitor install`."""
    if not (folder := folder_of(state)).is_dir():
        return []
    found: list[str] = Monitor(state, folder).settings()["notify"]
    return found
