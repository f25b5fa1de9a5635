"""Our commands in the host's own scheduler: the command line, and what it needs to run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from takeback.errors import UsageError
from takeback.settings import environment as settings_environment
from takeback.workspace.locate import find_root, registry_of_user

if TYPE_CHECKING:
    from takeback.workflows.schedules import Schedule

SCHEDULERS = ("systemd", "cron", "launchd")

scheduler_option = click.option(
    "--scheduler",
    type=click.Choice(["auto", *SCHEDULERS]),
    default="auto",
    show_default=True,
    help="The scheduler to use",
)
every_option = click.option(
    "--every-min",
    type=click.IntRange(1, 59),
    metavar="MINUTES",
    default=10,
    show_default=True,
    help="The time between two checks",
)
linger_option = click.option(
    "--linger",
    is_flag=True,
    help="With systemd: run even while you are not logged in (loginctl enable-linger)",
)
print_option = click.option(
    "--print", "only_print", is_flag=True, help="Show what would be installed, and install nothing"
)


def kind_of(scheduler: str) -> str:
    from takeback.workflows.schedules import best_kind

    return best_kind() if scheduler == "auto" else scheduler


def scheduled(
    what: str, kind: str, words: Sequence[str], every_min: int = 10, *, path: str = "", first_min: int = 0
) -> Schedule:
    """Return a schedule for `takeback WORDS` in the workspace here. `what` is the task, for its name."""
    from takeback.workflows.schedules import schedule

    registry = registry_of_user()
    root = find_root(".", registry)
    environment = [f"TAKEBACK_HOME={registry.home}"] if settings_environment.names_state_home() else []
    environment += [f"PATH={path}"] if path else []
    # -P: a file in the workspace must not replace a module of Python.
    program = [
        *(["/usr/bin/env", *environment] if environment else []),
        sys.executable,
        "-P",
        "-m",
        "takeback",
    ]
    name = f"takeback-{what}-{registry.state_of(root).name}"
    whole = [*program, "-C", os.fspath(root), *words]
    return schedule(kind, name, whole, every_min, Path.home(), first_min)


def texts_of(made: Schedule) -> dict[str, str]:
    """Return the texts that would be written, by path."""
    texts = {str(path): data.decode() for path, data in made.files().items()}
    return texts or {"crontab": getattr(made, "lines", str)()}


def lingering_lines(made: Schedule, again: str) -> list[str]:
    """Return lines that say that it runs only while its user is logged in, if so, and how to change that."""
    if made.lingers():
        return []
    return [
        "  runs only while you are logged in: systemd stops your timers when you log out",
        f"  to run it always   {again} --linger",
    ]


def absolute(words: Sequence[str]) -> list[str]:
    """Return a command with the full path of its program, since the scheduler may have another PATH."""
    found = shutil.which(words[0])
    if found is None:
        raise UsageError(
            f"there is no command {words[0]}; nothing was installed", hint="name it with its path"
        )
    return [os.path.abspath(found), *words[1:]]
