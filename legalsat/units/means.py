"""The means by which tiles of a movement travel: a row each, which laws, rules, planner and words are made from.

To add one, write its row, and where no solver of `legalsat.extract.search` brings tiles as it does, that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ANY = "any"  # until a law has chosen one
# What users may name; a relayout is two movements, of which the second is by boxes.
MeansName: TypeAlias = Literal[
    "tma", "tma.phases", "im2col", "bulk", "cp.async", "threads", "fragments", "granules", "relayout"
]


@dataclass(frozen=True, slots=True)
class Means:
    """How tiles travel.

    Attributes:
        name: in plans.
        law: that chooses it, by name. does: what brings a tile, in words.
        solver: the module of `legalsat.extract.search` that solves its fields.
        unit: of a target, which it needs; "" for what every chip has.
        arrives: what tells that a tile is there: a "barrier", a "group" of copies, or the "threads" that load it.
        boxed: whether a tile comes as boxes of one tensor map.
        pads: what it can fill in around a padding's source: "nothing", "zeros" or "anything".
        windowed: whether it fills in zeros where a window leaves its image.
        tiled: whether it brings tiles that somebody chose; else the whole movement at once.
        shared: whether it can end in shared memory, with the tile as its reader wants it there.
        pieces: of what a tile is made, one and several.
    """

    name: str
    law: str
    does: str
    solver: str
    unit: Literal["", "tma", "cp_async"] = ""
    arrives: Literal["barrier", "group", "threads"] = "threads"
    boxed: bool = False
    pads: Literal["nothing", "zeros", "anything"] = "nothing"
    windowed: bool = False
    tiled: bool = True
    shared: bool = True
    pieces: tuple[str, str] = ("box", "boxes")


TABLE = (
    Means(
        "tma",
        "deliver_by_boxes",
        "the copy engine fetches a tile as boxes of one tensor map",
        "by_boxes",
        unit="tma",
        arrives="barrier",
        boxed=True,
        pads="zeros",
    ),
    Means(
        "tma.phases",
        "deliver_in_phases",
        "rows n apart share a tensor map, whose pitch is legal",
        "by_phases",
        unit="tma",
        arrives="barrier",
        shared=False,  # rows arrive shifted, which threads that store them put right
    ),
    Means(
        "im2col",
        "deliver_by_windows",
        "the copy engine walks the windows of a convolution, from row to row of pixels",
        "by_boxes",
        unit="tma",
        arrives="barrier",
        boxed=True,
        windowed=True,
        pieces=("column", "columns"),
    ),
    Means(
        "bulk",
        "deliver_by_runs",
        "the copy engine fetches each contiguous run, without a tensor map",
        "by_vectors",
        unit="tma",
        arrives="barrier",
        pieces=("run", "runs"),
    ),
    Means(
        "cp.async",
        "deliver_by_async_copies",
        "threads ask for 4, 8 or 16 bytes each, which arrive in shared memory",
        "by_vectors",
        unit="cp_async",
        arrives="group",
        windowed=True,
    ),
    Means(
        "threads",
        "deliver_by_loads",
        "threads load 1 to 16 bytes each into registers",
        "by_vectors",
        pads="anything",
        windowed=True,
    ),
    Means(
        "fragments",
        "deliver_in_fragments",
        "threads load what the matrix unit wants in registers",
        "by_vectors",
        shared=False,  # they end in registers
    ),
    Means(
        "granules",
        "deliver_by_granules",
        "threads move 16 bytes each, wherever in them rows begin, the whole A at once",
        "by_granules",
        unit="cp_async",
        arrives="group",
        pads="anything",
        tiled=False,
        shared=False,
    ),
)
MEANS = {one.name: one for one in TABLE}
