"""What other tools leave out, cut off, or pay for over and over: their limits, each named after who has it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

import takeback
from takeback.system import linux

from . import torture
from .cli import Workspace, disk_bytes
from .test_rivals import git, needs_git, repository

# Left out


def test_claude_code_folders_links_and_moves_are_captured(world: Workspace) -> None:
    (world.root / "empty").mkdir()
    world.human("folder/x", "x")
    (world.root / "link").symlink_to("folder")
    before = world.look()
    world.agent("rmdir empty; rm link; ln -s elsewhere link; mkdir -p made/deep; mv folder made/folder")
    world.undo()
    assert world.changes_since(before) == []


@needs_git
def test_gemini_cli_ignored_files_empty_folders_and_modes_come_back(world: Workspace) -> None:
    repository(world)
    world.human(".env", "KEY=secret\n")
    world.human("build/out.bin", "ignored")
    (world.root / "empty/deep").mkdir(parents=True)
    for name, mode in (("private", 0o600), ("readonly", 0o444), ("tool", 0o4755)):
        world.human(name, name)
        (world.root / name).chmod(mode)
    before = world.look(git=False)
    world.agent("rm -r .env build empty; chmod 644 private readonly tool")
    world.human("made-by-the-human", "mine")
    world.undo()
    (world.root / "made-by-the-human").unlink()
    assert [line for line in world.changes_since(before, git=False) if not line.startswith("'.':")] == []


@needs_git
def test_opencode_zed_an_untracked_file_over_2_mb_comes_back(world: Workspace) -> None:
    repository(world)
    world.human("untracked.bin", torture.noise(3_000_000))
    before = world.look(git=False)
    world.agent("rm untracked.bin; echo two > app.py")
    world.undo()
    assert world.changes_since(before, git=False) == []


@needs_git
@pytest.mark.parametrize("name", [".env.local", "dump.tar.gz", "server.log", "logo.png", "model.safetensors"])
def test_roo_hermes_files_of_any_kind_come_back(world: Workspace, name: str) -> None:
    repository(world)
    world.human(".gitattributes", "*.safetensors filter=lfs\n")
    world.human(name, torture.noise(5_000))
    before = world.look(git=False)
    world.agent(f"echo wrecked > {name}")
    world.undo()
    assert world.changes_since(before, git=False) == []


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_hermes_a_tree_of_more_than_50000_files_is_protected(world: Workspace) -> None:
    for number in range(50_500):
        world.human(f"src/{number % 500}/{number}.py", f"# {number}\n")
    world.save()
    before = world.look()
    world.agent("rm -r src/7; echo wrecked > src/8/8.py")
    world.undo()
    assert world.changes_since(before) == []


# Cut off


def test_claude_code_the_first_of_more_than_100_checkpoints_comes_back(world: Workspace) -> None:
    world.human("app.py", "the very first")
    with takeback.open(world.root, home=world.home) as tb:
        first = tb.save("first")
        for number in range(120):
            world.human("app.py", str(number))
            tb.save(str(number))
    world.do("restore", first.id)
    assert world.read("app.py") == "the very first"


def test_opencode_9290_9601_14811_15977_codex_29388_the_store_stays_within_its_quota(
    world: Workspace,
) -> None:
    """Also for somebody who never calls `save` or `gc`; and the last turn can still be taken back."""
    quota = 2_000_000
    world.configure(f"[store]\nquota-bytes = {quota}\n")
    world.human("../noise", torture.noise(20_000_000))
    sizes = []
    for turn in range(12):
        world.agent(f"tail -c +{turn * 1_000_000 + 1} ../noise | head -c 1000000 > data.bin")
        sizes.append(disk_bytes(world.home))
        _a_minute_passes(world)
    assert max(sizes) < 3 * quota, sizes
    assert (world.root / "data.bin").read_bytes() == torture.noise(20_000_000)[11_000_000:12_000_000]
    world.undo()
    assert (world.root / "data.bin").read_bytes() == torture.noise(20_000_000)[10_000_000:11_000_000]


def _a_minute_passes(world: Workspace) -> None:
    """The last clean-up is as old as if we had waited."""
    for generation in world.home.rglob("generation"):
        before = generation.stat().st_mtime - 61
        os.utime(generation, (before, before))


# Paid for over and over

IN_OPEN, IN_ISDIR = 0x20, 0x40000000


class Opened:
    """Which files are opened, by anybody."""

    def __init__(self, *folders: Path) -> None:
        self.fd = linux.inotify_init1(os.O_NONBLOCK)
        for folder in folders:
            linux.inotify_add_watch(self.fd, os.fsencode(folder), IN_OPEN)

    def names(self) -> set[str]:
        found = set()
        try:
            while data := os.read(self.fd, 65536):
                while data:
                    _, mask, _, length = struct.unpack_from("iIII", data)
                    name, data = data[16 : 16 + length].rstrip(b"\0"), data[16 + length :]
                    if not mask & IN_ISDIR:
                        found.add(name.decode())
        except BlockingIOError:
            return found
        finally:
            os.close(self.fd)
        return found


def test_cline_13131_t3code_12924_roo_7843_a_turn_reads_only_what_changed(world: Workspace) -> None:
    for number in range(300):
        world.human(f"src/{number % 3}/{number}.py", f"# {number}\n")
    world.save()
    world.save()  # what was only just written is read once more, to be sure of it
    opened = Opened(*(world.root / f"src/{number}" for number in range(3)))
    world.agent("echo two > src/1/7.py; rm src/2/8.py; echo x > src/0/made.py")
    world.undo()
    assert opened.names() == {"7.py", "8.py", "made.py"}


@needs_git
def test_git_status_stays_the_same_through_a_turn_and_its_undo(world: Workspace) -> None:
    """Shadow gits that share the user's objects or index show up there."""
    repository(world)
    world.human("app.py", "changed by the human\n")
    before = git(world, "status", "--porcelain=v2", "--branch")
    world.agent("echo two > lib.py; echo x > made")
    world.undo()
    assert git(world, "status", "--porcelain=v2", "--branch") == before
