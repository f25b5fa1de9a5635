"""Access lists (ACLs): an agent changes, removes, adds or loses one; undo brings it back, and redo the agent's."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing, suppress

import pytest

from tests.world.cli import REPOSITORY, Workspace
from tests.world.torture import acl

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
PROGRAM = f"""
import os, shutil, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from tests.world.torture import acl
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
"""


@pytest.fixture
def listed(world: Workspace) -> Workspace:
    """A workspace in which everything has an access list."""
    world.root.mkdir(exist_ok=True)
    (world.root / "shared/inner").mkdir(parents=True)
    for name in ("a", "b", "shared/c"):
        (world.root / name).write_text(name)
    with closing(sqlite3.connect(world.root / "shop.db")) as db:
        db.execute("create table t (a)")
    try:
        for name in ("a", "shared/c", "shop.db", "shared"):
            os.setxattr(world.root / name, ACCESS, acl(user_bits=6))
        os.setxattr(world.root / "shared", DEFAULT, acl(user_bits=4))
    except OSError as error:
        pytest.skip(f"not on this platform: {error.strerror}")
    world.save()
    return world


def lists(world: Workspace) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(world.root.rglob("*")):
        name = str(path.relative_to(world.root))
        found[name] = oct(path.stat().st_mode)
        for attribute in (ACCESS, DEFAULT):
            with suppress(OSError):
                found[f"{name} {attribute}"] = os.getxattr(path, attribute)
    return found


DEEDS = {
    "changed": "os.setxattr('a', ACCESS, acl(user_bits=0))",
    "removed": "os.removexattr('a', ACCESS)",
    "added": "os.setxattr('b', ACCESS, acl(user_bits=7))",
    "the mask by chmod": "os.chmod('a', 0o600)",
    "lost by a copy": "shutil.copyfile('a', 'x'); os.replace('x', 'a')",
    "removed and written": "os.removexattr('a', ACCESS); open('a', 'w').write('new')",
    "the folder's": "os.removexattr('shared', ACCESS); os.chmod('shared', 0o700)",
    "the folder's default": "os.removexattr('shared', DEFAULT); open('shared/new', 'w').write('x')",
    "a new default": "os.setxattr('shared/inner', DEFAULT, acl(user_bits=6)); open('shared/inner/n', 'w')",
    "the whole folder": "shutil.rmtree('shared')",
    "the folder made anew": "shutil.rmtree('shared'); os.mkdir('shared'); open('shared/c', 'w').write('x')",
    "of a database": "os.setxattr('shop.db', ACCESS, acl(user_bits=0))",
    "of a database, removed": "os.removexattr('shop.db', ACCESS); os.chmod('shop.db', 0o644)",
    "of a database that is gone": "os.unlink('shop.db')",
    "of a moved file": "os.rename('a', 'moved'); os.removexattr('moved', ACCESS)",
    "by hard link": "os.link('a', 'h'); os.removexattr('h', ACCESS); os.unlink('h')",
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=list(DEEDS))
def test_an_access_list_comes_back_and_goes_again(listed: Workspace, deed: str) -> None:
    before = lists(listed)
    listed.do("run", "--", sys.executable, "-c", PROGRAM + deed)
    after = lists(listed)
    assert after != before
    report = listed.undo()
    assert report.json["verdict"] in ("clean", "unknown"), report
    assert lists(listed) == before
    listed.do("redo")
    assert lists(listed) == after
    listed.do("verify", "--deep")
