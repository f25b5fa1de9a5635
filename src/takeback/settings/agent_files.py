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
"""The file with an agent's hooks, below HOME; and the variable that can name its first folder instead."""

BESIDE = {
    "claude-code": ("settings.local.json",),
    "codex": ("config.toml",),
    "opencode": ("../opencode.json", "../opencode.jsonc"),
}
"""Other files, relative to the folder of the first, that can switch hooks off, too."""


IN_PROJECT = frozenset({".claude", ".codex", ".cursor", ".gemini", ".opencode"})
"""The folders at the top of a project with the settings of these agents."""

PROJECT_FILES = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".cursor/hooks.json",
    ".gemini/settings.json",
    ".opencode/plugins/takeback.js",
)
"""The files in these folders that have hooks, or can switch them off."""


def place(agent: str, home: Path) -> Path:
    """Return the file with an agent's hooks for all projects."""
    path, variable = HOOKS[agent]
    first, _, rest = path.partition("/")
    return (environment.named_folder(variable) or home / first) / rest


def all_of_user() -> list[Path]:
    """Return every such file, and the others that can switch hooks off."""
    found, home = [], environment.home_folder()
    for agent in HOOKS:
        hooks = place(agent, home)
        found += [hooks, *(hooks.parent / name for name in BESIDE.get(agent, ()))]
    return found
