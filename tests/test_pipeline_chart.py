"""Timing of a pipeline and its chart: bars where the steps are, one after the other where they must be."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from faulty_pipelines import faulty

from bench.kernels.example_pipelines import EXAMPLES, one_buffer, simple_wgmma
from legalsat.analyses.protocol.pipeline_timing import LATENCIES, Span, Timing, timed
from legalsat.errors import InvalidInput
from legalsat.program.pipeline import Arrive, At, Pipeline, WaitGroup
from legalsat.view.pipeline_chart import gantt

SVG = "{http://www.w3.org/2000/svg}"


def lane(timing: Timing, name: str) -> list[Span]:
    return sorted((s for s in timing.spans if s.lane == name), key=lambda s: (s.start, s.end))


def spec(pipeline: Pipeline, trips: int) -> dict[str, int]:
    return dict.fromkeys(pipeline.symbols, trips)


def test_a_load_after_a_load_takes_what_was_asked() -> None:
    """One role: issue, fly, wake, read, again; 16,384 bytes at 16 a ns are 1,024 ns."""
    times = {"Load": 500.0, "bytes per ns": 16.0, "wake": 7.0, "issue": 1.0, "Read": 3.0}
    timing = timed(one_buffer(), {"K tiles": 3}, times)
    loads = lane(timing, "loads")
    assert [span.end - span.start for span in loads] == [1524.0] * 3
    # The wait's own ns, the fence's after the read, the expectation's and the lie between.
    assert [b.start - a.end for a, b in pairwise(loads)] == [7.0 + 1.0 + 3.0 + 1.0 + 2.0] * 2
    assert timing.end == loads[-1].end + 7.0 + 1.0 + 3.0 + 1.0


@pytest.mark.parametrize("name", EXAMPLES)
def test_nobody_does_two_things_at_once(name: str) -> None:
    timing = timed(EXAMPLES[name], spec(EXAMPLES[name], 2))
    assert not timing.stuck
    serial = [n for n in timing.lanes if not n.endswith(("loads", "stores"))]
    for spans in (lane(timing, name) for name in serial):
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(spans))
    assert max(span.end for span in timing.spans) == timing.end


def test_more_stages_are_never_slower_and_hide_the_latency() -> None:
    ends = [timed(simple_wgmma(stages), {"K tiles": 16}).end for stages in (1, 2, 3, 4, 6)]
    assert ends == sorted(ends, reverse=True)
    busy = 16 * LATENCIES["Multiply"]
    assert ends[0] > 3 * busy
    assert ends[-1] < 3 * busy


def test_what_waits_for_ever_is_told() -> None:
    pipeline = faulty("simple wgmma", "consumer", Arrive("empty", At("c")))
    timing = timed(pipeline, {"K tiles": 5})
    assert timing.stuck == (
        "producer waits for ever: wait empty[0] phase 0",
        "consumer waits for ever: wait full[0] phase 1",
    )
    text = gantt(pipeline, {"K tiles": 5})
    assert "never ends" in text
    assert all(line in text for line in timing.stuck)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_chart_has_every_lane_and_every_bar_inside(name: str) -> None:
    pipeline = EXAMPLES[name]
    timing = timed(pipeline, spec(pipeline, 2))
    root = ElementTree.fromstring(gantt(pipeline, spec(pipeline, 2)))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert all(lane in texts for lane in timing.lanes)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]
    assert len(bars) == sum(span.kind != "wait" for span in timing.spans)
    for bar in bars:
        x, y = float(bar.attrib["x"]), float(bar.attrib["y"])
        assert 0 <= x <= x + float(bar.attrib["width"]) <= width
        assert 0 <= y <= y + float(bar.attrib["height"]) <= height


def test_bars_of_an_engine_do_not_cover_each_other() -> None:
    root = ElementTree.fromstring(gantt(EXAMPLES["persistent wgmma"], {"tiles": 2, "K tiles": 5}))
    rows: dict[str, list[tuple[float, float]]] = {}
    for bar in root.iter(f"{SVG}rect"):
        title = bar.find(f"{SVG}title")
        if title is not None and re.match("load|store|multiply", title.text or "") and float(bar.attrib["width"]) > 3:
            rows.setdefault(bar.attrib["y"], []).append((float(bar.attrib["x"]), float(bar.attrib["width"])))
    assert len(rows) > 4
    for bars in rows.values():
        assert all(a[0] + a[1] <= b[0] + 0.2 for a, b in pairwise(sorted(bars)))


def test_colours_are_stages() -> None:
    text = gantt(simple_wgmma(2), {"K tiles": 4})
    colours: dict[str, set[str]] = {}
    for colour, stage in re.findall(r'fill="(#\w+)"[^>]*><title>load A\[(\d)\]', text):
        colours.setdefault(stage, set()).add(colour)
    assert {stage: len(found) for stage, found in colours.items()} == {"0": 1, "1": 1}
    assert colours["0"] != colours["1"]


def test_it_reads_on_dark_pages_and_names_its_subject() -> None:
    text = gantt(simple_wgmma(2), {"K tiles": 4})
    assert "prefers-color-scheme:dark" in text
    assert re.search(r"<title>Pipeline of 4 K tiles, ends after [\d,]+ ns</title>", text)


def test_a_product_that_is_waited_for_late_lets_loads_go_on() -> None:
    """Waiting for each product at once leaves the matrix unit idle in between."""
    eager = timed(EXAMPLES["wgmma in flight, 1 consumer"], {"K tiles": 8})
    waits = faulty("wgmma in flight, 1 consumer", "consumer", WaitGroup("wgmma", 1), WaitGroup("wgmma", 0))
    assert timed(waits, {"K tiles": 8}).end >= eager.end


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Lod"):
        timed(one_buffer(), {"K tiles": 1}, {"Lod": 1.0})
    with pytest.raises(InvalidInput, match="negative"):
        gantt(one_buffer(), {"K tiles": 1}, {"Load": -1.0})
    with pytest.raises(InvalidInput, match="K tiles"):
        gantt(one_buffer(), {})
