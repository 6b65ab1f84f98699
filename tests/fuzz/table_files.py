"""Rows of files that are read and written: plans, problems of sweeps, the bytes of tensor maps; right and damaged."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import legalsat as ls

from .draw import FLOATS, INTEGERS, PIECES, STRANGE_PATHS, data, hostile, text
from .nouns import GPUS, dtype, extent, of_pool, one, pool
from .table import Row
from .texts import blob

GPU = one(*GPUS)


def readers() -> Iterator[Row]:
    """Yield rows of files, right and damaged."""
    read: dict[str, Any] = {"family": "readers", "changed": False}
    yield Row("Plan.load", _loaded, (one(ls.Plan, ls.MovementPlan), _plan_file), weight=3, **read)
    yield Row("GemmPlan.load", _loaded, (one(ls.GemmPlan), _gemm_file), weight=0.5, **read)
    yield Row("ProgramPlan.load", _loaded, (one(ls.ProgramPlan), _program_file), weight=0.5, **read)
    yield Row("ProgramPlan.save", _saved, (of_pool("program plan"),), weight=0.02, **read)
    yield Row("MovementPlan.save", _saved, (of_pool("plan"),), weight=0.2, **read)
    yield Row("GemmPlan.save", _saved, (of_pool("gemm plan"),), weight=0.02, **read)
    for name, kind in (
        ("Plan", ls.Plan),
        ("MovementPlan", ls.MovementPlan),
        ("GemmPlan", ls.GemmPlan),
        ("ProgramPlan", ls.ProgramPlan),
    ):
        yield Row(f"{name}.load", kind.load, (one(*STRANGE_PATHS),), weight=0.3, **read)
        yield Row(f"{name}.save", kind.save, (of_pool("plan"), one(*STRANGE_PATHS[:-1])), weight=0.05, **read)
    yield Row("sweep", _swept_file, (_rows_file,), weight=2, **read)
    yield Row("sweep", _swept_file, (lambda r: (text("tritonbench", r).replace("/", ""), b""),), weight=0.3, **read)
    yield Row("explain", ls.explain, (blob, GPU), weight=1, **read)


def _write(name: str, content: bytes) -> str:
    Path(name).write_bytes(content)
    return name


@cache
def _saved_texts(kind: str) -> tuple[str, ...]:
    found = []
    for plan in pool(kind):
        plan.save("saved.json")
        found.append(Path("saved.json").read_text(encoding="utf-8"))
    return tuple(found)


def _damaged(value: Any, r: Random) -> Any:  # noqa: PLR0911 - one for each kind
    """Return plain values with one somewhere among them changed."""
    if isinstance(value, dict) and value and r.random() < 0.9:
        name = r.choice(list(value))
        changed = dict(value)
        how = r.randrange(12)
        if how == 0:
            del changed[name]
        elif how == 1:
            changed[r.choice(PIECES)] = changed.pop(name)
        else:
            changed[name] = _damaged(value[name], r)
        return changed
    if isinstance(value, list) and value and r.random() < 0.9:
        at = r.randrange(len(value))
        how = r.randrange(10)
        if how == 0:
            return value[:at] + value[at + 1 :]
        return [*value, value[at]] if how == 1 else [*value[:at], _damaged(value[at], r), *value[at + 1 :]]
    if isinstance(value, bool | None):
        return r.choice((True, False, None, 0, "true"))
    if isinstance(value, int) and r.random() < 0.6:
        kinds = (value + 1, value - 1, -value, 2 * value, 0, str(value), value + 2**32)
        return r.choice((*kinds, float(value)) if abs(value) < 2**1000 else kinds)
    if isinstance(value, str) and r.random() < 0.6:
        return text(value, r, 1)
    return r.choice(
        (None, True, -1, 0, 2**63, 2**64, 10**400, "", "x", "\x1b[31m", [], {}, [[]], [1], *FLOATS, *INTEGERS[:20])
    )


def _file(kind: str, r: Random) -> bytes:
    content = r.choice(_saved_texts(kind))
    how = r.randrange(10)
    if how == 0:
        return content.encode()
    if how < 7:
        damaged = json.loads(content)
        for _ in range(r.choice((1, 1, 1, 2))):
            damaged = _damaged(damaged, r)
        return json.dumps(damaged).encode()
    if how == 7:
        return text(content, r).encode("utf-8", "surrogatepass")
    if how == 8:
        return data(content.encode(), r)
    return r.choice(
        (b"", b"[" * 100_000, b"{}", b"[]", b"null", b"\xff\xfe", b'{"version": 1}', b"1" * 5000, b"\0" * 64)
    )


def _plan_file(r: Random) -> bytes:
    return _file("plan", r)


def _gemm_file(r: Random) -> bytes:
    return _file("gemm plan", r)


def _program_file(r: Random) -> bytes:
    return _file("program plan", r)


def _loaded(kind: Any, content: bytes) -> Any:
    """Read a plan; what is read holds, and says the same when written and read again."""
    found = kind.load(_write("plan.json", content))
    found.save("again.json")
    again = kind.load("again.json")
    assert again == found
    return str(found)


def _saved(plan: Any) -> None:
    plan.save("written.json")
    assert type(plan).load("written.json") == plan


def _row(r: Random) -> dict[str, Any]:
    """Draw a row of a sweep."""
    how = r.randrange(4)
    if how == 0:
        found: dict[str, Any] = {"operator": "gemm", "m": 64, "n": 64, "k": r.choice((64, 65)), "dtype": dtype(r)}
    elif how == 1:
        found = {"operator": "copy", "shape": f"{extent(r)}x64", "dtype": "bf16", "name": r.choice(("a", "ü", "=1+1"))}
    elif how == 2:
        found = {"operator": "transpose", "shape": "64x65", "count": r.choice((1, 7)), "measured_ns": 100.5}
    else:
        found = {"m": 16, "n": 16, "k": 64, "a_major": r.choice(("K", "M")), "b_pitch": r.choice((64, 72))}
    if r.random() < 0.5:
        name = r.choice(list(found))
        found[name] = r.choice((hostile(r), text(str(found[name]), r), None, -1, 0, 2**63, "1e5", "4.0"))
    if r.random() < 0.1:
        found[r.choice(("x_note", "nobody", "", "name", "align", "strides"))] = hostile(r)
    return found


def _plain(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__
    return value


def _rows_file(r: Random) -> tuple[str, bytes]:
    """Draw a file of problems: its name and its bytes."""
    rows = [{name: _plain(value) for name, value in _row(r).items()} for _ in range(r.choice((0, 1, 1, 2, 3)))]
    kind = r.choice((".csv", ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".PARQUET", ".txt", ""))
    if kind in {".csv", ".tsv"}:
        names = list(dict.fromkeys(name for row in rows for name in row))
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter="," if kind == ".csv" else "\t")
        if "\0" not in "".join(names):
            writer.writerow(names)
        for row in rows:
            writer.writerow([str(row.get(name, "")).replace("\0", "") for name in names])
        content = buffer.getvalue().encode("utf-8", "surrogatepass")
    elif kind.lower() == ".parquet":
        content = _parquet(rows, r)
    else:
        content = (json.dumps(rows) if kind == ".json" else "\n".join(map(json.dumps, rows))).encode()
    return f"rows{kind}", content if r.random() < 0.5 else data(content, r)


def _parquet(rows: list[dict[str, Any]], r: Random) -> bytes:
    pa, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    columns: dict[str, Any] = {}
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["m", "n", "k"]
    for name in names:
        cells = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(cells)
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
            columns[name] = pa.array([str(type(cell)) for cell in cells])
    if r.random() < 0.2:
        stamps = pa.array([r.randrange(2**60) for _ in rows], pa.timestamp(r.choice(("ns", "us", "s"))))
        columns[r.choice(("name", "x_when", "m"))] = stamps
    buffer = io.BytesIO()
    try:
        parquet.write_table(pa.table(columns), buffer, compression=r.choice(("none", "snappy", "zstd")))
    except (pa.ArrowException, UnicodeError):
        return b"PAR1"
    return buffer.getvalue()


def _swept_file(file: tuple[str, bytes]) -> Any:
    name, content = file
    if content or name.startswith("rows"):
        _write(name, content)
    found = ls.sweep(name, "h200", workers=1, out="answers.parquet" if len(content) % 7 == 0 else None)
    assert found.rows == sum(found.verdicts.values())
    return found


ROWS: tuple[Row, ...] = tuple(readers())
