"""An agent rewrites the history of a project and prunes the lost commits; all of it is taken back.

    python examples/git_history.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. The agent uses plain git: Takeback looks at the
repository before and after. In the meantime a human commits to a branch of their own, and that commit stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import takeback

AGENT = """
git reset -q --hard HEAD~1
git branch -q -D idea
git reflog expire --expire=now --all
git gc -q --prune=now
"""


def git(*words: str) -> str:
    who = ["-c", "user.name=You", "-c", "user.email=you@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def commit(name: str) -> None:
    Path(name).write_text(f"{name}\n")
    git("add", name)
    git("commit", "-q", "-m", f"Add {name}")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    git("init", "-q")
    for name in ("shoes", "hats"):
        commit(name)
    git("branch", "idea")

    with takeback.open(".", home=folder / "state", watching=False) as tb:
        with tb.recording("an agent tidies up"):
            subprocess.run(["sh", "-c", AGENT], check=True)
        print(f"After the agent: {git('log', '--oneline', '--all', '--format=%D %s')}")
        git("checkout", "-q", "-b", "mine")
        commit("scarves")
        git("checkout", "-q", "main")
        print("In the meantime you have committed to a branch of your own. Undo what the agent did:")
        print(f"  {tb.undo()}")
        for line in git("branch", "--format=%(refname:short): %(subject)").splitlines():
            print(f"  {line}")
        print(f"  {git('fsck', '--no-dangling') or 'git fsck finds nothing wrong'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
