"""The daemon's program: how it answers events, and questions about itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback._version import __version__
from takeback.daemon import client, wire
from takeback.daemon.server import Desk, Server, Waiting
from takeback.settings import environment as settings_environment

LEFT_BEHIND = ("TAKEBACK_ACTION", "TAKEBACK_ACTOR")


class EventDesk(Desk):
    """The desk for events of agents. Created once this is certainly the one daemon, since it loads everything."""

    def __init__(self, server: Server, home: Path) -> None:
        from takeback.agents import hook
        from takeback.daemon import log
        from takeback.daemon.background import Watch
        from takeback.daemon.pool import Pool
        from takeback.system import processes
        from takeback.workspace.opening import open_workspace

        # The daemon was started during a call of an agent, but is not a background process of that call.
        processes.put_brand(processes.this_process(), processes.new_brand())

        self._handle = hook.handle
        self._log = log.begin(home)
        self._server = server
        self._home = home
        self._began_us = time.time_ns() // 1000
        self._pool = Pool(lambda root: open_workspace(root, home=home))
        self._watch = Watch(home, self._pool.workspace)
        self._log.info("takeback %s serves %s", __version__, home)

    def answer(self, request: wire.Request, waiting: Waiting) -> wire.Answer:
        if request.agent == wire.STOP:
            self._server.stop()
            return wire.Answer()
        if request.agent == wire.STATUS:
            return wire.Answer(out=msgspec.json.encode(self._status()))
        return self._event(request, waiting)

    def _event(self, request: wire.Request, waiting: Waiting) -> wire.Answer:
        from takeback.workspace.workspace import Workspace

        @contextmanager
        def opening(root: Path) -> Iterator[Workspace]:
            with self._pool.workspace(root, waiting) as workspace:
                yield workspace
                self._watch.follow(workspace)

        # The environment and the folder here are the caller's, not ours.
        environment = {**request.environment, "TAKEBACK_HOME": str(self._home)}
        with settings_environment.calling(environment, request.folder):
            try:
                said = self._handle(
                    request.agent, request.data, request.environment, opening=opening, pid=request.pid
                )
            except ImportError as error:  # a file of Takeback is missing, for any other process, too
                self._log.info("%s: %s", request.agent, error)
                return wire.Answer(client.gone(request.data))
        return wire.Answer(said.code, said.stdout, said.stderr)

    def _status(self) -> wire.Status:
        opened = [wire.OpenWorkspace(str(root), proof) for root, proof in self._pool.open().items()]
        return wire.Status(
            os.getpid(), __version__, self._began_us, self._server.served, _memory_bytes(), tuple(opened)
        )

    def close(self) -> None:
        self._pool.close()
        self._log.info("stopped after %d events", self._server.served)


def _memory_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main(_words: Sequence[str] = ()) -> int:
    """Run as the daemon of this user, unless one is running."""
    home = settings_environment.state_home()
    for name in LEFT_BEHIND:
        os.environ.pop(name, None)
    os.chdir("/")  # so that the daemon keeps no folder in use
    os.umask(0o077)
    server = Server(home)
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    server.serve(lambda: EventDesk(server, home))
    return 0
