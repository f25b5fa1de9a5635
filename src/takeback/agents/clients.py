"""The coding agents that Takeback supports: their names, and the signs that they are used here."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from takeback.agents.settings import LAYOUTS, apply, layout
from takeback.errors import UsageError


class Client(msgspec.Struct, frozen=True):
    """An agent as its user knows it."""

    title: str
    programs: tuple[str, ...]
    """The programs that start it."""
    traces: tuple[str, ...]
    """Its folders, below a project or HOME."""
    then: str = ""
    """What the user still has to do after installing, so that its hooks run."""
    trusts_user: bool = True
    """Whether it runs the hooks in its user's own settings without asking."""

    def next_step(self, *, user: bool) -> str:
        """Return what the user still has to do before anything is protected, or ""."""
        return "" if user and self.trusts_user else self.then


CLIENTS = {
    "claude-code": Client("Claude Code", ("claude",), (".claude",)),
    "codex": Client(
        "Codex",
        ("codex",),
        (".codex",),
        then="Codex runs no hook that you have not trusted: start `codex`, type /hooks and trust these. "
        "Until then nothing is protected.",
        trusts_user=False,
    ),
    "cursor": Client("Cursor", ("cursor", "cursor-agent"), (".cursor",)),
    "gemini": Client(
        "Gemini CLI",
        ("gemini",),
        (".gemini",),
        then="Gemini CLI runs the hooks of a project only in a folder that you trust: say yes when it asks. "
        "Until then nothing is protected. With --user they run everywhere.",
    ),
    "opencode": Client("opencode", ("opencode",), (".opencode", ".config/opencode")),
    "ruflo": Client("ruflo", ("ruflo", "claude-flow"), (".claude-flow",)),
}


def chosen(name: str, project: Path, home: Path) -> str:
    """Return the named agent. Raise UsageError, with a suggestion, if there is none of that name."""
    if name in CLIENTS:
        return name
    known = ", ".join(LAYOUTS)
    if name:
        near = difflib.get_close_matches(name.lower(), [*CLIENTS, *PROGRAMS], 1, 0.6)
        meant = PROGRAMS.get(near[0], near[0]) if near else ""
        raise UsageError(
            f"{name!r} is not an agent that Takeback supports; nothing was changed",
            hint=f"did you mean {meant}? " * bool(meant) + f"Takeback supports {known}",
        )
    found = dict(present(project, home))
    here = "; ".join(f"{agent} ({why})" for agent, why in found.items())
    raise UsageError(
        f"which agent? Found here: {here}" if found else "which agent? None was found here",
        hint=f"`takeback install {next(iter(found))}`" if found else f"Takeback supports {known}",
    )


PROGRAMS = {program: agent for agent, client in CLIENTS.items() for program in client.programs}


def hooked(project: Path, home: Path) -> list[str]:
    """Return the agents that run our hooks here. Ruflo's hooks are Claude Code's."""
    return [a for a, of in LAYOUTS.items() if a == of.agent and remaining(a, project, home)]


class Remaining(msgspec.Struct, frozen=True):
    """Our hooks that an agent runs here: those in a file, or those of a plugin."""

    path: Path
    plugin: str = ""


def remaining(agent: str, project: Path, home: Path) -> list[Remaining]:
    """Return all hooks of ours that still record this agent here and are not switched off."""
    paths = apply.everywhere(agent, project, home)
    if apply.switched_off_by(agent, paths):
        return []
    found = [Remaining(path) for path in paths if apply.has_ours(agent, path)]
    decided: dict[str, Remaining | None] = {}
    for path in paths if layout(agent).agent == "claude-code" else ():  # the nearest file decides
        for name, on in apply.plugins(path).items():
            decided.setdefault(name, Remaining(path, name) if on else None)
    return found + [one for one in decided.values() if one]


def present(project: Path, home: Path) -> Iterator[tuple[str, str]]:
    """Yield each agent that seems to be used here, and the sign of it."""
    for agent, client in CLIENTS.items():
        program = next(filter(shutil.which, client.programs), "")
        folders = [("", project / trace) for trace in client.traces]
        folders += [("~/", home / trace) for trace in client.traces]
        trace = next((f"{where}{path.name}" for where, path in folders if path.is_dir()), "")
        if program or trace:
            yield agent, f"`{program}` is installed" if program else f"there is {trace}"
