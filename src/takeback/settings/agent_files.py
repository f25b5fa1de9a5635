"""The settings of coding agents in the user's own folders: a change there can switch hooks off everywhere."""

from __future__ import annotations

from pathlib import Path

from takeback.settings import environment

HOOKS = {
    "claude-code": (".claude/settings.json", "CLAUDE_CONFIG_DIR"),
    "codex": (".codex/hooks.json", "CODEX_HOME"),
    "cursor": (".cursor/hooks.json", ""),
    "gemini": (".gemini/settings.json", ""),
    "opencode": (".config/opencode/plugins/takeback.js", "XDG_CONFIG_HOME"),
}
"""Where an agent's hooks stand, below HOME; and what in the environment names the first folder of that instead."""

BESIDE = {
    "claude-code": ("settings.local.json",),
    "codex": ("config.toml",),
    "opencode": ("../opencode.json", "../opencode.jsonc"),
}
"""Files near by, from the folder of the first, by which hooks can be switched off too."""


def place(agent: str, home: Path) -> Path:
    """The file with the hooks of an agent that hold for every project."""
    path, variable = HOOKS[agent]
    first, _, rest = path.partition("/")
    return (environment.named_folder(variable) or home / first) / rest


def all_of_user() -> list[Path]:
    """Every such file, and those beside it."""
    found = []
    for agent in HOOKS:
        hooks = place(agent, environment.home_folder())
        found += [hooks, *(hooks.parent / name for name in BESIDE.get(agent, ()))]
    return found
