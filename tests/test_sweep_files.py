"""Files of problems, good and bad: a row that is no problem is said with its line, and loses no other row."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.sweeps.problem import FIELDS, KINDS, Problem, row_or_error
from legalsat.sweeps.reading import read
from legalsat.sweeps.rows import BadRow, Row, row_of

GOOD = "m,n,k,dtype\n64,64,64,bf16\n128,64,63,fp16\n"


def problems_of(path: Path) -> list[Problem | BadRow]:
    return [row_or_error(row.values, row.line) if isinstance(row, Row) else row for row in read(path)]


def written(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_every_kind_of_file_holds_the_same_problems(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    values = [{"m": 64, "n": 64, "k": 64, "dtype": "bf16"}, {"m": 128, "n": 64, "k": 63, "dtype": "fp16"}]
    files = [
        written(tmp_path / "p.csv", GOOD),
        written(tmp_path / "p.tsv", GOOD.replace(",", "\t")),
        written(tmp_path / "p.json", json.dumps(values)),
        written(tmp_path / "q.json", json.dumps({"problems": values})),
        written(tmp_path / "p.jsonl", "\n\n".join(map(json.dumps, values))),
        tmp_path / "p.parquet",
    ]
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(values), files[-1])
    found = [[one.operator for one in problems_of(file) if isinstance(one, Problem)] for file in files]
    assert found == [[ls.Gemm(64, 64, 64, "bf16"), ls.Gemm(128, 64, 63, "fp16")]] * len(files)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("64,64,,bf16", "k of the gemm is missing"),
        ("64,64,x,bf16", "k is 'x'; give a whole number"),
        ("64,64,1e400,bf16", "give a whole number"),
        ("64,64,nan,bf16", "give a whole number"),
        ("64,64,1000000000000000000,bf16", "k is 1000000000000000000"),
        ("64,64,10000000000000000000000000,bf16", "at most 2^63 - 1"),
        ("64,64,0,bf16", "k is 0"),
        ("64,64,-3,bf16", "k is -3"),
        ("64,64,2.5,bf16", "k is '2.5'"),
        ("64,64,64,bf17", "bf17"),
        ("64,64,64,bf16,5", "row has 5 cells, but the header 4"),
        ('64,64,"64,bf16', "cannot be read"),
    ],
)
def test_a_bad_row_is_said_with_its_line(tmp_path: Path, cells: str, words: str) -> None:
    last = "" if cells.count('"') % 2 else "32,32,32,bf16\n"
    found = problems_of(written(tmp_path / "p.csv", GOOD + cells + "\n" + last))
    bad = [one for one in found if isinstance(one, BadRow)]
    assert [one.line for one in bad] == [4] and words in bad[0].error
    assert len(found) - len(bad) == (3 if last else 2), "no other row is lost"


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("(x,1)", "shape is '(x,1)'; a number is missing"),
        ("4096x", "a number is missing"),
        ("4096,,65", "a number is missing"),
        (",", "a number is missing"),
        ("batch x 65", "shape is 'batch'"),
        ("()", "shape is empty"),
    ],
)
def test_a_number_that_is_missing_from_a_shape_is_said(tmp_path: Path, shape: str, words: str) -> None:
    rows = f'name,shape,dtype\na,"{shape}",bf16\nb,"(4096,)",bf16\nc,4096 x 65,bf16\nd,"[8, 4]",bf16\n'
    bad, *others = problems_of(written(tmp_path / "p.csv", rows))
    assert isinstance(bad, BadRow) and words in bad.error
    shapes = [
        one.operator.source.shape for one in others if isinstance(one, Problem) and isinstance(one.operator, ls.Copy)
    ]
    assert shapes == [(4096,), (4096, 65), (8, 4)]


def test_bytes_that_are_no_utf_8_stay_in_their_row(tmp_path: Path) -> None:
    found = problems_of(written(tmp_path / "p.csv", GOOD.encode() + b"64,64,64,bf\xff16\n1,1,1,bf16\n"))
    assert [type(one) for one in found] == [Problem, Problem, BadRow, Problem]
    assert isinstance(found[2], BadRow) and "UTF-8" in found[2].error
    json.dumps([one.error for one in found if isinstance(one, BadRow)]).encode()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("p.csv", "", "holds no problems"),
        ("p.csv", "m,n,k\n", "holds no problems"),
        ("p.csv", "m,n,q\n1,2,3\n", "columns that are no fields: 'q'"),
        ("p.csv", "m,n\n1,2\n", "make no operator; give m, n, k for gemm"),
        ("p.csv", "m,n,k,k\n1,2,3,4\n", "column 'k' twice"),
        ("p.csv", "m,n,k\n1,2,3\n".encode("utf-16"), "no UTF-8 text"),
        ("p.csv", "operator;m;n;k\ngemm;1;2;3\n", "parts its columns by ';'; part them by commas"),
        ("p.csv", "m\tn\tk\n1\t2\t3\n", r"parts its columns by '\\t'"),
        ("p.json", "{", "is no JSON"),
        ("p.json", "[" * 100000, "is no JSON"),
        ("p.json", "3", "holds no list"),
        ("p.json", "[]", "holds no problems"),
        ("p.json", b"\xff\xfe\x00", "is no JSON"),
        ("p.parquet", b"PAR1", "is no Parquet file"),
        ("p.xlsx", "", "known kind"),
    ],
)
def test_a_file_that_is_no_table_is_refused_once(tmp_path: Path, name: str, data: str | bytes, words: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(ls.InvalidInput, match=words):
        problems_of(written(tmp_path / name, data))


def test_a_row_of_too_few_cells_is_no_problem_with_what_the_others_default_to(tmp_path: Path) -> None:
    found = problems_of(written(tmp_path / "p.csv", "m,n,k,dtype\n64,64,64,bf16\n64,64,6"))
    assert [type(one) for one in found] == [Problem, BadRow]
    assert isinstance(found[1], BadRow) and "3 cells, but the header 4" in found[1].error
    assert type(problems_of(written(tmp_path / "q.csv", "m,n,k,dtype\n64,64,64,\n"))[0]) is Problem


def test_lines_of_json_are_judged_one_by_one(tmp_path: Path) -> None:
    text = '{"m": 1, "n": 2, "k": 3}\nnonsense\n[1, 2]\n{"m": 1, "n": 2, "k": 3, "q": 4}\n{"m": true, "n": 1, "k": 1}\n'
    found = problems_of(written(tmp_path / "p.jsonl", text))
    assert [type(one) for one in found] == [Problem, BadRow, BadRow, BadRow, BadRow]
    assert [one.line for one in found] == [1, 2, 3, 4, 5]


def test_equal_rows_are_all_kept(tmp_path: Path) -> None:
    assert len(problems_of(written(tmp_path / "p.csv", "m,n,k\n" + "1,2,3\n" * 5))) == 5


CELLS = st.one_of(
    st.none(), st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.lists(st.integers(), max_size=4)
)


@given(st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=6)), CELLS, max_size=8))
def test_any_row_is_a_problem_or_says_why_not(values: dict[str, Any]) -> None:
    found = row_or_error(values, 7)
    assert found.line == 7
    if isinstance(found, BadRow):
        assert found.error and found.error.encode() and len(found.text) <= 200


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200), st.sampled_from((".csv", ".json", ".jsonl")))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes, suffix: str) -> None:
    file = written(tmp_path / f"p{suffix}", data)
    try:
        found = problems_of(file)
    except ls.InvalidInput as error:
        assert file.name in str(error)
    else:
        assert found


def parquet_file(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"m": [64, 65, 66], **columns}), path, **options)
    return path


def test_cells_that_python_cannot_say_are_invalid_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    sizes = {"n": [1, 2, 3], "k": [4, 5, 6], "name": ["a", "b", "c"]}
    for kind in (arrow.timestamp("ns"), arrow.duration("ns"), arrow.time64("ns")):
        times = arrow.array([None, 1, None], arrow.int64()).cast(kind)
        found = problems_of(parquet_file(tmp_path / "p.parquet", {**sizes, "batch": times}))
        assert [type(one) for one in found] == [Problem, BadRow, Problem]
        assert isinstance(found[1], BadRow) and (found[1].line, found[1].name) == (2, "b")
        assert found[1].error.startswith("batch is ")
    columns = {**sizes, "x_seen": arrow.array([1, 2, 3], arrow.timestamp("ns")), "a_strides": [{"q": 1}, None, None]}
    found = problems_of(parquet_file(tmp_path / "p.parquet", columns))
    assert [type(one) for one in found] == [BadRow, Problem, Problem], "what x_ columns hold does not matter"


def test_a_name_of_a_column_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    file = parquet_file(tmp_path / "p.parquet", {"zzzz": [1, 2, 3]}, store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"zzzz", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(ls.InvalidInput, match=r"p\.parquet"):
        problems_of(file)


def test_a_damaged_page_is_refused_with_the_name_of_its_file(tmp_path: Path) -> None:
    values = list(range(20_000))
    columns = {"m": values, "n": values, "k": values}
    file = parquet_file(tmp_path / "p.parquet", columns, compression="none", use_dictionary=False, data_page_size=4096)
    data = file.read_bytes()
    place = data.index((15_000).to_bytes(8, "little"))
    for options in ({}, {"write_page_checksum": True}):
        parquet_file(file, columns, compression="zstd", **options)
        data = file.read_bytes()
        file.write_bytes(data[: place // 4] + bytes(200) + data[place // 4 + 200 :])
        with pytest.raises(ls.InvalidInput, match=r"p\.parquet is no Parquet file that can be read"):
            problems_of(file)


SOUND = (
    ("p.csv", b'name,m,n,k,dtype\na,1,2,3,bf16\n"b\nc",1,2,3,fp16\n,,,,\n'),
    ("p.tsv", b"name\tm\tn\tk\na\t1\t2\t3\n"),
    ("p.json", b'[{"m": 1, "n": 2, "k": 3, "name": "\\ud800"}, {"m": 1e400, "n": "x", "k": [1, [2]]}]'),
    ("p.jsonl", b'{"m": 1, "n": 2, "k": 3}\n{"operator": "copy", "shape": [1, 2]}\n[1]\n'),
    ("p.parquet", b""),
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a few of them flipped, dropped, repeated, or followed by what is deep or long."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(found) or 1)
        match rng.randrange(6):
            case 0 | 1 | 2 if found:
                found[place] ^= 1 << rng.randrange(8)
            case 3:
                del found[place : place + rng.randrange(1, 9)]
            case 4:
                found[place:place] = rng.choice((b"9" * 5000, b"[" * 2000, b'"', b"\0", b"\r", b"\xff"))
            case _:
                found += found[place : place + 50]
    return bytes(found)


@pytest.mark.parametrize("times", [150, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "data"), SOUND)
def test_damaged_files_are_invalid_rows_or_one_refusal(tmp_path: Path, name: str, data: bytes, times: int) -> None:
    file, rng = tmp_path / name, random.Random(11)
    if not data:
        columns = {"n": [1, 2, 3], "k": [4, 5, 6], "name": ["a", "b", None], "dtype": ["bf16"] * 3}
        data = parquet_file(file, columns, store_schema=False).read_bytes()
    read_whole = 0
    for _ in range(times):
        file.write_bytes(damaged(data, rng))
        try:
            found = problems_of(file)
        except ls.InvalidInput as error:
            assert name in str(error)
        else:
            read_whole += 1
            for one in found:
                assert isinstance(one, Problem) or (one.error + one.text + one.name).encode()
    assert read_whole


def test_a_quote_that_does_not_end_says_how_far_it_reaches(tmp_path: Path) -> None:
    found = problems_of(written(tmp_path / "p.csv", GOOD + '1,1,"1,bf16\n' + "1,1,1,bf16\n" * 3))
    assert isinstance(found[-1], BadRow) and found[-1].line == 4 and "to line 7" in found[-1].error


class Evil:
    """A value that cannot be written."""

    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


STRANGE: dict[str, Any] = {
    "long": 10**5000,
    "negative": -(10**5000),
    "evil": Evil(),
    "function": lambda: 0,
    "nested": [[1]],
    "fields": {"a": 1},
    "bytes": b"\xff",
    "endless": range(10**9),
    "object": object(),
    "surrogate": "\ud800",
    "evil within": [Evil()],
}


@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("field", ["m", "a_strides", "dtype", "name", "measured_ns", "constant_b"])
def test_any_value_becomes_one_that_can_be_sent_and_said(field: str, value: str) -> None:
    row = row_of(3, {"m": 1, "n": 1, "k": 1, field: STRANGE[value]})
    assert isinstance(row, Row) and pickle.dumps(row) and json.dumps(row.values)
    found = row_or_error({"m": 1, "n": 1, "k": 1, field: STRANGE[value]}, 3)
    assert isinstance(found, Problem) or (found.line == 3 and found.error.encode())


def test_numbers_of_arrays_are_numbers() -> None:
    row = row_of(1, {"operator": "copy", "shape": np.array([64, 32]), "count": np.int64(3), "x_own": Evil(), None: 5})
    assert row == Row(1, {"operator": "copy", "shape": (64, 32), "count": 3})
    assert isinstance(row_of(1, {5: 1}), BadRow)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_an_operator_has_a_column(kind: str) -> None:
    assert {*KINDS[kind].required, *KINDS[kind].optional} <= set(FIELDS)
