"""Agents as programs of their own: `python -m tests.cli.agent NAME`, in a workspace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import takeback
from takeback.workspace.workspace import Workspace
from tests.cli import service


def wire(tb: Workspace) -> None:
    with tb.run("pay", approval_wait_s=300) as run:
        Path("plan.md").write_text("paid\n")
        run.call(service.wire, 5, password="hunter2-hunter2")


def hand(tb: Workspace) -> None:
    with tb.run("migrate", key="migrate") as run:
        with run.step("prepare"):
            run.call(service.book, "room")
        with run.step("ask") as step:
            if not step.done and not Path("answer").exists():
                run.hand_over("the names of the tables are a human's choice")
            Path("plan.md").write_text(Path("answer").read_text())


def crash(tb: Workspace) -> None:
    with tb.run("nightly", key="nightly") as run:
        with run.step("edit"):
            Path("plan.md").write_text("new\n")
            run.call(service.add, 1, 2)
        run.memory["goal"] = "tidy"
        with run.step("book"):
            run.call(service.book, "room")
            if not (service.folder() / "dead").exists():
                (service.folder() / "dead").write_text("once is enough")
                os.kill(os.getpid(), signal.SIGKILL)


def keyless(tb: Workspace) -> None:
    with tb.run("keyless"):
        Path("plan.md").write_text("new\n")
        with tb.run("inner"):
            os.kill(os.getpid(), signal.SIGKILL)


def doubt(tb: Workspace) -> None:
    with tb.run("doubt", key="doubt") as run, run.step("pay"):
        if service.bookings():
            run.call(service.charge, 7)
        else:
            run.call(charge_and_die, 7)


@takeback.action(undo=service.cancel, name="charge-card")
def charge_and_die(amount: int) -> None:
    service.write("charged", {"amount": amount})
    os.kill(os.getpid(), signal.SIGKILL)


def sly(tb: Workspace) -> None:
    """It tries to allow itself what it asks for."""
    said: list[int] = []

    def answer() -> None:
        with takeback.open(".", watching=False) as mine:
            while not (waiting := mine.approvals()):
                pass
        for word in ("approve", "deny"):
            done = subprocess.run([sys.executable, "-m", "takeback", word, waiting[0].id])
            said.append(done.returncode)

    helper = threading.Thread(target=answer)
    try:
        with tb.run("sly", approval_wait_s=300) as run:
            helper.start()
            run.call(service.wire, 5)
    except takeback.RefusedError:
        helper.join()
        sys.exit(0 if said == [3, 0] else f"it was told {said}")
    sys.exit("it was allowed")


if __name__ == "__main__":
    with takeback.open(".", watching=False) as workspace:
        globals()[sys.argv[1]](workspace)
