"""A command inside a fence: what the kernel lets it do, and what is said about the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from takeback.engine.sandbox.fence import noted
from takeback.engine.sandbox.proxy import is_among
from tests.cli.processes import wait_for

from .fenced import CAN_ISOLATE, NEEDS_LANDLOCK, NEEDS_NAMESPACES, World

pytestmark = NEEDS_LANDLOCK


@pytest.fixture(params=["landlock", "namespaces"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "namespaces" and not CAN_ISOLATE:
        pytest.skip("not on this platform: the kernel allows no namespaces")
    return World(tmp_path, isolated=request.param == "namespaces")


class TestWriting:
    def test_the_workspace_can_be_written(self, world: World) -> None:
        done = world.run(
            "sh", "-c", "mkdir d && echo one > d/a && mv d/a b && ln b c && chmod 600 b && cat b"
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "one\n", "")
        assert (world.root / "c").read_text() == "one\n"
        assert noted(str(world.log)) == []

    @pytest.mark.parametrize(
        "line, verb",
        [
            ("echo mine > ../out/f", "write"),
            ("echo mine >> ../out/f", "write"),
            ("echo mine > ../out/new", "write"),
            ("rm ../out/f", "remove"),
            ("mv ../out/f .", "rename"),
            ("mkdir ../out/d", "make"),
            ("ln -s x ../out/l", "make a link at"),
            ("truncate -s 0 ../out/f", "write"),
            ("ln -s ../out l && echo mine > l/f", "write"),
        ],
    )
    def test_nothing_else_can(self, world: World, line: str, verb: str) -> None:
        done = world.run("sh", "-c", line)
        assert done.returncode != 0
        assert "Permission denied" in done.stderr
        assert [(path.name, path.read_text()) for path in world.outside.iterdir()] == [("f", "theirs")]
        assert {denial.verb for denial in noted(str(world.log))} == {verb}
        assert "Takeback: the sandbox denied" in done.stderr
        assert "to [sandbox] write in takeback.toml" in done.stderr

    def test_a_hard_link_does_not_lead_out(self, world: World) -> None:
        done = world.run("sh", "-c", "ln ../out/f h && echo mine > h")
        assert done.returncode != 0
        assert (world.outside / "f").read_text() == "theirs"

    def test_modes_and_times_elsewhere_stay(self, world: World) -> None:
        theirs = world.outside / "f"
        os.utime(theirs, (1, 1))
        done = world.run("sh", "-c", "chmod 000 ../out/f; python3 -c \"import os; os.utime('../out/f')\"")
        assert done.returncode != 0
        assert theirs.stat().st_mode & 0o777 == 0o644
        assert theirs.stat().st_mtime == 1
        assert {denial.verb for denial in noted(str(world.log))} == {
            "change the mode of",
            "change the times of",
        }

    def test_what_would_fail_anyway_is_not_said_to_be_denied(self, world: World) -> None:
        done = world.run("sh", "-c", "mkdir ../out; rm ../out/none; cat < ../out/none; echo x > ../none/y")
        assert "Takeback" not in done.stderr
        assert noted(str(world.log)) == []

    def test_a_model_is_not_told_how_to_allow_it(self, world: World) -> None:
        done = world.run("sh", "-c", "echo mine > ../out/f", told=False)
        assert "Takeback: the sandbox denied" in done.stderr
        assert "takeback.toml" not in done.stderr

    def test_devices_are_as_usual(self, world: World) -> None:
        line = (
            "echo a > /dev/null && echo b > /dev/stdout && echo c > /dev/stderr && head -c1 /dev/urandom > r"
        )
        done = world.run("sh", "-c", line)
        assert (done.returncode, done.stdout, done.stderr) == (0, "b\n", "c\n")


class TestEnding:
    @pytest.mark.parametrize("code", [0, 7, 125])
    def test_it_ends_as_the_command_ends(self, world: World, code: int) -> None:
        assert world.run("sh", "-c", f"exit {code}").returncode == code

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
    def test_it_ends_by_the_same_signal(self, world: World, number: int) -> None:
        assert world.run("sh", "-c", f"kill -{number} $$").returncode == -number

    def test_a_program_that_does_not_exist(self, world: World) -> None:
        done = world.run("no-such-program")
        assert done.returncode == 127
        assert "no-such-program: No such file or directory" in done.stderr

    def test_a_signal_reaches_the_command(self, world: World) -> None:
        line = "trap 'echo heard > heard; exit 3' TERM; echo > ready; while :; do sleep 0.05; done"
        process = subprocess.Popen(world.line("sh", "-c", line), cwd=world.root)
        wait_for((world.root / "ready").exists)
        process.terminate()
        assert process.wait(60) == 3
        assert (world.root / "heard").exists()

    def test_it_is_killed_together_with_its_starter(self, world: World) -> None:
        process = subprocess.Popen(world.line("sh", "-c", "echo $$ > pid; exec sleep 100"), cwd=world.root)
        wait_for(lambda: (world.root / "pid").exists() and (world.root / "pid").read_text())
        process.kill()
        process.wait(60)
        pid = (world.root / "pid").read_text().strip()
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"))

    def test_what_goes_on_in_the_background_stays_inside(self, world: World) -> None:
        line = "(while [ ! -e go ]; do sleep 0.05; done; echo l > late; echo mine > ../out/f; echo > end) >&- 2>&- &"
        assert world.run("setsid", "sh", "-c", line).returncode == 0
        (world.root / "go").touch()
        wait_for((world.root / "end").exists)
        assert (world.root / "late").read_text() == "l\n"
        assert (world.outside / "f").read_text() == "theirs"

    def test_the_reader_of_its_output_does_not_wait_for_the_supervisor(self, world: World) -> None:
        line = "sleep 60 >/dev/null 2>&1 & echo $! > pid; echo done"
        try:
            assert world.run("sh", "-c", line).stdout == "done\n"
        finally:
            os.kill(int((world.root / "pid").read_text()), signal.SIGKILL)

    def test_a_sandbox_in_a_sandbox(self, world: World) -> None:
        done = world.run(*world.line("sh", "-c", "echo one > a; echo mine > ../out/f"))
        assert (world.root / "a").read_text() == "one\n"
        assert (world.outside / "f").read_text() == "theirs"
        assert done.returncode != 0


@NEEDS_NAMESPACES
class TestIsolated:
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return World(tmp_path, isolated=True)

    @pytest.mark.parametrize(
        "line",
        [
            "echo mine > takeback.toml",
            "rm takeback.toml",
            "mv takeback.toml t",
            "chmod 000 takeback.toml",
            "umount takeback.toml; echo mine > takeback.toml",
            "mount -o remount,rw takeback.toml; echo mine > takeback.toml",
            "python3 -c \"import os; os.rename('takeback.toml', 't')\"",
        ],
    )
    def test_what_holds_it_back_cannot_be_changed(self, world: World, line: str) -> None:
        done = world.run("sh", "-c", line)
        assert done.returncode != 0
        assert (world.root / "takeback.toml").read_text() == ""
        assert (world.root / "takeback.toml").stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("network", ["none", "loopback"])
    def test_a_server_outside_is_not_reached(self, world: World, network: str) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
            assert world.run(sys.executable, "-c", code).returncode == 0
            assert world.run(sys.executable, "-c", code, network=network).returncode != 0

    def test_a_server_inside_is_reached_from_inside(self, world: World) -> None:
        server = "import socket; s = socket.create_server(('127.0.0.1', 0))"
        code = f"{server}; socket.create_connection(s.getsockname(), 5)"
        assert world.run(sys.executable, "-c", code, network="loopback").returncode == 0
        assert world.run(sys.executable, "-c", code, network="none").returncode != 0

    def test_the_settings_of_the_kernel_stay(self, world: World) -> None:
        before = Path("/proc/sys/vm/swappiness").read_text()
        done = world.run("sh", "-c", f"echo {before.strip()} > /proc/sys/vm/swappiness")
        assert done.returncode != 0

    def test_a_named_host_is_reached_through_the_proxy_and_no_other(self, world: World) -> None:
        served = threading.Thread(target=(server := _serving(b"from outside")).handle_request, daemon=True)
        served.start()
        port = server.server_address[1]
        code = "import sys, urllib.request as u; print(u.build_opener(u.ProxyHandler({'http': sys.argv[2]}))"
        code += ".open(sys.argv[1]).read().decode())"
        asking = [sys.executable, "-c", code]

        def ask(url: str, hosts: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
            line = f'unset NO_PROXY no_proxy; exec "$@" {url} "$HTTP_PROXY"'
            return world.run("sh", "-c", line, "sh", *asking, network="loopback", hosts=hosts)

        refused = ask(f"http://127.0.0.1:{port}/x", ("example.org",))
        assert refused.returncode != 0
        assert f"denied an attempt to reach 127.0.0.1:{port}" in refused.stderr
        assert "[sandbox] hosts" in refused.stderr
        assert ask(f"http://127.0.0.1:{port}/x", (f"127.0.0.1:{port}",)).stdout == "from outside\n"
        served.join()
        server.server_close()


@pytest.mark.parametrize(
    "named, host, port, expected",
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "Example.ORG.", 443, True),
        ("example.org", "sub.example.org", 443, False),
        ("example.org", "badexample.org", 443, False),
        ("*.example.org", "a.b.example.org", 80, True),
        ("*.example.org", "example.org", 80, False),
        ("example.org:443", "example.org", 443, True),
        ("example.org:443", "example.org", 80, False),
    ],
)
def test_the_names_of_hosts(named: str, host: str, port: int, expected: bool) -> None:
    assert is_among([named], host, port) is expected


def _serving(body: bytes) -> HTTPServer:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return HTTPServer(("127.0.0.1", 0), Answering)
