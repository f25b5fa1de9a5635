"""The monitor in the host's own scheduler: a systemd user timer, a line of cron, a launchd agent.

A schedule returns the files that it needs as text, so that they can be shown and verified without being installed.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from takeback.errors import BackendError, UsageError

EVERY_MIN_MAX = 59


class Schedule:
    """One scheduler's way to run a command every so many minutes."""

    kind = ""

    def __init__(
        self, name: str, words: Sequence[str], every_min: int, home: Path, first_min: int = 0
    ) -> None:
        """`first_min` is the delay of the first run after the machine starts, if the scheduler supports one."""
        if not 1 <= every_min <= EVERY_MIN_MAX:
            raise UsageError(f"--every-min must be a number from 1 to {EVERY_MIN_MAX}; nothing was installed")
        self.name = name
        self.words = list(words)
        self.every_min = every_min
        self.home = home
        self.first_min = first_min or every_min

    def files(self) -> dict[Path, bytes]:
        """Return every file to write, with its text."""
        raise NotImplementedError

    def begin(self) -> None:
        """Register with the scheduler."""

    def end(self) -> None:
        """Deregister from the scheduler; do nothing if it was never registered."""

    def lingers(self) -> bool:
        """Return True if it also runs while its user is not logged in."""
        return True

    def linger(self) -> None:
        """Let it run while its user is not logged in, too."""

    def is_usable(self) -> bool:
        """Return False if this machine is known not to have this scheduler."""
        return True

    def is_installed(self) -> bool:
        return any(path.exists() for path in self.files())

    def install(self) -> None:
        for path, data in self.files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.begin()

    def remove(self) -> None:
        self.end()
        for path in self.files():
            path.unlink(missing_ok=True)


class Systemd(Schedule):
    kind = "systemd"

    def files(self) -> dict[Path, bytes]:
        folder = self.home / ".config/systemd/user"
        service = f"""\
[Unit]
Description=Takeback: look for abandoned workflows

[Service]
Type=oneshot
ExecStart={" ".join(map(_systemd_quoted, self.words))}
"""
        timer = f"""\
[Unit]
Description=Takeback: every {self.every_min} minutes

[Timer]
OnBootSec={self.first_min}min
OnUnitActiveSec={self.every_min}min
AccuracySec=30s

[Install]
WantedBy=timers.target
"""
        return {
            folder / f"{self.name}.service": service.encode(),
            folder / f"{self.name}.timer": timer.encode(),
        }

    def begin(self) -> None:
        _ask(["systemctl", "--user", "daemon-reload"])
        _ask(["systemctl", "--user", "enable", "--now", f"{self.name}.timer"])

    def end(self) -> None:
        if self.is_installed():
            _ask(["systemctl", "--user", "disable", "--now", f"{self.name}.timer"])

    def lingers(self) -> bool:
        if not shutil.which("loginctl"):
            return True  # without logind, something else keeps the user's manager running
        asked = _run(["loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"])
        return asked.stdout.strip() == "yes"

    def linger(self) -> None:
        done = _run(["loginctl", "enable-linger", str(os.getuid())])
        if done.returncode:
            raise BackendError(
                f"`loginctl enable-linger` failed: {done.stderr.strip() or done.returncode}. The timer is installed, "
                "but runs only while you are logged in",
                hint="ask an administrator to run: loginctl enable-linger YOUR-NAME",
            )

    def remove(self) -> None:
        super().remove()
        subprocess.run(["systemctl", "--user", "daemon-reload"], capture_output=True)


class Launchd(Schedule):
    kind = "launchd"

    def files(self) -> dict[Path, bytes]:
        body = {
            "Label": self.name,
            "ProgramArguments": self.words,
            "StartInterval": self.every_min * 60,
            "RunAtLoad": True,
            "ProcessType": "Background",
        }
        return {self.home / f"Library/LaunchAgents/{self.name}.plist": plistlib.dumps(body)}

    def begin(self) -> None:
        (path,) = self.files()
        _ask(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(path)])

    def end(self) -> None:
        if self.is_installed():
            _ask(["launchctl", "bootout", f"gui/{os.getuid()}/{self.name}"])


class Cron(Schedule):
    """Two lines of the user's crontab. Every other line stays as it is."""

    kind = "cron"

    def lines(self) -> str:
        # A percent sign ends a command in a crontab.
        command = shlex.join(self.words).replace("%", r"\%")
        return f"# {self.name}\n*/{self.every_min} * * * * {command} >/dev/null 2>&1\n"

    def files(self) -> dict[Path, bytes]:
        return {}

    def is_usable(self) -> bool:
        return bool(shutil.which("crontab"))

    def is_installed(self) -> bool:
        return self._without(old := self._table()) != old

    def install(self) -> None:
        table = self._without(self._table())
        if table and not table.endswith("\n"):
            table += "\n"
        self._put(table + self.lines())

    def remove(self) -> None:
        old = self._table()
        if (table := self._without(old)) != old:
            self._put(table)

    def _without(self, table: str) -> str:
        return re.sub(rf"(?m)^# {re.escape(self.name)}\n.*\n?", "", table)

    def _table(self) -> str:
        done = _run(["crontab", "-l"])
        if done.returncode and "no crontab" not in done.stderr:
            raise BackendError(f"the crontab cannot be read: {done.stderr.strip()}; nothing was changed")
        return "" if done.returncode else done.stdout

    def _put(self, table: str) -> None:
        done = _run(["crontab", "-"], text=table)
        if done.returncode:
            raise BackendError(f"the crontab was not accepted: {done.stderr.strip()}; it is unchanged")


def schedule(
    kind: str, name: str, words: Sequence[str], every_min: int, home: Path, first_min: int = 0
) -> Schedule:
    made = {"systemd": Systemd, "cron": Cron, "launchd": Launchd}[kind]
    return made(name, words, every_min, home, first_min)


def best_kind() -> str:
    """Return the kind of scheduler that this machine runs."""
    if sys.platform == "darwin":
        return "launchd"
    if shutil.which("systemctl") and not _run(["systemctl", "--user", "is-system-running"]).stdout.startswith(
        ("offline", "unknown")
    ):
        # Without a user manager systemctl prints nothing, or one of these two.
        if not _run(["systemctl", "--user", "show-environment"]).returncode:
            return "systemd"
    if shutil.which("crontab"):
        return "cron"
    raise UsageError(
        "neither systemd user timers nor cron work here; nothing was installed",
        hint="let another scheduler run `takeback monitor run` every 10 minutes",
    )


def _systemd_quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _ask(words: list[str]) -> None:
    done = _run(words)
    if done.returncode:
        raise BackendError(
            f"`{shlex.join(words)}` failed: {done.stderr.strip() or done.returncode}. The files are written, "
            "but the scheduler has not loaded them",
            hint="`takeback monitor remove` deletes them; or try --scheduler cron",
        )


def _run(words: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=text, capture_output=True, text=True)
    except OSError as error:
        raise BackendError(f"{words[0]} cannot be run: {error.strerror}; nothing was changed") from error
