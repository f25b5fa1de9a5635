"""Installing the monitor and `wake`: what systemd needs for it, and what is left where they are removed."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call

from .helpers import start
from .test_monitor import World

LOGINCTL = """#!/bin/sh
case "$1" in
    show-user) test -e "$FAKE/linger" && echo yes || echo no ;;
    enable-linger) test -e "$FAKE/refused" && { echo "Access denied" >&2; exit 1; }; touch "$FAKE/linger" ;;
esac
"""
SYSTEMCTL = '#!/bin/sh\necho "$@" >> "$FAKE/asked"\n'


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with systemd, where nobody lingers yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("loginctl", LOGINCTL), ("systemctl", SYSTEMCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FAKE", str(folder))
    return folder


INSTALL = ("monitor", "install", "--scheduler", "systemd")
WAKE = ("workflow", "wake", "--install", "--scheduler", "systemd")


@pytest.mark.parametrize("words", [INSTALL, (*WAKE, "--", "true")], ids=["monitor", "wake"])
def test_lingering_is_said_to_be_needed_and_offered(
    words: tuple[str, ...], call: Call, fake: Path, root: Path
) -> None:
    said = call(*words)
    assert said.code == 0, said
    assert "only while you are logged in" in said.stdout and "--linger" in said.stdout
    assert not (fake / "linger").exists(), "it was not asked for"
    index = words.index("--scheduler")
    said = call(*words[:index], "--linger", *words[index:])
    assert said.code == 0 and (fake / "linger").exists()
    assert "logged in" not in said.stdout
    assert call(*words[:index], "--json", *words[index:]).json["lingers"] is True
    assert "logged in" not in call(*words).stdout


def test_lingering_that_is_refused_is_said(call: Call, fake: Path, root: Path) -> None:
    (fake / "refused").touch()
    said = call(*INSTALL, "--linger")
    assert said.code == 4 and "Access denied" in said.stderr and "is installed" in said.stderr
    assert call("monitor", "status", "--json").json["installed"] is True


def test_wake_is_installed_run_and_removed(call: Call, fake: Path, root: Path, tmp_path: Path) -> None:
    start(root, "w1")
    script = 'touch "$0/$TAKEBACK_WORKFLOW"'
    said = call(*WAKE, "--agent", "a", "--", "sh", "-c", script, str(tmp_path))
    assert said.code == 0, said
    service, timer = sorted((tmp_path / "home/.config/systemd/user").iterdir())
    assert service.name.startswith("takeback-wake-")
    assert "OnBootSec=1min" in timer.read_text() and "OnUnitActiveSec=10min" in timer.read_text()
    assert f"enable --now {timer.name}" in (fake / "asked").read_text()
    # What systemd would run, by its own rules of quoting.
    line = next(row for row in service.read_text().splitlines() if row.startswith("ExecStart="))
    words = [
        word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))
    ]
    assert os.path.isabs(words[words.index("--") + 1]), "a scheduler has another PATH"
    pid = os.spawnve(os.P_WAIT, words[0], words, {"HOME": str(tmp_path / "home")})
    assert pid == 0 and (tmp_path / "w1").exists()
    assert "Removed from systemd" in call("workflow", "wake", "--uninstall").stdout
    assert not service.exists() and not timer.exists()
    assert "is not installed" in call("workflow", "wake", "--uninstall").stdout


def test_wake_can_be_shown_first_and_needs_a_command(
    call: Call, fake: Path, root: Path, tmp_path: Path
) -> None:
    said = call(*WAKE, "--print", "--", "true")
    assert said.code == 0 and "ExecStart" in said.stdout
    assert not (tmp_path / "home").exists()
    assert call("workflow", "wake").code == 2
    said = call(*WAKE, "--", "no-such-command")
    assert said.code == 2 and "no-such-command" in said.stderr
    assert (
        "*/5 * * * *"
        in call(
            "workflow",
            "wake",
            "--install",
            "--scheduler",
            "cron",
            "--every-min",
            "5",
            "--print",
            "--",
            sys.executable,
        ).stdout
    )


# What the monitor cleans up


def test_the_monitor_removes_what_is_done_and_sets_aside_what_expired_after_its_days(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.monitor.configure(
        {"scheduler": "cron", "everyMin": 10, "staleMin": 10.0, "notify": [], "keepDays": 7}
    )
    folder = world.root / "memory/checkpoints"
    with world.checkpoints() as checkpoints:
        checkpoints.start("done", step="one", ttl_days=100)
        checkpoints.complete("done")
        checkpoints.start("failed", step="one", ttl_days=1)
        checkpoints.update("failed", status="failed")
        checkpoints.start("expired", step="one", ttl_days=1)
        checkpoints.start("held", step="one", ttl_days=1, owner_pid=os.getpid())
    names = ["done", "expired", "failed", "held", "w"]
    day = 24 * 3600
    world.now += 7 * day - 60
    world.monitor.run()
    assert sorted(path.stem for path in folder.glob("*.json")) == names, "not before its days are over"
    world.now += 120
    world.monitor.run()
    assert sorted(path.stem for path in folder.glob("*.json")) == ["expired", "held", "w"]
    world.now += day
    world.monitor.run()
    assert sorted(path.stem for path in folder.glob("*.json")) == ["held", "w"]
    assert len(list((folder / "set-aside").iterdir())) == 1, "unfinished work stays 30 days more"
    cleaned = [line for line in world.log() if line["what"] == "cleaned"]
    assert [(Path(line["path"]).stem, line["did"]) for line in cleaned] == [
        ("done", "removed"),
        ("failed", "removed"),
        ("expired", "set aside"),
    ]
    world.now += 31 * day
    world.monitor.run()
    assert not list((folder / "set-aside").iterdir())


def test_the_days_are_set_when_the_monitor_is_installed(call: Call, fake: Path, root: Path) -> None:
    call(*INSTALL)
    assert call("monitor", "status", "--json").json["keep_days"] == 7
    call(*INSTALL, "--keep-days", "30")
    assert call("monitor", "status", "--json").json["keep_days"] == 30
