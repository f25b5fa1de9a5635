"""The only reader of takeback.toml."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from takeback import settings
from takeback.core.plan import ToolTarget
from takeback.core.rules import Rules
from takeback.errors import UsageError

FILE = settings.FILE
Count = Annotated[int, msgspec.Meta(ge=0)]


class FilesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of the tree is protected."""

    exclude: tuple[str, ...] = ()


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Where the journal is kept, and how much of the content. Zero means no limit."""

    store: str = ""
    """The address of a database that machines share; $NAME stands for a variable. Nothing means this machine."""
    workspace: str = ""
    """What the workspace is called there: folders with one name there have one history."""
    blobs: str = ""
    """The address of a bucket in which all content is kept besides; $NAME stands for a variable."""
    blobs_key: str = ""
    """What seals it there: $NAME, the variable that has the key, or the path of a file."""
    quota_bytes: Count = 20 * 2**30
    keep_days: Count = 30
    keep_checkpoints: Count = 10_000


class AgentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Coding agents that are followed through their hooks."""

    autopilot: bool = False
    """Nobody watches: what cannot be taken back is refused instead of asked for."""
    when_unprotected: Literal["block", "warn"] = "block"
    """What becomes of a call that cannot be recorded."""


class OutsideConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What is captured of the paths outside the workspace that a command names, for one action.

    Zero means no limit.
    """

    capture: bool = True
    max_files: Count = 10_000
    max_bytes: Count = 256 * 2**20


class OutboxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How what was deferred is delivered."""

    first_pause_s: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """After the first failed attempt; then twice as long each time."""
    longest_pause_s: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    smtp: str = ""
    sender: str = ""


class WebhookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where events go."""

    url: str
    secret: str = ""
    """$NAME: the variable that has it. The secret itself does not belong into a project's file."""
    types: tuple[str, ...] = ()


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told of every event."""

    webhooks: tuple[WebhookConfig, ...] = ()


class LocksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What one agent has locked, for the others."""

    on_foreign: Literal["refuse", "warn"] = "refuse"
    """What becomes of a command or a call that says it writes there."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """takeback.toml. Every part may be missing."""

    files: FilesConfig = FilesConfig()
    store: StoreConfig = StoreConfig()
    outbox: OutboxConfig = OutboxConfig()
    locks: LocksConfig = LocksConfig()
    audit: AuditConfig = AuditConfig()
    outside: OutsideConfig = OutsideConfig()
    rules: Rules = Rules()
    agents: AgentsConfig = AgentsConfig()
    tools: dict[str, ToolTarget] = {}
    """Short names of tools, for plans and rules: a name to package.module:function."""


def read_config(root: Path) -> Config:
    """The workspace's takeback.toml, or the defaults."""
    text = read_text(root)
    return Config() if text is None else parse_config(text, root / FILE)


def read_text(root: Path, name: str = FILE) -> bytes | None:
    """The bytes of the workspace's takeback.toml, if there is one; or of what it leads to as a link."""
    path = root / name
    try:
        # A pipe of that name would not answer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a file; nothing was done", hint="move it away")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was done") from error


def parse_config(text: str | bytes, path: Path) -> Config:
    """Settings as they stand in takeback.toml."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        # As open files are read: TOML knows no other line ends.
        return msgspec.convert(tomllib.loads(plain.replace("\r\n", "\n")), Config)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was done") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{path} is not valid: {error}; nothing was done", hint="docs/CONFIG.md lists every setting"
        ) from error
