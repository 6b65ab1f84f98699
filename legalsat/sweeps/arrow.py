"""Arrow, which is an extra: asked for by name, and answered with what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extras import extra
from legalsat.files import as_path
from legalsat.sweeps.columns import COLUMNS
from legalsat.sweeps.rows import said

COMPRESSION = "zstd"


def arrow() -> Any:
    """Return pyarrow."""
    return extra("pyarrow", "sweep")


def parquet() -> Any:
    """Return pyarrow.parquet."""
    return extra("pyarrow.parquet", "sweep")


def schema(metadata: dict[str, str] | None = None) -> Any:
    """Return the schema of a sweep's answers."""
    pa = arrow()
    fields = [pa.field(name, getattr(pa, {"double": "float64"}.get(kind, kind))()) for name, kind in COLUMNS]
    return pa.schema(fields, metadata=metadata)


def answers_in(path: str | Path) -> tuple[Any, dict[str, str]]:
    """Return a file of answers, opened, and what it says about itself: target and version.

    Raises:
        InvalidInput: the file is missing, or no sweep wrote it.
        MissingExtra: pyarrow is not installed.
    """
    if not as_path(path).is_file():
        raise InvalidInput(f"{path} is no file; give one that `legalsat sweep --out` wrote")
    with reading_arrow(path, "give one that `legalsat sweep --out` wrote"):
        file = parquet().ParquetFile(path, page_checksum_verification=True)
        there = {one.name: one.type for one in file.schema_arrow}
        about = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
    if any(there.get(one.name) != one.type for one in schema()) or not {"target", "legalsat"} <= set(about):
        raise InvalidInput(f"{path} holds no answers of a sweep; give one that `legalsat sweep --out` wrote")
    return file, about


@contextmanager
def reading_arrow(path: str | Path = "it", otherwise: str = "write it again") -> Iterator[None]:
    """Raise `InvalidInput`, naming the file, for whatever Arrow raises in the block."""
    try:
        yield
    except LegalSatError:
        raise
    except Exception as error:
        why = said((str(error).splitlines() or [""])[0] or type(error).__name__)
        raise InvalidInput(f"{Path(path).name} is no Parquet file that can be read: {why}; {otherwise}") from None


def packed(rows: list[dict[str, Any]]) -> bytes:
    """Return answers as the bytes of an Arrow stream; the same rows make the same bytes."""
    pa = arrow()
    table = pa.Table.from_pylist(rows, schema=schema())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=COMPRESSION)) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> Any:
    """Return the table that `packed` wrote."""
    pa = arrow()
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()
