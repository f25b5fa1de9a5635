"""What real workspaces are made of: repositories, environments, databases, very many and very deep files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from functools import partial

from ..torture import overwrite, prop, remove, write

HUGE = int(os.environ.get("WORLD_HUGE", "5000"))
"""Entries of the huge directory; the sweep asks for 100,000."""


def _down(name: str, levels: int) -> None:
    """Go down, making directories, so far that no path could name the place."""
    for _ in range(levels):
        os.mkdir(name)
        os.chdir(name)


def _below(name: str, levels: int) -> None:
    for _ in range(levels):
        os.chdir(name)


@prop("deep-longer-than-a-path-may-be")
def deep() -> None:
    _down("d" * 50, 130)
    write("treasure", b"far below")
    os.symlink("treasure", "map")


@deep.wreck
def _() -> None:
    _below("d" * 50, 130)
    os.unlink("treasure")
    write("other")


@prop("deep-deleted-whole")
def deep_deleted() -> None:
    _down("e" * 40, 120)
    write("treasure", b"far below", mode=0o600)


@deep_deleted.wreck
def _() -> None:
    remove(b"e" * 40)


@prop("deep-300-levels")
def deep_levels() -> None:
    _down("x", 300)
    write("treasure")


@deep_levels.wreck
def _() -> None:
    _below("x", 200)
    os.rename("x", "y")


@prop("huge-directory")
def huge() -> None:
    for number in range(HUGE):
        write(f"{number:06}.txt", b"%d\n" % number)


@huge.wreck
def _() -> None:
    for number in range(0, HUGE, 50):
        os.unlink(f"{number:06}.txt")
    for number in range(1, HUGE, 50):
        write(f"{number:06}.txt", b"edited\n")
    for number in range(HUGE, HUGE + 50):
        write(f"{number:06}.txt", b"added\n")


def _git(*args: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *args], check=True, capture_output=True)


def _repository(folder: str) -> None:
    os.mkdir(folder)
    write(f"{folder}/code.py", b"print(1)\n")
    _git("-C", folder, "init", "-q")
    _git("-C", folder, "add", ".")
    _git("-C", folder, "commit", "-qm", "one")
    write(f"{folder}/code.py", b"print(2)\n")
    _git("-C", folder, "add", ".")


@prop("nested-repository-deleted", needs=("git",))
def nested_repository() -> None:
    _repository("vendor")


@nested_repository.wreck
def _() -> None:
    remove(b"vendor")


@prop("nested-repository-reset", needs=("git",))
def nested_reset() -> None:
    _repository("vendor")


@nested_reset.wreck
def _() -> None:
    _git("-C", "vendor", "reset", "-q", "--hard")
    _git("-C", "vendor", "checkout", "-qb", "agent")
    write("vendor/code.py", b"print(3)\n")
    _git("-C", "vendor", "commit", "-qam", "agent's")


@prop("nested-repository-loses-only-its-git", needs=("git",))
def nested_git_lost() -> None:
    _repository("vendor")


@nested_git_lost.wreck
def _() -> None:
    remove(b"vendor/.git")


@prop("git-file-of-a-worktree")
def git_file() -> None:
    write("tree/.git", b"gitdir: /somewhere/.git/worktrees/tree\n")
    write("tree/file")


@git_file.wreck
def _() -> None:
    remove(b"tree")


@prop("env-file")
def env_file() -> None:
    write(".env", b"SECRET=1\n", mode=0o600)
    write(".env.local", b"SECRET=2\n", mode=0o600)


@env_file.wreck
def _() -> None:
    os.unlink(".env")
    overwrite(b".env.local")


@prop("ignored-files")
def ignored() -> None:
    write(".gitignore", b"*.log\n/build/\n*.db\n")
    write("app.log", b"line\n" * 100)
    write("build/out/app.o", b"\x7fELF")
    write("data.db", b"precious")


@ignored.wreck
def _() -> None:
    write(".gitignore", b"")
    os.unlink("app.log")
    remove(b"build")
    overwrite(b"data.db")


@prop("node-modules")
def node_modules() -> None:
    for package in range(30):
        for name in ("index.js", "package.json", "lib/util.js", "README.md"):
            write(f"node_modules/p{package}/{name}", b"// %d\n" % package)
        write(f"node_modules/p{package}/cli.js", b"#!/usr/bin/env node\n", mode=0o755)
    os.mkdir("node_modules/.bin")
    for package in range(30):
        os.symlink(f"../p{package}/cli.js", f"node_modules/.bin/p{package}")


@node_modules.wreck
def _() -> None:
    remove(b"node_modules")
    write("node_modules/fresh/index.js")


@prop("virtual-environment")
def virtual_environment() -> None:
    os.makedirs(".venv/bin")
    os.symlink("/usr/bin/python3", ".venv/bin/python")
    os.makedirs(".venv/lib")
    os.symlink("lib", ".venv/lib64")
    write(".venv/lib/mod.py")
    write(".venv/lib/__pycache__/mod.pyc", b"\x00\x01")


@virtual_environment.wreck
def _() -> None:
    remove(b".venv/lib")
    os.unlink(".venv/lib64")
    os.mkdir(".venv/lib64")


def _database() -> None:
    """A database with committed rows that are only in its write-ahead log, as after a crash of its owner."""
    db = sqlite3.connect("live.tmp", isolation_level=None)
    db.execute("pragma journal_mode=wal")
    db.execute("create table t (x)")
    db.execute("insert into t values (1), (2), (3)")
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"live.tmp{end}", f"app.db{end}")
    db.close()
    os.unlink("live.tmp")


@prop("sqlite-with-write-ahead-log")
def sqlite_wal() -> None:
    _database()


@sqlite_wal.wreck
def _() -> None:
    db = sqlite3.connect("app.db", isolation_level=None)
    db.execute("drop table t")
    db.close()


prop("sqlite-log-deleted")(_database).wreck(partial(os.unlink, "app.db-wal"))


@prop("half-done-work")
def half_done() -> None:
    write(".swp", b"vim")
    write("file.orig")
    write("file~")
    write(".git_disabled/HEAD", b"ref: refs/heads/main\n")
    write("index.lock", b"")


@half_done.wreck
def _() -> None:
    for name in sorted(os.listdir(b".")):
        remove(name)
