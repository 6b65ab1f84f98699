"""Options, pictures and notebooks: names are types, wrong ones are told the right one, everything has a face."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import legalsat as ls
from legalsat import backends, options
from legalsat.extract.search.planner import EVERY_MEANS
from legalsat.units.means import MEANS
from legalsat.view.pictures_shared import COLUMN_READS

ROOT = Path(__file__).parents[1]
BF16 = ls.Tensor((64, 64), "bf16")
MAP = ls.TensorMap("bf16", (64, 64), (128,), (64, 8))


def test_types_name_what_the_tables_hold() -> None:
    assert get_args(options.Means) == EVERY_MEANS and set(MEANS) < set(EVERY_MEANS)
    assert set(get_args(options.Backend)) == set(backends.BACKENDS)
    assert set(get_args(options.RunBackend)) == set(backends.PROGRAMS)
    assert set(get_args(options.ProductBackend)) == set(backends.PRODUCT_BACKENDS)
    assert set(get_args(options.RunProductBackend)) == set(backends.PRODUCT_PROGRAMS)
    assert get_args(options.ColumnReadName) == tuple(COLUMN_READS)


WRONG: dict[str, tuple[str, str]] = {
    "consumer of synthesize": ('ls.synthesize(x, "h200", consumer="wgma.a")', "wgmma.a"),
    "means": ('ls.synthesize(x, "h200", means=("treads",))', "threads"),
    "consumer of an operator": ('ls.Copy(x, consumer="thread")', "threads"),
    "backend": ('ls.synthesize(x, "h200").emit("trition")', "triton"),
    "swizzle": ('ls.TensorMap("bf16", (64, 64), (128,), (64, 8), swizzle="128b")', "128B"),
    "fill": ('ls.TensorMap("bf16", (64, 64), (128,), (64, 8), oob_fill="zeros")', "zero"),
    "layout": ('ls.Attention(1, 2, 64, 64, 64, "bf16", layout="bsdh")', "bshd"),
    "read": ('ls.draw_shared(tm, op="ldmatrix.x")', "ldmatrix.x1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_told_the_nearest_one(name: str) -> None:
    code, right = WRONG[name]
    with pytest.raises(ls.InvalidInput, match=rf"did you mean {right}\?"):
        eval(code, {"ls": ls, "x": BF16, "tm": MAP})


@pytest.mark.parametrize(
    ("call", "right"), [(lambda: ls.Tensor((8,), "bf61"), "bf16"), (lambda: ls.explain(BF16, "rtx509O"), "rtx5090")]
)
def test_types_and_targets_too(call: Callable[[], Any], right: str) -> None:
    with pytest.raises(ls.InvalidInput, match=rf"did you mean .*\b{right}\b.*\?"):
        call()


def test_a_public_name_that_is_misspelled_is_told_by_python() -> None:
    with pytest.raises(AttributeError) as caught:
        ls.synthesise  # noqa: B018
    assert caught.value.name == "synthesise" and "synthesize" in dir(caught.value.obj)


def test_names_that_are_like_nothing_get_no_guess() -> None:
    with pytest.raises(ls.InvalidInput) as caught:
        ls.Copy(BF16, consumer="zzzzzz")  # type: ignore[arg-type]
    assert "did you mean" not in str(caught.value)


def test_a_type_checker_refuses_wrong_names_and_takes_right_ones(tmp_path: Path) -> None:
    lines = [code for code, _ in WRONG.values()]
    right = [code.replace(code.rsplit('"', 2)[1], good) for code, good in WRONG.values()]
    head = ["import legalsat as ls", 'x = ls.Tensor((64, 64), "bf16")', 'tm = ls.TensorMap("bf16", (8,), (), (8,))']
    file = tmp_path / "typed.py"
    file.write_text("\n".join([*head, *lines, *right]) + "\n", encoding="utf-8")
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    refused = {int(line.split(":")[1]) - len(head) for line in done.stdout.splitlines() if ": error:" in line}
    assert refused == set(range(1, len(lines) + 1)), done.stdout


PRODUCT = ls.synthesize(ls.Gemm(256, 256, 256, "bf16"), "h200")
OPEN = ls.Tensor((64, ls.Dim("K", max=512)), "bf16")


@pytest.mark.parametrize(
    ("subject", "holds"),
    [
        (ls.legal_region(OPEN, "h200"), ("K must be a multiple of 8", "mod 8", "isl set")),
        (ls.legal_region(ls.Tensor((64, ls.Dim("K", multiple_of=8)), "bf16"), "h200"), ("K",)),
        (ls.check_pipeline(PRODUCT, "h200"), ("proven", "pipeline of")),
        (ls.check_pipeline(ls.Pipeline((), (), ()), "h200"), ("pipeline of",)),
        (PRODUCT.pipeline, ("<svg", "producer", "roles")),
        (ls.Pipeline((), (), ()), ("roles",)),
    ],
)
def test_everything_that_a_notebook_may_end_a_cell_with_has_html(subject: Any, holds: tuple[str, ...]) -> None:
    html = subject._repr_html_()
    assert html.startswith('<div class="legalsat">') and html.endswith("</div>") and "<script" not in html
    assert all(part in html for part in holds)


DRAWN: tuple[Callable[[], Any], ...] = (
    lambda: ls.draw_box(MAP),
    lambda: ls.draw_rows(MAP),
    lambda: ls.draw_shared(MAP),
    lambda: ls.draw_layout(ls.Layout("(4,8):(8,1)")),
    lambda: ls.draw_owners(ls.LinearLayout.identity(32, "lane", "x")),
    lambda: ls.gantt(PRODUCT.pipeline, dict.fromkeys(PRODUCT.pipeline.symbols, 2)),
)


@pytest.mark.parametrize("draw", DRAWN)
def test_a_drawing_shows_in_a_notebook_and_saves(draw: Callable[[], Any], tmp_path: Path) -> None:
    drawn = draw()
    assert isinstance(drawn, ls.Drawing) and drawn._repr_svg_() == str(drawn) and drawn.startswith("<svg")
    assert repr(drawn).startswith("<drawing: ") and len(repr(drawn)) < 300
    drawn.save(tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_text(encoding="utf-8").strip() == drawn.strip()
    with pytest.raises(ls.InvalidInput, match="is a folder"):
        drawn.save(tmp_path)


@pytest.mark.parametrize("junk", ["x", None, 3, [], BF16, object()])
def test_what_cannot_be_drawn_is_refused(junk: Any) -> None:
    for draw in (ls.draw_box, ls.draw_rows, ls.draw_pixels, ls.draw_shared, ls.draw_layout, ls.draw_owners):
        with pytest.raises(ls.InvalidInput):
            draw(junk)
    with pytest.raises(ls.InvalidInput, match="rows is 1099511627776"):
        ls.draw_rows(MAP, rows=2**40)
