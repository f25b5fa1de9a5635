"""Generated plans of an agent, over files, memory and calls, and the places at which they fail."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeback.engine.runs.run import Run
from takeback.engine.runs.step import Step
from tests.runs import tools
from tests.runs.scene import Scene, Seen
from tests.runs.service import ask

GRANULARITIES = ("step", "action", "run")
PLAIN = ("before", "after")
"""The program itself fails there."""
CALL = ("refused", "broken", "silent")
"""The service fails: before the effect, after it, after it and without an answer."""


class Failure(Exception):
    """The plan failed."""


@dataclass(frozen=True)
class Op:
    """One effect. `do` is a name of this module; `n` makes it unlike the others."""

    do: str
    n: int

    @property
    def item(self) -> str:
        return f"item-{self.n}"


@dataclass(frozen=True)
class Scenario:
    steps: tuple[tuple[Op, ...], ...]

    def faults(self) -> Iterator[Fault]:
        for s, ops in enumerate(self.steps):
            for o, op in enumerate(ops):
                yield from (Fault(s, o, kind) for kind in PLAIN)
                if op.do == "call":
                    yield from (Fault(s, o, kind) for kind in CALL)


@dataclass(frozen=True)
class Fault:
    step: int
    op: int
    kind: str


def generate(chance: random.Random) -> Scenario:
    number = iter(range(10**6))
    names = [*FILES, *MEMORY, "call", "call", "call", "call", "nothing", "plain"]
    plan = [
        tuple(Op(chance.choice(names), next(number)) for _ in range(chance.randint(1, 4)))
        for _ in range(chance.randint(1, 4))
    ]
    return Scenario(tuple(plan))


@dataclass
class Play:
    """One performance of a scenario, with a fault somewhere."""

    scene: Scene
    scenario: Scenario
    fault: Fault
    chance: random.Random
    starts: list[tuple[Step, Seen, Any]] = field(default_factory=list)

    def perform(self, run: Run) -> None:
        """Raises where the fault is."""
        for s, ops in enumerate(self.scenario.steps):
            before = (self.scene.look(), _plain(run.memory))
            with run.step(f"step {s}") as step:
                self.starts.append((step, *before))
                for o, op in enumerate(ops):
                    here = self.fault.kind if (self.fault.step, self.fault.op) == (s, o) else ""
                    self._one(run, op, here)

    def _one(self, run: Run, op: Op, here: str) -> None:
        if here == "before":
            raise Failure(here)
        if here in CALL:
            ask("fail", operation="book", item=op.item, when=_WHEN[here], times=1)
        if op.do == "call":
            run.call(tools.book, op.item)
        elif op.do in MEMORY:
            MEMORY[op.do](run, op)
        elif op.do == "nothing":
            assert run.call(tools.add, op.n, 1) == op.n + 1
        elif op.do == "plain":
            run.call(write, str(self.scene.root), op.n)
        else:
            FILES[op.do](self.scene.root, op, self.chance)
        if here == "after":
            raise Failure(here)


_WHEN = {"refused": "before", "broken": "after", "silent": "silent"}


def _plain(memory: Any) -> Any:
    return memory.plain()


def write(root: str, n: int) -> int:
    """A tool that declares nothing: what it does to files is found by looking."""
    return (Path(root) / f"tool-{n % 3}").write_text(str(n))


# Files


def _edit(root: Path, op: Op, chance: random.Random) -> None:
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    (chance.choice(files) if files else root / "first").write_text(f"edited {op.n}")


def _make(root: Path, op: Op, chance: random.Random) -> None:
    path = root / chance.choice(["", "deep", "deep/er"]) / f"made-{op.n}"
    if path.parent.is_dir() or not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"made {op.n}")


def _remove(root: Path, op: Op, chance: random.Random) -> None:
    if found := sorted(root.rglob("*")):
        path = chance.choice(found)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _rename(root: Path, op: Op, chance: random.Random) -> None:
    if found := sorted(root.iterdir()):
        chance.choice(found).rename(root / f"moved-{op.n}")


def _mode(root: Path, op: Op, chance: random.Random) -> None:
    if found := sorted(p for p in root.rglob("*") if not p.is_symlink()):
        chance.choice(found).chmod(0o750)


def _link(root: Path, op: Op, chance: random.Random) -> None:
    os.symlink("nowhere", root / f"link-{op.n}")


FILES: dict[str, Callable[[Path, Op, random.Random], None]] = {
    "edit": _edit,
    "make": _make,
    "remove": _remove,
    "rename": _rename,
    "mode": _mode,
    "link": _link,
}


# Memory


def _set(run: Run, op: Op) -> None:
    run.memory[f"key-{op.n % 3}"] = {"n": op.n, "deep": {"list": [op.n, None, 1.5], "empty": {}}}


def _drop(run: Run, op: Op) -> None:
    run.memory.pop(f"key-{op.n % 3}", None)


def _deeper(run: Run, op: Op) -> None:
    if isinstance(run.memory.get("place", 1), int):
        run.memory["place"] = {}
    run.memory["place"]["a/b~c"] = op.n
    run.memory["place"].setdefault("list", []).append({"n": op.n})


def _scalar(run: Run, op: Op) -> None:
    run.memory["place"] = op.n % 2 or {}


MEMORY: dict[str, Callable[[Run, Op], None]] = {
    "set": _set,
    "drop": _drop,
    "deeper": _deeper,
    "scalar": _scalar,
}
