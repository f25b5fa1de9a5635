"""The command line of scripts/checkpoint_tool.py, which needs only the standard library."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from takeback.errors import TakebackError
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.lines import log_line
from takeback.workflows.owners import in_words
from takeback.workflows.record import STATUSES, some
from takeback.workflows.stale import report_data, report_lines, stale

NOTHING = "NO_CHECKPOINT"
UNKNOWN = 4


class _Parser(argparse.ArgumentParser):
    """A parser of fixed width. By default argparse measures the terminal for each option, loading many modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100), **settings)


def say(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")


def warn(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")


def printable(text: str) -> str:
    """Escape control characters, so that a name in a file cannot control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def owner(pid: int | None) -> int:
    """Return the named owner, or the parent process by default. With 0, `start` holds the workflow for no process."""
    return os.getppid() if pid is None else pid


def pretty(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2)


def list_lines(checkpoints: Checkpoints) -> list[str]:
    lines = []
    for entry in checkpoints.entries():
        if entry.record is None:
            lines.append(f"INVALID {entry.name} {entry.reason}")
            continue
        record, holder = entry.record, checkpoints.holder(entry)
        cells = [record["workflowId"], record["status"], record["currentStep"], record["updatedAt"]]
        lines.append("\t".join([*cells, f"held by {in_words(holder)}"] if holder else cells))
    return lines


def meant(checkpoints: Checkpoints, workflow: str | None, owner_pid: int | None) -> str:
    """Return the named workflow, or the only one that can be meant."""
    return checkpoints.meant(owner(owner_pid)) if workflow is None else workflow


def skipped_line(record: dict[str, Any]) -> str:
    """Return a line about the skipped steps of a workflow that is done, or "" if there are none."""
    left = record["remainingSteps"] if record["status"] == "done" else []
    return f"{record['workflowId']} is done with steps skipped: {some(left)}" if left else ""


def _start(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    record = checkpoints.start(
        args.workflow,
        agent=args.agent,
        step=args.step,
        key=args.idempotency,
        remaining=args.remaining,
        handoff=args.handoff,
        notes=args.notes,
        ttl_days=args.ttl_days,
        force=args.force,
        per_agent=args.per_agent,
        owner_pid=owner(args.owner_pid) or None,
    )
    say(pretty(record))


def _update(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    record = checkpoints.update(
        meant(checkpoints, args.workflow, args.owner_pid),
        complete=args.complete,
        step=args.step,
        status=args.status,
        notes=args.notes,
        owner_pid=args.owner_pid,
    )
    say(pretty(record))


def _resume(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    found = checkpoints.resume(
        args.workflow,
        agent=args.agent,
        owner_pid=owner(args.owner_pid),
        steal=args.steal_lock,
        again=True,
        skipped=warn,
    )
    say(pretty(found[0]) if found else NOTHING)


def _complete(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    workflow = meant(checkpoints, args.workflow, args.owner_pid)
    record = checkpoints.complete(workflow, owner_pid=args.owner_pid, force=args.force)
    if line := skipped_line(record):
        warn(line)
    say(pretty(record))


def _list(checkpoints: Checkpoints, _args: argparse.Namespace) -> None:
    for line in list_lines(checkpoints):
        say(line)


def _prune(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    for path, did in checkpoints.prune(dry_run=args.dry_run):
        say(f"{'would be ' if args.dry_run else ''}{did}: {path}")


def _check(checkpoints: Checkpoints, args: argparse.Namespace) -> int:
    findings = stale(checkpoints, args.stale_min)
    data = report_data(findings, args.stale_min)
    if args.json:
        say(json.dumps(data, indent=2))
    else:
        say("\n".join(report_lines(findings, args.stale_min)))
    if args.log:
        log_line(args.log, data)
    return 1 if findings else 0


def _parser(wanted: str = "") -> argparse.ArgumentParser:
    """Return a parser for every command, or for one only, since making them all takes longer than the work."""
    parser = _Parser(description="Checkpoints that survive a restart")
    parser.add_argument("--root", default=".", metavar="DIR", help="the workspace (default: this folder)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, options, _) in _COMMANDS.items():
        if wanted in ("", name):
            options(commands.add_parser(name, help=text, description=text))
    return parser


def _start_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser, required=True)
    parser.add_argument(
        "--agent", metavar="NAME", help="the agent that does the work (default: from the environment)"
    )
    parser.add_argument("--step", help="the first step (default: the first remaining one)")
    parser.add_argument(
        "--idempotency", metavar="KEY", help="the idempotency key (default: the id of the workflow)"
    )
    parser.add_argument("--remaining", nargs="*", default=[], metavar="STEP")
    parser.add_argument("--handoff", metavar="AGENT")
    parser.add_argument("--notes", default="")
    parser.add_argument("--ttl-days", type=float, default=7)
    parser.add_argument("--per-agent", action="store_true", help="keep it in agents/NAME/memory/checkpoints")
    parser.add_argument("--force", action="store_true", help="set aside an older workflow with this id")


def _update_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--step", metavar="NEXT")
    parser.add_argument("--complete", metavar="STEP")
    parser.add_argument("--status", choices=STATUSES)
    parser.add_argument("--notes")


def _resume_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--agent", metavar="NAME", help="only workflows of this agent, or handed to it")
    parser.add_argument("--steal-lock", action="store_true", help="take it even from a running process")


def _complete_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--force", action="store_true", help="complete it even if steps were never done")


def _prune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true")


def _no_options(_parser: argparse.ArgumentParser) -> None:
    pass


def _add_workflow(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    which = "the workflow" if required else "the workflow, if several are unfinished"
    parser.add_argument("--workflow", required=required, metavar="ID", help=which)
    parser.add_argument("--owner-pid", type=int, metavar="PID", help="the process that does the work")


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stale-min", type=_minutes, default=10.0, metavar="MINUTES")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", metavar="FILE", help="append the findings to this file, one line per check")


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 <= minutes < 1e9:
        raise ValueError(text)
    return minutes


_COMMANDS = {
    "start": ("start a workflow, or show it if it was started before", _start_options, _start),
    "update": ("record the progress of a workflow", _update_options, _update),
    "resume": ("take over an unfinished workflow that no process holds", _resume_options, _resume),
    "complete": ("mark a workflow as done", _complete_options, _complete),
    "list": ("show every checkpoint", _no_options, _list),
    "prune": ("clean up expired workflows", _prune_options, _prune),
    "check": ("report unfinished workflows that are stale", _add_check_options, _check),
}


def guarded(work: Any) -> int:
    """Do the work and return an exit code; print an error as one sentence."""
    try:
        code = work() or 0
        sys.stdout.flush()
    except TakebackError as error:
        warn(f"{error.message}\n  {error.hint}" if error.hint else error.message)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        warn(f"{error.filename or 'the disk'}: {error.strerror or error}; nothing more was done")
        return UNKNOWN
    except KeyboardInterrupt:
        return 130
    return int(code)


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    args = _parser(words[0] if words and words[0] in _COMMANDS else "").parse_args(words)

    def work() -> Any:
        with Checkpoints(args.root) as checkpoints:
            return _COMMANDS[args.command][2](checkpoints, args)

    return guarded(work)


def selfcheck(words: Sequence[str] | None = None) -> int:
    """Run the command line of scripts/checkpoint_selfcheck.py."""
    parser = _Parser(description="Report unfinished workflows that are stale, without a model")
    parser.add_argument("--root", default=".", metavar="DIR", help="the workspace (default: this folder)")
    _add_check_options(parser)
    args = parser.parse_args(words)

    def work() -> int:
        with Checkpoints(args.root) as checkpoints:
            return _check(checkpoints, args)

    return guarded(work)
