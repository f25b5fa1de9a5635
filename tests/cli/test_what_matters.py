"""Lists of changes begin with what matters, in a project with very many generated files."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.world.cli import Result, Workspace, environment

from .processes import PYTHON, on_terminal

FEW, SOME, MANY = 240, 2_400, 60_000
IN_ONE = 20
SCREEN_LINES = 24
MATTERS = (".env", "app.py", "branch main", "stash", "app.db")
WRECK = """
rm -rf node_modules .env app.py
git stash drop -q
git reset -q --hard HEAD~1
rm -f app.py
python3 -c 'import sqlite3; db = sqlite3.connect("app.db"); db.execute("DELETE FROM users"); db.commit()'
echo new > src/made.py
"""


def git(world: Workspace, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=world.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def fill(folder: Path, files: int) -> None:
    """Create a folder of dependencies with so many files."""
    for number in range(files // IN_ONE):
        package = folder / f"package-{number}" / "lib"
        package.mkdir(parents=True)
        for each in range(IN_ONE):
            (package / f"{each}.js").write_text(f"export default {number * each}\n")


def project(world: Workspace, files: int) -> None:
    """A project with two commits, a stash, a database, secrets and dependencies."""
    world.human(".gitignore", "node_modules/\n.env\n*.db\n")
    world.human("app.py", "print('one')\n")
    world.human("src/lib.py", "x = 1\n")
    git(world, "init", "-q", "-b", "main")
    git(world, "add", ".")
    git(world, "commit", "-qm", "one")
    world.human("app.py", "print('two')\n")
    git(world, "commit", "-qam", "two")
    world.human("src/lib.py", "x = 2\n")
    git(world, "stash", "-q")
    world.human(".env", "SECRET=1\n")
    with closing(sqlite3.connect(world.root / "app.db")) as db:
        db.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        db.executemany("INSERT INTO users (name) VALUES (?)", [("a",), ("b",), ("c",)])
        db.commit()
    fill(world.root / "node_modules", files)


@pytest.fixture
def wrecked(world: Workspace) -> Workspace:
    project(world, FEW)
    world.do("init")
    world.agent(WRECK)
    return world


def screen(done: Result, columns: int = 80) -> str:
    """The first screen of an output: long lines take several lines of it."""
    shown = [
        line[at : at + columns] or line for line in done.stdout.splitlines() for at in _starts(line, columns)
    ]
    return "\n".join(shown[:SCREEN_LINES])


def _starts(line: str, columns: int) -> range:
    return range(0, max(len(line), 1), columns)


def check_scene(world: Workspace, files: int) -> None:
    preview = world.do("undo", "--preview")
    diff = world.do("diff", world.action("agent"))
    for shown in (screen(preview), screen(diff)):
        assert all(name in shown for name in MATTERS), shown
        assert f"node_modules: {files:,} files in {files // IN_ONE:,} folders" in shown
        assert shown.index("node_modules") > max(shown.index(name) for name in MATTERS), shown
    assert len(preview.stdout.splitlines()) < SCREEN_LINES
    world.do("undo")
    assert (world.root / ".env").read_text() == "SECRET=1\n"
    assert git(world, "stash", "list") and git(world, "log", "--oneline").count("\n") == 1
    assert sum(len(names) for _, _, names in os.walk(world.root / "node_modules")) == files


def test_the_first_screen_names_what_matters(world: Workspace) -> None:
    project(world, SOME)
    world.do("init")
    world.agent(WRECK)
    check_scene(world, SOME)


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_the_first_screen_names_what_matters_among_very_many_files(tmp_path: Path) -> None:
    world = Workspace(tmp_path / "work", tmp_path / "state", timeout_s=600)
    world.root.mkdir()
    project(world, MANY)
    world.do("init")
    world.agent(WRECK)
    check_scene(world, MANY)


def test_every_list_fits_the_width(wrecked: Workspace) -> None:
    action = wrecked.action("agent")
    looking = [("undo", "--preview"), ("diff", action), ("show", action)]
    doing = [
        ("undo",),
        ("status",),
        ("redo",),
        ("run", "--", "sh", "-c", "rm src/lib.py; mkdir a; touch a/1"),
    ]
    wide = [(columns, words) for columns in (80, 120) for words in looking]
    for columns, words in [*wide, *((60, words) for words in (*looking, *doing))]:
        done = wrecked.run(*words, env={"COLUMNS": str(columns)})
        assert done.code == 0, done
        lines = [line for line in done.said.splitlines() if str(wrecked.root) not in line]
        assert lines and [line for line in lines if len(line) > columns] == [], words


def test_all_names_every_path(wrecked: Workspace) -> None:
    action = wrecked.action("agent")
    for words in (
        ("undo", "--preview", "--all"),
        ("show", action, "--all"),
        ("diff", action, "--stat", "--all"),
    ):
        said = wrecked.do(*words).stdout
        assert said.count(".js") == FEW and " more" not in said, words
        assert said.index(".env") < said.index("node_modules")


def test_a_deletion_of_something_tracked_is_never_behind_a_number(world: Workspace) -> None:
    names = [f"src/{folder}/gone-{n}.py" for folder in "abcdef" for n in range(6)]
    for name in names:
        world.human(name, "x = 1\n")
        world.human(name.replace("gone", "stays"), "x = 1\n")
    world.do("init")
    world.agent("rm src/*/gone-*; for f in src/*/stays-*; do echo y > $f; done")
    action = world.action("agent")
    outputs = [world.do(*words).stdout for words in (("undo", "--preview"), ("show", action), ("undo",))]
    for said in outputs:
        assert [name for name in names if name not in said] == []
    assert "28 more; --all lists them" in outputs[-1], "what was only edited is counted"


def test_what_is_tracked_though_ignored_is_named(world: Workspace) -> None:
    world.human(".gitignore", "dist/\n")
    for number in range(9):
        world.human(f"dist/made-{number}.js", "x\n")
    world.human("dist/vendored.js", "x\n")
    git(world, "init", "-q")
    git(world, "add", "--force", ".gitignore", "dist/vendored.js")
    git(world, "commit", "-qm", "one")
    world.do("init")
    world.agent("rm -rf dist .git .gitignore")
    said = world.do("undo", "--preview").stdout
    assert "dist/vendored.js" in said and "dist: 9 files" in said and "made-1" not in said


def test_a_folder_that_came_as_a_whole_is_one_line_in_the_receipt(world: Workspace) -> None:
    world.do("init")
    done = world.agent("mkdir -p site/css && touch site/1 site/2 site/3 site/css/4; rm plan.md")
    assert "  deleted    plan.md\n  created    site: 4 files in 2 folders\n" in done.stderr


# diff


def test_a_short_diff_is_a_patch_and_a_long_one_a_list(world: Workspace) -> None:
    world.human("long", "".join(f"{n}\n" for n in range(350)))
    world.do("init")
    world.agent("sed -i s/^/x/ long", name="edit")
    shown = world.do("diff", world.action("edit")).stdout
    assert shown.startswith(" changed     +350 -350  long\nThese are more than 400 lines")
    patch = world.do("diff", world.action("edit"), "--patch").stdout
    assert patch.startswith("--- a/long\n+++ b/long\n") and patch.count("\n+x") == 350
    world.agent("echo y > plan.md", name="small")
    assert "+y\n" in world.do("diff", world.action("small")).stdout


def test_a_diff_in_order_is_streamed(wrecked: Workspace) -> None:
    """Whoever reads only the beginning does not wait for the rest."""
    words = [PYTHON, "-m", "takeback", "diff", wrecked.action("agent"), "--patch"]
    with subprocess.Popen(
        words, cwd=wrecked.root, env=environment(wrecked.home), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        first = [process.stdout.readline().decode() for _ in range(12)]
        process.stdout.close()
        assert process.wait(60) == 0
    assert any("branch main" in line for line in first), first


def test_long_output_goes_through_the_pager_of_the_user(wrecked: Workspace) -> None:
    action = wrecked.action("agent")
    env = {"PAGER": "sed 's/^/paged: /'", "LINES": "10"}
    _, shown = on_terminal(wrecked, "diff", action, "--patch", env=env)
    assert shown.startswith(("paged: ", "\r")) and "\npaged: " in shown and ".js" in shown
    for more in ({"PAGER": ""}, {"PAGER": "cat"}, {"TERM": "dumb"}):
        _, plain = on_terminal(wrecked, "diff", action, "--patch", env=env | more)
        assert "paged: " not in plain and ".js" in plain
    _, plain = on_terminal(wrecked, "diff", action, "--patch", "--no-pager", env=env)
    assert "paged: " not in plain
    _, short = on_terminal(wrecked, "diff", action, "app.py", env=env)
    assert "paged: " not in short, "it fits on the screen"


def test_who_leaves_the_pager_is_not_told_of_an_error(wrecked: Workspace) -> None:
    code, shown = on_terminal(wrecked, "diff", wrecked.action("agent"), "--patch", env={"PAGER": "head -3"})
    assert code == 0 and len(shown.splitlines()) == 3 and "rror" not in shown
