"""Units, crontab and plist: read by systemd, run by cron, understood by plistlib."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.workflows.schedules import Cron, Launchd, Schedule, Systemd, schedule

from .helpers import REPOSITORY, rewrite, start

ODD = ["/bin/echo", "a b", 'quote"d', "100%", "$HOME", "back\\slash", "it's", "%h"]


def make(kind: type[Schedule], home: Path, words: list[str] | None = None) -> Schedule:
    return kind("takeback-monitor-x", words or ["/bin/echo", "hello"], 10, home)


def install_by_hand(made: Schedule) -> list[Path]:
    for path, data in made.files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return list(made.files())


def verify(paths: list[Path], runtime: Path) -> subprocess.CompletedProcess[str]:
    runtime.mkdir(exist_ok=True)
    return subprocess.run(
        ["systemd-analyze", "--user", "verify", *map(str, paths)],
        env=os.environ | {"XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("words", [["/bin/echo", "hello"], ODD], ids=["plain", "odd"])
def test_systemd_verifies_the_units(words: list[str], tmp_path: Path) -> None:
    paths = install_by_hand(make(Systemd, tmp_path, words))
    assert [path.suffix for path in paths] == [".service", ".timer"]
    done = verify(paths, tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    paths[1].write_text(paths[1].read_text().replace("OnBootSec=10min", "OnBootSec=soon"))
    assert "soon" in verify(paths, tmp_path / "run").stderr, "the check can fail"


def test_launchd_reads_what_was_meant(tmp_path: Path) -> None:
    ((path, data),) = make(Launchd, tmp_path, ODD).files().items()
    body = plistlib.loads(data)
    assert path == tmp_path / "Library/LaunchAgents/takeback-monitor-x.plist"
    assert (body["Label"], body["ProgramArguments"], body["StartInterval"]) == (
        "takeback-monitor-x",
        ODD,
        600,
    )


@pytest.mark.parametrize("every", [0, -1, 60])
def test_how_often(every: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        schedule("cron", "x", ["true"], every, tmp_path)


class OwnTable(Cron):
    """A crontab in a string."""

    table = ""

    def _table(self) -> str:
        return self.table

    def _put(self, table: str) -> None:
        self.table = table


@pytest.mark.parametrize("before", ["", "MAILTO=me\n5 4 * * * backup\n", "5 4 * * * no newline at the end"])
def test_other_lines_of_the_crontab_stay(before: str, tmp_path: Path) -> None:
    made = OwnTable("takeback-monitor-x", ["/bin/echo", "100%"], 10, tmp_path)
    made.table = before
    made.install()
    once = made.table
    made.install()
    assert made.table == once and made.is_installed()
    assert r"*/10 * * * * /bin/echo 100\% >/dev/null 2>&1" in once.splitlines()
    assert made.table.startswith(before)
    made.remove()
    assert made.table.rstrip("\n") == before.rstrip("\n") and not made.is_installed()
    made.remove()


# A mount namespace, so that nobody's crontab is touched; and one of processes, so that none outlives the test.
APART = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CRON = """
set -e
cd "$1"
mkdir -p spool/crontabs etc; chmod 1730 spool/crontabs; chgrp crontab spool/crontabs
mount --bind spool /var/spool/cron; mount --bind etc /etc/cron.d; mount --bind /dev/null /etc/crontab
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /dev/shm
echo '1 2 3 4 5 somebody-elses' | crontab -
cd work
"$2" -m takeback monitor install --scheduler cron --notify "command:touch $1/told"
faketime -f '@2026-11-16 01:09:57' cron -f &
for try in $(seq 200); do test -e "$1/told" && break; sleep 0.1; done
"$2" -m takeback monitor status
"$2" -m takeback monitor remove
crontab -l
test -e "$1/told"
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="not on this platform: no root on Linux"
)
@pytest.mark.skipif(
    not all(shutil.which(name, path="/usr/sbin:/usr/bin:/bin") for name in ("cron", "faketime", "unshare")),
    reason="cron or faketime is not installed",
)
def test_a_real_cron_runs_it(tmp_path: Path) -> None:
    """The daemon's clock says that a tenth minute is about to come."""
    (tmp_path / "work").mkdir()
    start(tmp_path / "work")
    rewrite(tmp_path / "work", "w1", updated_s=1_700_000_000, expiresAt="2999-01-01T00:00:00+00:00")
    tmp_path.chmod(0o755)
    done = subprocess.run(
        ["unshare", *APART, "bash", "-c", CRON, "bash", str(tmp_path), sys.executable],
        env=os.environ | {"TAKEBACK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done
    assert "cron checks the workflows in " in done.stdout and "every 10 minutes" in done.stdout
    assert done.stdout.endswith("Removed from cron.\n1 2 3 4 5 somebody-elses\n"), done.stdout
    (log,) = (tmp_path / "home/monitor").glob("*/monitor.log")
    assert '"what": "alert"' in log.read_text()
