"""A terminal's text as an SVG picture: every letter in its cell, whatever font the reader has."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.sax.saxutils import escape

from takeback.cli.text import cells

CELL, LINE, MARGIN, BAR = 8.4, 19, 14, 30
GROUND, FRAME, INK, FAINT = "#1b1f27", "#2a303b", "#d7dce4", "#838c9b"
COLOURS = {31: "#f07b7b", 32: "#8fce8f", 33: "#e5c07b", 34: "#7fb2f0", 35: "#c99bea", 36: "#6fc7cf"}
FONT = "'DejaVu Sans Mono', ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_CODE = re.compile(r"\x1b\[([0-9;]*)m")


class Style(NamedTuple):
    """How letters look from one code on."""

    colour: int = 0
    bold: bool = False
    dim: bool = False

    def after(self, codes: str) -> Style:
        style = self
        for code in map(int, filter(None, (codes or "0").split(";"))):
            if code == 1:
                style = style._replace(bold=True)
            elif code == 2:
                style = style._replace(dim=True)
            elif code in COLOURS:
                style = style._replace(colour=code)
            elif code == 0:
                style = Style()
        return Style() if not codes or codes == "0" else style


def picture(text: str, command: str, columns: int) -> str:
    """Return an SVG of a window that shows what a command printed."""
    lines = [f"$ {command}", *text.rstrip("\n").split("\n")]
    width = columns * CELL + 2 * MARGIN
    height = BAR + len(lines) * LINE + MARGIN
    body = [part for row, line in enumerate(lines) for part in _line(line, BAR + (row + 0.75) * LINE)]
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(command)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="{GROUND}" stroke="{FRAME}"/>',
            *(f'<circle cx="{MARGIN + 4 + n * 16}" cy="15" r="5" fill="{FRAME}"/>' for n in range(3)),
            f'<g font-family="{FONT}" font-size="14" fill="{INK}" xml:space="preserve">',
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _line(line: str, y: float) -> list[str]:
    parts, style, column, place = [], Style(), 0, 0
    for found in [*_CODE.finditer(line), None]:
        shown = line[place : found.start() if found else len(line)]
        for word in re.finditer(r"\S+(?: \S+)*", shown):
            start = column + cells(shown[: word.start()])
            parts.append(_word(word[0], start, y, style))
        column += cells(shown)
        if found:
            style, place = style.after(found[1]), found.end()
    return parts


def _word(text: str, column: int, y: float, style: Style) -> str:
    look = f' fill="{COLOURS[style.colour]}"' if style.colour else f' fill="{FAINT}"' if style.dim else ""
    look += ' font-weight="bold"' if style.bold else ""
    x, wide = MARGIN + column * CELL, cells(text) * CELL
    size = f'textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {size}{look}>{escape(text)}</text>'
