"""Where the words of a tile lie, as functions of a text in CUDA C++: in both tensors, and in both buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from legalsat.analyses.copy_engine import smem_bytes
from legalsat.dims import Extent
from legalsat.errors import LegalSatError
from legalsat.extract.moved.movement_tiles import MovedTiles
from legalsat.extract.search.schedule import span_of
from legalsat.extract.search.views import box_of
from legalsat.plans.movement_plan import MovementPlan, SharedTile, View
from legalsat.targets import GRANULE_BYTES
from legalsat.units.tensor_map import TensorMap

C_TYPES = {"i32": "int", "i64": "long long"}
WORDS = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "unsigned long long"}


@dataclass(frozen=True)
class Boxes:
    """Boxes of a tile, the first dimension's neighbours first: how many along each dimension, of what extents."""

    counts: tuple[int, ...]
    box: tuple[int, ...]
    bytes: int

    def begins(self, number: str) -> list[str]:
        """Return where the box of a number begins in its tile, along each dimension."""
        found, before = [], 1
        for count, extent in zip(self.counts, self.box, strict=True):
            found.append(f"{number} / {before} % {count} * {extent}" if count > 1 else "0")
            before *= count
        return found

    def place(self, along: Sequence[str], word: int, span: int) -> Iterator[str]:
        """Yield lines that work out the byte of a word at these places in its tile; it is `at`, from `at`."""
        before, inside = 1, word
        for place, count, extent in zip(along, self.counts, self.box, strict=True):
            if count > 1:
                yield f"at += {place} / {extent} * {before * self.bytes};"
            if extent > 1:
                yield f"at += {place}{f' % {extent}' if count > 1 else ''} * {inside};"
            before, inside = before * count, inside * extent
        yield from _swizzled(span)


def _swizzled(span: int) -> Iterator[str]:
    if span:
        yield f"at ^= (at >> 7 & {span // GRANULE_BYTES - 1}) << 4;"


def boxes_of(tile: Sequence[int], box: Sequence[int], tm: TensorMap) -> Boxes:
    """Return the boxes of a tile."""
    return Boxes(tuple(-(-n // b) for n, b in zip(tile, box, strict=True)), tuple(box), smem_bytes(tm))


class MovedWords:
    """The words of a plan's tiles."""

    def __init__(self, plan: MovementPlan) -> None:
        self.tiles = MovedTiles(plan)
        self.plan, self.access, self.load, self.store = plan, plan.access, self.tiles.load, self.tiles.store
        self.columns, self.margins, self.tile = self.tiles.columns, self.tiles.margins, self.tiles.tile
        self.order = self.tiles.order
        self.maps = bool(plan.tensor_maps)
        self.parameters = dict(self._open_numbers())
        """Numbers that hang on dims, by the names under which the kernel takes them, and its functions in `at`."""
        self.given, self.parameter = ("at, ", "Sizes const &at, ") if plan.guard else ("", "")

    def _open_numbers(self) -> Iterator[tuple[str, Extent]]:
        launch, found = self.plan.launch, list[tuple[str, Extent]]()
        if self.plan.guard:
            found += [("tiles", launch.tiles), ("programs", launch.programs)]
            found += [(f"count{mode}", count) for mode, count in launch.grid]
            for mode, (extent, source, target) in enumerate(self.plan.opened):
                found += [(f"extent{mode}", extent), (f"source{mode}", source // 8), (f"target{mode}", target // 8)]
        yield from ((name, number) for name, number in found if not isinstance(number, int))

    def number(self, name: str, otherwise: int) -> str:
        """Return a number in the text: what the kernel takes under a name, or the plan's own."""
        return f"at.{name}" if name in self.parameters else str(otherwise)

    @property
    def word(self) -> int:
        """Bytes of a word.

        Raises:
            LegalSatError: words are parts of bytes, which threads do not move.
        """
        if self.access.word not in WORDS:
            raise LegalSatError(f"cute has threads move words of 8, 16, 32 or 64 bits, not of {self.access.word}")
        return self.access.word // 8

    @property
    def overhangs(self) -> bool:
        """Whether tiles have words outside the tensor."""
        return bool([*self._lies()])

    def boxes(self, side: str) -> Boxes:
        """Return the boxes of a side's tensor map; of phases those of one."""
        number = 0 if side == "source" else 1
        view, tm = self.plan.views[number], self.plan.tensor_maps[number]
        tile = tuple(reversed(self.plan.shared[0].shape[1:])) if self.plan.phases else view.tile
        return boxes_of(tile, box_of(view, tm), tm)

    def together(self, words: int, side: str, place: str) -> int:
        """Return how many of so many words, as a side counts them, lie side by side in a buffer, at their multiple."""
        fast = self.order(side)[:1]
        if not fast or fast != self.order(place)[:1]:
            return 1
        shared = self.plan.shared[0 if place == "source" else len(self.plan.shared) - 1]
        row = self.boxes(place).box[0] if self.maps and (place == "source" or self.plan.store == "tma") else 0
        shifts = [phase.shift // self.word for phase in self.plan.phases]
        return math.gcd(words, GRANULE_BYTES // self.word, self.tile[fast[0]], row or shared.shape[-1], *shifts)

    def functions(self) -> str:
        """Return the functions, and the types that they take."""
        word = WORDS[8 * self.word]
        lines = [*self.sizes(), f"using Word = {word};", f"struct Modes {{ int at[{len(self.access.modes)}]; }};"]
        lines += [*self._numbers(), *self._counted("source"), *self._counted("target"), *self._whole()]
        lines += self._function(
            f"bool lies({self.parameter}Modes const &g)", [f"return {' && '.join(self._lies()) or 'true'};"]
        )
        lines += self._function(
            f"bool seen({self.parameter}Modes const &g)", [f"return {' && '.join(self._seen()) or 'true'};"]
        )
        for side in ("source", "target"):
            lines += self._function(
                f"long long {side}_byte({self.parameter}Modes const &g)", [f"return {self._byte(side)};"]
            )
        if self.plan.shared:
            lines += self._function("int source_place(Modes const &w)", self._placed(self._source_place()))
        if len(self.plan.shared) > 1:
            along = self._along(self.store)
            span = span_of(self.plan.shared[1].swizzle)
            places = self.boxes("target").place(along, self.word, span)
            lines += self._function("int target_place(Modes const &w)", self._placed(places))
        return "\n".join(lines) + "\n"

    def sizes(self) -> list[str]:
        """Return the type in which the text hands numbers on that hang on dims; nothing without."""
        named = [f"{C_TYPES[type_of(name)]} {name};" for name in self.parameters]
        return [f"struct Sizes {{ {' '.join(named)} }};"] if self.plan.guard else []

    def _function(self, head: str, body: Sequence[str]) -> list[str]:
        return [f"MOVEMENT_DEVICE {head} {{", *(f"    {line}" for line in body), "}"]

    def _placed(self, lines: Iterator[str]) -> list[str]:
        return ["int at = 0;", *lines, "return at;"]

    def count(self, mode: int, count: Any) -> str:
        """Return how many tiles there are along a mode."""
        return self.number(f"count{mode}", count)

    def _numbers(self) -> list[str]:
        lines, grid = ["Modes n{};"], self.plan.launch.grid
        for mode, count in grid[:-1]:
            lines += [f"n.at[{mode}] = tile % {self.count(mode, count)};", f"tile /= {self.count(mode, count)};"]
        lines += [f"n.at[{mode}] = tile;" for mode, _ in grid[-1:]]
        return self._function(f"Modes numbers({self.parameter}int tile)", [*lines, "return n;"])

    def _counted(self, side: str) -> list[str]:
        lines, order = ["Modes w{};"], self.order(side)
        for mode in order[:-1]:
            lines += [f"w.at[{mode}] = word % {self.tile[mode]};", f"word /= {self.tile[mode]};"]
        lines += [f"w.at[{mode}] = word;" for mode in order[-1:]]
        return self._function(f"Modes in_{side}(int word)", [*lines, "return w;"])

    def _whole(self) -> list[str]:
        steps = "".join(f"g.at[{m}] = n.at[{m}] * {t} + w.at[{m}];\n" for m, t in enumerate(self.tile))
        lines = ["Modes g;", *steps.splitlines()]
        if self.columns:  # which go on from row to row, and from image to image
            pixels = self.load.groups[-1]
            lines.append(f"int pixel = g.at[{pixels[0]}];")
            for mode in pixels[:-1]:
                extent = self.access.modes[mode].extent
                lines += [f"g.at[{mode}] = pixel % {extent};", f"pixel /= {extent};"]
            lines.append(f"g.at[{pixels[-1]}] = pixel;")
        return self._function("Modes whole(Modes const &n, Modes const &w)", [*lines, "return g;"])

    def _lies(self) -> Iterator[str]:
        pixels = self.load.groups[-1] if self.columns else ()
        for m, (mode, tile) in enumerate(zip(self.access.modes, self.tile, strict=True)):
            extent = self.number(f"extent{m}", mode.extent)
            if extent != str(mode.extent) or mode.extent % tile or m in pixels:
                yield f"g.at[{m}] < {extent}"

    def _seen(self) -> Iterator[str]:
        for m, margin in enumerate(self.margins):
            if margin.before:
                yield f"g.at[{m}] >= {margin.before}"
            if margin.before + margin.held < self.access.modes[m].extent:
                yield f"g.at[{m}] < {margin.before + margin.held}"
        window = self.plan.window
        if window is None or self.columns:
            return
        for sweep, tap, pixel in zip(window.sweeps, window.taps, window.pixels, strict=False):
            met = f"{sweep.step} * g.at[{pixel}] + {sweep.dilation} * g.at[{tap}] - {sweep.before}"
            yield f"static_cast<unsigned>({met}) < {sweep.extent}u"

    def _byte(self, side: str) -> str:
        strides = [f"{getattr(mode, side) // 8}ll" for mode in self.access.modes]
        strides = [f"at.{side}{m}" if f"{side}{m}" in self.parameters else one for m, one in enumerate(strides)]
        terms = [f"{stride} * g.at[{m}]" for m, stride in enumerate(strides)]
        lead = 0
        if side == "source":
            lead += sum(
                margin.before * mode.source for margin, mode in zip(self.margins, self.access.modes, strict=False)
            )
            lead += self.plan.window.lead if self.plan.window is not None else 0
        return " + ".join(terms) + (f" - {lead // 8}ll" if lead else "")

    def _along(self, view: View) -> list[str]:
        """Return the place of word `w` in its tile along each dimension."""
        found = []
        for group in view.groups:
            terms, scale = [], 1
            for mode in group:
                if self.tile[mode] > 1:
                    terms.append(f"w.at[{mode}] * {scale}")
                scale *= self.tile[mode]
            found.append(f"({' + '.join(terms)})" if terms else "0")
        return found

    def _source_place(self) -> Iterator[str]:
        plan, shared = self.plan, self.plan.shared[0]
        if not self.maps:
            yield from self._in_rows(shared)
            return
        along = self._along(self.load)
        if plan.phases:
            # Rows of a phase lie together, begun as many bytes early as their starts lie behind granules.
            count, part = len(plan.phases), shared.bytes // len(plan.phases)
            bits = 8 * GRANULE_BYTES
            at = next((d for d, s in enumerate(self.load.stride) if d and s % bits and self.load.extent[d] > 1), -1)
            yield f"int const phase = {along[at]} % {count};" if count > 1 else "int const phase = 0;"
            yield f"at += phase * {part};"
            along[at] = f"({along[at]} / {count})"
            first, step = plan.phases[0].shift, self.load.stride[at] // 8 % GRANULE_BYTES
            along[0] = f"({along[0]} + ({first} + phase * {step}) % {GRANULE_BYTES} / {self.word})"
        yield from self.boxes("source").place(along, self.word, span_of(shared.swizzle))

    def _in_rows(self, shared: SharedTile) -> Iterator[str]:
        terms, before = [], 1
        for mode in self.order("source"):
            terms.append(f"w.at[{mode}] * {before}")
            before *= self.tile[mode]
        row, span = shared.shape[-1] * self.word, span_of(shared.swizzle)
        yield f"int const byte = ({' + '.join(terms) or '0'}) * {self.word};"
        if not span:
            yield "at = byte;"
            return
        rows = math.prod(shared.shape[:-1])
        yield f"int const row = byte / {row}, column = byte % {row};"
        yield f"at = column / {span} * {span * rows} + row * {span} + column % {span};"
        yield from _swizzled(span)


def type_of(name: str) -> str:
    """Return the type of a number that a kernel takes: strides have 64 bits."""
    return "i64" if name.startswith(("source", "target")) else "i32"


def indented(text: str) -> str:
    """Return lines of a body."""
    return indent(text, "    ")
