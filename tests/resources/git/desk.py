"""A repository under protection, in this process, and what plain git says of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from takeback.engine.rollback.report import RollbackReport
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

SHOWN_OPERATIONS = (
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
)


def git(root: Path, *args: str, ok: bool = True) -> str:
    """What git says. Every commit has the same time, so that ids are the same in each run."""
    when = {"GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}
    env = os.environ | when | {"GIT_EDITOR": "true", "GIT_ALLOW_PROTOCOL": "file"}
    done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, env=env)
    assert done.returncode == 0 or not ok, (args, done.stdout, done.stderr)
    return done.stdout


def picture(root: Path) -> dict[str, str]:
    """Everything that plain git commands show of a repository and its work tree."""
    folder = Path(git(root, "rev-parse", "--absolute-git-dir").strip())
    shown = {
        "refs": git(root, "for-each-ref"),
        "head": git(root, "symbolic-ref", "-q", "HEAD", ok=False) + git(root, "rev-parse", "HEAD", ok=False),
        "index": hashlib.sha256((folder / "index").read_bytes()).hexdigest()
        if (folder / "index").exists()
        else "",
        "stash": git(root, "stash", "list", "--format=%H %gs"),
        "logs": git(root, "reflog", "--all", "--format=%H %gD %gs"),
        "status": git(root, "status", "--porcelain=v2", "--branch", "--show-stash"),
        "worktrees": git(root, "worktree", "list", "--porcelain"),
        "config": (folder / "config").read_text() if (folder / "config").exists() else "",
        "fsck": git(root, "fsck", "--no-dangling", "--no-progress"),
    }
    for name in SHOWN_OPERATIONS:
        place = folder / name
        files = sorted(place.rglob("*")) if place.is_dir() else [place] if place.exists() else []
        shown[name] = repr([(f.relative_to(folder), f.read_bytes()) for f in files if f.is_file()])
    return shown


@dataclass
class Desk:
    """A human and an agent, who both use git."""

    root: Path
    home: Path
    tb: Workspace = field(init=False)

    def __post_init__(self) -> None:
        self.tb = open_workspace(self.root, home=self.home, watching=False)

    def git(self, *args: str, ok: bool = True) -> str:
        return git(self.root, *args, ok=ok)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, name: str, text: str = "text\n", message: str = "") -> str:
        self.write(name, text)
        self.git("add", name)
        self.git("commit", "-qm", message or name)
        return self.at("HEAD")

    def at(self, ref: str) -> str:
        return self.git("rev-parse", "--verify", "-q", ref, ok=False).strip()

    def agent(self, script: str) -> str:
        """One action that is a shell script."""
        with self.tb.recording("agent") as id:
            env = os.environ | {"GIT_EDITOR": "true", "GIT_ALLOW_PROTOCOL": "file"}
            done = subprocess.run(
                ["sh", "-c", script], cwd=self.root, capture_output=True, text=True, env=env
            )
        assert done.returncode == 0, done
        return id

    def picture(self) -> dict[str, str]:
        return picture(self.root)

    def undo(self, *ids: str, on_conflict: str = "stop") -> RollbackReport:
        return self.tb.undo(*ids, on_conflict=on_conflict)

    def reopen(self) -> None:
        """Another process, later."""
        self.tb.close()
        self.tb = open_workspace(self.root, home=self.home, watching=False)


def says(report: RollbackReport) -> list[str]:
    """What the report says of git, without what is minor."""
    return sorted(i.says for i in report.items if i.resource == "git" and not i.minor)
