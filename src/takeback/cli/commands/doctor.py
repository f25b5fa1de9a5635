"""`takeback doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click
import msgspec

from takeback._version import __version__
from takeback.agents import clients as agents_clients
from takeback.agents import doctor, hook_tampering
from takeback.agents.doctor import Examined
from takeback.agents.doctor.finding import Diagnosis, DiagnosisState, ok, problem, warning
from takeback.agents.doctor.machine import examine_machine
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import clients
from takeback.cli.text import paint, sized
from takeback.daemon import control
from takeback.errors import BackendError, CorruptionError, RefusedError
from takeback.settings import environment
from takeback.workspace.locate import find_root
from takeback.workspace.lost_history import Lost
from takeback.workspace.opening import find_workspace, lost_at

COLOURS = {DiagnosisState.OK: "green", DiagnosisState.WARNING: "yellow", DiagnosisState.PROBLEM: "red"}


@click.command("doctor", cls=TakebackCommand)
@click.argument("agent", default="", shell_complete=clients)
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: CommandContext, agent: str) -> None:
    """Prove that your coding agents are protected, with a trial of each

    Runs the hook command from the agent's settings with the events that the agent would send, changes files in a
    temporary folder, takes everything back and compares. Reports what is wrong, and how to fix it.

    \b
    Exit codes:
      0  all is well
      3  something is missing, or not trusted
      4  a trial or the disk failed
      5  the history of the workspace is gone
    """
    root, home = find_root("."), environment.home_folder()
    agents = [agents_clients.chosen(agent, root, home)] if agent else doctor.installed(root, home)
    examined = [doctor.examine(one, root, home) for one in agents]
    machine = _machine()
    if not agents:
        machine.append(problem("agents", f"no agent is protected in {root}", "takeback install AGENT"))
    findings = [*(finding for one in examined for finding in one.findings), *machine]
    if session.json:
        session.data(
            {
                "protected": not any(finding.state is DiagnosisState.PROBLEM for finding in findings),
                "agents": [
                    {"agent": one.agent, "protected": one.is_protected, "findings": _data(one.findings)}
                    for one in examined
                ],
                "machine": _data(machine),
            }
        )
    else:
        _print(session, examined, machine)
    ctx.exit(_code(findings))


def _machine() -> list[Diagnosis]:
    workspace = find_workspace(".")
    if workspace is None:
        return [*_history(lost_at(".")), *examine_machine(environment.state_home(), None), _daemon()]
    with workspace:
        tampered = _history(workspace.lost)
        tampered += [problem("hooks", said, "") for said in hook_tampering.warnings(workspace)]
        stores = [_store(said) for mark in workspace.history.marks.values() for said in mark.left_out]
        return [*tampered, *examine_machine(environment.state_home(), workspace), *stores, _daemon()]


def _store(said: str) -> Diagnosis:
    """Return why a framework's store is not recorded, and how it would be."""
    why = "not recorded and never taken back, because the framework writes to it during any tool"
    return ok("stores", f'{said}: {why}; `[files] framework-stores = "protect"` records it')


def _history(gone: Lost | None) -> list[Diagnosis]:
    """Return findings about a lost history, and about a loss that would not be noticed."""
    if gone:
        return [problem("history", str(gone), gone.hint)]
    folder = environment.witness_folder()
    there = next(above for above in (folder, *folder.parents) if above.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return []
    said = f"{folder} cannot be written, so the removal of a history would not be noticed"
    return [warning("witness", said, "make it writable, or set XDG_DATA_HOME")]


def _daemon() -> Diagnosis:
    """Return the state of the daemon. Nothing depends on it, so it is never a problem."""
    try:
        found = control.status(environment.state_home())
    except BackendError as error:
        return warning("daemon", error.message, error.hint or "takeback daemon stop")
    if found is None:
        return ok("daemon", "not running; the next event of an agent starts it")
    if found.version != __version__:
        return warning(
            "daemon",
            f"it belongs to Takeback {found.version}, but this is {__version__}",
            "takeback daemon stop",
        )
    return ok(
        "daemon", f"process {found.pid}, {sized(found.memory_bytes)} of memory, {found.events:,} events"
    )


def _data(findings: Iterable[Diagnosis]) -> list[object]:
    return [msgspec.to_builtins(finding) for finding in findings]


def _print(session: CommandContext, examined: Iterable[Examined], machine: Iterable[Diagnosis]) -> None:
    parts = [(agents_clients.CLIENTS[one.agent].title, one.findings) for one in examined]
    for title, findings in [*parts, ("This machine", machine)]:
        session.line(title)
        for finding in findings:
            state = paint(f"{finding.state.value:<8}", fg=COLOURS[finding.state])
            session.line(f"  {state} {finding.check:<9} {finding.said}")
            if finding.fix:
                session.line(f"{'':11}fix it    {finding.fix}")


def _code(findings: Iterable[Diagnosis]) -> int:
    failed = {finding.check for finding in findings if finding.state is DiagnosisState.PROBLEM}
    if "history" in failed:
        return CorruptionError.exit_code
    if failed & {"trial", "disk", "state"}:
        return BackendError.exit_code
    return RefusedError.exit_code if failed else 0
