"""A human edits the real folder while an agent works in a view: nothing of theirs is lost at accept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import takeback
from takeback.workspace.workspace import Workspace

NAMES = ("a", "b", "c", "d/e", "d/f", "g/h")
LINES = 12
ROUNDS, SAMPLE = 300, 4


def text(chance: random.Random, who: str) -> str:
    return "".join(f"{who} {chance.randrange(1000)}\n" for _ in range(LINES))


def edited(before: str, chance: random.Random, who: str) -> str:
    lines = before.splitlines() or ["empty"]
    lines[chance.randrange(len(lines))] = f"{who} {chance.randrange(10**6)}"
    return "\n".join(lines) + "\n"


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def deeds(chance: random.Random, root: Path, who: str) -> dict[str, str | None]:
    """Return what somebody is going to do: a text for each path, or None to delete it."""
    now = contents(root)
    done: dict[str, str | None] = {}
    for _ in range(chance.randrange(1, 5)):
        name = chance.choice((*NAMES, f"new-{chance.randrange(3)}"))
        how = chance.random()
        if how < 0.2 and name in now:
            done[name] = None
        elif how < 0.7 and name in now:
            done[name] = edited(now[name], chance, who)
        else:
            done[name] = text(chance, who)
    return done


def do(root: Path, done: dict[str, str | None]) -> bool:
    for name, said in done.items():
        path = root / name
        if said is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(said)
    return True


def one_round(tb: Workspace, seed: int, choice: str) -> None:
    chance = random.Random(seed)
    root = tb.root
    stage = tb.stages.new()
    before = contents(root)
    agents, humans = deeds(chance, root, "agent"), deeds(chance, root, "human")
    where = Path(stage.card.seen_at)

    def work(inner: Workspace) -> bool:
        with inner.recording("agent"):
            return do(where, agents)

    if chance.random() < 0.5:
        do(root, humans)
        stage.inside(work, bool)
    else:
        stage.inside(work, bool)
        do(root, humans)
    theirs = contents(root)
    report = stage.accept(on_conflict=choice)
    now = contents(root)
    if report.is_stopped:
        assert now == theirs, seed
    for name in {*before, *theirs}:
        mine, was = theirs.get(name), before.get(name)
        if mine == was or mine == agents.get(name, was) or choice == "overwrite":
            continue
        if name in now and mine is not None and mine != now[name]:
            new = {*mine.splitlines()} - {*(was or "").splitlines()}
            assert choice == "merge" and new <= {*now[name].splitlines()}, (seed, name)
        else:
            assert now.get(name) == mine, (seed, name)
    if choice == "overwrite" and not report.is_stopped and report.rollback:
        tb.undo(report.rollback)
        assert contents(root) == theirs, seed
    if stage.name in tb.stages.names():
        stage.drop()


@pytest.mark.parametrize("way", ["", "user", "off"], ids=["overlay", "user", "copy"])
def test_nothing_of_theirs_is_lost(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds(tmp_path, way, monkeypatch, SAMPLE if not way else 1)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", ["", "user", "off"], ids=["overlay", "user", "copy"])
def test_nothing_of_theirs_is_lost_in_300_rounds(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(tmp_path, way, monkeypatch, ROUNDS)


def rounds(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", way)
    root = tmp_path / "shop"
    do(root, {name: text(random.Random(name), "base") for name in NAMES})
    with takeback.open(root, watching=False) as tb:
        for seed in range(count):
            one_round(tb, seed, ("keep", "stop", "merge", "overwrite")[seed % 4])
