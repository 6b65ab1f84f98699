"""Problems from files, a row at a time: CSV, JSON, JSON lines and Parquet. An invalid row is an answer, not an end."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from legalsat.errors import InvalidInput
from legalsat.files import as_path
from legalsat.sweeps.arrow import reading_arrow
from legalsat.sweeps.problem import FIELDS, KINDS
from legalsat.sweeps.rows import BadRow, Row, invalid, printable, row_of, said

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
ROWS_AT_ONCE = 4096  # of a Parquet file
LONGEST_CELL = 1 << 20


def read(path: str | Path) -> Iterator[Row | BadRow]:
    """Yield the rows of a file, by its suffix; rows that cannot be read come as `BadRow`.

    Columns are the fields of `legalsat.sweeps.problem`; JSON holds a list of objects, or one object a line.

    Raises:
        InvalidInput: the file cannot be opened, is of no known kind, or holds no table of problems.
    """
    file = as_path(path)
    readers = {".csv": _csv, ".tsv": _csv, ".json": _json, ".jsonl": _lines, ".ndjson": _lines, ".parquet": _parquet}
    if file.suffix.lower() not in readers:
        raise InvalidInput(f"{file.name} is of no known kind; give a file that ends in {', '.join(SUFFIXES)}")
    try:
        there = file.is_file()
    except OSError:  # a name that is too long, a folder that may not be read
        there = False
    if not there:
        raise InvalidInput(f"{file} is no file; give one that exists")
    try:
        yield from _some(readers[file.suffix.lower()](file), file)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}; give another file") from error


def _some(rows: Iterable[Row | BadRow], file: Path) -> Iterator[Row | BadRow]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InvalidInput(f"{file.name} holds no problems; give at least one row")


def _csv(file: Path) -> Iterator[Row | BadRow]:
    csv.field_size_limit(LONGEST_CELL)
    # What is no UTF-8 stays within its own row.
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True)
        header: list[str] | None = None
        while True:
            line = reader.line_num + 1  # where the row begins; quoted cells may hold several lines
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if header is None:
                    raise InvalidInput(f"{file.name} is no table: {error}; write it as CSV in UTF-8") from None
                last = reader.line_num
                upto = f", to line {last} where a quoted cell ends" if last > line else ""
                yield BadRow(line, "", f"row cannot be read{upto}: {error}; write it as CSV")
                continue
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                _columns(header, file)
            elif len(cells) != len(header):
                # A file that was cut off ends in a row of too few cells, whose last one may be cut too.
                mend = "quote commas" if len(cells) > len(header) else "part empty cells by commas as well"
                error_text = f"row has {len(cells)} cells, but the header {len(header)}; {mend}"
                name = dict(zip(header, cells, strict=False)).get("name", "")
                yield BadRow(line, said(",".join(cells)), error_text, said(name))
            else:
                yield Row(line, dict(zip(header, cells, strict=False)))


def _columns(names: Iterable[str], file: Path) -> None:
    """Refuse a table whose columns make no problem, once for all of its rows."""
    given = list(names)
    if any("\0" in name or printable(name) != name for name in given):
        raise InvalidInput(f"{file.name} is no UTF-8 text; write it again in UTF-8")
    twice = {name for name in given if given.count(name) > 1 and not name.startswith("x_")}
    strange = [name for name in given if name not in FIELDS and not name.startswith("x_")]
    # Spreadsheets part columns by what their locale says.
    other = next((mark for mark in ";\t|" if len(given) == 1 and set(given[0].split(mark)) & set(FIELDS)), None)
    if other is not None:
        raise InvalidInput(f"{file.name} parts its columns by {other!r}; part them by commas, or by tabs in a .tsv")
    if twice:
        raise InvalidInput(f"{file.name} has column {_named(twice)} twice; rename one")
    if strange:
        raise InvalidInput(
            f"{file.name} has columns that are no fields: {_named(strange)}; rename them to some of "
            f"{', '.join(FIELDS)}, or begin their names with x_"
        )
    if not any(set(kind.required) <= set(given) for kind in KINDS.values()):
        wanted = "; or ".join(f"{', '.join(kind.required)} for {name}" for name, kind in KINDS.items())
        raise InvalidInput(f"{file.name} has columns {_named(given)}, which make no operator; give {wanted}")


def _named(names: Iterable[str]) -> str:
    return ", ".join(printable(repr(name))[:60] for name in list(names)[:8])


def _json(file: Path) -> Iterator[Row | BadRow]:
    try:
        data = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file.name} is no JSON: {error}; give a list of objects in UTF-8") from None
    if isinstance(data, dict) and isinstance(data.get("problems"), list):
        data = data["problems"]
    if not isinstance(data, list):
        raise InvalidInput(f'{file.name} holds no list; give [{{"m": 4096, "n": 4096, "k": 4095}}, ...]')
    for place, value in enumerate(data, start=1):
        yield _object(value, place)


def _lines(file: Path) -> Iterator[Row | BadRow]:
    with file.open("rb") as lines:
        for place, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                text = line.decode("utf-8", "backslashreplace").strip()[:200]
                yield BadRow(place, text, f"line is no JSON: {error}; give an object")
            else:
                yield _object(value, place)


def _object(value: Any, place: int) -> Row | BadRow:
    if isinstance(value, dict):
        return row_of(place, value)
    return BadRow(place, said(value), "entry is no object; give fields by name")


def _parquet(file: Path) -> Iterator[Row | BadRow]:
    from legalsat.sweeps.arrow import parquet  # noqa: PLC0415 - few files are of this kind

    with reading_arrow(file):
        table = parquet().ParquetFile(file, page_checksum_verification=True)
        names = table.schema_arrow.names
    _columns(names, file)
    used = [name for name in names if not name.startswith("x_")]
    place = 0
    with reading_arrow(file):
        batches = table.iter_batches(batch_size=ROWS_AT_ONCE, columns=used)
    while True:
        with reading_arrow(file):
            batch = next(batches, None)
        if batch is None:
            return
        yield from _rows(batch, place)
        place += batch.num_rows


def _rows(batch: Any, before: int) -> Iterator[Row | BadRow]:
    """Yield the rows of a part of a Parquet file, that many rows from its begin."""
    try:
        with reading_arrow():
            whole = batch.to_pylist()
    except InvalidInput:  # a cell that Python cannot say
        yield from (_row(batch, row, before + row + 1) for row in range(batch.num_rows))
    else:
        yield from (row_of(place, values) for place, values in enumerate(whole, start=before + 1))


def _row(batch: Any, row: int, place: int) -> Row | BadRow:
    values: dict[str, Any] = {}
    wrong = ""
    for name in batch.schema.names:
        try:
            with reading_arrow():
                values[name] = batch.column(name)[row].as_py()
        except InvalidInput:
            wrong = wrong or name
    found = row_of(place, values)
    if wrong and isinstance(found, Row):
        return invalid(place, found.values, f"{wrong} is neither a number nor text; write it as one")
    return found
