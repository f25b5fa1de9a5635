"""The only reader of the environment and of takeback.toml."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs

from takeback.errors import UsageError

FILE = "takeback.toml"


Count = Annotated[int, msgspec.Meta(ge=0)]


class FilesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of the tree is protected."""

    exclude: tuple[str, ...] = ()


class StoreConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How much is kept. Zero means no limit."""

    quota_bytes: Count = 20 * 2**30
    keep_days: Count = 30
    keep_checkpoints: Count = 10_000


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """takeback.toml. Every part may be missing."""

    files: FilesConfig = FilesConfig()
    store: StoreConfig = StoreConfig()


def read_config(root: Path) -> Config:
    """The workspace's takeback.toml, or the defaults."""
    path = root / FILE
    try:
        return parse_config(path.read_text("utf-8"), path)
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was done") from error


def parse_config(text: str, path: Path) -> Config:
    """Settings as they stand in takeback.toml."""
    try:
        return msgspec.convert(tomllib.loads(text), Config)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{path} is not valid: {error}; nothing was done", hint="docs/CONFIG.md lists every setting"
        ) from error


def state_home() -> Path:
    """Where all state is kept: $TAKEBACK_HOME, else the platform's folder for it."""
    if named := os.environ.get("TAKEBACK_HOME"):
        return Path(os.path.realpath(named))
    return platformdirs.user_state_path("takeback")


def names_state_home() -> bool:
    """Whether the environment says where the state is, so that a later process has to be told too."""
    return bool(os.environ.get("TAKEBACK_HOME"))


def home_folder() -> Path:
    """The user's own home folder, which is not protected as a whole by accident."""
    return Path(os.path.realpath(os.path.expanduser("~")))


def parent_action() -> str:
    """The action inside which this process runs, if any."""
    return os.environ.get("TAKEBACK_ACTION", "")


def debugging() -> bool:
    """Whether a failure should show its traceback."""
    return os.environ.get("TAKEBACK_DEBUG", "") not in ("", "0")


def actor() -> str:
    """Who is working here, for the log."""
    return os.environ.get("TAKEBACK_ACTOR", "")


def wants_colour() -> bool:
    """Whether the terminal may be painted."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
