"""Show what Takeback does, on a small project that is created for the demo and removed afterwards.

`./dev demo` runs this. Every line after a `$` is a command that really runs, with the output that it really
prints. This script checks by itself, with the standard library and git alone, whether everything is as it says.

On a terminal it waits for Enter where there is something to read; `--fast` does not wait.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

AGENTS = {
    "claude": """\
#!/bin/sh
echo "claude: I have put everything on sale."
sed -i '2s/price/price * 0.5/' prices.py
""",
    "codex": """\
#!/bin/sh
case $1 in
*shipping*)
    echo "codex: shipping depends on the weight now."
    sed -i '5s/5/5 + weight/' prices.py ;;
*)
    echo "codex: I have removed what git does not need, and old orders."
    git clean -fdXq 2> /dev/null || rm .env
    git branch --quiet -D wishlist 2> /dev/null
    python3 -c "
import sqlite3
db = sqlite3.connect('shop.db')
db.execute('delete from orders where id = 1')
db.commit()"
    exit 1 ;;
esac
""",
}
"""Two scripts that stand for agents: what Takeback does is the same for the real ones."""

PRICES = """\
def net(price):
    return price

def shipping(weight):
    return 5

def total(price, weight):
    return net(price) + shipping(weight)
"""

PROJECT = {
    "README.md": "# Shop\n\nSells shoes.\n",
    ".gitignore": ".env\n",
    ".env": "API_KEY=not-in-git\n",
    "prices.py": PRICES,
    "deploy.sh": "#!/bin/sh\necho deploying\n",
}

LAST_WORDS = """\
That was it, and the demo's files are gone again. In your own project:

  takeback run -- COMMAND        let any agent or command work
  takeback install claude-code   protect every call of your coding agent (codex, cursor, gemini, opencode)
  takeback log                   what happened, and the id of each action
  takeback undo                  take back the last action; again: the one before it
  takeback undo ID --preview     see first what an undo would do
  takeback redo                  undo the undo
  takeback status                what waits for you
  takeback forget --workspace    remove everything that Takeback has recorded of a project"""

World = dict[str, tuple[str, int, int, str]]
"""For each path: kind, mode, mtime in nanoseconds, digest of the content."""


class Failed(Exception):
    """The world is not as the demo promised."""


class Demo:
    """The project, and the shell in which everything happens."""

    def __init__(self, folder: Path, *, fast: bool) -> None:
        self.root = folder / "shop"
        self._agents = folder / "agents"
        self._waits = not fast and sys.stdin.isatty() and sys.stdout.isatty()
        ours = ("TAKEBACK_", "GIT_")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._env |= {"TAKEBACK_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
        who = {"NAME": "You", "EMAIL": "you@example.org"}
        self._env |= {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
        self._env["PATH"] = f"{self._agents}{os.pathsep}{self._env.get('PATH', os.defpath)}"
        # The commands run in another folder; let them find this checkout if it is not installed.
        self._env |= {"PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src"), "PYTHONSAFEPATH": "1"}
        if not sys.stdout.isatty():
            self._env["NO_COLOR"] = "1"

    def build(self) -> None:
        """Create a small project with typical contents: a secret that git ignores, a database, a script."""
        for name, text in PROJECT.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.root / ".env").chmod(0o600)
        (self.root / "deploy.sh").chmod(0o755)
        (self.root / "logs").mkdir()
        database = sqlite3.connect(self.root / "shop.db")
        database.executescript(
            "create table orders (id integer primary key, item text);"
            "insert into orders (item) values ('boots'), ('hat');"
        )
        database.close()
        if shutil.which("git"):
            self.git("init", "--quiet", "--initial-branch=main")
            self.git("add", ".")
            self.git("commit", "--quiet", "--message=A shop")
            self.git("branch", "wishlist")
        self._agents.mkdir()
        for name, text in AGENTS.items():
            (self._agents / name).write_text(text)
            (self._agents / name).chmod(0o755)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self._env, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise Failed(f"git {words[0]} exited with {done.returncode}")
        return done.stdout

    def history(self) -> str:
        """Return every branch, what is checked out and staged, as git prints it; and the rows of the database."""
        asked = [["show-ref"], ["symbolic-ref", "HEAD"], ["ls-files", "--stage"]]
        told = [self.git("--no-optional-locks", *words) for words in asked] if shutil.which("git") else []
        database = sqlite3.connect(f"file:{self.root}/shop.db?mode=ro", uri=True)
        told.append("\n".join(database.iterdump()))
        database.close()
        return "\n".join(told)

    def takeback(self, *words: str, code: int = 0) -> None:
        """Show a command and what it prints, as a terminal would."""
        print(f"\n$ {paint(shlex.join(['takeback', *words]))}", flush=True)
        command = [sys.executable, "-m", "takeback", *words]
        done = subprocess.run(
            command, cwd=self.root, env=self._env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        if done.returncode:
            print(f"(exit {done.returncode})", flush=True)
        if done.returncode != code:
            raise Failed(f"takeback {words[0]} exited with {done.returncode} instead of {code}")

    def last_of(self, actor: str) -> str:
        """Return the id of the last action of this actor, as `takeback log` shows it."""
        command = [sys.executable, "-m", "takeback", "log", "--json"]
        told = subprocess.run(command, cwd=self.root, env=self._env, stdout=subprocess.PIPE, check=True)
        entries = json.loads(told.stdout)["entries"]
        return next(str(entry["id"]) for entry in entries if entry["actor"] == actor)

    def show(self, name: str) -> None:
        """Show a file, as `cat` does."""
        print(f"\n$ {paint(f'cat {name}')}\n{(self.root / name).read_text()}", end="", flush=True)

    def human(self, name: str, old: str, new: str) -> None:
        """Edit a file as you would in your editor, without Takeback."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        print(f"\n  (you edit {name}: {old!r} becomes {new!r})", flush=True)
        path.write_text(text.replace(old, new))

    def look(self) -> World:
        """Return the state of every path, except of the database and the project's .git, which `history` covers."""
        found: World = {}
        for folder, folders, files in os.walk(self.root):
            if Path(folder) == self.root and ".git" in folders:
                folders.remove(".git")
            for name in (".", *(name for name in files if name != "shop.db")):
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
        self.checked(what)

    def checked(self, what: str) -> None:
        print(f"\n  Checked by this script: {what}.", flush=True)

    def say(self, sentence: str) -> None:
        """Say what comes next. On a terminal, wait until what came before is read."""
        if self._waits:
            input("\n[Enter]")
        print(f"\n{sentence}", flush=True)


def paint(text: str) -> str:
    """Return the text in bold, if the output is a terminal that supports it."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def three_hands_in_one_file(demo: Demo) -> None:
    print("A small project, created for this demo. One command protects it; nothing is written into it.")
    before = demo.look()
    demo.takeback("init")
    demo.prove(before, "init has written nothing into the project")

    demo.say("Two agents work on the same file, and so do you.")
    demo.takeback("run", "--", "claude", "put everything on sale")
    demo.takeback("run", "--", "codex", "make shipping depend on the weight")
    demo.human("prices.py", "shipping(weight)\n", "shipping(weight) + 1  # the box\n")
    demo.show("prices.py")

    demo.say(
        "The sale was a mistake. Take back the lines of that agent alone; what is not certain is not guessed."
    )
    sale = demo.last_of("claude")
    demo.takeback("undo", sale, code=3)
    demo.takeback("undo", sale, "--on-conflict", "merge")
    demo.show("prices.py")
    wanted = PRICES.replace("return 5", "return 5 + weight")
    if (demo.root / "prices.py").read_text() != wanted.replace("(weight)\n", "(weight) + 1  # the box\n"):
        raise Failed("prices.py does not have exactly the lines of the other agent and yours")
    demo.checked("the lines of claude are as they were; those of codex, and yours, are untouched")


def a_secret_and_a_row(demo: Demo) -> None:
    demo.say("An agent cleans up: a secret that git ignores, a branch, a row of the database. Then it fails.")
    before, history = demo.look(), demo.history()
    demo.takeback("run", "--", "codex", "clean up", code=1)
    if (demo.root / ".env").exists() or demo.history() == history:
        raise Failed("the agent did less than it should")

    demo.say("Before you notice, you have gone on with your own work.")
    demo.human("README.md", "Sells shoes.", "Sells shoes and hats.")
    edited = demo.look()["README.md"]

    demo.say("Take it back.")
    demo.takeback("undo")
    demo.prove(
        before | {"README.md": edited}, "every file has its bytes, mode and time; README.md has your edit"
    )
    if demo.history() != history:
        raise Failed("the branches or the rows are not as they were")
    demo.checked("the branches and the rows are as they were, by git and SQLite themselves")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="do not wait for Enter")
    fast: bool = parser.parse_args().fast
    with tempfile.TemporaryDirectory(prefix="takeback-demo-") as folder:
        demo = Demo(Path(folder).resolve(), fast=fast)
        demo.build()
        try:
            three_hands_in_one_file(demo)
            a_secret_and_a_row(demo)
            demo.say("The whole story. What no agent did is yours.")
            demo.takeback("log")
            demo.say(LAST_WORDS)
        except Failed as failure:
            print(f"\nThe demo failed: {failure}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, EOFError):
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
