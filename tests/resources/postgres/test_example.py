"""The example does what it says, and leaves its database empty."""

from __future__ import annotations

import subprocess
import sys

from takeback.testing import crash
from tests.house.repository import ROOT
from tests.resources.postgres.world import Server, rows_of


def test_the_orders_of_the_example_are_taken_back(server: Server) -> None:
    dsn = server.make("")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/postgres_orders.py"), dsn],
        env=crash.child_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "orders, row 11: changed by another client since" in done.stdout
    assert "after the undo   : Ann, Bob, Cid; orders 10: 9.50, 11: 25, 12: 7.25, 13: 1.99" in done.stdout
    assert rows_of(dsn) == {}
