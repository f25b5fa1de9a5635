"""opencode: a plugin of its own, which is a whole file and holds nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources

PLACE = ".opencode/plugins/takeback.js"
COMMAND = ("takeback-hook", "opencode")

_LINE = "const COMMAND = " + json.dumps(COMMAND)


def plugin(command: Sequence[str] = COMMAND) -> str:
    """The text of the plugin, which starts this command for each event."""
    text = resources.files(__package__).joinpath("opencode.js").read_text(encoding="utf-8")
    head, found, tail = text.partition(_LINE)
    assert found, "opencode.js has another command than it should have"
    return f"{head}const COMMAND = {json.dumps(list(command))}{tail}"


def command(text: str) -> list[str]:
    """What a plugin of ours starts."""
    found = re.search(r"^const COMMAND = (\[.*\])$", text, re.MULTILINE)
    return [str(word) for word in json.loads(found[1])] if found else []


def is_ours(text: str) -> bool:
    """Whether a plugin is this one, of whatever version."""
    return text.startswith("// Takeback: ")
