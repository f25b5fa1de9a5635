"""Run inside a mount namespace of its own: a database is on a disk that an agent, or a human, fills.

unshare -m python -m tests.cli.filled_disk_database FOLDER
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.cli.inside import Inside

FILL = "head -c 1000000000 /dev/urandom"
CHANGE = "import sqlite3; d = sqlite3.connect('shop.db'); d.execute('update t set a = 1'); d.commit()"
GROW = (
    "import sqlite3; d = sqlite3.connect('shop.db')\n"
    "try:\n"
    " while True: d.execute('insert into t (a) values (zeroblob(200000))'); d.commit()\n"
    "except sqlite3.OperationalError: pass\n"
)
NO_ROOM = "shop.db was not captured as it is now: the disk has no room for a copy of it ("
NEXT = "free some room, then undo it with --on-conflict overwrite"


def main(folder: str) -> None:
    disk = Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(disk)], check=True)
    world = Inside(disk / "work", disk / "state")
    world.root.mkdir()
    script = "create table t (id integer primary key, a); insert into t (a) values ('old'), ('old')"
    with closing(sqlite3.connect(world.root / "shop.db")) as db:
        db.executescript(script)
        rows = (
            "with recursive c(n) as (select 1 union all select n + 1 from c where n < 9) "
            "insert into t (a) select randomblob(99999) from c"
        )
        db.execute(rows)
        db.commit()
    world.save("first")
    filled_beside_it(world)
    filled_by_it(world)
    filled_by_a_human(world)


def filled_beside_it(world: Inside) -> None:
    """What failed, how things are and what to do next is said at once and by the undo; then that works."""
    before = content(world)
    done = world.run(
        "run", "--", "sh", "-c", f'{sys.executable} -c "{CHANGE}"; {FILL} > big 2> /dev/null; true'
    )
    assert done.code == 0, done
    assert f"not recorded: {NO_ROOM}" in done.said, done
    refused(world)
    assert (world.root / "big").exists()
    (world.root / "big").unlink()
    taken_back(world, before)


def filled_by_it(world: Inside) -> None:
    before = content(world)
    done = world.run("run", "--", sys.executable, "-c", GROW)
    assert f"not recorded: {NO_ROOM}" in done.said, done
    refused(world)
    # Room is made elsewhere; here the disk grows.
    subprocess.run(["mount", "-o", "remount,size=96m", str(world.root.parent)], check=True)
    taken_back(world, before)
    subprocess.run(["mount", "-o", "remount,size=24m", str(world.root.parent)], check=True)


def filled_by_a_human(world: Inside) -> None:
    """The undo cannot write its rows, says so, and leaves the database as it is."""
    before = content(world)
    world.agent(f'{sys.executable} -c "{CHANGE}"')
    subprocess.run(["sh", "-c", f"{FILL} > theirs"], cwd=world.root, stderr=subprocess.DEVNULL)
    changed = content(world)
    done = world.run("undo")
    assert done.code in (3, 4, 6), done
    assert "the disk has no room for a copy of it" in done.said and "free some room" in done.said, done
    assert "not an error" not in done.said, done
    assert content(world) == changed
    (world.root / "theirs").unlink()
    done = world.run("undo")
    if done.code:
        done = world.run("undo", "--on-conflict", "overwrite")
    assert done.code == 0, done
    assert content(world) == before


def refused(world: Inside) -> None:
    now = content(world)
    done = world.run("undo")
    assert done.code == 3, done
    assert NO_ROOM in done.said and NEXT in done.said, done
    assert "not an error" not in done.said, done
    assert content(world) == now


def taken_back(world: Inside, before: list[tuple[object, ...]]) -> None:
    done = world.run("undo", "--on-conflict", "overwrite")
    assert done.code == 0, done
    assert content(world) == before
    world.do("verify", "--deep")


def content(world: Inside) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(world.root / "shop.db")) as db:
        return db.execute("select id, a from t order by id").fetchall()


if __name__ == "__main__":
    main(sys.argv[1])
