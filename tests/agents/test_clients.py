"""The real clients still tell their hooks what payloads/ says, and a hook's refusal has its effect.

What a new version of a client tells differently shows here first; `python -m tests.agents.recording` writes it down.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import recording, stories

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

LEFT = {
    "app.py": "print('two')\n",
    "kept/final.txt": "to be moved\n",
    "notes.md": "plan\n",
    "meanwhile.txt": "meanwhile\n",
    "late.txt": "late\n",
    "helper.txt": "helped\n",
    "main.txt": "main\n",
}
"""What a client leaves that has done everything in its story."""


def left(project: Path) -> dict[str, str]:
    files = (path for path in project.rglob("*") if path.is_file())
    names = {str(path.relative_to(project)): path for path in files}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in names.items()
        if not name.startswith((".claude/", ".opencode/", ".codex/", ".gemini/"))
    }


def check(agent: str, folder: Path) -> dict[str, str]:
    entries = recording.play(agent, folder)
    assert recording.shapes(recording.scrubbed(entries, folder)) == recording.shapes(
        recording.recorded(agent)
    )
    files = left(folder / "project")
    assert "forbidden.txt" not in {Path(name).name for name in files}
    assert "old.txt" not in files
    return files


def test_claude_code_tells_what_is_recorded(tmp_path: Path) -> None:
    files = check("claude_code", tmp_path)
    assert LEFT.items() <= files.items()
    # The shell went into the folder before, and stays there; nothing of this is in the tools' input.
    assert files["data/first.txt"] == "1\n"
    assert files["data/broken.txt"] == "broken\n"


def test_codex_tells_what_is_recorded(tmp_path: Path) -> None:
    files = check("codex", tmp_path)
    moved = {"moved.py": "print('3')\n"}
    expected = {name: text for name, text in LEFT.items() if name not in ("app.py", "notes.md")} | moved
    assert expected.items() <= files.items()
    assert files["broken.txt"] == "broken\n"


@pytest.mark.sweep  # they are slow to start; test_e2e_npm.py has them in every run
@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_clients_from_npm_tell_what_is_recorded(agent: str, tmp_path: Path) -> None:
    files = check(agent, tmp_path)
    assert {name: files[name] for name in ("app.py", "notes.md", "broken.txt")} == {
        "app.py": "print('two')\n",
        "notes.md": "plan\n",
        "broken.txt": "broken\n",
    }
    assert set(stories.START) - set(files) >= {"old.txt", "draft.txt"}
