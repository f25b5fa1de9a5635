"""What somebody would try who wants out: each way is closed, or docs/SANDBOX.md names it."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from .fenced import NEEDS_LANDLOCK, NEEDS_NAMESPACES, World

pytestmark = [NEEDS_LANDLOCK, NEEDS_NAMESPACES]
IS_ROOT = os.geteuid() == 0
FOR_ROOT = pytest.mark.skipif(not IS_ROOT, reason="not on this platform: only root could do this outside")
HOOKS = '{"hooks": {}}'


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, isolated=True)
    (world.root / ".claude").mkdir()
    (world.root / ".claude/settings.json").write_text(HOOKS)
    world.protected = (".claude/settings.json", ".codex/hooks.json")
    return world


def python(world: World, code: str, *, network: str = "full") -> subprocess.CompletedProcess[str]:
    return world.run(sys.executable, "-c", f"import os, socket\n{code}", network=network)


def is_untouched(world: World) -> bool:
    hooks = (world.root / ".claude/settings.json").read_text()
    return hooks == HOOKS and (world.outside / "f").read_text() == "theirs"


@pytest.mark.parametrize(
    "line",
    [
        "mv .claude .x && mkdir .claude && echo mine > .claude/settings.json",
        "rm -rf .claude",
        "mkdir x && echo mine > x/settings.json && mv -T --exchange x .claude || mv -T x .claude",
        "ln -sfn ../out .claude",
        "ln .claude/settings.json h && echo mine > h",
        "cp --attributes-only --preserve=mode /bin/sh .claude/settings.json; echo mine >> .claude/settings.json",
    ],
)
def test_the_folder_of_a_protected_file_is_not_moved_or_replaced(world: World, line: str) -> None:
    world.run("sh", "-c", line)
    assert is_untouched(world)


@pytest.mark.parametrize(
    "line",
    [
        "mkdir .codex && echo mine > .codex/hooks.json",
        "mkdir x && echo mine > x/hooks.json && mv x .codex",
        "mkdir x && echo mine > x/hooks.json && ln -s x .codex",
        "mkdir .codex && ln -s ../takeback.toml .codex/hooks.json",
    ],
)
def test_settings_that_do_not_exist_yet_are_not_made(world: World, line: str) -> None:
    done = world.run("sh", "-c", line)
    assert done.returncode != 0
    assert "Takeback itself relies on it" in done.stderr
    assert not (world.root / ".codex/hooks.json").exists()


@pytest.mark.parametrize("way", ["root", "cwd"])
def test_the_view_of_a_process_outside_is_closed(world: World, way: str) -> None:
    place = f"/proc/{os.getpid()}/{way}"
    target = f"{place}{world.outside}/f" if way == "root" else f"{place}/mine"
    assert python(world, f"open({target!r}, 'w').write('mine')").returncode != 0
    assert is_untouched(world)


def test_a_process_outside_is_not_signalled_or_traced(world: World) -> None:
    with subprocess.Popen(["sleep", "100"]) as other:
        try:
            done = python(world, f"os.kill({other.pid}, 9)")
            assert "PermissionError" in done.stderr
            code = f"import ctypes; raise SystemExit(ctypes.CDLL(None).ptrace(16, {other.pid}, 0, 0) != 0)"
            assert python(world, code).returncode == 1
            assert other.poll() is None
        finally:
            other.kill()


def test_without_its_supervisor_it_writes_nothing_elsewhere(world: World) -> None:
    """The supervisor is another process of the same user; the kernel keeps signals from it, and fails closed."""
    code = "import re, signal\n"
    code += "for name in filter(str.isdigit, os.listdir('/proc')):\n"
    code += "    try: words = open(f'/proc/{name}/cmdline').read()\n"
    code += "    except OSError: continue\n"
    code += f"    if {str(world.folder)!r} in words and int(name) != os.getpid():\n"
    code += "        try: os.kill(int(name), signal.SIGKILL)\n"
    code += "        except PermissionError: print('kept')\n"
    code += "try: open('../out/f', 'w').write('mine')\nexcept OSError: print('denied')"
    done = python(world, code)
    assert "kept" in done.stdout
    assert done.stdout.endswith("denied\n")
    assert is_untouched(world)


@pytest.mark.parametrize(
    "line",
    [
        "mount -t tmpfs none .",
        "mount --bind /tmp ../out",
        "umount -l /proc",
        "unshare -m sh -c 'mount -o remount,rw,bind / && echo mine > ../out/f'",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo mine > ../out/f'",
        "nsenter -t 1 -m sh -c 'true'",
        "chroot / sh -c 'mount -o remount,rw /'",
    ],
)
def test_mounts_are_not_changed(world: World, line: str) -> None:
    assert world.run("sh", "-c", line).returncode != 0
    assert is_untouched(world)


@FOR_ROOT
def test_a_device_is_neither_made_nor_used(world: World) -> None:
    assert world.run("mknod", "disk", "c", "1", "5").returncode != 0
    os.mknod(world.root / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    assert world.run("sh", "-c", "head -c1 zero | od").stdout.count("000000") < 2
    done = world.run("head", "-c1", "zero")
    assert "Permission denied" in done.stderr


@FOR_ROOT
def test_root_cannot_administer_the_machine(world: World) -> None:
    """Seen by what the kernel would allow: an attempt that succeeded would set this machine's clock or reboot it."""
    found = world.run("cat", "/proc/self/status").stdout
    kept = {
        line.split()[0]: int(line.split()[1], 16) for line in found.splitlines() if line.startswith("Cap")
    }
    modules, raw, tracing, admin, boot, clock, devices = 16, 17, 19, 21, 22, 25, 27
    for number in (modules, raw, tracing, admin, boot, clock, devices):
        assert not any(held >> number & 1 for held in kept.values())
    assert kept["CapEff:"] & 1  # it still owns every file that it could write


@pytest.mark.parametrize("network, reached", [("full", True), ("loopback", False), ("none", False)])
@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_behind_a_socket_does_not_do_the_work(
    world: World, network: str, reached: bool, abstract: bool
) -> None:
    name = f"\0{world.folder}"[:100] if abstract else str(world.outside / "service")
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()

        def serve() -> None:
            try:
                with server.accept()[0] as asked:
                    heard.append(asked.recv(10))
            except OSError:
                return

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        python(
            world,
            f"s = socket.socket(socket.AF_UNIX); s.connect({name!r}); s.send(b'do it')",
            network=network,
        )
        if not reached:
            server.shutdown(socket.SHUT_RDWR)
        serving.join(60)
    assert heard == ([b"do it"] if reached else [])
    if not abstract:
        os.unlink(name)


def test_nothing_is_typed_into_the_terminal(world: World) -> None:
    code = "import fcntl, pty\nmain, side = pty.openpty()\ntry: fcntl.ioctl(side, 0x5412, b'x')\n"
    code += "except PermissionError: print('refused')"
    assert python(world, code).stdout == "refused\n"


def test_io_uring_leads_nowhere_else(world: World) -> None:
    """It makes calls that seccomp does not hear. What holds does not depend on that."""
    code = Path(__file__).with_name("uring.py").read_text()
    done = world.run(sys.executable, "-c", code, str(world.outside / "f"), str(world.root / "inside"))
    if "no io_uring" in done.stdout:
        pytest.skip("not on this platform: the kernel has no io_uring")
    refused = {f"outside:-{number}" for number in (errno.EACCES, errno.EROFS)}
    assert done.stdout.split()[0] in refused, done
    assert done.stdout.split()[1] == "inside:ok"
    assert is_untouched(world)


def test_variables_of_takeback_change_nothing(world: World) -> None:
    line = "TAKEBACK_NAMESPACES=off TAKEBACK_HOME=/nowhere TAKEBACK_ACTION=a1 sh -c 'echo mine > ../out/f'"
    assert world.run("sh", "-c", line).returncode != 0
    assert is_untouched(world)
