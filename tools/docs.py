"""Generate docs/CLI.md, docs/plan.schema.json, the pictures and the scripts from the code. `./dev docs` runs this."""

from __future__ import annotations

import sys
from pathlib import Path

from takeback.workflows.bundle import SCRIPTS, script
from tools.cli_reference import reference
from tools.pictures.make import in_docs
from tools.plan_schema import schema

ROOT = Path(__file__).resolve().parents[1]


def made() -> dict[str, str]:
    """Return the text of every generated file, by its path."""
    return {
        "docs/CLI.md": reference(),
        "docs/plan.schema.json": schema(),
        **in_docs(),
        **{f"scripts/{name}": script(name) for name in SCRIPTS},
    }


def stale(root: Path = ROOT) -> list[str]:
    """Return the names of the files that differ from what would be generated now."""
    return [name for name, text in made().items() if _read(root / name) != text]


def write(root: Path = ROOT) -> list[str]:
    """Write the files that are stale, and return their names."""
    names, texts = stale(root), made()
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], encoding="utf-8")
        if name.startswith("scripts/"):
            path.chmod(0o755)
    return names


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    written = write()
    print("\n".join(f"written: {name}" for name in written) or "Everything is up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
