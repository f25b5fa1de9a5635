"""The only reader of the environment."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from urllib.parse import quote

import platformdirs

from takeback.core.codec import written
from takeback.core.redact import redact
from takeback.errors import BackendError, RefusedError, UsageError
from takeback.settings import FILE

COMMAND_MAX = 10_000
LINKS_MAX = 40
VIEW_CARD = "stage.json"
"""The file that makes a home of Takeback's state that of a view."""
SEAT_LEAST_S, SEAT_MOST_S = 0.1, 86_400.0

_AWS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
)  # fmt: skip
_KEY_BYTES = 32

_began_in = ""

_environment: ContextVar[Mapping[str, str] | None] = ContextVar("environment", default=None)
_here: ContextVar[str] = ContextVar("here", default="")


NOTIFY = "TAKEBACK_NOTIFY_"
"""The prefix of variables that the hook passes to the daemon, for the addresses of notifiers."""


def expanded(address: str, what: str = "the store's address") -> str:
    """Return an address with its variables, $NAME or ${NAME}, replaced; $$ is a dollar."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name = found[1] or found[2]
        if not (given := _variable(name)):
            raise UsageError(
                f"{what} needs the variable {name}, which is not set; nothing was done",
                hint=f"set {name}, and try again",
            )
        # A part of an address is quoted; a variable with the whole address is already quoted.
        return given if found[0] == address else quote(given, safe="")

    return re.sub(r"\$\$|\$(\w+)|\$\{(\w+)\}", value, address)


def state_home() -> Path:
    """Return the folder for all state: $TAKEBACK_HOME, or the platform's default."""
    if named := _variable("TAKEBACK_HOME"):
        return _followed(named)
    return platformdirs.user_state_path("takeback")


def _followed(named: str) -> Path:
    """Return the target of a path. Raise if it goes through another user's link, which could lead anywhere."""
    # The current folder may be gone, and matters only for a relative path.
    path = named if os.path.isabs(named) else os.path.join(os.getcwd(), named)
    here, todo, links = "/", path.split("/")[::-1], 0
    while todo:
        step = os.path.normpath(os.path.join(here, todo.pop()))
        try:
            found = os.lstat(step)
        except OSError:
            here = step
            continue
        if not stat.S_ISLNK(found.st_mode):
            here = step
            continue
        links += 1
        if found.st_uid not in (0, os.geteuid()) or links > LINKS_MAX:
            raise BackendError(
                f"TAKEBACK_HOME goes through {step}, a link that does not belong to you. Nothing was changed",
                hint="set TAKEBACK_HOME to a folder of your own, by its real path",
            )
        target = os.readlink(step)
        todo += target.split("/")[::-1]
        here = "/" if target.startswith("/") else here
    return Path(here)


def witness_folder() -> Path:
    """Return the folder that lists which workspaces have a history. It is kept apart from the history itself.

    A view is short-lived, and has its own.
    """
    if is_view(home := state_home()):
        return home / "witness"
    return _data_folder(os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME")) / "witness"


@cache
def _data_folder(_named: str | None, _home: str | None) -> Path:
    """Return the folder for data. It follows from these variables, and takes long to find."""
    return platformdirs.user_data_path("takeback")


def is_view(home: Path) -> bool:
    """Return True if this home of Takeback's state is that of a view, which has a card of its own."""
    return os.path.exists(home / VIEW_CARD)


def namespaces() -> str:
    """Return which namespaces views may use: `off` for none, `user` for those of an ordinary user, or any."""
    return _variable("TAKEBACK_NAMESPACES")


def shadow() -> bool:
    """Return whether every run of this process is to be a shadow: TAKEBACK_SHADOW is set."""
    return _variable("TAKEBACK_SHADOW") not in ("", "0")


def refuse_in_shadow(what: str) -> None:
    """Raise UsageError if every run is to be a shadow, and this cannot be one."""
    if shadow():
        raise UsageError(
            f"TAKEBACK_SHADOW is set, and {what} cannot be a shadow; nothing was begun",
            hint="`takeback try -- COMMAND` runs the whole program in a view",
        )


def temporary_folders() -> list[Path]:
    """Return the folders for temporary files, by their real paths."""
    named = [_variable("TMPDIR"), "/tmp", "/var/tmp"]
    return [path for one in named if one and (path := Path(os.path.realpath(one))).is_dir()]


def names_state_home() -> bool:
    """Return True if TAKEBACK_HOME is set, so that a later process needs it, too."""
    return bool(os.environ.get("TAKEBACK_HOME"))


def home_folder() -> Path:
    """Return the user's home folder."""
    return Path(os.path.realpath(_variable("HOME") or os.path.expanduser("~")))


def writable_home() -> Path:
    """Return the home folder, to write settings there. Raise if HOME is wrong: the settings could end up anywhere."""
    named = os.environ.get("HOME")
    if named is not None and not (os.path.isabs(named) and os.path.isdir(named)):
        raise UsageError(
            f"HOME is {named!r}, which is not a folder; nothing was changed",
            hint="set HOME to your home folder, or install in a project without --user",
        )
    return home_folder()


def named_folder(variable: str) -> Path | None:
    """Return the folder that a variable names, if set: other programs let users move their settings with one."""
    named = _variable(variable) if variable else ""
    return Path(named) if named else None


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process that we start: ours without the TAKEBACK_ variables, plus `more`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TAKEBACK_")}
    return ours | dict(more)


def environment_of_sender(home: Path) -> dict[str, str]:
    """Return the environment for a process that sends notices: without what ties it to an action of ours."""
    mine = (NOTIFY, "TAKEBACK_TEST_")
    kept = {name: text for name, text in os.environ.items() if name.startswith(mine)}
    given = _environment.get() or {}
    kept |= {name: text for name, text in given.items() if name.startswith(NOTIFY)}
    return environment_with(kept | {"TAKEBACK_HOME": os.fspath(home)})


def parent_action() -> str:
    """Return the action inside which this process runs, or ""."""
    return _variable("TAKEBACK_ACTION")


def command_line() -> tuple[str, ...]:
    """Return the command that started this program, so that it can be started again.

    Return nothing for an interactive interpreter, and for a command with a secret: a redacted command cannot be run,
    and a secret does not belong in a log.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if not sys.executable or not script:
        return ()
    # The script is named by its full path: the program may have changed its folder since.
    named = [
        script if os.path.basename(script) == word.rpartition("/")[2] else word for word in sys.orig_argv
    ]
    words = (sys.executable, *named[1:])
    line = shlex.join(words)
    return words if redact(line) == line and len(line) <= COMMAND_MAX else ()


def began_in(folder: str) -> None:
    """Remember where this program was started, before it changes to another folder."""
    global _began_in
    _began_in = folder


def folder() -> str:
    """Return the folder where the program was started, if recorded; otherwise the current one."""
    return _began_in or here()


def here() -> str:
    """Return the folder that relative paths start from: the caller's, or our own."""
    return _here.get() or os.getcwd()


@contextmanager
def calling(environment: Mapping[str, str] | None = None, folder: str = "") -> Iterator[None]:
    """Use another process's environment and folder in this block and thread: the daemon answers for its caller."""
    given = _environment.set(_environment.get() if environment is None else environment)
    stood = _here.set(folder or _here.get())
    try:
        yield
    finally:
        _environment.reset(given)
        _here.reset(stood)


def _variable(name: str) -> str:
    given = _environment.get()
    return (os.environ if given is None else given).get(name, "")


def debugging() -> bool:
    """Return True if a failure should show its traceback."""
    return os.environ.get("TAKEBACK_DEBUG", "") not in ("", "0")


def actor() -> str:
    """Return the name of the actor for the log."""
    return written(_variable("TAKEBACK_ACTOR"))


def refuse_too_wide(root: Path) -> None:
    """Raise RefusedError for a home folder or a folder above it: nobody should protect one by accident."""
    if is_too_wide(root):
        raise RefusedError(
            f"{root} is a home folder, or above one; nothing was recorded",
            hint="change to the project's folder, or confirm with --allow-home",
        )


def is_too_wide(root: Path) -> bool:
    """Return True for a home folder, or a folder above one."""
    home = home_folder()
    return root in (home, *home.parents)


def shell() -> str:
    """Return the user's shell."""
    return _variable("SHELL") or "/bin/sh"


def search_path() -> str:
    """Return PATH, on which commands are found by name."""
    return _variable("PATH")


def aws() -> dict[str, str]:
    """Return the access settings for buckets: from the AWS variables, or else from the credentials file."""
    found = {name.lower(): given for name in _AWS if (given := _variable(name))}
    if "aws_access_key_id" not in found:
        found = _profile() | found
    return found


def _profile() -> dict[str, str]:
    """Return the settings of a profile in the AWS credentials file."""
    named = _variable("AWS_SHARED_CREDENTIALS_FILE") or str(home_folder() / ".aws/credentials")
    reader = configparser.RawConfigParser()
    try:
        reader.read(named, "utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    profile = _variable("AWS_PROFILE") or "default"
    return dict(reader.items(profile)) if reader.has_section(profile) else {}


def blobs_key(named: str) -> bytes:
    """Return the key that encrypts content in a bucket. `named` is $NAME for a variable, or else a file."""
    if not named:
        return b""
    hint = "a key is 32 random bytes as 64 hexadecimal digits, from `openssl rand -hex 32`"
    if named.startswith("$"):
        text, where = _variable(named.removeprefix("$").strip("{}")), f"the variable {named[1:]}"
    else:
        where = f"the file {named}"
        try:
            text = Path(os.path.expanduser(named)).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            text = ""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", named):
        raise UsageError(
            "the bucket's key itself was given, so others may know it now; nothing was done",
            hint="create a new key, and give the variable ($NAME) or the file that contains it",
        )
    if not text:
        raise UsageError(
            f"the bucket's key is missing: {where} is empty or cannot be read; nothing was done", hint=hint
        )
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UsageError(f"{where} does not contain a valid key for a bucket; nothing was done", hint=hint)
    return key


def postgres_options() -> str:
    """Return the options for every session with a PostgreSQL server."""
    return os.environ.get("PGOPTIONS", "")


def seat_s() -> float:
    """Return the seconds of silence after which a workspace of a shared store may be moved to another folder."""
    given = os.environ.get("TAKEBACK_SEAT_S", "") or "60"
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not SEAT_LEAST_S <= found <= SEAT_MOST_S:
        raise UsageError(
            f"TAKEBACK_SEAT_S is {given!r}; nothing was done",
            hint=f"set it to a number of seconds from {SEAT_LEAST_S:g} to {SEAT_MOST_S:g}",
        )
    return found


def smtp() -> str:
    """Return the address of the mail server, with its password, which does not belong in a project's file."""
    return os.environ.get("TAKEBACK_SMTP", "")


def webhook_secret(named: str) -> str:
    """Return the secret in the variable that a setting names."""
    if not named:
        return ""
    from takeback.senders.webhook import PREFIX, is_secret

    found = _variable(named.removeprefix("$")) if named.startswith("$") else ""
    if not found or not is_secret(found):
        lacks = f"does not contain {PREFIX} and base64" if found else "is not set"
        what = (
            f"the variable {named[1:]} {lacks}"
            if named.startswith("$")
            else "the file contains the secret itself"
        )
        raise UsageError(
            f"the secret of a webhook in {FILE} cannot be used: {what}; nothing was sent",
            hint='name a variable, secret = "$NAME", and set it where `takeback outbox worker` runs',
        )
    return found


def pager() -> str | None:
    """Return the command that shows long output page by page: empty if none is wanted, None if none is named."""
    return "" if os.environ.get("TERM") == "dumb" else os.environ.get("PAGER")


def of_pager() -> dict[str, str]:
    """Return the environment of a pager, in which `less` lets colours pass and ends at the end of the text."""
    return environment_with({"LESS": os.environ.get("LESS", "FRX")})


def names_columns() -> bool:
    """Return True if the user says how wide lines may be."""
    return bool(os.environ.get("COLUMNS"))


def wants_colour() -> bool:
    """Return True if the terminal may show colours."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
