"""A real S3 server on this machine, that lets in only who has the right keys."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

KEYS = {"aws_access_key_id": "takeback", "aws_secret_access_key": "takeback-secret"}
READER = {"aws_access_key_id": "reader", "aws_secret_access_key": "reader-secret"}
WAIT_S = 60.0

_numbers = itertools.count()


class S3Server:
    """SeaweedFS, with all its parts in one process and its files in a folder that goes with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="takeback-s3-"))
        self.port, self._filer, self._master, *others = _free_ports(9)
        (self.folder / "data").mkdir()
        config = self.folder / "s3.json"
        config.write_text(
            json.dumps({"identities": [_identity("all", KEYS, "Admin"), _identity("reader", READER)]})
        )
        self._command = [
            str(Path(sys.executable).with_name("weed")), "-logtostderr", "server",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.folder / 'data'}", "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64", "-volume.max=30", "-master.electionTimeout=1s",
            "-filer", "-s3", f"-s3.config={config}", "-s3.autoCreateBucket=false", "-s3.iam=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.port={self.port}", f"-filer.port={self._filer}", f"-master.port={self._master}",
            f"-volume.port={others[0]}", f"-master.port.grpc={others[1]}", f"-volume.port.grpc={others[2]}",
            f"-filer.port.grpc={others[3]}", f"-s3.port.grpc={others[4]}",
            f"-filer.localSocket={self.folder / 'filer.sock'}", f"-s3.localSocket={self.folder / 's3.sock'}",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def options(self, **keys: str) -> dict[str, str]:
        """What the driver has to know."""
        return {"aws_endpoint_url": self.endpoint, "aws_region": "us-east-1", **(keys or KEYS)}

    def environment(self, **keys: str) -> dict[str, str]:
        """The same, for a user."""
        return {name.upper(): given for name, given in self.options(**keys).items()}

    def start(self, *, full: bool = False) -> None:
        """Start it, if wanted as one that has no room for anything new."""
        more = ["-volume.minFreeSpace=100"] if full else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*self._command, *more], cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + WAIT_S
        while not self._answers(full=full):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.halt()
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def _answers(self, *, full: bool) -> bool:
        """Whether it takes in bytes and not only connections; a full one gives back what it took in before."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            body = None if full else b"ready"
            request = urllib.request.Request(
                f"http://127.0.0.1:{self._filer}/ready", body, method="GET" if full else "PUT"
            )
            with urllib.request.urlopen(request, timeout=5) as answer:
                return bool(answer.status == (200 if full else 201))
        except OSError:
            return False

    def make(self) -> str:
        """A new bucket; gives its name."""
        name = f"bucket-{os.getpid()}-{next(_numbers)}"
        address = f"http://127.0.0.1:{self._filer}/buckets/{name}/"
        with urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=30):
            return name

    def halt(self) -> None:
        """Kill it. Its files stay, for the next start."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)


def _identity(name: str, keys: dict[str, str], *more: str) -> dict[str, object]:
    words = [*more, "Write", "Tagging"] if more else []
    credentials = {"accessKey": keys["aws_access_key_id"], "secretKey": keys["aws_secret_access_key"]}
    return {"name": name, "credentials": [credentials], "actions": ["Read", "List", *words]}


def _free_ports(count: int) -> list[int]:
    found = [socket.socket() for _ in range(count)]
    try:
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
    finally:
        for one in found:
            one.close()
