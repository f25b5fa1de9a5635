"""Which settings hold: takeback.toml as a human wrote or accepted it. An agent must not loosen its own protection."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from takeback import config
from takeback.core.change import Target
from takeback.core.history import History
from takeback.core.intents import IntentEvent
from takeback.core.subjects import Action
from takeback.ports import Contents, Journal
from takeback.resources.files import deltas
from takeback.resources.files.entry import version_of
from takeback.resources.files.resource import file_text, tree_of

CONFIG = Target("files", config.FILE)

Kept = Callable[[], tuple[Contents, Callable[[bytes], bytes]]]
"""All content, and all blobs."""


def settings_of(root: Path, history: History, contents: Kept) -> tuple[config.Config, str]:
    """The settings, and a word where they are not those of the file. Content is asked for only where it is needed."""
    running = [action for action in history.open_actions() if action.is_tool]
    if running:
        return _before(running[0], root, contents), ""
    entry = history.untrusted_since(CONFIG)
    if entry is None:
        return config.read_config(root), ""
    before = file_text(contents()[0], entry.change.before)
    return _parsed(before, root), (
        f"{config.FILE} was changed by {entry.action}; the settings from before it hold until you accept "
        "the change with `takeback init --accept-config`"
    )


def without_intents(journal: Journal) -> History:
    """Enough of the history to tell which settings hold."""
    intents = get_args(IntentEvent)
    return History.of(record for record in journal.read() if not isinstance(record.event, intents))


def _before(action: Action, root: Path, contents: Kept) -> config.Config:
    """What held when a running action began; it may be writing the file now."""
    for mark in getattr(action.began, "marks", ()):
        if mark.resource == CONFIG.resource:
            kept, get = contents()
            found = deltas.lookup(tree_of(mark.state), os.fsencode(config.FILE), get)
            return _parsed(file_text(kept, version_of(found)), root)
    return config.read_config(root)


def _parsed(text: bytes | None, root: Path) -> config.Config:
    return config.parse_config(text.decode(), root / config.FILE) if text else config.Config()
