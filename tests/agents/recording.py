"""Plays a story with a real client and a hook that writes everything down. The records are in payloads/.

    python -m tests.agents.recording claude_code codex gemini opencode

makes them anew, for another version of a client. Paths, ids and times of the machine are replaced by plain ones.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from takeback.agents.settings import opencode

from . import clients, installing, stories

PAYLOADS = installing.HERE / "payloads"
PROMPTS = {
    "claude_code": ("work", "more", "delegate"),
    "codex": ("work", "more", "delegate"),
    "gemini": ("work",),
    "opencode": ("work", "delegate"),
}
CLAUDE_EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PermissionRequest SubagentStart "
    "SubagentStop Stop SessionEnd PreCompact CwdChanged FileChanged"
)
CODEX_EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PermissionRequest SubagentStart SubagentStop Stop "
    "SessionEnd PreCompact PostCompact"
)
GEMINI_EVENTS = "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd"

Entry = dict[str, Any]


def install_hook(agent: str, desk: clients.Desk, words: Sequence[str]) -> None:
    """Have the client start this command for everything that it tells."""
    if agent == "opencode":
        plugin = desk.project / ".opencode/plugins/hook.js"
        plugin.parent.mkdir(parents=True)
        plugin.write_text(opencode.plugin(words), encoding="utf-8")
        return
    events, place, timeout = {
        "claude_code": (CLAUDE_EVENTS, desk.project / ".claude/settings.json", 60),
        "codex": (CODEX_EVENTS, desk.home / ".codex/hooks.json", 60),
        "gemini": (GEMINI_EVENTS, desk.home / ".gemini/settings.json", 60_000),
    }[agent]
    hook = {"type": "command", "command": shlex.join(words), "timeout": timeout}
    place.parent.mkdir(exist_ok=True)
    hooks = {event: [{"hooks": [hook]}] for event in events.split()}
    place.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


def play(agent: str, folder: Path, prompts: Sequence[str] = ()) -> list[Entry]:
    """What the hooks of a whole session were given."""
    desk, record, signals = clients.Desk.at(folder), folder / "record.jsonl", folder / "signals"
    signals.mkdir()
    stories.begin(desk.project)
    install_hook(agent, desk, [sys.executable, "-I", str(installing.HERE / "recorder.py"), str(record)])
    more = ("--enable", "multi_agent_v2") if agent == "codex" else ()
    with clients.model(folder, getattr(stories, agent)(desk.project, signals)) as model:
        for prompt in prompts or PROMPTS[agent]:
            getattr(clients, agent)(model, desk, f"[scene {prompt}] go", *more)
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def scrubbed(entries: Sequence[Entry], folder: Path) -> list[Entry]:
    """The same without what differs from one time to the next."""
    text = "\n".join(json.dumps(entry) for entry in entries)
    folded = re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    for old, new in ((str(folder), "/home/you"), (folded, "-home-you"), ("/" + "root/", "")):
        text = text.replace(old, new)
    text = re.sub(r"/tmp/[^\"\s]+", "/tmp/scratch", text)
    names: dict[str, str] = {}
    unique = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\ba[0-9a-f]{16}\b|\b(?:ses|msg)_\w{20,}"
    text = re.sub(unique, lambda found: names.setdefault(found[0], f"id-{len(names) + 1}"), text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d(?:[:-][\d.]+Z?)?", "2000-01-01T00:00:00Z", text)
    text = re.sub(r"/\d{4}/\d\d/\d\d/", "/2000/01/01/", text)
    text = re.sub(r"id-\d+\.jsonl|session-2000[^\"]*jsonl|rollout-[^\"]*jsonl", "transcript.jsonl", text)
    text = re.sub(r'("duration_ms": )\d+', r"\g<1>1", text)
    return [json.loads(line) for line in text.splitlines()]


def shapes(entries: Sequence[Entry]) -> Counter[tuple[str, str, tuple[str, ...]]]:
    """How many events of which kind, with which fields. Their order is not always the same."""
    found: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for entry in entries:
        given = entry["stdin"]
        event = given.get("hook_event_name") or given.get("event")
        found[event, given.get("tool_name") or given.get("tool", ""), tuple(sorted(given))] += 1
    return found


def recorded(agent: str) -> list[Entry]:
    """What payloads/ has of a client."""
    lines = (PAYLOADS / f"{agent}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def main(agents: Sequence[str]) -> None:
    for agent in agents:
        with tempfile.TemporaryDirectory() as name:
            entries = scrubbed(play(agent, Path(name)), Path(name))
        lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        (PAYLOADS / f"{agent}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
