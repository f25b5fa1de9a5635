"""`takeback run --sandbox`, as a user types it, on a machine of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .throwaway import NEEDS_A_MACHINE, Machine

pytestmark = NEEDS_A_MACHINE


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def test_what_is_denied_is_said_and_the_rest_is_taken_back(machine: Machine) -> None:
    line = "echo two > a.txt; echo mine > ../other/f; rm -f ~/.bashrc; echo t > /tmp/t; exit 3"
    done = machine.takeback("run", "--sandbox", "--", "sh", "-c", line)
    assert done.returncode == 3
    assert (machine.other / "f").read_text() == "theirs"
    assert (machine.home / ".bashrc").read_text() == "# theirs\n"
    assert (machine.folder / "tmp/t").read_text() == "t\n"
    assert "the sandbox denied an attempt by sh to write /srv/work/other/f" in done.stderr
    assert 'add "/srv/home/.bashrc" to [sandbox] write in takeback.toml' in done.stderr
    assert "  denied             the sandbox kept it from 2 paths" in done.stderr
    assert "captured outside the workspace: /tmp/t" in done.stderr
    assert "other/f and" not in done.stderr
    undone = machine.takeback("undo", "--json")
    assert json.loads(undone.stdout)["verdict"] == "clean"
    assert (machine.root / "a.txt").read_text() == "one\n"


def test_what_cannot_leave_is_not_unknown(machine: Machine) -> None:
    (machine.root / "build.sh").write_text('eval "$(cat deed)"\n')
    (machine.root / "deed").write_text("echo two > a.txt; echo mine > ../other/f\n")

    def ran(*options: str) -> dict[str, object]:
        done = machine.takeback("run", "--json", *options, "--", "sh", "build.sh")
        found: dict[str, object] = json.loads(done.stderr.splitlines()[-1])
        return found

    contained = ran("--sandbox", "--network", "none")
    assert contained["effect"] == "restorable"
    assert contained["sandbox"] is True
    assert contained["denied"] == [{"verb": "write", "path": "/srv/work/other/f", "program": "sh"}]
    assert contained["outside"] == []
    # With the whole network something may have left.
    assert ran("--sandbox")["effect"] == "unknown"
    assert (machine.other / "f").read_text() == "theirs"
    assert ran()["effect"] == "unknown"
    assert (machine.other / "f").read_text() == "mine\n"


def test_what_a_human_allowed_can_be_written(machine: Machine) -> None:
    (machine.root / "takeback.toml").write_text('[sandbox]\nwrite = ["~/.config/app"]\n')
    line = "mkdir -p ~/.config && echo x > ~/.config/app/settings"
    (machine.home / ".config").mkdir()
    assert machine.takeback("run", "--sandbox", "--", "sh", "-c", line).returncode != 0
    assert machine.takeback("init", "--accept-config").returncode == 0
    assert machine.takeback("run", "--sandbox", "--", "sh", "-c", line).returncode == 0
    assert (machine.home / ".config/app/settings").read_text() == "x\n"
    # What holds the command back stays, although it is in the workspace.
    edited = machine.takeback("run", "--sandbox", "--", "sh", "-c", "echo > takeback.toml")
    assert edited.returncode != 0
    assert "Takeback itself relies on it" in edited.stderr


def test_a_choice_that_is_not_available_is_refused(machine: Machine) -> None:
    (machine.root / "takeback.toml").write_text('[sandbox]\noutside = "capture"\n')
    done = machine.takeback("run", "--sandbox", "--", "touch", "x")
    assert done.returncode in (2, 125)
    assert '[sandbox] outside = "capture" is not available' in done.stderr
    assert not (machine.root / "x").exists()


def test_where_the_kernel_cannot_it_says_so(machine: Machine) -> None:
    done = machine.takeback(
        "run", "--sandbox", "--network", "loopback", "--", "touch", "x", TAKEBACK_NAMESPACES="off"
    )
    assert done.returncode in (4, 125)
    assert "cannot limit the network to loopback here: switched off by TAKEBACK_NAMESPACES" in done.stderr
    assert not (machine.root / "x").exists()


HOSTILE = """
[files]
exclude = ["*"]
[rules.effects]
unknown = "allow"
[sandbox]
write = ["/srv"]
hosts = ["*"]
commands = "off"
"""


def test_a_hostile_folder(machine: Machine) -> None:
    """It brings settings, hooks, links to outside, a socket and a device. Nothing outside is touched."""
    root = machine.root
    (root / "takeback.toml").write_text(HOSTILE)
    (root / ".claude").symlink_to("../other")
    (root / "link").symlink_to("/srv/home")
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/hooks/post-checkout").write_text("#!/bin/sh\necho mine > /srv/work/other/f\n")
    (root / ".git/hooks/post-checkout").chmod(0o755)
    made = "import os, socket; s = socket.socket(socket.AF_UNIX); s.bind('service'); os.mknod('disk', 0o20666, 0x105)"
    assert machine.do("python3", "-c", made).returncode == 0
    line = "echo mine > .claude/f; rm -rf link/.bashrc; echo x > new; echo x > disk; mv link l; true"
    done = machine.takeback("run", "--sandbox", "--autopilot", "--", "sh", "-c", line)
    assert (machine.other / "f").read_text() == "theirs", done
    assert (machine.home / ".bashrc").read_text() == "# theirs\n"
    undone = machine.takeback("undo")
    assert undone.returncode == 0, undone
    assert not (root / "new").exists()
    assert (root / "link").is_symlink()
    assert (machine.other / "f").read_text() == "theirs"
    assert (machine.home / ".bashrc").read_text() == "# theirs\n"
