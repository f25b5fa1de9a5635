"""`takeback compare`: two runs of a plan, by what they did, with an exit code for CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shop import FILE, SEARCH, WRITE, made_at, plan, step
from tests.world.cli import Workspace


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return made_at(tmp_path)


def done(shop: Workspace, key: str) -> str:
    return str(shop.do("plan", "run", "--json", "--key", key, FILE).json["run"])


def test_two_runs_that_did_the_same(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE)
    first = done(shop, "one")
    shop.undo(first)
    second = done(shop, "two")
    assert shop.do("compare", first, second, "--json").json["same"] is True
    assert "did the same" in shop.do("compare", first, second).stdout


def test_what_differs_is_named(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, step("note", "write", path="note.md", text="x" * 5000 + "1"))
    first = done(shop, "one")
    shop.undo(first)
    plan(
        shop,
        SEARCH,
        WRITE,
        step("note", "write", path="note.md", text="x" * 5000 + "2"),
        step("up", "later", text="a"),
    )
    second = done(shop, "two")
    said = shop.do("compare", first, second, "--json", code=3).json
    assert said["same"] is False
    assert said["counts"] == {"same": 2, "arguments": 1, "only-second": 1}
    assert [one["kind"] for one in said["calls"]] == ["other arguments", "only in the second"]
    assert said["effects"]["alike"] == 1
    assert [one["target"] for one in said["effects"]["differ"]] == ["note.md"]
    text = shop.do("compare", first, second, code=3).stdout
    assert f"only {second}" in text and "note.md: not left alike" in text


def test_what_is_not_a_run(shop: Workspace) -> None:
    plan(shop, SEARCH)
    run = done(shop, "one")
    assert "there is no run r999" in shop.do("compare", run, "r999", code=2).stderr
    assert "is not a run" in shop.do("compare", run, "a3", code=2).stderr
