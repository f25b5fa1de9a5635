"""Runs a module of the tests in the environment of a framework: real packages, from its lock file, and no network."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.world.forking import Nursery

ROOT = Path(__file__).resolve().parents[2]
CREATE_S_MAX = 600.0

_ready: dict[str, Nursery] = {}
"""The processes that have read a framework, and are forked for each command."""


@cache
def python_of(framework: str) -> str:
    """The Python of a framework's environment, which ./dev creates on first use."""
    done = subprocess.run(
        [sys.executable, ROOT / "dev", "environment", framework],
        capture_output=True,
        text=True,
        timeout=CREATE_S_MAX,
    )
    assert done.returncode == 0, f"the environment of {framework} could not be created: {done.stderr[-2000:]}"
    return done.stdout.strip()


@cache
def _home() -> str:
    """A home for frameworks, some of which keep settings and keys there: not the developer's."""
    made = tempfile.TemporaryDirectory(prefix="takeback-frameworks-")
    atexit.register(made.cleanup)
    return made.name


def variables() -> dict[str, str]:
    """The variables of a process in such an environment. No framework reports to its makers from a test."""
    quiet = {
        "HOME": _home(),
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LANGCHAIN_TRACING_V2": "false",
        "LANGSMITH_TRACING": "false",
        "NO_PROXY": "*",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "OPENAI_API_KEY": "none",
        "OTEL_SDK_DISABLED": "true",
    }
    paths = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore"}
    dropped = ("VIRTUAL_ENV", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in dropped} | quiet | paths


def driven(
    framework: str, module: str, *words: str, timeout_s: float = 100.0
) -> subprocess.CompletedProcess[str]:
    """Run a module there, with these words, in a process of its own, and return what it printed.

    The process is forked from one that has read the framework, which can take ten seconds.
    """
    env = variables()
    if framework not in _ready:
        _ready[framework] = Nursery(env, python=python_of(framework), modules=[module])
    code, out, err = _ready[framework].run(
        words, cwd=os.getcwd(), env=env, timeout_s=timeout_s, program=module
    )
    return subprocess.CompletedProcess(
        words, code, out.decode(errors="replace"), err.decode(errors="replace")
    )


def start(framework: str, module: str, *words: str) -> subprocess.Popen[str]:
    """Start a module there, to be killed."""
    return subprocess.Popen(
        [python_of(framework), "-m", module, *words], env=variables(), stdout=subprocess.PIPE, text=True
    )
