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
from pathlib import Path
from urllib.parse import quote

import platformdirs

from takeback.core.codec import written
from takeback.core.redact import redact
from takeback.errors import BackendError, RefusedError, UsageError
from takeback.settings import FILE

COMMAND_MAX = 10_000
LINKS_MAX = 40
SEAT_LEAST_S, SEAT_MOST_S = 0.1, 86_400.0

_AWS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
)  # fmt: skip
_KEY_BYTES = 32

_began_in = ""

_environment: ContextVar[Mapping[str, str] | None] = ContextVar("environment", default=None)
_here: ContextVar[str] = ContextVar("here", default="")


def expanded(address: str) -> str:
    """An address with the variables in it, $NAME or ${NAME}, replaced; $$ is a dollar."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name = found[1] or found[2]
        if not (given := _variable(name)):
            raise UsageError(
                f"the store's address needs the variable {name}, which is not set; nothing was done",
                hint=f"set {name}, and try again",
            )
        # A part of an address is written as one; what is the whole address is written so already.
        return given if found[0] == address else quote(given, safe="")

    return re.sub(r"\$\$|\$(\w+)|\$\{(\w+)\}", value, address)


def state_home() -> Path:
    """Where all state is kept: $TAKEBACK_HOME, else the platform's folder for it."""
    if named := _variable("TAKEBACK_HOME"):
        return _followed(named)
    return platformdirs.user_state_path("takeback")


def _followed(named: str) -> Path:
    """Where a path leads. Somebody else's link could lead to any folder of ours, which would then be closed."""
    here, todo, links = "/", os.path.join(os.getcwd(), named).split("/")[::-1], 0
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
                hint="set TAKEBACK_HOME to a folder of your own, by its own path",
            )
        target = os.readlink(step)
        todo += target.split("/")[::-1]
        here = "/" if target.startswith("/") else here
    return Path(here)


def witness_folder() -> Path:
    """Where it is noted which workspaces have a history: apart from the history itself."""
    return platformdirs.user_data_path("takeback") / "witness"


def names_state_home() -> bool:
    """Whether the environment says where the state is, so that a later process has to be told too."""
    return bool(os.environ.get("TAKEBACK_HOME"))


def home_folder() -> Path:
    """The user's own home folder, which is not protected as a whole by accident."""
    return Path(os.path.realpath(_variable("HOME") or os.path.expanduser("~")))


def writable_home() -> Path:
    """The same, for settings that are written there. A mistake in HOME would put them anywhere."""
    named = os.environ.get("HOME")
    if named is not None and not (os.path.isabs(named) and os.path.isdir(named)):
        raise UsageError(
            f"HOME is {named!r}, which is no folder; nothing was changed",
            hint="set HOME to your home folder, or install in a project without --user",
        )
    return home_folder()


def named_folder(variable: str) -> Path | None:
    """The folder that a variable names, if it is set: other programs let their users move their settings by one."""
    named = _variable(variable) if variable else ""
    return Path(named) if named else None


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """What a process that we start is given: all of ours but what Takeback says of us, and this."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TAKEBACK_")}
    return ours | dict(more)


def parent_action() -> str:
    """The action inside which this process runs, if any."""
    return _variable("TAKEBACK_ACTION")


def command_line() -> tuple[str, ...]:
    """How this program was started, so that it can be started again.

    Nothing where it is no program but typed into an interpreter, or where it holds a secret: what is hidden could
    not be run, and what is not hidden does not belong into a log.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if not sys.executable or not script:
        return ()
    # The script is named by its full path: the program may have gone to another folder since.
    named = [
        script if os.path.basename(script) == word.rpartition("/")[2] else word for word in sys.orig_argv
    ]
    words = (sys.executable, *named[1:])
    line = shlex.join(words)
    return words if redact(line) == line and len(line) <= COMMAND_MAX else ()


def began_in(folder: str) -> None:
    """Say where this program was started, before it goes to another folder."""
    global _began_in
    _began_in = folder


def folder() -> str:
    """Where the command line was given, as far as anybody said; else where we are."""
    return _began_in or here()


def here() -> str:
    """The folder from which relative paths are meant: that of whoever asked, or our own."""
    return _here.get() or os.getcwd()


@contextmanager
def calling(environment: Mapping[str, str] | None = None, folder: str = "") -> Iterator[None]:
    """Answer for another process in this block: the one that asked the daemon, which has neither its environment
    nor its folder. Only for this thread."""
    told = _environment.set(_environment.get() if environment is None else environment)
    stood = _here.set(folder or _here.get())
    try:
        yield
    finally:
        _environment.reset(told)
        _here.reset(stood)


def _variable(name: str) -> str:
    told = _environment.get()
    return (os.environ if told is None else told).get(name, "")


def debugging() -> bool:
    """Whether a failure should show its traceback."""
    return os.environ.get("TAKEBACK_DEBUG", "") not in ("", "0")


def actor() -> str:
    """Who is working here, for the log."""
    return written(_variable("TAKEBACK_ACTOR"))


def refuse_too_wide(root: Path) -> None:
    """A home folder, or anything above it, is not protected by accident."""
    if is_too_wide(root):
        raise RefusedError(
            f"{root} is a home folder or above one; nothing was recorded",
            hint="go to the project's folder, or insist with --allow-home",
        )


def is_too_wide(root: Path) -> bool:
    """Whether it is a home folder, or above one."""
    home = home_folder()
    return root in (home, *home.parents)


def search_path() -> str:
    """Where commands are found by their names."""
    return _variable("PATH")


def aws() -> dict[str, str]:
    """What the environment says of buckets: the usual variables, else the profile in the usual file."""
    found = {name.lower(): given for name in _AWS if (given := _variable(name))}
    if "aws_access_key_id" not in found:
        found = _profile() | found
    return found


def _profile() -> dict[str, str]:
    """The keys of a profile, as the programs of Amazon keep them."""
    named = _variable("AWS_SHARED_CREDENTIALS_FILE") or str(home_folder() / ".aws/credentials")
    reader = configparser.RawConfigParser()
    try:
        reader.read(named, "utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    profile = _variable("AWS_PROFILE") or "default"
    return dict(reader.items(profile)) if reader.has_section(profile) else {}


def blobs_key(named: str) -> bytes:
    """The key that seals content in a bucket: $NAME is the variable that has it, anything else a file."""
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
            "the key of the bucket was given itself, and is known to others now; nothing was done",
            hint="make another one, and name the variable or the file that has it: $NAME or a path",
        )
    if not text:
        raise UsageError(f"the key of the bucket is missing: {where} has none; nothing was done", hint=hint)
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UsageError(f"{where} has no key for a bucket; nothing was done", hint=hint)
    return key


def postgres_options() -> str:
    """What the environment gives every session with a PostgreSQL server."""
    return os.environ.get("PGOPTIONS", "")


def seat_s() -> float:
    """After so long without a sign of life from its folder a workspace of a shared store can be moved."""
    given = os.environ.get("TAKEBACK_SEAT_S", "") or "60"
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not SEAT_LEAST_S <= found <= SEAT_MOST_S:
        raise UsageError(
            f"TAKEBACK_SEAT_S is {given!r}; nothing was done",
            hint=f"a number of seconds, {SEAT_LEAST_S:g} to {SEAT_MOST_S:g}",
        )
    return found


def smtp() -> str:
    """The mail server, with what it takes to use it, which does not belong into a project's file."""
    return os.environ.get("TAKEBACK_SMTP", "")


def webhook_secret(named: str) -> str:
    """The secret that a setting names by its variable."""
    if not named:
        return ""
    from takeback.senders.webhook import PREFIX, is_secret

    found = _variable(named.removeprefix("$")) if named.startswith("$") else ""
    if not found or not is_secret(found):
        lacks = f"does not hold {PREFIX} and base64" if found else "is not set"
        what = f"the variable {named[1:]} {lacks}" if named.startswith("$") else "it is given itself"
        raise UsageError(
            f"the secret of a webhook in {FILE} cannot be used: {what}; nothing was sent",
            hint='name a variable, secret = "$NAME", and set it where `takeback outbox worker` runs',
        )
    return found


def wants_colour() -> bool:
    """Whether the terminal may be painted."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
