"""What the commands say of a framework's store that is left out."""

from __future__ import annotations

import json
from pathlib import Path

from tests.resources.sqlite.test_framework_stores import LANGGRAPH
from tests.resources.sqlite.tool import sql

from .conftest import Call

SAID = "threads.db, checkpoints of LangGraph"


def test_status_doctor_and_checkpoints_name_it(folder: Path, call: Call) -> None:
    assert call("save").code == 0
    assert "Not recorded" not in call("status").stdout
    assert json.loads(call("status", "--json").stdout)["left_out"] == []
    sql(folder / "threads.db", LANGGRAPH)
    checkpoint = json.loads(call("save", "--json").stdout)["checkpoint"]
    assert f"Not recorded: {SAID}" in call("status").stdout
    assert json.loads(call("status", "--json").stdout)["left_out"] == [SAID]
    assert f"left out: {SAID}" in call("show", checkpoint).stdout
    assert SAID in call("doctor").stdout


def test_a_setting_that_protects_it_applies_at_once(folder: Path, call: Call) -> None:
    sql(folder / "threads.db", LANGGRAPH)
    (folder / "takeback.toml").write_text('[files]\nframework-stores = "protect"\n')
    assert call("save").code == 0
    said = call("status")
    assert "Not recorded" not in said.stdout and "accept" not in said.stdout + said.stderr
    (folder / "takeback.toml").write_text('[files]\nframework-stores = "perhaps"\n')
    assert call("save").code == 2
