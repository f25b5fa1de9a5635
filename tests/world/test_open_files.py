"""A program that has a file open which the user may not read any more."""

from __future__ import annotations

from tests.cli.processes import bound
from tests.resources.test_files_open import APPENDS, running

from .cli import Workspace


def test_what_it_writes_later_is_kept(world: Workspace) -> None:
    world.human("app.log", "start\n")
    bound(world, "save")
    with running(APPENDS, world.root / "app.log") as program:
        bound(world, "run", "--", "sh", "-c", "echo agent >> app.log; chmod 0 app.log")
        (item,) = [i for i in bound(world, "undo", "--json").json["items"] if i["target"] == "app.log"]
        program.write("human")
    assert world.read("app.log") == "start\n"
    assert world.read("takeback-rescued-1-app.log") == "start\nagent\nhuman\n"
    assert f"process {program.pid}" in item["why"]
