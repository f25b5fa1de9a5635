"""Takeback as a person uses it: the command in its own process, on a real folder, with its own state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import settings
from .forking import Nursery
from .picture import Picture, differences, picture

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        return self.stdout + self.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(home: Path) -> dict[str, str]:
    """What a child process gets. A file in the workspace cannot pose as a module of Python."""
    path = [str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "TAKEBACK_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONSAFEPATH": "1",
        "NO_COLOR": "1",
    }


def run(
    args: Sequence[str],
    *,
    cwd: Path,
    home: Path,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
    timeout_s: float = 100,
) -> Result:
    """Run `takeback` with these arguments, in a process of its own that need not read its modules."""
    wanted = environment(home) | dict(env or {})
    if ready := _ready(wanted):
        code, out, err = ready.run(args, cwd=str(cwd), env=wanted, umask=umask, timeout_s=timeout_s)
        return Result(code, out.decode(errors="replace"), err.decode(errors="replace"))
    return run_from_the_start(args, cwd=cwd, env=wanted, umask=umask, timeout_s=timeout_s)


def run_from_the_start(
    args: Sequence[str], *, cwd: Path, env: Mapping[str, str], umask: int = -1, timeout_s: float = 100
) -> Result:
    """Run `takeback` in a Python of its own, as a user's shell does."""
    done = subprocess.run(
        [sys.executable, "-m", "takeback", *args],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        umask=umask,
        timeout=timeout_s,
    )
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


_nursery: list[Nursery] = []


def _ready(env: Mapping[str, str]) -> Nursery | None:
    """Who can be forked for a command with this environment, if anybody."""
    if sys.platform != "linux":
        return None
    if not _nursery:
        _nursery.append(Nursery(environment(Path(os.devnull))))
    return _nursery[0] if _nursery[0].suits(env) else None


@dataclass(frozen=True)
class Workspace:
    """A folder under protection, with an agent and a human at work in it."""

    root: Path
    home: Path
    timeout_s: float = 100

    @classmethod
    def at(cls, folder: Path) -> Workspace:
        """Make one below `folder`, with some files in it."""
        made = cls(folder / "work", folder / "state")
        made.root.mkdir(parents=True)
        return made

    # The two who write.

    def human(self, name: str, text: str | bytes) -> None:
        """The human writes a file, with no word to Takeback."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def configure(self, text: str) -> None:
        """The human writes takeback.toml, and accepts what stands there."""
        settings.write(self.root, text, self.home)

    def agent(self, script: str, *, name: str = "agent", code: int = 0) -> Result:
        """The agent runs a shell script as one recorded action."""
        done = self.run("run", "--name", name, "--", "sh", "-c", script)
        assert done.code == code, done
        return done

    def wreck(self, *names: str) -> Result:
        """The agent destroys these properties of the torture tree."""
        done = self.run("run", "--", sys.executable, "-m", "tests.world.wreck", *names)
        assert done.code == 0, done
        return done

    # Takeback.

    def run(self, *args: str, env: Mapping[str, str] | None = None, umask: int = -1) -> Result:
        return run(args, cwd=self.root, home=self.home, env=env, umask=umask, timeout_s=self.timeout_s)

    def do(self, *args: str, code: int = 0) -> Result:
        """Run a command that must end with this exit code."""
        done = self.run(*args)
        assert done.code == code, (args, done)
        return done

    def save(self, message: str = "") -> str:
        """Take a checkpoint and give its id."""
        return self.do("save", *filter(None, [message])).stdout.split()[0]

    def undo(self, *args: str, code: int = 0) -> Result:
        """Take back, and hold it to its word: exit code 0 means that every item was verified."""
        done = self.do("undo", "--json", *args, code=code)
        if code == 0 and "--preview" not in args:
            report = done.json
            assert report["verdict"] in ("clean", "unknown", "nothing"), report
            assert (report["verdict"] == "unknown") == bool(report["unknown"]), report
            assert all(item["verified"] for item in report["items"]), report
        return done

    def action(self, name: str) -> str:
        """The id of the latest action with this name."""
        entries = self.do("log", "--json", "-n", "0").json["entries"]
        return next(str(e["id"]) for e in entries if e["kind"] == "action" and name in e["name"].split())

    # The world.

    def look(self, *, git: bool = True) -> Picture:
        return picture(bytes(self.root), git=git)

    def changes_since(self, before: Picture, *, git: bool = True) -> list[str]:
        return differences(before, self.look(git=git))

    def read(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def has(self, name: str) -> bool:
        return os.path.lexists(self.root / name)


def items(result: Result) -> dict[str, str]:
    """What an undo did to each target."""
    return {item["target"]: item["did"] for item in result.json["items"]}


def disk_bytes(folder: Path) -> int:
    """How much a folder takes on disk."""
    return sum(path.lstat().st_blocks * 512 for path in [folder, *folder.rglob("*")])
