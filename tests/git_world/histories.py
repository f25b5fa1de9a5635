"""Three histories, made by replaying commits: generated ones, and a small vendored project."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .repo import FIRST_SECOND, Repo, lines, project

VENDORED = Path(__file__).parent / "vendored"
WORDS = (
    *("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet"),
    *("juniper", "knoll", "larch", "moor", "nook", "oak", "pine", "quay", "ridge"),
)


@dataclass
class Stream:
    """Commits in the words of `git fast-import`."""

    text: list[str] = field(default_factory=list)
    marks: int = 0

    def commit(
        self,
        branch: str,
        message: str,
        files: Mapping[str, str],
        *,
        start: int = 0,
        merge: int = 0,
        renames: Sequence[tuple[str, str]] = (),
    ) -> int:
        """One commit; gives its mark, by which a later one names it as where it starts or what it merges."""
        self.marks += 1
        who = f"Someone <someone@example.org> {FIRST_SECOND + 60 * self.marks} +0000"
        self.text += [
            f"commit refs/heads/{branch}",
            f"mark :{self.marks}",
            f"committer {who}",
            _data(message),
        ]
        self.text += [f"from :{start}"] * bool(start) + [f"merge :{merge}"] * bool(merge)
        self.text += [f"R {old} {new}" for old, new in renames]
        for name, content in files.items():
            self.text += [f"M 100644 inline {name}", _data(content)]
        return self.marks

    def tag(self, name: str, mark: int) -> None:
        who = f"Someone <someone@example.org> {FIRST_SECOND + 60 * mark} +0000"
        self.text += [f"tag {name}", f"from :{mark}", f"tagger {who}", _data(f"release {name}")]

    def replay(self, root: Path) -> Repo:
        return _replay(root, "\n".join([*self.text, "done", ""]).encode())


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def _replay(root: Path, stream: bytes) -> Repo:
    root.mkdir(parents=True)
    repo = Repo(root)
    repo.git("init", "-q", "-b", "main")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=stream, check=True, env=_plain())
    repo.git("reset", "-q", "--hard", "main")
    return repo


def _plain() -> dict[str, str]:
    return os.environ | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def _page(chance: random.Random) -> str:
    return "".join(f"{' '.join(chance.choices(WORDS, k=6))}\n" for _ in range(chance.randint(3, 20)))


def linear(root: Path) -> Repo:
    """One branch, forty commits, a few hundred files in nested folders."""
    chance, stream = random.Random(1), Stream()
    names = [f"src/{a}/{b}.txt" for a in WORDS for b in WORDS]
    stream.commit("main", "Everything at once", {name: _page(chance) for name in names})
    for number in range(40):
        some = chance.sample(names, chance.randint(1, 6))
        stream.commit("main", f"Change {number}", {name: _page(chance) for name in some})
    return stream.replay(root)


def branching(root: Path) -> Repo:
    """Branches, merges, tags, renames, and a submodule."""
    chance, stream = random.Random(2), Stream()
    names = [f"{word}/{kind}" for word in WORDS[:8] for kind in ("code", "text")]
    tip = stream.commit("main", "Begin", {name: _page(chance) for name in names})
    for number in range(10):
        branch = f"feature-{number}"
        side = tip
        for half in range(chance.randint(1, 3)):
            one = chance.choice(names)
            side = stream.commit(branch, f"{branch}, part {half}", {one: _page(chance)}, start=side)
        tip = stream.commit("main", f"Meanwhile {number}", {f"log/{number}": _page(chance)}, start=tip)
        if number % 2:
            tip = stream.commit("main", f"Merge {branch}", {}, start=tip, merge=side)
        if number % 3 == 0:
            old = names.pop(chance.randrange(len(names)))
            names.append(f"{old}-{number}")
            tip = stream.commit("main", f"Rename {old}", {}, start=tip, renames=[(old, names[-1])])
            stream.tag(f"v{number}", tip)
    repo = stream.replay(root)
    repo.git("tag", "light", "main~3")
    part = project(root.parent / f"{root.name}-part")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.root), "part")
    repo.commit("Add a part", notes=lines("notes"))
    return repo


def vendored(root: Path) -> Repo:
    """A small project as it grew, from a stream that lies beside this file."""
    return _replay(root, (VENDORED / "larder.fast-export").read_bytes())


HISTORIES: dict[str, Callable[[Path], Repo]] = {made.__name__: made for made in (linear, branching, vendored)}
