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
FOREVER = "forever"
Count = Annotated[int, msgspec.Meta(ge=0)]


class FilesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Which part of the tree is protected."""

    exclude: tuple[str, ...] = ()
    framework_stores: Literal["leave-out", "protect"] = "leave-out"
    """What happens to a database in which an agent framework keeps its own state."""


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Where the journal is kept, and how much of the content. Zero means no limit."""

    store: str = ""
    """The address of a database that machines share; $NAME stands for a variable. Empty means this machine."""
    workspace: str = ""
    """The name of the workspace in the shared store: folders with the same name share one history."""
    blobs: str = ""
    """The address of a bucket for a second copy of all content; $NAME stands for a variable."""
    blobs_key: str = ""
    """The key that encrypts content in the bucket: $NAME for a variable, or the path of a file."""
    quota_bytes: Count = 20 * 2**30
    keep_days: Count = 30
    keep_checkpoints: Count = 10_000
    keep_journal: Annotated[str, msgspec.Meta(pattern=f"^({FOREVER}|[1-9][0-9]{{0,5}}d)?$")] = ""
    """How long records keep their details: `90d` or `forever`. Empty: as long as content, by keep-days."""

    @property
    def journal_days(self) -> int:
        """How many days records keep their details, at least as many as content is kept; zero means forever."""
        if not self.keep_days or self.keep_journal == FOREVER:
            return 0
        return max(self.keep_days, int(self.keep_journal.removesuffix("d") or 0))


class AgentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Coding agents that are followed through their hooks."""

    autopilot: bool = False
    """No human watches: what cannot be taken back is refused, without asking."""
    when_unprotected: Literal["block", "warn"] = "block"
    """What happens to a call that cannot be recorded."""


class OutsideConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How much is captured, for one action, of the paths outside the workspace that a command names.

    Zero means no limit.
    """

    capture: bool = True
    max_files: Count = 10_000
    max_bytes: Count = 256 * 2**20


class OutboxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How intents are delivered."""

    first_pause_s: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """The pause after the first failed attempt; it doubles each time."""
    longest_pause_s: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    smtp: str = ""
    sender: str = ""


class WebhookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver of events."""

    url: str
    secret: str = ""
    """$NAME, the variable with the secret. The secret itself does not belong in a project's file."""
    types: tuple[str, ...] = ()


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The receivers of all events."""

    webhooks: tuple[WebhookConfig, ...] = ()


class NotifyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told that something waits for a human."""

    to: tuple[str, ...] = ()
    """Notifiers: desktop, command:COMMAND, webhook:URL, apprise:URL. In an address $NAME stands for a variable."""


class LocksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How locks of one agent affect the others."""

    on_foreign: Literal["refuse", "warn"] = "refuse"
    """What happens to a command or call that is known to write to a locked name."""


class SandboxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What the operating system lets a command write and reach, where it runs in the sandbox."""

    commands: Literal["", "off", "unknown", "all"] = ""
    """Which commands of agents run in it. Empty: none, and on autopilot those whose effect is unknown."""
    write: tuple[str, ...] = ()
    """Where a command may write besides the workspace, the temporary folders and the usual caches."""
    network: Literal["", "full", "loopback", "none"] = ""
    """What a command reaches. Empty: everything, and on autopilot the loopback only."""
    hosts: tuple[str, ...] = ()
    """Hosts that a command reaches through a proxy where the network is limited: `name` or `name:port`."""
    outside: Literal["deny", "capture", "ask"] = "deny"
    """What happens to writes elsewhere. Only `deny` is available."""


class StageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How long views are kept. Zero means no limit."""

    keep_days: Count = 14
    """A view that nobody has used for so many days is dropped, a day after a notice."""


class ChecksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What is asked after each rollback."""

    after_rollback: tuple[str, ...] = ()
    """Commands, run in the workspace without a shell. One that fails makes the rollback incomplete."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    """How long each may take."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings in takeback.toml. Every part may be missing."""

    files: FilesConfig = FilesConfig()
    store: StoreConfig = StoreConfig()
    outbox: OutboxConfig = OutboxConfig()
    locks: LocksConfig = LocksConfig()
    audit: AuditConfig = AuditConfig()
    outside: OutsideConfig = OutsideConfig()
    rules: Rules = Rules()
    sandbox: SandboxConfig = SandboxConfig()
    agents: AgentsConfig = AgentsConfig()
    stage: StageConfig = StageConfig()
    notify: NotifyConfig = NotifyConfig()
    checks: ChecksConfig = ChecksConfig()
    tools: dict[str, ToolTarget] = {}
    """Short names of tools, for plans and rules: a name to package.module:function."""


def read_config(root: Path) -> Config:
    """Return the settings in the workspace's takeback.toml, or the defaults."""
    text = read_text(root)
    return Config() if text is None else parse_config(text, root / FILE)


def read_text(root: Path, name: str = FILE) -> bytes | None:
    """Return the bytes of the workspace's takeback.toml, following links, or None if it does not exist."""
    path = root / name
    try:
        # Opening a pipe of that name would block.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a file; nothing was done", hint="move it elsewhere")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was done") from error


def parse_config(text: str | bytes, path: Path) -> Config:
    """Return the settings in the text of a takeback.toml."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        # Converted as in text files: TOML allows only these line ends.
        found = msgspec.convert(tomllib.loads(plain.replace("\r\n", "\n")), Config)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was done") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{path} is not valid: {error}; nothing was done", hint="docs/CONFIG.md lists every setting"
        ) from error
    _refuse_short_journal(found.store, path)
    if found.sandbox.outside != "deny":
        raise UsageError(
            f'{path}: [sandbox] outside = "{found.sandbox.outside}" is not available: the sandbox only denies writes '
            "elsewhere; nothing was done",
            hint='remove it or set it to "deny"; [sandbox] write allows single places',
        )
    if found.notify.to:
        _refuse_notifiers(found.notify, path)
    return found


def _refuse_notifiers(notify: NotifyConfig, path: Path) -> None:
    """Raise UsageError if a notifier is not valid, or contains a secret."""
    from takeback.senders.notifiers import check_shared  # most projects have none

    for text in notify.to:
        try:
            check_shared(text)
        except UsageError as error:
            raise UsageError(f"{path} is not valid: [notify] {error.message}", hint=error.hint) from error


def _refuse_short_journal(store: StoreConfig, path: Path) -> None:
    """Raise UsageError if records would lose their details while their content is kept."""
    days = store.keep_journal.removesuffix("d")
    if not days or days == FOREVER or 0 < store.keep_days <= int(days):
        return
    kept = f"{store.keep_days} days" if store.keep_days else "without a limit"
    raise UsageError(
        f'{path} is not valid: [store] keep-journal = "{store.keep_journal}" is shorter than keep-days keeps the '
        f"content ({kept}), which could then not be put back; nothing was done",
        hint=f'set keep-journal to "{store.keep_days}d" or more, to "forever", or leave it out'
        if store.keep_days
        else 'set keep-journal to "forever", or leave it out',
    )
