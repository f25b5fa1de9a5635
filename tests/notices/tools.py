"""What agents of these tests do, in processes of their own too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import takeback


@takeback.action(effect="irreversible")
def wire(amount: int) -> str:
    """Move money, as it were."""
    return f"wired {amount}"


def refuse(text: str) -> None:
    """Refuse a message for good."""
    raise takeback.DeliveryFailed(f"nobody wants {text}", permanent=True)


def die(root: str) -> None:
    """Begin a run with a change, and be killed in it."""
    with takeback.open(root) as tb, tb.run("nightly job", key="nightly"):
        Path(root, "half.txt").write_text("half\n")
        os.kill(os.getpid(), signal.SIGKILL)
