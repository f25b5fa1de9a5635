"""An agent whose first plan does not work: it goes back to where the plan began and tries another one.

    python examples/replanning.py [FOLDER]

Everything happens in FOLDER, or in a temporary one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import takeback

PLANS = {
    "sort in place": "def top(items):\n    items.sort()\n    return items[-1]\n",
    "use max": "def top(items):\n    return max(items)\n",
}
CHECK = """\
from runpy import run_path
top = run_path("top.py")["top"]
assert top((3, 9, 4)) == 9
"""


@takeback.action(effect="restorable")
def write(path: str, text: str) -> None:
    Path(path).write_text(text)


@takeback.action(effect="none")
def passes() -> bool:
    """Return whether the tests pass. Changes nothing."""
    return subprocess.run([sys.executable, "-B", "check.py"], capture_output=True).returncode == 0


def solve(run: takeback.Run) -> str:
    """Try one plan after the other; take back each failed one before the next begins."""
    for plan, code in PLANS.items():
        with run.step(plan) as step:
            run.memory["plan"] = plan
            run.call(write, "top.py", code)
            run.call(write, f"notes on {plan}.md", "this should do\n")
        if run.call(passes, key=f"{plan} passes"):
            return plan
        report = run.rollback(to=step)
        print(f"  {plan!r} fails its tests. {report}")
    raise takeback.InvariantBroken("no plan is left")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    write("top.py", "def top(items):\n    raise NotImplementedError\n")
    write("check.py", CHECK)
    with takeback.open(work, home=folder / "state") as tb:
        print("The agent tries its plans:")
        with tb.run("write top()") as run:
            plan = solve(run)
            print(f"  {plan!r} passes; the memory says {run.memory}")
        print(f"  in the folder: {sorted(os.listdir())}")
        print("Both plans stay in the journal:")
        for moment in tb.replay(run.id):
            if moment.event in ("step-began", "rollback-ended", "run-ended"):
                print(f"  {moment.what}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
