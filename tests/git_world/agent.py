"""A clumsy agent that works with git: it draws its commands from a seed, and does not mind when one fails."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .repo import Repo

# The human's own; this agent is clumsy, not malicious.
HUMAN = "human"


@dataclass
class Agent:
    """Works in one repository. The same seed in the same repository gives the same commands."""

    repo: Repo
    chance: random.Random
    done: list[str] = field(default_factory=list)
    count: int = 0

    def act(self) -> str:
        """One command, sometimes with an edit before it; gives its name."""
        self.count += 1
        weights = [weight for weight, _ in COMMANDS.values()]
        (name,) = self.chance.choices(list(COMMANDS), weights)
        if self._in_progress() and self.chance.random() < 0.4:
            name = "go on"
        self.done.append(f"{self.count} {name}:")
        COMMANDS[name][1](self)
        return name

    # What the commands are made of

    def git(self, *args: str) -> str:
        self.done.append(f"  git {' '.join(args)}")
        return self.repo.git(*args, code=None)

    def pick(self, options: list[str], otherwise: str) -> str:
        return self.chance.choice(sorted(options)) if options else otherwise

    def branch(self) -> str:
        names = self.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads", code=None).split()
        return self.pick([name for name in names if name != HUMAN], "main")

    def commit(self) -> str:
        """Some commit of the last few of some branch."""
        return f"{self.branch()}~{self.chance.randint(0, 3)}"

    def tag(self) -> str:
        return self.pick(self.repo.git("tag", "--list", code=None).split(), "none")

    def file(self) -> str:
        names = self.repo.git("ls-files", "-z", code=None).split("\0")
        there = [name for name in names if (self.repo.root / name).is_file()]
        return self.pick(there, "a-file")

    def edit(self) -> str:
        """Change a file somewhere in the middle, or make one; half of the edits are bound to clash."""
        if self.chance.random() < 0.2:
            name = f"made/{self.count}.{self.chance.choice(['txt', 'log', 'tmp'])}"
            self.repo.write(name, f"made in {self.count}\n")
            return name
        name = self.file()
        path = self.repo.root / name
        text = path.read_text().splitlines(keepends=True) if path.is_file() else []
        place = 0 if self.chance.random() < 0.5 else self.chance.randint(0, len(text))
        text[place : place + 1] = [f"{self.chance.choice('abc')} {self.count}\n"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(text))
        return name

    def tidy(self) -> None:
        """Mostly git refuses to begin an operation with work lying about."""
        if self.chance.random() < 0.6:
            self.git("add", "-A", ".")
            self.git("commit", "-m", f"Before {self.count}")

    def _in_progress(self) -> str:
        top = Path(self.repo.git("rev-parse", "--absolute-git-dir"))
        signs = {
            "rebase": ("rebase-merge", "rebase-apply"),
            "merge": ("MERGE_HEAD",),
            "cherry-pick": ("CHERRY_PICK_HEAD",),
            "revert": ("REVERT_HEAD",),
        }
        return next((n for n, files in signs.items() if any((top / f).exists() for f in files)), "")

    # The commands

    def go_on(self) -> None:
        """End an operation in progress, one way or another."""
        name = self._in_progress()
        way = self.chance.choice(["--continue", "--continue", "--abort", "--quit"])
        if way == "--continue":
            self.git("add", "-A", ".")
        self.git(name or "status", way if name else "--short")

    def make_commit(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.edit()
        self.git("add", "-A", ".")
        self.git("commit", "-m", f"Agent {self.count}")

    def partial_commit(self) -> None:
        name, _ = self.edit(), self.edit()
        self.git("add", "--", name)
        self.git("commit", "-m", f"Part {self.count}")

    def stage(self) -> None:
        self.git("add", *self.chance.choice([("--", self.edit()), ("-N", "--", self.edit()), ("-u",)]))
        self.edit()

    def amend(self) -> None:
        self.edit()
        self.git("commit", "-a", "--amend", "-m", f"Amended {self.count}")

    def make_branch(self) -> None:
        self.git("branch", f"agent-{self.count}", self.commit())

    def drop_branch(self) -> None:
        self.git("branch", "-D", self.branch())

    def rename_branch(self) -> None:
        self.git("branch", "-m", self.branch(), f"renamed/{self.count}")

    def checkout(self) -> None:
        force = ["-f"] if self.chance.random() < 0.5 else []
        way = self.chance.choice(["", "", "-b", "--detach"])
        if way == "-b":
            self.git("checkout", *force, "-b", f"agent-{self.count}", self.commit())
        elif way == "--detach":
            self.git("checkout", *force, "--detach", self.commit())
        else:
            self.git("checkout", *force, self.branch())

    def merge(self) -> None:
        ways = (["--no-ff"], ["--ff"], ["--squash"], ["-X", "theirs"])
        self.git("merge", "--no-edit", *self.chance.choice(ways), self.branch())

    def rebase(self) -> None:
        self.tidy()
        self.git("rebase", *self.chance.choice([[], ["--apply"], ["--autostash"]]), self.commit())

    def cherry_pick(self) -> None:
        self.tidy()
        self.git("cherry-pick", *dict.fromkeys([self.commit(), self.commit()]))

    def revert(self) -> None:
        self.tidy()
        self.git("revert", "--no-edit", self.commit())

    def stash(self) -> None:
        self.edit()
        self.git("stash", "push", *self.chance.choice([["-u"], [], ["--keep-index"]]), "-m", f"s{self.count}")

    def unstash(self) -> None:
        way = self.chance.choice(["pop", "drop", "apply", "clear"])
        which = [] if way == "clear" else [f"stash@{{{self.chance.randint(0, 1)}}}"]
        self.git("stash", way, *which)

    def make_tag(self) -> None:
        how = ["-am", "annotated"] if self.chance.random() < 0.5 else []
        self.git("tag", *how, f"t{self.count}", self.commit())

    def change_tag(self) -> None:
        name = self.tag()
        self.git(*self.chance.choice([["tag", "-d", name], ["tag", "-f", name, self.commit()]]))

    def reset(self) -> None:
        self.git(
            "reset", self.chance.choice(["--soft", "--mixed", "--hard"]), f"HEAD~{self.chance.randint(0, 3)}"
        )

    def remove(self) -> None:
        self.git("rm", *self.chance.choice([["-f"], ["--cached"], ["-rf"]]), "--", self.file())

    def move(self) -> None:
        self.git("mv", "-f", self.file(), f"moved-{self.count}")

    def collect(self) -> None:
        self.git("gc", "--quiet", *self.chance.choice([["--prune=now"], []]))

    def pack_refs(self) -> None:
        self.git("pack-refs", "--all", *self.chance.choice([["--prune"], ["--no-prune"]]))

    def expire(self) -> None:
        self.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")

    def prune(self) -> None:
        self.git("prune", "--expire=now")

    def update_ref(self) -> None:
        name = self.chance.choice(["refs/agent/x", f"refs/agent/{self.count}", f"refs/heads/{self.branch()}"])
        self.git("update-ref", name, self.commit(), *(["-d"] if self.chance.random() < 0.1 else []))

    def symbolic_ref(self) -> None:
        name = self.chance.choice(["HEAD", "refs/agent/symbolic"])
        self.git("symbolic-ref", name, f"refs/heads/{self.branch()}")

    def worktree(self) -> None:
        there = sorted(path.name for path in self.repo.root.glob("wt-*"))
        if there and self.chance.random() < 0.5:
            one = self.chance.choice(there)
            if self.chance.random() < 0.3:
                shutil.rmtree(self.repo.root / one)
                self.git("worktree", "prune")
            else:
                self.git("worktree", "remove", "--force", one)
        else:
            name = f"wt-{self.count}"
            self.git("worktree", "add", "-b", name, name, self.commit())

    def bisect(self) -> None:
        if (Path(self.repo.git("rev-parse", "--absolute-git-dir")) / "BISECT_LOG").exists():
            self.git("bisect", self.chance.choice(["reset", "good", "bad", "skip"]))
        else:
            self.git("bisect", "start", "HEAD", "HEAD~3")

    def configure(self) -> None:
        self.git("config", f"agent.key{self.chance.randint(0, 3)}", str(self.count))

    def clean(self) -> None:
        self.edit()
        self.git("clean", self.chance.choice(["-fd", "-fdx", "-fdX"]), "-e", "wt-*")


COMMANDS: dict[str, tuple[int, Callable[[Agent], None]]] = {
    "go on": (1, Agent.go_on),
    "commit": (12, Agent.make_commit),
    "partial commit": (5, Agent.partial_commit),
    "stage": (6, Agent.stage),
    "amend": (4, Agent.amend),
    "branch": (3, Agent.make_branch),
    "branch -D": (3, Agent.drop_branch),
    "branch -m": (1, Agent.rename_branch),
    "checkout": (8, Agent.checkout),
    "merge": (5, Agent.merge),
    "rebase": (5, Agent.rebase),
    "cherry-pick": (4, Agent.cherry_pick),
    "revert": (3, Agent.revert),
    "stash": (4, Agent.stash),
    "stash pop": (4, Agent.unstash),
    "tag": (2, Agent.make_tag),
    "tag -d": (2, Agent.change_tag),
    "reset": (6, Agent.reset),
    "rm": (3, Agent.remove),
    "mv": (3, Agent.move),
    "gc": (2, Agent.collect),
    "pack-refs": (2, Agent.pack_refs),
    "reflog expire": (1, Agent.expire),
    "prune": (1, Agent.prune),
    "update-ref": (3, Agent.update_ref),
    "symbolic-ref": (2, Agent.symbolic_ref),
    "worktree": (4, Agent.worktree),
    "bisect": (3, Agent.bisect),
    "config": (2, Agent.configure),
    "clean": (3, Agent.clean),
}
