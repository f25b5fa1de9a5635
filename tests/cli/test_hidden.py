"""Passwords in command lines are in nothing that is recorded or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.cli import Workspace

SECRET = "hunter2secret"
LINES = [
    f"true ssh-keygen -N '{SECRET}' -f k",
    f"true -- PASSWORD='{SECRET}'",
    f'true curl -d "{{\\"password\\":\\"{SECRET}\\"}}" x',
    f"cat > .netrc <<'E'\nmachine h login u password {SECRET}\nE",
    f"true && export STRIPE_KEY='{SECRET}'",
]


@pytest.mark.parametrize("line", LINES)
def test_a_password_that_a_command_is_given_is_in_no_record(line: str, tmp_path: Path) -> None:
    world = Workspace.at(tmp_path)
    world.run("run", "--", "bash", "-c", line)
    world.run("run", "--", "make", "-f", "x", f"PASSWORD={SECRET}")
    said = "".join(
        world.run(*words).said
        for words in (
            ["log"],
            ["log", "--json"],
            ["status"],
            ["status", "--json"],
            ["export"],
            ["undo", "--preview"],
        )
    )
    assert "bash" in said and SECRET not in said
    for file in (path for path in world.home.rglob("journal*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
