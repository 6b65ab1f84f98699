"""SVG as text: a canvas of rectangles, lines and words that reads on light and dark pages, and its colours.

Words and outlines have the colour of the text around the picture, fills are translucent: a picture within a page looks
as that page does. Alone, as a file, it follows what the reader's system prefers.
"""

from __future__ import annotations

from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

from legalsat import files

LETTER = 0.58  # width of a digit, in sizes of its font


class Hue(NamedTuple):
    """A colour, and that of text which reads on it."""

    fill: str
    ink: str


# Okabe and Ito's colours, which colour-blind people can tell apart, and one more.
HUES = (
    Hue("#0072B2", "#fff"),
    Hue("#E69F00", "#000"),
    Hue("#009E73", "#fff"),
    Hue("#CC79A7", "#000"),
    Hue("#56B4E9", "#000"),
    Hue("#D55E00", "#fff"),
    Hue("#F0E442", "#000"),
    Hue("#7A5195", "#fff"),
)
BLUE, GREEN, RED = HUES[0].fill, HUES[2].fill, HUES[5].fill

# `svg:root` is a picture that is a document of its own; within a page it matches nothing.
_STYLE = (
    "svg:root{color:#1b1f24;background:#fff}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3;background:#0d1117}}"
)
_SCALE = 1.2  # on a wide page
_FONT = "system-ui,sans-serif"


def fits(text: str, size: float, width: float) -> bool:
    """Return whether a text in a font of this size is no wider than `width`."""
    return len(text) * size * LETTER <= width


def number(value: float) -> str:
    """Return a coordinate without digits that nobody sees."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Drawing(str):
    """A picture: its text is the SVG document, and a notebook shows it."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<drawing: {unescape(self.partition('<title>')[2].partition('</title>')[0])}>"

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, which browsers open.

        Raises:
            InvalidInput: the file cannot be written.
        """
        files.write(path, self + "\n")


class Canvas:
    """What is drawn on a picture of some width; 360 of its units fill a phone's page.

    Args:
        width: units across; text of 9 to 11 units reads well.
        title: what the picture shows, for those who cannot see it and as its tooltip.
        description: what is to be seen, in a sentence or more.
    """

    def __init__(self, width: float, title: str, description: str) -> None:
        self.width, self.title, self.description = width, title, description
        self.parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        opacity: float = 1.0,
        stroke: str = "none",
        thick: float = 1.0,
        dash: str = "",
        kind: str = "",
    ) -> None:
        """Draw a rectangle; `opacity` is its fill's, `kind` says in the text what it stands for."""
        looks = f'fill="{fill}"' + (f' fill-opacity="{number(opacity)}"' if opacity < 1 and fill != "none" else "")
        if stroke != "none":
            looks += f' stroke="{stroke}" stroke-width="{number(thick)}"' + (f' stroke-dasharray="{dash}"' * bool(dash))
        said = f' data-is="{escape(kind)}"' if kind else ""
        box = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.parts.append(f"<rect{said} {box} {looks}/>")

    def hatch(self, x: float, y: float, width: float, height: float, colour: str, *, step: float = 6.0) -> None:
        """Draw oblique lines across a rectangle, which mark it where colours are not seen."""
        lines, sweep = [], step / 2
        while sweep < width + height:
            across, down = min(sweep, width), min(sweep, height)
            lines.append(
                f"M{number(x + across)} {number(y + sweep - across)}L{number(x + sweep - down)} {number(y + down)}"
            )
            sweep += step
        self.parts.append(f'<path d="{"".join(lines)}" stroke="{colour}" stroke-width="1" fill="none"/>')

    def line(
        self,
        points: list[tuple[float, float]],
        *,
        colour: str = "currentColor",
        thick: float = 1.0,
        faint: bool = False,
    ) -> None:
        """Draw a line through points."""
        path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        looks = f'stroke="{colour}" stroke-width="{number(thick)}"' + (' stroke-opacity=".35"' if faint else "")
        self.parts.append(f'<path d="M{path}" fill="none" {looks}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 10.0,
        anchor: str = "start",
        bold: bool = False,
        faint: bool = False,
        colour: str = "",
    ) -> None:
        """Write a line of text with its baseline at `y`."""
        looks = f' font-size="{number(size)}"' if size != 10 else ""
        looks += f' text-anchor="{anchor}"' if anchor != "start" else ""
        looks += ' font-weight="600"' * bold + ' fill-opacity=".7"' * faint + (f' fill="{colour}"' if colour else "")
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}"{looks}>{escape(text, quote=False)}</text>')

    def lines(self, y: float, text: str, *, size: float = 10.0, x: float = 0.0, faint: bool = False) -> float:
        """Write text wrapped to the picture's width, from baseline `y`; return the baseline below it."""
        row = ""
        for word in text.split():
            if row and not fits(f"{row} {word}", size * 0.9, self.width - x):
                self.text(x, y, row, size=size, faint=faint)
                y, row = y + size * 1.35, ""
            row = f"{row} {word}" if row else word
        if row:
            self.text(x, y, row, size=size, faint=faint)
            y += size * 1.35
        return y

    def key(self, x: float, y: float, text: str, *, fill: str, opacity: float, hatched: bool = False) -> float:
        """Draw a swatch with its meaning at baseline `y`; return where the next one goes."""
        self.rect(x, y - 9, 11, 11, fill=fill, opacity=opacity, stroke=fill)
        if hatched:
            self.hatch(x, y - 9, 11, 11, fill, step=4)
        self.text(x + 16, y, text)
        return x + 16 + len(text) * 10 * LETTER * 0.9 + 12

    def svg(self, height: float) -> Drawing:
        """Return the picture as an SVG document of this height, which also stands within HTML."""
        box = f'viewBox="0 0 {number(self.width)} {number(height)}" width="{number(self.width * _SCALE)}"'
        document = "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" style="max-width:100%;height:auto" '
                f'fill="currentColor" font-family="{_FONT}" font-size="10">',
                f"<title>{escape(self.title, quote=False)}</title>",
                f"<desc>{escape(self.description, quote=False)}</desc>",
                f"<style>{_STYLE}</style>",
                *self.parts,
                "</svg>",
            ]
        )
        return Drawing(document)
