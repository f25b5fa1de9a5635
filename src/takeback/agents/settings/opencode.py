"""The plugin for opencode, a file of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources

PLACE = ".opencode/plugins/takeback.js"
COMMAND = ("takeback-hook", "opencode")

_LINE = "const COMMAND = " + json.dumps(COMMAND)


def plugin(command: Sequence[str] = COMMAND) -> str:
    """Return the text of the plugin, which starts this command for each event."""
    text = resources.files(__package__).joinpath("opencode.js").read_text(encoding="utf-8")
    head, found, tail = text.partition(_LINE)
    assert found, "opencode.js does not have the expected command"
    return f"{head}const COMMAND = {json.dumps(list(command))}{tail}"


def command(text: str) -> list[str]:
    """Return the command that our plugin starts."""
    found = re.search(r"^const COMMAND = (\[.*\])$", text, re.MULTILINE)
    return [str(word) for word in json.loads(found[1])] if found else []


def is_ours(text: str) -> bool:
    """Return True if a plugin is ours, of any version."""
    return text.startswith("// Takeback: ")
