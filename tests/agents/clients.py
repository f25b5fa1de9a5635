"""Starts the real clients of coding agents where nothing can leave: a scripted model on loopback, and no network.

Each client has a HOME of its own, an environment of a few names and a key that opens nothing. Where the system
permits, the model and its clients share a network namespace that has loopback only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.world.picture import Picture

from . import installing, scripted_model

TIME_S_MAX = 120.0


@cache
def isolation() -> tuple[str, ...]:
    """How to get a network of one's own, or nothing where that is not permitted."""
    for options in (("--net",), ("--user", "--map-root-user", "--net")):
        if (
            shutil.which("unshare")
            and subprocess.run(["unshare", *options, "true"], capture_output=True).returncode == 0
        ):
            return ("unshare", *options)
    return ()


@dataclass(frozen=True)
class Model:
    """A scripted model that is at work."""

    port: int
    entry: tuple[str, ...]
    """What a command begins with to be where the model is."""
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def seen(self, scene: str, turn: int) -> Picture:
        """How the world was before a turn of a scene, if the model was to look at it."""
        return scripted_model.seen(self.log, scene, turn)

    def requests(self) -> list[dict[str, Any]]:
        """What the clients asked for."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else ()
        return [json.loads(line) for line in lines]


@contextmanager
def model(
    folder: Path, script: Mapping[str, Sequence[Mapping[str, Any]]], watched: Path | None = None
) -> Iterator[Model]:
    """A model that plays this script, with its files in `folder`. It takes pictures of what is `watched`."""
    written, log = folder / "script.json", folder / "requests.jsonl"
    written.write_text(json.dumps(script), encoding="utf-8")
    alone = isolation()
    program = [
        sys.executable,
        "-P",
        "-m",
        scripted_model.__name__,
        str(written),
        str(log),
        str(watched or ""),
    ]
    with subprocess.Popen(
        [*alone, *program, *(["alone"] if alone else [])],
        env=os.environ | {"PYTHONPATH": str(installing.ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            entry: tuple[str, ...] = ()
            if alone:
                spaces = ["--user", "--preserve-credentials"] if "--user" in alone else []
                entry = ("nsenter", f"--target={server.pid}", *spaces, "--net", "--")
            yield Model(port, entry, log)
        finally:
            server.kill()


@dataclass(frozen=True)
class Desk:
    """Where a client works: a project, and a home without settings."""

    project: Path
    home: Path
    more: dict[str, str] = field(default_factory=dict)
    """Further variables, for the client and its hooks."""

    @classmethod
    def at(cls, folder: Path) -> Desk:
        made = cls(folder / "project", folder / "home")
        made.project.mkdir(parents=True)
        made.home.mkdir()
        made.scratch.mkdir()
        return made

    @property
    def scratch(self) -> Path:
        """For temporary files. Codex does not want to live below it."""
        return self.home.parent / "scratch"

    def environment(self, model: Model) -> dict[str, str]:
        names = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.scratch),
            "TERM": "dumb",
        }
        if not model.entry:  # a proxy that is not there stops what would go elsewhere
            names |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
        return names | self.more

    def run(
        self, model: Model, command: Sequence[str], env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*model.entry, *command],
            cwd=self.project,
            env=self.environment(model) | dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_S_MAX,
        )
        assert done.returncode == 0, (done.returncode, done.stdout[-3000:], done.stderr[-3000:])
        return done


Client = Callable[..., subprocess.CompletedProcess[str]]


def claude_program(model: Model) -> tuple[list[str], dict[str, str]]:
    """How Claude Code is started, and what has to be in its environment."""
    program = installing.wheel_clients() / "claude_agent_sdk/_bundled/claude"
    env = {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return [str(program), "--allowedTools", "Write,Edit,Read,Bash,Task,Agent,NotebookEdit,MultiEdit"], env


def claude_code(
    model: Model, desk: Desk, prompt: str, *options: str, under: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Claude Code answers one prompt, perhaps under another command. `--resume SESSION` goes on with a session."""
    program, env = claude_program(model)
    return desk.run(model, [*under, *program, "-p", prompt, "--output-format", "json", *options], env)


CODEX_SETTINGS = """\
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def codex(model: Model, desk: Desk, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Codex answers one prompt. `resume SESSION` before it goes on with an earlier session."""
    program = installing.wheel_clients() / "codex_cli_bin/bin/codex"
    folder = desk.home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(CODEX_SETTINGS.format(url=model.url), encoding="utf-8")
    flags = ("--json", "--disable", "plugins", "--dangerously-bypass-hook-trust", "--skip-git-repo-check")
    return desk.run(model, [str(program), "exec", *flags, *options, prompt], {"SCRIPTED_KEY": "dummy"})


def gemini(model: Model, desk: Desk, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Gemini CLI answers one prompt. Its settings have to say that the key is the way in."""
    program = installing.node_clients() / "@google/gemini-cli/bundle/gemini.js"
    settings = desk.home / ".gemini/settings.json"
    settings.parent.mkdir(exist_ok=True)
    known = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    known |= {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    settings.write_text(json.dumps(known, indent=2), encoding="utf-8")
    env = {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_CLI_NO_RELAUNCH": "true"}
    flags = ("--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p", prompt)
    return desk.run(model, [shutil.which("node") or "node", str(program), *flags, *options], env)


def opencode(model: Model, desk: Desk, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
    """opencode answers one prompt."""
    clients = installing.node_clients()
    program = clients / "opencode-linux-x64-baseline/bin/opencode"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "dummy"},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    settings = {"provider": {"scripted": provider}, "model": "scripted/scripted", "permission": "allow"}
    env = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_fetch_retries": "0",
    }
    return desk.run(model, [str(program), "run", "--model", "scripted/scripted", *options, prompt], env)
