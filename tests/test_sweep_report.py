"""The report of a sweep: its numbers counted again from the answers, and the page used in Chromium."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import PHONE, chromium_browser, page_opener  # noqa: F401 - fixtures

from legalsat.cli import main
from legalsat.errors import InvalidInput

pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow; install legalsat[sweep]")

from legalsat.sweeps.engine import sweep  # noqa: E402 - needs what was asked for above
from legalsat.sweeps.report import report  # noqa: E402
from legalsat.sweeps.report_numbers import spread  # noqa: E402

FAILURES_FIRST = ["invalid", "refused", "repaired", "legal"]
VERDICTS = ("legal", "repaired", "refused")
NASTY = "<script>window.hacked=1</script>\"'&<img src=x onerror=window.hacked=1>"
Row = dict[str, Any]


def problems() -> list[Row]:
    rows: list[Row] = [
        {"m": m, "n": n, "k": k, "dtype": dtype, "count": count, "name": f"layers.{m}.mlp", "measured_ns": measured}
        for m, n, k, dtype, count, measured in (
            (4096, 4096, 4096, "bf16", 32, 0),
            (4096, 4096, 4095, "bf16", 4, 310000.5),
            (16, 4095, 1023, "bf16", 80, 0),
            (512, 1000, 4100, "e4m3", 3, 9000),
            (512, 1024, 4096, "e4m3", 7, 8000),
            (300, 301, 302, "fp16", 11, 0),
            (64, 64, 64, "fp64", 5, 0),
        )
    ]
    rows += [{**rows[1], "m": 8 * n, "name": NASTY if n == 7 else "", "count": n} for n in range(1, 130)]
    shape = {"batch": 1, "heads": 8, "queries": 128, "keys": 1024}
    rows += [{**shape, "head": head, "dtype": "bf16", "count": 2} for head in (64, 33)]
    rows += [{"operator": "transpose", "shape": "128x1001"}, {"operator": NASTY, "m": 1}, {"m": -3, "n": 1, "k": 1}]
    return rows


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "a<b>&nswers.parquet"
    sweep(problems(), "h200", out=path, workers=1)
    return path


@pytest.fixture(scope="module")
def page(answers: Path) -> Path:
    path = answers.with_name("report.html")
    report(answers, path)
    return path


@pytest.fixture(scope="module")
def rows(answers: Path) -> list[Row]:
    found: list[Row] = pyarrow.parquet.read_table(answers).to_pylist()
    return found


def packed(page: Path, name: str) -> Any:
    """Return what a page has packed under a name."""
    held = re.search(rf'id="packed-{name}">([^<]*)<', page.read_text(encoding="utf-8"))
    assert held
    return json.loads(gzip.decompress(base64.b64decode(held[1])))


def weight_of(weight: str) -> Callable[[Row], float]:
    return {
        "problems": lambda row: 1,
        "runs": lambda row: row["count"],
        "time": lambda row: row["count"] * (row["predicted_ns"] or row["bound_ns"]),
    }[weight]


def counted(rows: list[Row], weight: str, test: Callable[[Row], bool] = lambda row: True) -> Counter[str]:
    """Return what the rows of each verdict count."""
    found: Counter[str] = Counter()
    for row in rows:
        if row["verdict"] != "invalid" and test(row):
            found[row["verdict"]] += weight_of(weight)(row)  # type: ignore[assignment]
    return found


def percent(part: float, of: float) -> str:
    return f"{100 * part / of:.1f}%"


@pytest.mark.parametrize("weight", ["problems", "runs", "time"])
def test_shares_are_those_of_the_answers(page: Path, rows: list[Row], weight: str) -> None:
    text, every = page.read_text(encoding="utf-8"), counted(rows, weight)
    assert len({*every.values()}) == len(VERDICTS), "each its own number, so that none passes for another"
    total = sum(every.values())
    tiles = re.findall(rf'<span class="big">.*?data-by="{weight}">([^<]*)<', text)
    off, mended = every["repaired"] + every["refused"], every["legal"] + every["repaired"]
    assert tiles == [percent(part, total) for part in (every["legal"], off, mended, every["refused"])]
    for column, values in (("operator", ("gemm", "attention", "transpose")), ("dtype", ("bf16", "e4m3", "fp16"))):
        for value in values:
            bars = _bar(text, column, value, weight)
            group = counted(rows, weight, lambda row, c=column, v=value: row[c] == v)  # type: ignore[misc]
            assert bars == [f"{kind} {percent(group[kind], sum(group.values()))}" for kind in VERDICTS]


def _bar(text: str, column: str, value: str, weight: str) -> list[str]:
    """Return what a group's bar says to those who cannot see it."""
    line = next(one for one in text.split("<tr>") if f'data-show="{column}" data-value="{value}"' in one)
    said = re.search(rf'data-by="{weight}"><div class="bar3" role="img" aria-label="([^"]*)"', line)
    assert said
    return said[1].split(", ")


def test_each_reason_counts_its_problems(page: Path, rows: list[Row]) -> None:
    text = page.read_text(encoding="utf-8")
    expected = Counter(code for row in rows for code in row["codes"].split(", ") if code)
    assert len(expected) > 2
    for code, count in expected.items():
        line = next(one for one in text.split("<tr>") if f'data-show="codes" data-value="{code}"' in one)
        assert re.findall(r'<span class="faint">(\d+)</span>', line) == [str(count)]


def test_what_repairs_cost_and_win_is_summed(page: Path, rows: list[Row]) -> None:
    text = page.read_text(encoding="utf-8")
    repaired = [row for row in rows if row["verdict"] == "repaired"]
    added = sum(row["bytes_added"] for row in repaired)
    timed = [row for row in repaired if row["predicted_ns"] and row["repaired_ns"]]
    before, after = (sum(row["count"] * row[name] for row in timed) for name in ("predicted_ns", "repaired_ns"))
    assert f"The repairs of {len(repaired)} problems add <b>{added / 2**20:.2f} MiB</b>" in text
    assert f"<b>{before / after:.2f} times</b> as fast" in text
    bars = text[text.index("Bytes that repairs add") :]
    described = re.findall(r"(\d+) at most", bars[: bars.index("</desc>")])
    assert sum(map(int, described)) == len(repaired)


def test_the_table_holds_every_row_as_it_is(page: Path, rows: list[Row]) -> None:
    held = packed(page, "rows")
    for name, column in held["words"].items():
        assert [column["values"][at] for at in column["at"]] == [row[name] for row in rows]
    for name, values in held["numbers"].items():
        if name != "gain":
            assert values == [row[name] or 0 for row in rows], "0 stands for none"


def test_a_point_of_the_roofline_stands_where_its_numbers_say(tmp_path: Path) -> None:
    sweep([{"m": 64, "n": 4096, "k": 4096}], "h200", out=tmp_path / "a.parquet", workers=1)
    report(tmp_path / "a.parquet", tmp_path / "r.html")
    row = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()[0]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    plot = re.search(r"<svg[^>]*>\s*<title>Roofline.*?</svg>", text, re.DOTALL)
    assert plot
    dot = re.search(r'class="dots legal"[^>]*d="M([\d.]+) ([\d.]+)h0"', plot[0])
    across = re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">(\d+)</text>', plot[0])
    up = re.findall(r'<text x="[\d.]+" y="([\d.]+)" text-anchor="end">(\d+) ([GTP])</text>', plot[0])
    assert dot
    scale = {"G": 1e9, "T": 1e12, "P": 1e15}
    x = _read([(float(at), float(value)) for at, value in across], float(dot[1]))
    y = _read([(float(at) - 4, float(value) * scale[unit]) for at, value, unit in up], float(dot[2]))
    flops = 2 * 64 * 4096 * 4096
    assert math.isclose(x, flops / (2 * (64 * 4096 * 2 + 4096 * 4096)), rel_tol=0.02)
    assert math.isclose(y, flops / row["predicted_ns"] * 1e9, rel_tol=0.02)


def _read(ticks: list[tuple[float, float]], at: float) -> float:
    """Return the value at a place of a logarithmic axis, from its first and its last tick."""
    (low, first), (high, last) = ticks[0], ticks[-1]
    assert low != high
    return float(first * (last / first) ** ((at - low) / (high - low)))


def test_what_users_wrote_is_text(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "window.hacked" not in text and "a<b>" not in text
    assert text.count("a&lt;b&gt;&amp;nswers.parquet") > 1
    assert NASTY in packed(page, "rows")["words"]["name"]["values"]


def test_the_page_needs_nothing_else(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\b(?:src|href)\s*=|https?:|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_the_same_answers_make_the_same_page(page: Path, answers: Path, tmp_path: Path) -> None:
    report(answers, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_a_table_of_few_rows_keeps_what_is_off_the_fast_path(answers: Path, rows: list[Row], tmp_path: Path) -> None:
    off = [row["line"] for row in rows if row["verdict"] != "legal"]
    report(answers, tmp_path / "r.html", most_rows=len(off) + 1, most_explained=1)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    held = packed(tmp_path / "r.html", "rows")
    kept = held["numbers"]["line"]
    assert kept == sorted(kept) and set(off) < set(kept) and len(kept) == len(off) + 1
    assert f"The table holds {len(kept)} of {len(rows)} rows" in text
    kinds = Counter(
        tuple(row[n] for n in ("operator", "dtype", "codes", "operands")) for row in rows if not row["error"]
    )
    most = max(kinds.values())
    assert f"{sum(kinds.values()) - most} problems of rare kinds come without an explanation" in text
    assert held["group"].count(0) == most and len(packed(tmp_path / "r.html", "explanations")["examples"]) == 1


def test_every_problem_has_the_explanation_of_its_reasons(page: Path, rows: list[Row]) -> None:
    held = packed(page, "explanations")
    for row, group in zip(rows, packed(page, "rows")["group"], strict=True):
        if row["verdict"] == "invalid":
            assert group == -1
            continue
        shown = dict(held["examples"][group]["operands"])
        assert list(shown) == (row["operands"].split(", ") if row["operands"] else list(shown)) and shown
        said = "".join(held["pages"][one] for one in shown.values())
        assert all(code in said for code in row["codes"].split(", "))
        assert ("refused" in said) == (row["verdict"] != "legal")


def test_a_sweep_of_bad_rows_alone_has_a_report(tmp_path: Path) -> None:
    sweep([{"m": -1, "n": 1, "k": 1}], "sm_90a", out=tmp_path / "a.parquet", workers=1)
    report(tmp_path / "a.parquet", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "1 invalid row could not be read" in text and '<span class="big">' in text


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]])
def test_spread_is_that_of_the_values_written_out(weights: list[int]) -> None:
    values = [2.0, 7.0, 1.0, 8.0, 2.5, 8.5, 1.5, 8.25, 4.0, 5.0]
    every = sorted(value for value, weight in zip(values, weights, strict=True) for _ in range(weight))
    expected = tuple(every[math.ceil(len(every) * part / 10) - 1] for part in (1, 5, 9))
    assert spread(np.array(values), np.array(weights, dtype=np.float64)) == expected


def test_the_command_writes_a_report(answers: Path, page: Path, tmp_path: Path, capsys: Any) -> None:
    made = tmp_path / "r.html"
    assert main(["sweep", "--from", str(answers), "--report", str(made)]) == 0
    assert made.read_bytes() == page.read_bytes()
    table = tmp_path / "s.csv"
    table.write_text("m,n,k\n64,64,63\n")
    asked = ["sweep", str(table), "--target", "h200", "--workers", "1"]
    assert main([*asked, "--out", str(tmp_path / "a.parquet"), "--report", str(made)]) == 0
    assert f"report: {made}" in capsys.readouterr().out
    assert packed(made, "rows")["words"]["problem"]["values"] == ["gemm of bf16, 64 x 64 x 63"]
    assert main([*asked, "--report", str(made)]) == 2
    assert main([*asked, "--out", str(tmp_path / "b.parquet"), "--report", str(tmp_path / "no" / "r.html")]) == 2
    assert not (tmp_path / "b.parquet").exists(), "refused before anything was answered"
    assert main(["sweep", "--from", str(answers)]) == 2


@pytest.mark.parametrize("text", [None, b"no parquet"])
def test_other_files_are_refused(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "a.parquet").write_bytes(text)
    with pytest.raises(InvalidInput, match="sweep --out"):
        report(tmp_path / "a.parquet", tmp_path / "r.html")


@pytest.fixture
def opened(page: Path, open_page: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the report; what its console complains of fails."""
    complaints: list[str] = []

    def ready(**options: Any) -> Any:
        shown = open_page(**options)
        shown.on("console", lambda said: complaints.append(said.text))
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-ready]")
        return shown

    yield ready
    assert not complaints


def lines_of(shown: Any) -> list[int]:
    """Return the lines of all rows that a table lists, page by page."""
    lines: list[int] = []
    while True:
        lines += map(int, shown.locator(".opener").all_inner_texts())
        if shown.locator("#next").is_disabled():
            return lines
        shown.locator("#next").click()


@pytest.mark.site
@pytest.mark.parametrize(
    "column", ["line", "predicted_ns", "measured_ns", "gain", "problem", "name", "codes", "verdict"]
)
def test_sorting_is_that_of_python(opened: Any, rows: list[Row], column: str) -> None:
    shown = opened()

    def value(row: Row) -> Any:
        if column == "verdict":
            return 1 + FAILURES_FIRST.index(row["verdict"])
        if column == "gain":
            both = row["predicted_ns"] and row["repaired_ns"]
            return round(row["predicted_ns"] / row["repaired_ns"], 3) if both else 0
        return row[column]

    full = sorted((row for row in rows if value(row)), key=value)
    empty = [row for row in rows if not value(row)]
    for way in ("ascending", "descending"):
        if (column, way) != ("verdict", "ascending"):  # as it comes
            shown.locator(f"th[data-column={column}] button").click()
        assert shown.locator(f"th[data-column={column}]").get_attribute("aria-sort") == way
        assert shown.locator("th[aria-sort=none]").count() == shown.locator("th[data-column]").count() - 1
        assert lines_of(shown) == [row["line"] for row in [*full, *empty]]
        full = sorted(full, key=value, reverse=True)


@pytest.mark.site
def test_filters_leave_the_rows_that_fit(opened: Any, rows: list[Row]) -> None:
    shown = opened()

    def expect(test: Callable[[Row], bool]) -> None:
        worst = sorted(rows, key=lambda row: FAILURES_FIRST.index(row["verdict"]))
        kept = [row["line"] for row in worst if test(row)]
        assert 0 < len(kept) < len(rows)
        assert shown.locator("#found").inner_text() == f"{len(kept)} of {len(rows)} rows"
        assert lines_of(shown) == kept

    for verdict in (*VERDICTS, "invalid"):
        shown.get_by_label("verdict").select_option(verdict)
        expect(lambda row, v=verdict: row["verdict"] == v)  # type: ignore[misc]
    shown.get_by_role("button", name="clear").click()
    assert shown.locator("#found").inner_text() == f"{len(rows)} of {len(rows)} rows"
    shown.get_by_label("search").fill("GEMM 4095 x")
    expect(lambda row: "gemm" in row["problem"] and "4095" in row["fields"] and "x" in row["problem"])
    shown.get_by_label("search").fill("<script>")
    expect(lambda row: "<script>" in row["name"] + row["problem"] + row["error"])
    shown.get_by_role("button", name="clear").click()
    shown.get_by_label("type", exact=True).select_option("bf16")
    shown.get_by_label("reason").select_option("TMA005")
    expect(lambda row: row["dtype"] == "bf16" and "TMA005" in row["codes"])
    shown.locator('[data-show="operator"][data-value="attention"]').click()
    expect(lambda row: row["operator"] == "attention")
    assert shown.evaluate("window.hacked") is None


@pytest.mark.site
def test_a_row_opens_with_its_explanation(opened: Any, rows: list[Row]) -> None:
    shown = opened()
    row = next(row for row in rows if row["verdict"] == "repaired")
    shown.get_by_label("verdict").select_option("repaired")
    opener = shown.locator(".opener").first
    opener.focus()
    shown.keyboard.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true"
    more = shown.locator("tr.more")
    more.locator(".operand").first.wait_for()
    assert row["repair"] in more.inner_text() and row["kernel"] in more.inner_text()
    said = more.locator(".operand > div").first.evaluate("shown => shown.shadowRoot.textContent")
    assert "TMA005" in said and "stride of axis 0 is 8190 bytes" in said
    assert more.locator(".operand").count() == len(row["operands"].split(", "))
    shown.keyboard.press("Enter")
    assert shown.locator("tr.more").count() == 0
    shown.get_by_role("button", name="clear").click()
    shown.get_by_label("search").fill("<script>")
    nasty = shown.locator("tr.row").filter(has_text="gemm of")
    nasty.locator("td[data-column=problem]").click()
    assert shown.locator("tr.more dd").first.inner_text() == NASTY
    assert shown.evaluate("window.hacked") is None


@pytest.mark.site
def test_weights_change_what_is_shown(opened: Any, rows: list[Row]) -> None:
    shown = opened()
    for weight, label in (("runs", "runs"), ("time", "predicted time"), ("problems", "problems")):
        shown.get_by_role("radio", name=label).check()
        every = counted(rows, weight)
        assert shown.locator(".tile .big").first.inner_text() == percent(every["legal"], sum(every.values()))


# Of each text that is seen: its contrast with what lies behind it, by WCAG 2.
CONTRASTS = """() => {
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, n) => {
    const v = c[n] / 255;
    return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement || (e.getRootNode().host)) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("main *")].filter((e) => e.checkVisibility() && e.getClientRects().length
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
      const style = getComputedStyle(e), svg = e instanceof SVGElement;
      if (svg && e.tagName !== "text") return [e.tagName, 21];
      const [a, b] = [light(numbers(svg ? style.fill : style.color)), light(behind(e))];
      return [`${e.tagName}.${e.getAttribute("class")} ${e.textContent.slice(0, 30)}`,
              (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
}"""


@pytest.mark.site
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE])
def test_every_text_is_read_easily(opened: Any, size: tuple[int, int], scheme: str) -> None:
    shown = opened(size=size, scheme=scheme)
    shown.locator(".opener").first.click()
    shown.locator("tr.row", has=shown.locator(".swatch.repaired")).first.locator(".opener").click()
    shown.locator(".operand").first.wait_for()
    assert shown.evaluate("document.documentElement.scrollWidth") <= size[0]
    found = shown.evaluate(CONTRASTS)
    assert len(found) > 100
    assert not [one for one in found if one[1] < 4.5]
    background = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128) == (scheme == "light")


@pytest.mark.site
def test_a_phone_sorts_without_headings(opened: Any, rows: list[Row]) -> None:
    shown = opened(size=PHONE)
    shown.get_by_label("sort by").select_option("predicted_ns")
    shown.get_by_label("order").select_option("descending")
    first = max(rows, key=lambda row: row["predicted_ns"] or 0)
    assert shown.locator(".opener").first.inner_text() == str(first["line"])
