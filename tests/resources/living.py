"""An agent inside a living workspace, which watches: ROOT HOME SCRIPT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from takeback.workspace.opening import open_workspace

if __name__ == "__main__":
    root, home, script = sys.argv[1:]
    with open_workspace(root, home=Path(home), watching=True) as tb:
        tb.save()
        with tb.recording("agent"):
            subprocess.run(["sh", "-c", script], cwd=root, check=True)
