"""Show what Takeback does, on a small project that is created for the demo and removed afterwards.

`./dev demo` runs this. Every line after a `$` is a command that really runs, with the output that it really
prints. This script checks by itself, with the standard library alone, whether the files are as they were.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

AGENT = """\
echo "Agent: I will tidy up this project."
sed 's/True/False/' src/auth.py > tmp && mv tmp src/auth.py
rm -rf migrations
mv src/db.py src/database.py
if command -v git > /dev/null && test -d .git
then git clean -fdX
else rm .env shop.db
fi
chmod 777 deploy.sh
echo "TODO: clean up later" > notes.tmp
mkdir -p cache/a/b && echo junk > cache/a/b/junk
echo "Agent: hmm, now the tests fail."
exit 1
"""

HISTORIAN = """\
git checkout --quiet -b cleanup
git rm --quiet -r migrations
git commit --quiet -m "Nobody needs these"
git branch --quiet -D wishlist
git stash drop --quiet
git reflog expire --expire=now --all && git gc --quiet --prune=now
python3 - << END
import sqlite3
db = sqlite3.connect("shop.db")
db.executescript("update orders set item = 'lost'; create table junk (x); insert into junk values (1);")
END
"""

PROJECT = {
    "README.md": "# Shop\n\nSells shoes.\n",
    ".gitignore": ".env\n*.db\n",
    ".env": "API_KEY=not-in-git\n",
    "takeback.toml": "[store]\nkeep-days = 30\n",
    "deploy.sh": "#!/bin/sh\necho deploying\n",
    "config.toml": "port = 80\nhost = 'localhost'\n\n[shop]\nname = 'Shoes'\ncurrency = 'EUR'\n",
    "src/auth.py": "def allowed(user):\n    return user.active is True\n",
    "src/db.py": "def connect():\n    ...\n",
    "migrations/0001-users.sql": "create table users (name text);\n",
    "migrations/0002-orders.sql": "create table orders (item text);\n",
}

World = dict[str, tuple[str, int, int, str]]
"""For each path: kind, mode, mtime in nanoseconds, digest of the content."""


class Failed(Exception):
    """The world is not as the demo promised."""


class Demo:
    """The project, and the shell in which everything happens."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "shop"
        self.agent = folder / "agent.sh"
        self.historian = folder / "historian.sh"
        ours = ("TAKEBACK_", "GIT_")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._env |= {"TAKEBACK_HOME": str(folder / "state"), "PYTHONSAFEPATH": "1"}
        who = {"NAME": "You", "EMAIL": "you@example.org"}
        self._env |= {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
        # The commands run in another folder; let them find this checkout if it is not installed.
        self._env["PYTHONPATH"] = str(Path(__file__).resolve().parents[1] / "src")
        if not sys.stdout.isatty():
            self._env["NO_COLOR"] = "1"

    def build(self) -> None:
        """Create a small project with typical contents: ignored secrets, a database, a script."""
        for name, text in PROJECT.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.root / ".env").chmod(0o600)
        (self.root / "deploy.sh").chmod(0o755)
        (self.root / "logs").mkdir()
        database = sqlite3.connect(self.root / "shop.db")
        database.executescript("create table orders (item text); insert into orders values ('boots');")
        database.close()
        self.agent.write_text(AGENT)
        if shutil.which("git"):
            self.historian.write_text(HISTORIAN)
            self.git("init", "--quiet", "--initial-branch=main")
            self.git("add", ".")
            self.git("commit", "--quiet", "-m", "A shop")
            self.git("branch", "wishlist")
            (self.root / "src/db.py").write_text("def connect():\n    return 'half an idea'\n")
            self.git("stash", "--quiet")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self._env, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise Failed(f"git {words[0]} exited with {done.returncode}")
        return done.stdout

    def history(self) -> str:
        """Return every branch, what is checked out, staged and stashed, as git prints it; and the rows."""
        asked = [["show-ref"], ["symbolic-ref", "HEAD"], ["ls-files", "--stage"], ["stash", "list"]]
        told = [self.git("--no-optional-locks", *words) for words in asked]
        told.append(self.git("fsck", "--no-dangling"))
        database = sqlite3.connect(f"file:{self.root}/shop.db?mode=ro", uri=True)
        told.append("\n".join(database.iterdump()))
        database.close()
        return "\n".join(told)

    def takeback(self, *words: str, code: int = 0) -> None:
        """Show a command and what it prints, as a terminal would."""
        print(f"\n$ {paint(shlex.join(['takeback', *words]))}", flush=True)
        command = [sys.executable, "-m", "takeback", *words]
        done = subprocess.run(command, cwd=self.root, env=self._env, stderr=subprocess.STDOUT)
        if done.returncode:
            print(f"(exit {done.returncode})", flush=True)
        if done.returncode != code:
            raise Failed(f"takeback {words[0]} exited with {done.returncode} instead of {code}")

    def human(self, name: str, old: str, new: str) -> None:
        """Edit a file as you would in your editor, without Takeback."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        print(f"\n  (you edit {name}: {old!r} becomes {new!r})", flush=True)
        path.write_text(text.replace(old, new))

    def look(self) -> World:
        """Return the state of every path except in the project's own .git, which `history` covers."""
        found: World = {}
        for folder, folders, files in os.walk(self.root):
            if Path(folder) == self.root and ".git" in folders:
                folders.remove(".git")
            for name in (".", *files):
                path = Path(folder, name)
                state = path.lstat()
                data = b"" if name == "." else path.read_bytes()
                kind = "folder" if name == "." else "file"
                found[str(path.relative_to(self.root))] = (
                    kind,
                    state.st_mode,
                    state.st_mtime_ns,
                    hashlib.sha256(data).hexdigest(),
                )
        return found

    def prove(self, expected: World, what: str) -> None:
        """Compare the files with an earlier look at them."""
        now = self.look()
        wrong = sorted(path for path in expected.keys() | now.keys() if expected.get(path) != now.get(path))
        if wrong:
            raise Failed(f"the demo expected that {what}; these paths differ: {', '.join(wrong)}")
        print(f"\n  Checked by this script, with SHA-256, modes and times: {what}.", flush=True)


def paint(text: str) -> str:
    """Return the text in bold, if the output is a terminal that supports it."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def say(sentence: str) -> None:
    print(f"\n{sentence}", flush=True)


def with_edit(world: World, now: World, path: str) -> World:
    """Return the earlier state, but with the human's edit of one file."""
    return world | {path: now[path]}


def wreck_and_take_back(demo: Demo) -> None:
    say("A small project, created for this demo. One command protects it; nothing is written into it.")
    demo.takeback("init")
    before = demo.look()

    say("An agent works on it in the shell: it edits, moves, deletes, wipes what git ignores, and fails.")
    demo.takeback("run", "--", "sh", "../agent.sh", code=1)
    wrecked = demo.look()
    if (demo.root / ".env").exists() or (demo.root / "shop.db").exists():
        raise Failed("the agent did less than it should")

    say("Before you notice, you have continued with your own work.")
    demo.human("README.md", "Sells shoes.", "Sells shoes and hats.")
    edited = demo.look()
    expected = with_edit(before, edited, "README.md")

    say("What happened?")
    demo.takeback("log")

    say("What would an undo do? Nothing is changed yet.")
    demo.takeback("undo", "--preview")
    demo.prove(edited, "the preview changed nothing")

    say("Take it back.")
    demo.takeback("undo")
    demo.prove(expected, f"all {len(expected)} paths are as before the agent, and README.md has your edit")

    say("Changed your mind? An undo can be taken back too, and again.")
    demo.takeback("redo")
    demo.prove(with_edit(wrecked, edited, "README.md"), "the agent's work is back")
    demo.takeback("undo")
    demo.prove(expected, "and it is gone again")


def both_in_one_file(demo: Demo) -> None:
    say("Now you and the agent change the same file.")
    demo.takeback("run", "--name", "agent", "--", "sh", "-c", "echo debug = true >> config.toml")
    demo.human("config.toml", "port = 80", "port = 8080")
    before = demo.look()

    say("Nobody's work is overwritten silently: undo stops, and says what you can do.")
    demo.takeback("undo", code=3)
    demo.prove(before, "nothing was changed")
    demo.takeback("undo", "--on-conflict", "merge")
    wanted = PROJECT["config.toml"].replace("port = 80", "port = 8080")
    if (demo.root / "config.toml").read_text() != wanted:
        raise Failed("config.toml is not the original with your edit")
    print("\n  Checked by this script: the agent's line is gone, yours is there.", flush=True)


def branches_and_rows(demo: Demo) -> None:
    say("Agents do not only edit files. This one rewrites the history of the project, and a table.")
    before = demo.history()
    demo.takeback("run", "--name", "tidy up history", "--", "sh", "../historian.sh")
    if demo.history() == before:
        raise Failed("the agent did less than it should")
    say("Git has deleted the commits for good, but Takeback still has them. One undo brings everything back.")
    demo.takeback("undo")
    if demo.history() != before:
        raise Failed("git or the rows are not as they were")
    print("\n  Checked by this script, with git itself and a dump of the rows: all as before.", flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="takeback-demo-") as folder:
        demo = Demo(Path(folder).resolve())
        demo.build()
        try:
            wreck_and_take_back(demo)
            both_in_one_file(demo)
            if shutil.which("git"):
                branches_and_rows(demo)
            say("The whole story. Changes outside any action are yours, and stay.")
            demo.takeback("log")
            say("Last, check that the history itself is complete and every stored byte is right.")
            demo.takeback("verify", "--deep")
        except Failed as failure:
            print(f"\nThe demo failed: {failure}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    say("That is all. The demo's files are gone again. Try it on your own project: takeback run -- COMMAND")
    return 0


if __name__ == "__main__":
    sys.exit(main())
