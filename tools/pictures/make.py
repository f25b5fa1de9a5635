"""Pictures of the commands of every day. `./dev docs` makes the few in docs, `./dev pictures FOLDER` all of them."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

from tools.pictures import scene as scenes
from tools.pictures.scene import Scene
from tools.pictures.svg import picture

COMMANDS = {
    "log": ("log",),
    "status": ("status",),
    "diff": ("diff", "a9"),
    "show": ("show", "a19"),
    "preview": ("undo", "--preview"),
    "undo": ("undo",),
}
"""What is shown, in this order: the last one changes something."""
WIDTHS = (60, 80, 120)
IN_DOCS = (("log", 80, True), ("log", 60, False), ("undo", 80, True), ("diff", 80, True), ("show", 80, True))


def name_of(command: str, columns: int, *, colour: bool) -> str:
    return f"{command}-{columns}{'' if colour else '-plain'}.svg"


@cache
def pictures() -> dict[str, str]:
    """Return every picture by the name of its file."""
    with tempfile.TemporaryDirectory(prefix="takeback-pictures-") as folder:
        scene = scenes.begin(Path(folder).resolve() / "day")
        with scene.going_on():
            scenes.morning(scene)
            return dict(_pictures(scene))


def _pictures(scene: Scene) -> list[tuple[str, str]]:
    found = []
    for name, words in COMMANDS.items():
        for columns in WIDTHS:
            for colour in (True, False):
                text = scene.takeback(*words, columns=columns, colour=colour)
                shown = picture(text, f"takeback {' '.join(words)}", columns)
                found.append((name_of(name, columns, colour=colour), shown))
                if name == "undo":
                    scene.takeback("redo")
    return found


def in_docs() -> dict[str, str]:
    """Return the pictures that the documents show, by their paths."""
    every = pictures()
    names = [name_of(name, columns, colour=colour) for name, columns, colour in IN_DOCS]
    return {f"docs/pictures/{name}": every[name] for name in names}


def main(folder: str = "") -> int:
    if not folder:
        sys.stderr.write("usage: ./dev pictures FOLDER\n")
        return 2
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (place / name).write_text(text, encoding="utf-8")
        print(place / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
