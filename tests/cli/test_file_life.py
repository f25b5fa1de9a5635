"""The life of a file: its versions, its bytes after any of them, and who wrote each line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import takeback
from tests.world.cli import Workspace, environment

from .inside import Inside

FIRST = "import os\nlimit = 5\n\n\ndef serve():\n    return 1\n\n\nname = ''\n"
LIMIT = FIRST.replace("limit = 5", "limit = 9")
EDITED = LIMIT.replace("return 1", "return 2")
NAMED = EDITED.replace("name = ''", "name = 'shop'")
TIDY = NAMED + "# tidy\n"
PROMPTS = {"raise the limit": LIMIT, "name it": NAMED}


@pytest.fixture
def shop(tmp_path: Path) -> Inside:
    """A project in which a coding agent worked on two prompts, another agent after it, and a human in between."""
    made = Inside(tmp_path / "work", tmp_path / "state")
    made.root.mkdir()
    made.human("app.py", FIRST)
    made.human("other.py", "pass\n")
    made.save("start")
    path = made.root / "app.py"
    with takeback.open(made.root, home=made.home) as tb:
        session = tb.session("billing", key="one", actor="claude-code")
        for prompt, text in PROMPTS.items():
            within = session.step(prompt, ref=prompt)
            action = within.begin("Edit", {"file_path": "app.py"}, call_id=prompt, effect="restorable")
            assert isinstance(action, takeback.Action)
            path.write_text(text)
            action.end("done")
            path.write_text(text.replace("return 1", "return 2"))  # the human, after the first prompt
        session.end()
        with tb.recording("tidy", actor="codex"):
            path.write_text(TIDY)
    return made


def versions(shop: Inside, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.do("log", "--json", "--path", *words).json["entries"]
    return found


def test_its_versions_with_who_and_when(shop: Inside) -> None:
    found = versions(shop, "app.py")
    assert [(one["actor"], one["prompt"], one["added"], one["removed"]) for one in found] == [
        ("codex", None, 1, 0),
        ("claude-code", "name it", 1, 1),
        ("you", None, 1, 1),
        ("claude-code", "raise the limit", 1, 1),
    ]
    assert all(one["path"] == "app.py" and one["at"] for one in found)
    lines = shop.do("log", "--path", "app.py").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == [one["id"] for one in reversed(found)]
    assert '"raise the limit"' in lines[1] and "+1 -1" in lines[1] and "you" in lines[2]
    assert f"takeback show {found[0]['id']}:app.py" in lines[5]
    short = shop.do("log", "--path", "app.py", "-n", "1").stdout
    assert "there are earlier versions" in short and "tidy" in short and "raise the limit" not in short
    assert versions(shop, "app.py", "-n", "2") == found[:2]
    data = shop.do("log", "--json", "--path", "app.py").json
    assert (data["total"], data["more"]) == (4, False)


def test_of_a_folder_and_of_what_was_never_changed(shop: Inside) -> None:
    assert {one["path"] for one in versions(shop, ".")} == {"app.py"}
    assert "Nothing recorded ever changed other.py." in shop.do("log", "--path", "other.py").stdout
    assert versions(shop, "other.py") == []
    said = shop.do("log", "--path", "nowhere.py", code=2).stderr
    assert "there is no nowhere.py" in said


def test_a_version_that_was_taken_back_says_so(shop: Inside) -> None:
    shop.undo()
    last, before = versions(shop, "app.py")[:2]
    assert last["kind"] == "undo" and before["taken_back"] and not last["taken_back"]


def shown(shop: Inside, what: str) -> bytes:
    """Return the bytes that `show` writes, as a pipe gets them."""
    words = [sys.executable, "-m", "takeback", "show", what]
    done = subprocess.run(words, cwd=shop.root, env=environment(shop.home), capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_bytes_after_each_of_them(shop: Inside) -> None:
    texts = {
        one["id"]: shop.do("show", f"{one['id']}:app.py", "--json").json["text"]
        for one in versions(shop, "app.py")
    }
    assert list(texts.values()) == [TIDY, NAMED, EDITED, LIMIT]
    first = list(texts)[-1]
    assert shop.do("show", f"before {first}:app.py", "--json").json["text"] == FIRST
    assert shop.do("show", f"{first}:other.py", "--json").json["text"] == "pass\n", (
        "whoever wrote it, and when"
    )
    diff = shop.do("diff", f"after {first}", "--", "app.py").stdout
    assert "-name = ''\n" in diff and "+# tidy\n" in diff and "limit = 5" not in diff


def test_any_bytes_come_out_as_they_were(tmp_path: Path) -> None:
    shop = Workspace.at(tmp_path)
    whole = bytes(range(256)) * 40 + b"\r\n\x1b[31m no newline"
    shop.human("blob", whole)
    with sqlite3.connect(shop.root / "app.db") as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (1)")
    db.close()
    (shop.root / "link").symlink_to("blob")
    first = shop.save()
    shop.agent("echo changed > blob; rm link; python3 -c 'import sqlite3; d = sqlite3.connect(\"app.db\"); "
               "d.execute(\"DELETE FROM t\"); d.commit()'")  # fmt: skip
    as_before = Inside(shop.root, shop.home)
    assert shown(as_before, f"{first}:blob") == whole
    assert shown(as_before, f"{first}:link") == b"blob"
    kept = tmp_path / "old.db"
    kept.write_bytes(shown(as_before, f"{first}:app.db"))
    with closing(sqlite3.connect(kept)) as old:
        assert old.execute("SELECT * FROM t").fetchall() == [(1,)]
    data = shop.do("show", f"{first}:blob", "--json").json
    assert data["size"] == len(whole) and "base64" in data and "text" not in data


def test_what_was_not_there_or_is_not_a_file(shop: Inside) -> None:
    last = versions(shop, "app.py")[0]["id"]
    said = shop.do("show", f"{last}:gone.py", code=2).stderr
    assert f"there was no gone.py at the moment after {last}" in said
    (shop.root / "src").mkdir()
    shop.human("src/x", "x\n")
    shop.save()
    assert "src was a folder then" in shop.do("show", "0s ago:src", code=2).stderr
    assert "is not an id" in shop.do("show", "nonsense:app.py", code=2).stderr


def test_who_wrote_each_line(shop: Inside) -> None:
    shop.human("app.py", TIDY + "mine = 1\n")
    lines = shop.do("blame", "app.py", "--json").json["lines"]
    written = {line["text"]: (line["actor"], line.get("prompt"), line.get("why")) for line in lines}
    assert written == {
        "import os": ("you", None, "first"),
        "limit = 9": ("claude-code", "raise the limit", None),
        "": ("you", None, "first"),
        "def serve():": ("you", None, "first"),
        "    return 2": ("you", None, None),
        "name = 'shop'": ("claude-code", "name it", None),
        "# tidy": ("codex", None, None),
        "mine = 1": ("you", None, "unrecorded"),
    }
    assert lines[1]["call"] == "Edit" and lines[1]["at"] and lines[1]["line"] == 2 and lines[1]["step"]
    text = shop.do("blame", "app.py").stdout.splitlines()
    assert text[1].startswith(lines[1]["id"]) and '"raise the limit"' in text[1]
    assert text[1].endswith(" 2│ limit = 9") and "(not recorded)" in text[-1]


def test_a_line_that_an_undo_brought_back_is_its_writers(shop: Inside) -> None:
    with takeback.open(shop.root, home=shop.home) as tb:
        with tb.recording("wreck", actor="codex"):
            (shop.root / "app.py").write_text("gone\n")
        tb.undo()
    lines = shop.do("blame", "app.py", "--json").json["lines"]
    assert {line["text"]: line["actor"] for line in lines if line["actor"] != "you"} == {
        "limit = 9": "claude-code",
        "name = 'shop'": "claude-code",
        "# tidy": "codex",
    }


def test_what_blame_cannot_read(shop: Inside) -> None:
    (shop.root / "src").mkdir()
    shop.human("binary", b"a\0b")
    (shop.root / "out").symlink_to("/etc/passwd")
    for name, why in (("src", "is not a file"), ("binary", "is not a text"), ("none", "cannot be read")):
        assert why in shop.do("blame", name, code=2).stderr
    assert "cannot be read" in shop.do("blame", "out", code=2).stderr, "no link is followed"


def test_what_did_that_agent_do_to_that_file_and_take_it_back(shop: Inside) -> None:
    """The three commands of the README."""
    life = versions(shop, "app.py")
    theirs = [
        one["id"] for one in life if (one["actor"], one["prompt"]) == ("claude-code", "raise the limit")
    ]
    assert "-limit = 5\n+limit = 9\n" in shop.do("diff", *theirs, "--", "app.py").stdout
    shop.undo(*theirs, "--path", "app.py", "--on-conflict", "merge")
    assert (shop.root / "app.py").read_text() == TIDY.replace("limit = 9", "limit = 5"), (
        "only that, and all of it"
    )
