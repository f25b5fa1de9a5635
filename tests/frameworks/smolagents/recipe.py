"""The recipe of docs/frameworks/smolagents.md, as a module: it is what the page says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[3] / "docs/frameworks/smolagents.md"
_CODE = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)[0]

exec(compile(_CODE, str(_PAGE), "exec"), globals())
