"""The check whether an agent is really protected: its settings, its trust in our hooks, and a trial."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from takeback._version import __version__
from takeback.agents import settings
from takeback.agents.clients import CLIENTS
from takeback.agents.doctor import trust
from takeback.agents.doctor.canary import Trial, trial
from takeback.agents.doctor.finding import Diagnosis, DiagnosisState, ok, problem, warning
from takeback.agents.settings import apply
from takeback.errors import TakebackError

__all__ = ["Examined", "Finding", "State", "examine", "installed"]

SLOW_S = 0.25
VERSION_WAIT_S = 10.0
OTHERS_SHOWN = 3
NAME = "takeback"
PLUGIN_COMMAND = "takeback-hook claude-code"


class Examined(msgspec.Struct, frozen=True):
    """An agent, and the findings about it."""

    agent: str
    findings: tuple[Diagnosis, ...]

    @property
    def is_protected(self) -> bool:
        return not any(finding.state is DiagnosisState.PROBLEM for finding in self.findings)


class _Installed(msgspec.Struct, frozen=True):
    """A file with our hooks, or with settings that cannot be read."""

    name: str
    path: Path
    text: str = ""
    commands: list[str] = []
    missing: list[str] = []
    broken: str = ""


def installed(project: Path, home: Path) -> list[str]:
    """Return the agents whose settings name us, valid or not. ruflo's settings are Claude Code's."""
    every = [agent for agent, of in settings.LAYOUTS.items() if agent == of.agent]
    return [
        agent
        for agent in every
        if any(one.commands or NAME in one.text for one in _installed(agent, project, home))
    ]


def examine(agent: str, project: Path, home: Path) -> Examined:
    """Check everything that an undo of this agent's work depends on."""
    return Examined(agent, tuple(_findings(agent, project, home)))


def _findings(agent: str, project: Path, home: Path) -> Iterator[Diagnosis]:
    again = f"takeback install {agent}"
    every = _installed(agent, project, home)
    found = [one for one in every if not one.broken]
    # If our hooks are in another file, or can go there, a broken file does not prevent protection.
    ours = apply.place(agent, project=project, home=home, user=False)
    wrong = [one for one in every if one.broken and (NAME in one.text or (not found and one.path == ours))]
    for one in every:
        if one.broken:
            said = problem if one in wrong else warning
            yield said("hooks", one.broken, f"fix it by hand, then {again}")
    if not found:
        if not wrong:
            yield problem("hooks", "not installed here, so nothing that the agent does is recorded", again)
        return
    for one in found:
        yield from _of_place(agent, one, again)
    if len(found) > 1:
        yield warning(
            "hooks",
            "installed more than once: each event still counts once, but takes longer",
            f"keep one of them: takeback uninstall {agent}, with or without --user",
        )
    if idle := apply.switched_off_by(agent, apply.everywhere(agent, project, home)):
        yield problem("hooks", f"{idle} tells the agent to run no hooks", "remove that setting")
    yield from _others(agent, found)
    yield from trust.of_hooks(agent, project, home, [one.path for one in found])
    for command in dict.fromkeys(command for one in found for command in one.commands):
        yield from _tried(agent, command, again)
    yield from _client(agent)


def _of_place(agent: str, one: _Installed, again: str) -> Iterator[Diagnosis]:
    """Yield findings about the hooks in one file."""
    if one.missing:
        yield problem("hooks", f"{one.name} has no hook for {', '.join(one.missing)}", again)
    else:
        yield ok("hooks", f"complete in {one.name}")
    if not settings.goes_on_without(agent, one.text):
        older = f"{one.name} is from an older version: if Takeback is removed, it blocks the agent"
        yield warning("hooks", older, again)
    if why := settings.unread(agent, one.text):
        yield problem("hooks", f"{one.name}: {why}", "remove that")


def _installed(agent: str, project: Path, home: Path) -> list[_Installed]:
    found = []
    for path in apply.everywhere(agent, project, home):
        text = ""
        try:
            text = apply.read(path)
            if commands := settings.commands(agent, text):
                found.append(_Installed(str(path), path, text, commands, settings.missing(agent, text)))
            if settings.layout(agent).agent == "claude-code" and settings.has_plugin(text):
                found.append(_Installed("the plugin", path, "", [PLUGIN_COMMAND]))
        except TakebackError as error:
            why = error.message.removesuffix("; nothing was changed")
            found.append(_Installed(str(path), path, text, broken=f"{path}: {why}"))
    return found


def _others(agent: str, found: Sequence[_Installed]) -> Iterator[Diagnosis]:
    others = list(dict.fromkeys(other for one in found for other in settings.others(agent, one.text)))
    if others:
        shown = ", ".join(others[:OTHERS_SHOWN]) + ", …" * (len(others) > OTHERS_SHOWN)
        yield ok("others", f"these hooks run in addition to ours: {shown}")


def _tried(agent: str, command: str, again: str) -> Iterator[Diagnosis]:
    program = settings.program(command)
    if gone := [word for word in program if word.startswith("/") and not Path(word).exists()]:
        yield problem(
            "trial", f"{gone[0]} is gone, so nothing is recorded", f"{again} writes the command again"
        )
        return
    done: Trial = trial(agent, command)
    if done.failed:
        fix = (
            f"{again} writes the command again"
            if command != PLUGIN_COMMAND
            else "put takeback-hook on the PATH"
        )
        yield problem("trial", f"`{shlex.join(program)}`: {done.failed}", fix)
        return
    yield ok(
        "trial", f"a change through the configured command was taken back: {done.taken_back} items compared"
    )
    said = f"{done.latency_s * 1000:.0f} ms for each event (median of {done.events})"
    if done.latency_s > SLOW_S:
        yield warning("latency", said, "`takeback daemon status` shows whether the daemon runs")
    else:
        yield ok("latency", said)
    if done.version != __version__:
        yield warning(
            "version", f"the hook belongs to Takeback {done.version}, but this is {__version__}", again
        )


def _client(agent: str) -> Iterator[Diagnosis]:
    """Yield the agent's version, if its program is found."""
    program = next(filter(None, map(shutil.which, CLIENTS[agent].programs)), "")
    if not program:
        return
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=VERSION_WAIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield warning("agent", f"{program} did not report its version ({type(error).__name__})")
        return
    first = next(iter((done.stdout or done.stderr).strip().splitlines()), "no version reported")
    yield ok("agent", f"{first[:100]} ({program})")
