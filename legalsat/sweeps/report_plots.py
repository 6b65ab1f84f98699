"""The plots of a sweep's report as SVG. Text and colours are the page's, by class; points are gathered in cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import NamedTuple

import numpy as np

from legalsat.extract.cost.cost import NOMINAL
from legalsat.sweeps.columns import LEGAL, REFUSED, REPAIRED
from legalsat.sweeps.report_numbers import Answers, Floats, Ints, Mask
from legalsat.targets import Device
from legalsat.targets import target as as_target
from legalsat.view.show import byte_count

_WIDTH, _HEIGHT = 440, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 14, 46
_END, _FLOOR = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
_CELL = 7.0  # units across, of the hexagonal cells in which points are gathered
_SIZES = (3.4, 4.8, 6.2, 7.6)  # units across, of marks for 1, 10, 100, 1000 and more
_TICKS = 7  # on an axis at most
_BAR_STEPS = 4  # a bar of bytes reaches that many times as far as the one before
_SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Range(NamedTuple):
    """The ends of a logarithmic axis, or of one between plain numbers."""

    low: float
    high: float
    logarithmic: bool = True

    def place(self, value: float) -> float:
        """Return where a value stands between the ends, 0 to 1."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def places(self, values: Floats) -> Floats:
        """Return where values stand between the ends."""
        found: Floats = np.log(values / self.low) / math.log(self.high / self.low)
        return found

    def ticks(self) -> list[float]:
        """Return round numbers between the ends."""
        if not self.logarithmic:
            return [self.low + (self.high - self.low) * part / 4 for part in range(5)]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        if last - first <= 2:
            rounds = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 1.5, 2, 3, 5)]
        else:
            rounds = [10.0**power for power in range(first, last + 1)]
        seen = [value for value in rounds if self.low <= value <= self.high]
        return seen[:: math.ceil(len(seen) / _TICKS) or 1]


class Axis(NamedTuple):
    """An axis: its ends, what it measures, and how its values are written."""

    range: Range
    label: str
    word: Callable[[float], str]


class Frame:
    """A plot with two axes.

    Args:
        name: of the plot, unlike those of others on its page.
        across, up: its axes; bars label the one across themselves, and leave its `word` empty.
    """

    def __init__(self, name: str, across: Axis, up: Axis) -> None:
        self.name, self.across, self.up = name, across, up
        self.parts = [f'<clipPath id="{name}"><path d="M{_LEFT} {_TOP}H{_END}V{_FLOOR}H{_LEFT}z"/></clipPath>']
        for value in across.range.ticks():
            if word := across.word(value):
                self.parts.append(f'<path class="grid" d="M{_n(self.x(value))} {_TOP}V{_FLOOR}"/>')
                self.text(self.x(value), _FLOOR + 16, word, anchor="middle")
        for value in up.range.ticks():
            self.parts.append(f'<path class="grid" d="M{_LEFT} {_n(self.y(value))}H{_END}"/>')
            self.text(_LEFT - 6, self.y(value) + 4, up.word(value), anchor="end")
        self.parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_FLOOR}H{_END}"/>')
        self.text((_LEFT + _END) / 2, _HEIGHT - 8, across.label, anchor="middle", kind="label")
        turned = f'transform="translate(12 {(_TOP + _FLOOR) / 2}) rotate(-90)"'
        self.parts.append(f'<text class="label" text-anchor="middle" {turned}>{escape(up.label)}</text>')

    def x(self, value: float) -> float:
        """Return where a value stands across."""
        return _LEFT + self.across.range.place(value) * (_END - _LEFT)

    def y(self, value: float) -> float:
        """Return where a value stands up."""
        return _FLOOR - self.up.range.place(value) * (_FLOOR - _TOP)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> None:
        """Write a line of text."""
        said = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{said} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, kind: str, *points: tuple[float, float]) -> None:
        """Draw a line through values, cut off where the axes end."""
        path = "L".join(f"{_n(self.x(x))} {_n(self.y(y))}" for x, y in points)
        self.parts.append(f'<path class="{kind}" clip-path="url(#{self.name})" d="M{path}"/>')

    def dots(self, kind: str, across: Floats, up: Floats, weights: Floats) -> None:
        """Draw a mark for each cell that holds points, at their mean, larger where they weigh more."""
        if not len(across):
            return
        x, y, cell = self._gathered(across, up)
        held = np.bincount(cell)
        weight = np.bincount(cell, weights)
        size = np.clip(np.log10(np.maximum(weight, 1)).astype(np.int64), 0, len(_SIZES) - 1)
        means = np.stack([np.bincount(cell, x) / held, np.bincount(cell, y) / held], axis=1)
        for step, across_units in enumerate(_SIZES):
            # A line of no length with round ends is a dot; one path holds them all.
            path = "".join(f"M{_n(px)} {_n(py)}h0" for px, py in means[size == step])
            if path:
                self.parts.append(f'<path class="dots {kind}" stroke-width="{across_units}" d="{path}"/>')

    def diamonds(self, kind: str, across: Floats, up: Floats) -> None:
        """Draw an outlined mark for each cell that holds points, at their mean."""
        if not len(across):
            return
        x, y, cell = self._gathered(across, up)
        held = np.bincount(cell)
        means = zip(np.bincount(cell, x) / held, np.bincount(cell, y) / held, strict=True)
        path = "".join(f"M{_n(px)} {_n(py - 3.2)}l3.2 3.2l-3.2 3.2l-3.2 -3.2z" for px, py in means)
        self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def _gathered(self, across: Floats, up: Floats) -> tuple[Floats, Floats, Ints]:
        """Return where values stand, and which cell each is in."""
        x = _LEFT + self.across.range.places(across) * (_END - _LEFT)
        y = _FLOOR - self.up.range.places(up) * (_FLOOR - _TOP)
        _, cell = np.unique(_hexagons(x, y), axis=0, return_inverse=True)
        return x, y, cell.reshape(-1)

    def svg(self, title: str, description: str) -> str:
        """Return the plot; the description is for those who cannot see it."""
        return "\n".join(
            [
                f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
                f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
                *self.parts,
                "</svg>",
            ]
        )


def roofline(answers: Answers) -> str:
    """Return operations a second against operations a byte, below the roof of the target's datasheet."""
    numbers, verdict = answers.numbers, answers.words["verdict"]
    flops, size, predicted, measured = (
        numbers[name].astype(np.float64) for name in ("flops", "bytes", "predicted_ns", "measured_ns")
    )
    counted = (flops > 0) & (size > 0)
    some = counted & ((predicted > 0) | (measured > 0))
    device = as_target(answers.target).device or NOMINAL
    roofs = _roofs(answers, some, device)
    top = max((roof for roof, _ in roofs), default=device.bf16_flops)
    intensity = np.divide(flops, size, out=np.ones_like(flops), where=counted)
    ridge = top / device.memory_bandwidth
    rates = [flops[some & (time > 0)] / time[some & (time > 0)] * 1e9 for time in (predicted, measured)]
    across = _around(np.append(intensity[some], [ridge / 8, ridge * 3]))
    up = _around(np.concatenate([*rates, [top * 1.5, top / 30]]))
    frame = Frame(
        "roofline",
        Axis(across, "operations a byte", lambda value: f"{value:g}"),
        Axis(up, "operations a second", _si),
    )
    for roof, _ in roofs:
        bend = roof / device.memory_bandwidth
        frame.line("roof", (max(bend, across.low), roof), (across.high, roof))
    frame.line("roof", (across.low, across.low * device.memory_bandwidth), (ridge, top))
    for kind in (LEGAL, REPAIRED, REFUSED):
        chosen = some & (predicted > 0) & verdict.among([kind])
        frame.dots(kind, intensity[chosen], flops[chosen] / predicted[chosen] * 1e9, np.ones(int(chosen.sum())))
    chosen = some & (measured > 0)
    frame.diamonds("measured", intensity[chosen], flops[chosen] / measured[chosen] * 1e9)
    _along_the_slope(frame, device, ridge)
    for roof, dtypes in roofs:
        frame.text(_END - 4, frame.y(roof) - 5, f"{dtypes}: {_si(roof)}", anchor="end", kind="note")
    return frame.svg(
        f"Roofline of {answers.target}",
        f"{int((some & (predicted > 0)).sum())} predicted and {int(chosen.sum())} measured problems below the roof of "
        f"{_si(device.memory_bandwidth)}B/s and {_si(top)} operations a second",
    )


def _roofs(answers: Answers, some: Mask, device: Device) -> list[tuple[float, str]]:
    """Return how many operations a second the matrix units make at most, each with the types that it is for."""
    rates = dict(as_target(answers.target).multiplies)
    dtypes = answers.words["dtype"]
    there = [dtypes.values[place] for place in np.unique(dtypes.at[some])]
    roofs: dict[float, list[str]] = {}
    for dtype in sorted(there):
        if dtype in rates:
            roofs.setdefault(device.bf16_flops * rates[dtype], []).append(dtype)
    return [(roof, ", ".join(names)) for roof, names in sorted(roofs.items(), reverse=True)]


def _along_the_slope(frame: Frame, device: Device, ridge: float) -> None:
    """Write the memory's bandwidth along its roof, near the middle of what is seen of it."""
    low = max(frame.across.range.low, frame.up.range.low / device.memory_bandwidth)
    at = math.sqrt(low * ridge)
    x, y = frame.x(at), frame.y(at * device.memory_bandwidth)
    angle = math.degrees(math.atan2(frame.y(10 * at * device.memory_bandwidth) - y, frame.x(10 * at) - x))
    turned = f'transform="translate({_n(x)} {_n(y)}) rotate({_n(angle)})" y="-6"'
    said = f"memory: {_si(device.memory_bandwidth)}B/s"
    frame.parts.append(f'<text class="note" text-anchor="middle" {turned}>{said}</text>')


def gain_plot(answers: Answers) -> str:
    """Return how many times faster repaired problems are predicted, against their time; empty without any."""
    before, after = (answers.numbers[name].astype(np.float64) for name in ("predicted_ns", "repaired_ns"))
    chosen = answers.words["verdict"].among([REPAIRED]) & (before > 0) & (after > 0)
    if not chosen.any():
        return ""
    before, gain = before[chosen], before[chosen] / after[chosen]
    across, up = _around(before), Range(float(min(gain.min(), 1) / 1.1), float(max(gain.max(), 2) * 1.1))
    frame = Frame(
        "gains",
        Axis(across, "predicted time as it is", _time),
        Axis(up, "time as it is by time after repair", lambda value: f"{value:g}×"),
    )
    frame.line("strong", (across.low, 1), (across.high, 1))
    frame.dots(REPAIRED, before, gain, answers.numbers["count"][chosen].astype(np.float64))
    return frame.svg(
        "Gains of repaired problems",
        f"{len(gain)} problems: predicted time as it is by that after repair, between {gain.min():.2f} and "
        f"{gain.max():.2f}; above 1 the repair is a gain",
    )


def bytes_plot(answers: Answers) -> str:
    """Return how many repaired problems add how many bytes, as bars; empty without any."""
    added = answers.numbers["bytes_added"][answers.words["verdict"].among([REPAIRED])]
    if not len(added):
        return ""
    # Bar 0 is for nothing added, bar n for at most 64 * 4^(n-1) bytes, and from those of bar n - 1 on.
    bars = [0, 64]
    while bars[-1] < added.max():
        bars.append(bars[-1] * _BAR_STEPS)
    counts = np.bincount(np.searchsorted(bars, added), minlength=len(bars))
    first = next((n for n, count in enumerate(counts[1:], start=1) if count), 1)
    kept = [0, *range(first, len(bars))]
    top = _round_up(int(counts.max()))
    frame = Frame(
        "bytes",
        Axis(Range(0, len(kept), logarithmic=False), "bytes that a repair adds, at most", lambda _: ""),
        Axis(Range(0, top, logarithmic=False), "problems", lambda value: f"{value:g}"),
    )
    wide = (_END - _LEFT) / len(kept)
    every = max(1, math.ceil(len(kept) / 8))
    for place, bar in enumerate(kept):
        x, y = _LEFT + place * wide, frame.y(float(counts[bar]))
        frame.parts.append(
            f'<path class="bar" d="M{_n(x + wide * 0.12)} {_FLOOR}V{_n(y)}H{_n(x + wide * 0.88)}V{_FLOOR}z"/>'
        )
        if counts[bar]:
            frame.text(x + wide / 2, y - 5, str(counts[bar]), anchor="middle", kind="note")
        if place % every == 0:
            word = (
                "none" if bar == 0 else byte_count(bars[bar]).replace("bytes", "B").replace("iB", "").replace(" ", "")
            )
            frame.text(x + wide / 2, _FLOOR + 16, word, anchor="middle")
    described = ", ".join(f"{counts[bar]} at most {byte_count(bars[bar])}" for bar in kept if counts[bar])
    return frame.svg("Bytes that repairs add", f"problems by the bytes that their repairs add: {described}")


def _hexagons(x: Floats, y: Floats) -> Ints:
    """Return the hexagonal cell that each point lies in, as two numbers: the nearer centre of two shifted grids."""
    tall = _CELL * math.sqrt(3)
    centres = []
    for shift in (0.0, 0.5):
        column, row = np.round(x / _CELL - shift), np.round(y / tall - shift)
        distance = (x - (column + shift) * _CELL) ** 2 + (y - (row + shift) * tall) ** 2
        centres.append((2 * column + (shift > 0), 2 * row + (shift > 0), distance))
    (c0, r0, d0), (c1, r1, d1) = centres
    nearer = d0 <= d1
    found: Ints = np.stack([np.where(nearer, c0, c1), np.where(nearer, r0, r1)], axis=1).astype(np.int64)
    return found


def _around(values: Floats) -> Range:
    """Return ends that hold all values with some room."""
    return Range(float(values.min()) / 1.4, float(values.max()) * 1.4)


def _round_up(count: int) -> int:
    """Return a number above `count` whose quarters are round."""
    quarter = (count + 1) / 4
    power: int = 10 ** max(math.floor(math.log10(quarter)), 0)
    return 4 * power * next(digit for digit in (1, 2, 3, 4, 5, 6, 8, 10) if digit * power >= quarter)


def _si(value: float) -> str:
    scale, letter = next(((s, x) for s, x in _SCALES if value >= s), (1.0, ""))
    return f"{value / scale:.3g} {letter}".rstrip() if letter else f"{value:.3g}"


def _time(nanoseconds: float) -> str:
    if nanoseconds >= 1e9:
        return f"{nanoseconds / 1e9:g} s"
    scale, unit = next(((s, u) for s, u in ((1e6, "ms"), (1e3, "us")) if nanoseconds >= s), (1.0, "ns"))
    return f"{nanoseconds / scale:g} {unit}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
