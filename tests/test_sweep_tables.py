"""Tables of operators: nothing is dropped, and verdicts are those of the rule for strides, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import legalsat as ls
from legalsat.cli import main
from legalsat.operators.gemm import Gemm
from legalsat.sweeps.catalogues import catalogue, entries
from legalsat.sweeps.problem import problem_of
from legalsat.sweeps.products import Products
from legalsat.sweeps.tables import Line, OperatorTable, operator_table
from legalsat.tensor import Tensor, plain


@pytest.fixture(scope="module")
def tritonbench() -> OperatorTable:
    return operator_table("tritonbench", "h200")


def aligned(tensor: Tensor) -> bool:
    """Whether every stride that is taken, but for the fastest, is a multiple of 16 bytes."""
    taken = sorted(s for n, s in zip(plain(tensor.shape), plain(tensor.strides), strict=True) if n > 1)
    return all(step * tensor.dtype.bits % 128 == 0 for step in taken[1:])


def line(table: OperatorTable, name: str) -> Line:
    return next(one for one in table.lines if one.name == name)


def test_every_operator_has_a_line(tritonbench: OperatorTable) -> None:
    listed = list(entries("tritonbench"))
    assert [one.name for one in tritonbench.lines] == [entry.name for entry in listed]
    assert [one.shapes for one in tritonbench.lines] == [len(entry.rows) for entry in listed]
    for one, entry in zip(tritonbench.lines, listed, strict=True):
        assert one.legal + one.repaired + one.refused + one.errors == one.shapes and not one.errors
        if not entry.rows:
            assert one.reasons == (entry.reason,)
        elif one.legal < one.shapes:
            assert one.reasons and bool(one.repair) == bool(one.repaired)


def test_products_are_legal_where_strides_are_multiples(tritonbench: OperatorTable) -> None:
    counted: dict[str, list[bool]] = {}
    for row in catalogue("tritonbench"):
        one = problem_of(row.values, 1).operator
        if isinstance(one, Gemm | Products):
            counted.setdefault(row.values["name"].partition("/")[0], []).append(
                all(map(aligned, (one.a, one.b, one.c)))
            )
    assert sum(map(len, counted.values())) > 500
    for name, fits in counted.items():
        assert line(tritonbench, name).legal == sum(fits), name


def test_odd_vocabularies_need_another_pitch() -> None:
    for model, count in (("gpt2", 50257), ("whisper-large-v3", 51866)):
        found = operator_table(model, "h200")
        head = line(found, "lm_head")
        assert (head.shapes, head.legal, head.repaired) == (4, 1, 3), "a single row has no pitch"
        assert head.reasons == ("TMA005 stride misaligned of C",)
        assert head.repair == f"pad vocabulary {count} to {-(-count // 8) * 8} (C)"
        assert found.total.shapes == found.total.legal + 3


def test_what_no_gpu_takes_is_refused_everywhere() -> None:
    """A GPU without tensor maps takes nothing."""
    found = operator_table("gpt2", "sm_80")
    assert found.total.legal == found.total.repaired == 0 < found.total.refused


def test_a_file_is_grouped_by_name(tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text(
        "name,operator,m,n,k,shape\na/one,gemm,64,64,64,\na/two,gemm,64,64,63,\n,copy,,,,64x64\nb/x,gemm,0,1,1,\n",
        "utf-8",
    )
    found = operator_table(file, "h200")
    assert [(one.name, one.shapes, one.legal, one.repaired) for one in found.lines] == [
        ("a", 2, 1, 1),
        ("copy", 1, 1, 0),
        ("(invalid rows)", 1, 0, 0),
    ]
    assert found.total.errors == 1
    assert "m is 0" in found.lines[2].cells[-1]
    with pytest.raises(ls.InvalidInput, match="is no file"):
        operator_table(tmp_path / "none.csv", "h200")


def test_a_table_shows_what_it_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "a.parquet", tmp_path / "r.html"
    words = ["sweep", "gpt2", "--target", "h200", "--table", "--json"]
    assert main(words) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*words, "--workers", "1", "--out", str(out), "--report", str(page)]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert {name: kept[name] for name in alone} == alone
    assert kept["rows"] == alone["total"]["shapes"] and out.is_file() and page.is_file()


def test_lines_fit_and_failures_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, long = tmp_path / "p.csv", "model." + "layers.11." * 12
    file.write_text(
        "name,operator,m,n,k,batch,heads,queries,keys,head\nfits/a,gemm,64,64,64,,,,,\n"
        f"{long}up/a,gemm,64,64,63,,,,,\n{long}down/a,gemm,64,63,64,,,,,\nall/a,attention,,,,1,8,128,128,65\n"
        f"{long}bad,gemm,{'9' * 200},1,1,,,,,\n",
        "utf-8",
    )
    for more in (["--table"], [], ["--table", "--out", str(tmp_path / "a.parquet")]):
        assert main(["sweep", str(file), "--target", "h200", "--workers", "1", *more]) == 1
        lines = [one for one in capsys.readouterr().out.splitlines() if str(tmp_path) not in one]
        assert max(map(len, lines)) <= 100
        first = next(at for at, one in enumerate(lines) if "invalid rows" in one)
        assert not any("64" in one or "legal " in one for one in lines[3:first] if "shapes" not in one)
    text = " ".join(" ".join(lines).split())
    for words in ("pad head 65 to 72", "pad k 63 to 64", "pad n 63 to 64", "up", "down"):
        assert words in text


def test_the_command_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "gpt2", "--target", "h200", "--table"]) == 0
    text = capsys.readouterr().out
    assert "gpt2 on h200" in text and "TMA005" in text
    assert len({at.index("shapes") if "shapes" in at else 0 for at in text.splitlines()}) == 2, "one header"
    assert main(["sweep", "gpt2", "--target", "h200", "--table", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("| --- |") and len({at.count("|") for at in lines}) == 1
    assert len(lines) == 2 + len(list(entries("gpt2"))) + 1
    assert main(["sweep", "gpt2", "--target", "h200", "--table", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["total"]["shapes"] == sum(one["shapes"] for one in said["lines"]) == 24


def test_bars_in_cells_are_escaped() -> None:
    one = Line("a|b", 1, 1, 0, 0, 0, (), "")
    assert "a\\|b" in OperatorTable("x", "h200", (one,)).markdown()
