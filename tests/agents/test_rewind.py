"""Side by side: Claude Code's own rewind, and Takeback, after the same session of the real client.

The client keeps copies of files that its editing tools write to. What a command of its shell does is not in them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.picture import Picture

from . import clients, stories, talking
from .protection import Protected, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

CHECKPOINTING = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"}
MINE = "print('the human was here')\n"
IGNORED = {".gitignore": ".env\nbuild/\n", ".env": "KEY=1\n", "build/out.bin": "built\n"}
WRECK = (
    "rm old.txt",
    "mkdir kept && mv draft.txt kept/final.txt",
    "rm -r build",
    "echo KEY=2 > .env",
)
LEFT_WRONG = {
    "old.txt": "gone",
    "draft.txt": "gone",
    "kept": "new",
    "kept/final.txt": "new",
    "build": "gone",
    "build/out.bin": "gone",
    ".env": "content",
}


def story(project: Path) -> stories.Script:
    def path(name: str) -> str:
        return str(project / name)

    edit = stories.tool("Edit", file_path=path("app.py"), old_string="one", new_string="two")
    shell = [stories.turn(stories.tool("Bash", command=line, description="work")) for line in WRECK]
    return {
        "wreck": [
            stories.turn(stories.tool("Write", file_path=path("notes.md"), content="plan\n")),
            stories.turn(stories.tool("Read", file_path=path("app.py"))),
            stories.turn(edit),
            *shell,
        ]
    }


def played(project: Protected, folder: Path, *, rewind: bool) -> None:
    """The session; then the human edits what the agent had edited; then perhaps the client's own rewind."""
    with (
        clients.model(folder, story(project.project)) as model,
        talking.claude_code(model, project.desk, env=CHECKPOINTING) as talk,
    ):
        said = talk.say("[scene wreck] go")
        assert not (project.project / "old.txt").exists()
        with (project.project / "app.py").open("a") as file:
            file.write(MINE)
        if rewind:
            (prompt,) = [m["uuid"] for m in said if m["type"] == "user" and m.get("isReplay")]
            answer = talk.control(subtype="rewind_files", user_message_id=prompt)
            assert answer["subtype"] == "success", answer


def wrong(before: Picture, project: Protected) -> dict[str, str]:
    """What is not as it was: each path, and the first thing about it."""
    found: dict[str, str] = {}
    for line in project.changes_since(before):
        name, _, what = line.partition(": ")
        found.setdefault(name.strip("'"), what.split()[0])
    return {name: what for name, what in found.items() if what != "mtime_ns"}


def test_what_the_clients_own_rewind_leaves_takeback_takes_back(tmp_path: Path) -> None:
    left: dict[str, dict[str, str]] = {}
    app: dict[str, str] = {}
    for way in ("rewind", "takeback"):
        folder = tmp_path / way
        with protected(folder, "claude-code") as project:
            for name, text in IGNORED.items():
                project.world.human(name, text)
            before = project.look()
            played(project, folder, rewind=way == "rewind")
            if way == "takeback":
                (run,) = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
                project.takeback("undo", run, "--on-conflict", "keep")
            left[way] = wrong(before, project)
            app[way] = (project.project / "app.py").read_text()
    # The rewind says that it succeeded.
    assert left["rewind"] == LEFT_WRONG
    assert app["rewind"] == stories.START["app.py"], "the human's line is lost, without a word"
    assert left["takeback"] == {"app.py": "size"}
    assert app["takeback"].endswith(MINE)
