"""A pipeline as a picture: who does what when, as a Gantt chart in SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

from legalsat.errors import InvalidInput
from legalsat.program.pipeline import Pipeline
from legalsat.view.svg import HUES, Drawing

if TYPE_CHECKING:
    from legalsat.analyses.protocol.pipeline_timing import Span, Tick, Timing

_WIDTH, _LEFT, _RIGHT, _ROW, _BAR, _GAP, _TOP = 1120, 130, 20, 24, 16, 10, 46
_LETTER = 6.2  # width of a letter of the labels

# Plain rules, no variables: not every viewer of SVG knows these.
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#1b1f24}.dim{fill:#57606a}.right{text-anchor:end}
.in{text-anchor:middle;pointer-events:none}.page{fill:#fff}.band{fill:#f3f5f7}.grid{stroke:#d8dee4}
.wait{stroke:#8c959f;stroke-width:2;stroke-dasharray:1 3}.none{fill:#afb8c1}
.pass{fill:#1b1f24}.give{fill:none;stroke:#1b1f24}.bad{fill:#cf222e;font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}.page{fill:#0d1117}.band{fill:#171d25}
.grid{stroke:#30363d}.wait{stroke:#8b949e}.none{fill:#656c76}.pass{fill:#e6edf3}.give{stroke:#e6edf3}.bad{fill:#ff7b72}}
"""


def gantt(pipeline: Pipeline, values: Mapping[str, int], latencies: Mapping[str, float] | None = None) -> Drawing:
    """Return a chart of the course in which all happens as soon as it can, as an SVG document.

    A lane for each role instance and each engine; colours are stages of the rings, dotted lines waits, filled triangles
    waits that are over, open ones arrivals and expectations. It reads on light and on dark pages.

    Args:
        pipeline: what to draw.
        values: of its symbols.
        latencies: times in ns, by the names of `analyses.pipeline_timing.LATENCIES`, which holds those left out.

    Raises:
        InvalidInput: an unknown name, a negative time, or no value for a symbol.
    """
    from legalsat.analyses.protocol.pipeline_timing import timed  # noqa: PLC0415

    if not isinstance(pipeline, Pipeline):
        raise InvalidInput(f"a chart is of a Pipeline, not of {type(pipeline).__name__}; give plan.pipeline")
    for what, given in (("values", values), ("latencies", {} if latencies is None else latencies)):
        if not isinstance(given, Mapping):
            raise InvalidInput(f"{what} is of type {type(given).__name__}; give a dict of names and numbers")
    timing = timed(pipeline, values, latencies)
    return _Chart(timing).draw(", ".join(f"{values[name]} {name}" for name in pipeline.symbols))


class _Chart:
    def __init__(self, timing: Timing) -> None:
        self.timing, self.scale = timing, (_WIDTH - _LEFT - _RIGHT) / max(timing.end, 1.0)
        self.rows: dict[str, int] = {}
        self.places: dict[Span, int] = {}
        self.tops: dict[str, float] = {}
        top: float = _TOP
        for lane in timing.lanes:
            self.rows[lane] = self.placed([s for s in timing.spans if s.lane == lane and s.kind == "flight"])
            self.tops[lane] = top
            top += self.rows[lane] * _ROW + _GAP
        self.bottom = top

    def placed(self, spans: list[Span]) -> int:
        """Give spans of an engine that overlap a row each; return how many rows it takes."""
        ends: list[float] = []
        for span in sorted(spans, key=lambda s: (s.start, s.end)):
            row = next((i for i, end in enumerate(ends) if end <= span.start), len(ends))
            ends[row : row + 1] = [span.end]
            self.places[span] = row
        return max(1, len(ends))

    def x(self, time: float) -> float:
        return _LEFT + time * self.scale

    def draw(self, subject: str) -> Drawing:
        height = self.bottom + 40 + 16 * len(self.timing.stuck)
        end = "never ends" if self.timing.stuck else f"ends after {self.timing.end:,.0f} ns"
        title = f"Pipeline{' of ' if subject else ''}{subject}, {end}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" role="img"'
            ' style="max-width:100%;height:auto">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            f'<rect class="page" width="{_WIDTH}" height="{height:.0f}"/>',
            f'<text x="10" y="18">{escape(title)}</text>',
            *self.axis(),
            *self.lanes(),
            *(self.span(span) for span in self.timing.spans),
            *(self.tick(tick) for tick in self.timing.ticks),
            *self.legend(),
            *(self.stuck(number, text) for number, text in enumerate(self.timing.stuck)),
            "</svg>",
        ]
        return Drawing("\n".join(parts) + "\n")

    def stuck(self, number: int, text: str) -> str:
        y = self.bottom + 46 + 16 * number
        return f'<text class="bad" x="10" y="{y:.0f}">{escape(text)}</text>'

    def axis(self) -> Iterable[str]:
        step = next((s for s in _steps() if self.timing.end / s <= 12), 1.0)
        for i in range(int(self.timing.end / step) + 1):
            x = self.x(i * step)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{self.bottom - _GAP:.0f}"/>'
            yield f'<text class="dim in" x="{x:.1f}" y="{_TOP - 10}">{i * step:,.0f}{" ns" * (i == 0)}</text>'

    def lanes(self) -> Iterable[str]:
        for lane, top in self.tops.items():
            height = self.rows[lane] * _ROW
            yield f'<rect class="band" x="{_LEFT}" y="{top:.0f}" width="{_WIDTH - _LEFT - _RIGHT}" height="{height}"/>'
            middle = top + height / 2 + 4
            yield f'<text class="right" x="{_LEFT - 8}" y="{middle:.0f}">{escape(lane)}</text>'

    def span(self, span: Span) -> str:
        x, width = self.x(span.start), (span.end - span.start) * self.scale
        top = self.tops[span.lane] + self.places.get(span, 0) * _ROW + (_ROW - _BAR) / 2
        told = f"<title>{escape(span.text)}, {span.start:,.0f} to {span.end:,.0f} ns</title>"
        if span.kind == "wait":
            y = top + _BAR / 2
            return f'<line class="wait" x1="{x:.1f}" x2="{x + width:.1f}" y1="{y}" y2="{y}">{told}</line>'
        fill, ink = HUES[span.stage % len(HUES)] if span.stage >= 0 else ("", "")
        look = f'fill="{fill}"' if fill else 'class="none"'
        bar = f'<rect {look} x="{x:.1f}" y="{top}" width="{max(width, 1):.1f}" height="{_BAR}" rx="2">{told}</rect>'
        fits = [text for text in _labels(span.text) if len(text) * _LETTER <= width - 4]
        if span.kind != "flight" or not fits:
            return bar
        label = f'<text class="in" x="{x + width / 2:.1f}" y="{top + 12}" style="fill:{ink}">{escape(fits[0])}</text>'
        return bar + label

    def tick(self, tick: Tick) -> str:
        x, y = self.x(tick.time), self.tops[tick.lane] + (0 if tick.passes else _ROW)
        tip = y + 5 if tick.passes else y - 5
        told = f"<title>{escape(tick.text)}, {tick.time:,.0f} ns</title>"
        points = f"{x - 3:.1f},{y:.0f} {x + 3:.1f},{y:.0f} {x:.1f},{tip:.0f}"
        return f'<polygon class="{"pass" if tick.passes else "give"}" points="{points}">{told}</polygon>'

    def legend(self) -> Iterable[str]:
        x, y = float(_LEFT), self.bottom + 12
        for stage in range(min(self.timing.stages, len(HUES))):
            yield f'<rect fill="{HUES[stage].fill}" x="{x}" y="{y}" width="12" height="12" rx="2"/>'
            yield f'<text x="{x + 17}" y="{y + 10}">stage {stage}</text>'
            x += 70
        yield f'<polygon class="pass" points="{x},{y + 3} {x + 8},{y + 3} {x + 4},{y + 10}"/>'
        yield f'<text x="{x + 13}" y="{y + 10}">a wait is over</text>'
        yield f'<polygon class="give" points="{x + 100},{y + 10} {x + 108},{y + 10} {x + 104},{y + 3}"/>'
        yield f'<text x="{x + 113}" y="{y + 10}">arrives, expects or commits</text>'
        yield f'<line class="wait" x1="{x + 275}" x2="{x + 299}" y1="{y + 6}" y2="{y + 6}"/>'
        yield f'<text x="{x + 305}" y="{y + 10}">waits</text>'


def _labels(text: str) -> tuple[str, str]:
    """Return "A 3" and "3" for "load A[1]: item 3"."""
    what, _, item = text.partition(": item ")
    names = "".join(word.split("[")[0] for word in what.split(" ", 1)[-1].split(", "))
    return f"{names} {item}", item


def _steps() -> Iterable[float]:
    """Yield distances of grid lines: 1, 2, 5, 10, ..."""
    for power in range(10):
        yield from (float(n * 10**power) for n in (1, 2, 5))
