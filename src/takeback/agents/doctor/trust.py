"""The check whether an agent runs our hooks: some ask their user first, and silently skip untrusted hooks."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from takeback.agents.clients import CLIENTS
from takeback.agents.doctor.finding import Diagnosis, ok, problem, warning
from takeback.agents.settings import apply, jsontext

ANSWER_WAIT_S = 20.0
RUNS = ("trusted", "managed")
HOW = {
    "codex": "start `codex` here, trust the project if it asks, type /hooks and trust those of Takeback",
    "gemini": "start `gemini` here and trust the folder when it asks, or install with --user",
}


def of_hooks(agent: str, project: Path, home: Path, paths: Sequence[Path]) -> Iterator[Diagnosis]:
    """Yield what an agent reports about our hooks in these files."""
    if agent == "codex":
        yield _codex(project, paths)
    elif agent == "gemini":
        of_user = apply.places(agent, project=project, home=home, user=True)
        if not set(of_user) & set(paths):
            yield _gemini(project, of_user[0].parent)


# --- Codex knows a hook by its hash, and reports whether it trusts each ---


def _codex(project: Path, paths: Sequence[Path]) -> Diagnosis:
    program = next(filter(None, map(shutil.which, CLIENTS["codex"].programs)), "")
    if not program:
        return warning(
            "trust", "`codex` was not found, so whether it trusts these hooks is unknown", HOW["codex"]
        )
    listed = _listed(program, project)
    if listed is None:
        return warning("trust", "Codex did not report whether it trusts these hooks", HOW["codex"])
    ours = [hook for hook in listed if Path(str(hook.get("sourcePath"))) in paths]
    if not ours:
        return problem("trust", "Codex does not read these hooks, so none of them runs", HOW["codex"])
    idle = [hook for hook in ours if hook.get("trustStatus") not in RUNS or hook.get("enabled") is False]
    if idle:
        why = str(idle[0].get("trustStatus")) if idle[0].get("enabled") is not False else "switched off"
        return problem(
            "trust", f"{len(idle)} of {len(ours)} hooks are {why}, so Codex skips them", HOW["codex"]
        )
    return ok("trust", f"Codex trusts all {len(ours)} hooks")


def _listed(program: str, project: Path) -> list[dict[str, Any]] | None:
    """Return the hooks that Codex knows here, or None if it did not answer."""
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "takeback", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}},
    ]
    with subprocess.Popen(
        [program, "app-server"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as server:
        late = threading.Timer(ANSWER_WAIT_S, server.kill)
        late.start()
        try:
            return _hooks_of(_answer(server, asked))
        finally:
            late.cancel()
            server.kill()


def _answer(server: subprocess.Popen[str], asked: Sequence[dict[str, Any]]) -> Any:
    """Return the answer to the last of these questions. Closing standard input would end the server, so it stays
    open."""
    assert server.stdin and server.stdout
    try:
        server.stdin.write("".join(f"{json.dumps(question)}\n" for question in asked))
        server.stdin.flush()
        for line in server.stdout:
            told = json.loads(line)
            if isinstance(told, dict) and told.get("id") == asked[-1]["id"]:
                return told.get("result")
    except (OSError, ValueError):
        return None
    return None


def _hooks_of(result: Any) -> list[dict[str, Any]] | None:
    entries = result.get("data") if isinstance(result, dict) else None
    if not isinstance(entries, list):
        return None
    listed = [entry.get("hooks") for entry in entries if isinstance(entry, dict)]
    return [hook for hooks in listed if isinstance(hooks, list) for hook in hooks if isinstance(hook, dict)]


# --- Gemini CLI trusts folders ---


def _gemini(project: Path, folder: Path) -> Diagnosis:
    """Check Gemini CLI's own file only; an editor around it may have trusted the folder, too."""
    told = _value(folder / "trustedFolders.json")
    words = {Path(name).parent if word == "TRUST_PARENT" else Path(name): word for name, word in told.items()}
    for above in (project, *project.parents):
        if words.get(above) in ("TRUST_FOLDER", "TRUST_PARENT"):
            return ok("trust", f"Gemini CLI trusts {above}")
        if words.get(above) == "DO_NOT_TRUST":
            return problem(
                "trust", f"Gemini CLI does not trust {above}, so it skips these hooks", HOW["gemini"]
            )
    return warning("trust", "Gemini CLI runs hooks of a project only in a trusted folder", HOW["gemini"])


def _value(path: Path) -> dict[str, Any]:
    try:
        value = jsontext.parse(apply.read(path)).value
    except jsontext.NotJson:
        return {}
    return value if isinstance(value, dict) else {}
