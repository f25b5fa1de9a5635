"""An agent that announces its work: nothing is sent before the commit, and a failed attempt announces nothing.

    python examples/deferred_messages.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. A command "sends" the messages by writing them to a file there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import takeback

ANNOUNCE = """\
import os, sys
with open("../channel", "a") as channel:
    channel.write(f"{sys.argv[1]} is out ({os.environ['TAKEBACK_KEY'][:6]})\\n")
"""


def release(tb: takeback.Workspace, version: str, *, fails: bool = False) -> takeback.Run:
    """Write the notes of a release and announce it, in the order of the releases."""
    with tb.run(f"release {version}") as run:
        Path("NOTES").write_text(f"{version}\n")
        run.defer("command", [sys.executable, "../announce.py", version], key="announce", order="releases")
        if fails:
            raise RuntimeError("the build is broken")
    return run


def show() -> None:
    channel = Path("../channel")
    sent = channel.read_text().splitlines() if channel.exists() else []
    print(f"  notes: {Path('NOTES').read_text().strip()}; announced: {[line.split()[0] for line in sent]}")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    Path("NOTES").write_text("1.0\n")
    Path("../announce.py").write_text(ANNOUNCE)
    with takeback.open(work, home=folder / "state") as tb:
        print("A release that fails:")
        try:
            release(tb, "1.1", fails=True)
        except RuntimeError as error:
            print(f"  {error}. {error.__notes__[0]}")
        show()
        print("Two that succeed; no worker has delivered anything yet:")
        release(tb, "1.2")
        hasty = release(tb, "1.3")
        show()
        print("The second one is taken back before it was announced:")
        print(f"  {tb.undo(hasty.id)}")
        print("The worker (`takeback outbox worker`) delivers the rest:")
        print(f"  delivered {tb.courier().run(once=True).delivered}")
        show()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
