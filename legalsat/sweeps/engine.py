"""The sweep itself: chunks of rows go to workers, answers come back in order and are written as they come."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import legalsat
from legalsat import files
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.sweeps.arrow import COMPRESSION, arrow, packed, parquet, reading_arrow, schema, unpacked
from legalsat.sweeps.catalogues import CATALOGUES, catalogue, require_known
from legalsat.sweeps.columns import BAD, FAILURES_FIRST
from legalsat.sweeps.problem import Problem, as_problem, row_or_error
from legalsat.sweeps.reading import SUFFIXES, read
from legalsat.sweeps.rows import BadRow, Row, row_of
from legalsat.sweeps.store import Store, key_of
from legalsat.sweeps.workers import Answering, Workers, processes, ray_cluster
from legalsat.targets import Target
from legalsat.targets import target as as_target

CHUNK = 2048  # rows that one worker answers at once
CHUNKS_WRITTEN = 8  # at once, as one row group
MOST_NAMED = 20  # invalid rows that a sweep's result names; its file holds all
# Endings of what answers are not: who names a file so would read Parquet as something else.
_OTHER_FORMS = {*SUFFIXES, ".html", ".txt", ".xlsx"} - {".parquet"}
AHEAD = 4  # chunks a worker that may wait, so that memory stays flat


@dataclass(slots=True)
class Progress:
    """How far a sweep is: rows answered, of them from the store, and by verdict; and the first invalid rows."""

    rows: int = 0
    reused: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    begun: float = field(default_factory=time.monotonic)
    invalid: list[BadRow] = field(default_factory=list)

    def add(self, answers: Any, *, reused: bool) -> None:
        """Count a table of answers."""
        self.rows += answers.num_rows
        self.reused += answers.num_rows if reused else 0
        found = Counter(answers.column("verdict").to_pylist())
        self.verdicts.update(found)
        if found[BAD] and len(self.invalid) < MOST_NAMED:
            columns = [answers.column(name).to_pylist() for name in ("line", "problem", "error", "name", "verdict")]
            bad = (BadRow(*said) for *said, verdict in zip(*columns, strict=True) if verdict == BAD)
            self.invalid += islice(bad, MOST_NAMED - len(self.invalid))

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / max(time.monotonic() - self.begun, 1e-9)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A finished or interrupted sweep.

    Attributes:
        path: the Parquet file of its answers, None where none was asked for.
        target: the GPU, by name.
        rows: how many were answered.
        reused: of these, how many came from the store of a sweep before.
        verdicts: how many rows have which, those that fail first: "invalid", "refused", "repaired", "legal".
        invalid: the first of the invalid rows, each with its line, its name and why.
        seconds: that it took.
        complete: whether every row was answered; False after Ctrl-C.
    """

    path: Path | None
    target: str
    rows: int
    reused: int
    verdicts: dict[str, int]
    invalid: tuple[BadRow, ...]
    seconds: float
    complete: bool

    def table(self) -> Any:
        """Return the answers as a pyarrow table.

        Raises:
            InvalidInput: the sweep wrote no file.
        """
        if self.path is None:
            raise InvalidInput("the sweep wrote no file; give it out=")
        with reading_arrow(self.path):
            return parquet().read_table(self.path)


def sweep(
    problems: Any,
    target: str | Target,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    ray: str | bool | None = None,
    store: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Plan many problems, and write what was found about each.

    Rows are answered in chunks by processes; the file is the same whoever answers them. What was answered before a
    sweep was killed is not answered again.

    Args:
        problems: a file (CSV, JSON, JSON lines, Parquet) or the name of a shipped catalogue; or an iterable of rows as
            dictionaries, operators, tensors to copy, or `Problem`s.
        target: a GPU, such as "h200".
        out: the Parquet file to write, replaced when the sweep ends; none when left out.
        workers: processes; as many as there are cores when left out. 1, and few rows, work in this process.
        ray: answer on a Ray cluster: its address, or True for the one that Ray finds. Needs `legalsat[ray]`.
        store: folder in which answers are kept for other sweeps; beside `out` and dropped at the end when left out.
        on_progress: called after each chunk.

    Raises:
        InvalidInput: a file cannot be read or holds no problems, or an argument has no meaning.
        MissingExtra: pyarrow or ray is not installed.
    """
    gpu = as_target(target)
    arrow()
    count = (os.cpu_count() or 1) if workers is None else integer(workers, "workers", low=1, high=4096)
    path = None if out is None else files.writable(out)
    if path is not None and isinstance(problems, str | Path) and files.same(path, problems):
        raise InvalidInput(f"out is {path}, which holds the problems; name another file")
    if path is not None and path.suffix.lower() in _OTHER_FORMS:
        raise InvalidInput(f"out is {path}, and answers are written as Parquet; name a file that ends in .parquet")
    kept = None if path is None and store is None else Store(store if store is not None else f"{path}.parts")
    progress, complete = Progress(), True
    with _Writer(path, gpu) as writer:
        try:
            for table, reused in _answered(
                _rows(problems), gpu, kept, lambda n: ray_cluster(ray) if ray else processes(count if n > 1 else 1)
            ):
                writer.write(table)
                progress.add(table, reused=reused)
                if on_progress is not None:
                    on_progress(progress)
        except KeyboardInterrupt:
            complete = False
    if complete and kept is not None and store is None:
        kept.clear()
    seconds = time.monotonic() - progress.begun
    verdicts = {verdict: progress.verdicts[verdict] for verdict in FAILURES_FIRST if progress.verdicts[verdict]}
    named = tuple(progress.invalid)
    return Sweep(path, str(gpu), progress.rows, progress.reused, verdicts, named, seconds, complete)


def rows_in(problems: str) -> int | None:
    """Return about how many rows a file or a catalogue has; None where only reading it tells."""
    if problems in CATALOGUES:
        return sum(1 for _ in catalogue(problems))
    file = files.as_path(problems)
    if file.suffix.lower() in (".json", ".parquet"):
        return None
    try:
        with file.open("rb") as lines:
            return max(sum(1 for line in lines if line.strip()) - (file.suffix.lower() in (".csv", ".tsv")), 0)
    except OSError:  # which the sweep itself says
        return None


def _rows(problems: Any) -> Iterator[Row | Problem | BadRow]:
    if isinstance(problems, str | Path):
        name = str(problems)
        require_known(name)
        yield from catalogue(name) if name in CATALOGUES else read(problems)
        return
    try:
        given = iter(problems)
    except TypeError:  # an array without axes has a method for it that refuses
        form = "give a file, a catalogue, or an iterable of rows"
        raise InvalidInput(f"problems are {type(problems).__name__}; {form}") from None
    empty = True
    for place, one in enumerate(given, start=1):
        empty = False
        yield row_of(place, one) if isinstance(one, Mapping) else as_problem(one, place)
    if empty:
        raise InvalidInput("problems are empty; give at least one row")


def _answered(
    rows: Iterator[Row | Problem | BadRow],
    target: Target,
    store: Store | None,
    workers: Callable[[int], AbstractContextManager[Workers]],
) -> Iterator[tuple[Any, bool]]:
    """Yield tables of answers in the order of the rows, a chunk each, and whether they were in the store.

    `workers` are who answers, told how many chunks there are, two for several: one needs no other process.
    """
    chunks: Iterator[list[Row | Problem | BadRow]] = iter(lambda: list(islice(rows, CHUNK)), [])
    first = list(islice(chunks, 2))
    chunks = chain(first, chunks)
    with workers(len(first)) as at_work:
        waiting: deque[tuple[Answering, bool]] = deque()
        more = True
        try:
            while more or waiting:
                while more and len(waiting) < AHEAD * at_work.count:
                    chunk = next(chunks, None)
                    if chunk is None:
                        more = False
                        break
                    waiting.append(_begun(chunk, target, store, at_work))
                if waiting:
                    answers = waiting[0][0].result()
                    yield unpacked(answers), waiting.popleft()[1]
        except KeyboardInterrupt:  # wherever it comes: what is done by then is told
            yield from ((unpacked(one.result()), reused) for one, reused in waiting if one.done())
            raise


def _begun(
    chunk: list[Row | Problem | BadRow], target: Target, store: Store | None, at_work: Workers
) -> tuple[Answering, bool]:
    """Return what answers a chunk, and whether its answers were kept."""
    key, kept = _key(chunk, target), store if all(map(_told_by_key, chunk)) else None
    known = None if kept is None else kept.get(key)
    if known is not None:
        return _kept(known), True
    folder = None if kept is None else str(kept.folder)
    return at_work.submit(answer_chunk, (chunk, target, folder, key)), False


def _kept(answers: bytes) -> Answering:
    return Answering(lambda: answers, lambda: True)


def _told_by_key(one: Row | Problem | BadRow) -> bool:
    """Whether the package's sources, which answers are kept by, say all: no operator is somebody else's."""
    return not isinstance(one, Problem) or type(one.operator).__module__.startswith(f"{__package__.split('.')[0]}.")


def _key(chunk: list[Row | Problem | BadRow], target: Target) -> str:
    said = [[one.line, dict(one.values)] if isinstance(one, Row) else repr(one) for one in chunk]
    return key_of(repr(target), json.dumps(said, sort_keys=True, default=repr))


def answer_chunk(asked: tuple[list[Row | Problem | BadRow], Target, str | None, str]) -> bytes:
    """Answer one chunk, in whatever process: rows, the GPU, the store's folder or None, and the key there."""
    from legalsat.sweeps.answers import answer  # noqa: PLC0415 - who only hands chunks out needs no planner

    rows, target, folder, key = asked
    read_rows = [row_or_error(row.values, row.line) if isinstance(row, Row) else row for row in rows]
    answers = packed(answer(read_rows, target))
    if folder is not None:
        Store(folder).put(key, answers)
    return answers


class _Writer:
    """A Parquet file that takes its name when it is closed, so that no reader sees half of it."""

    def __init__(self, path: Path | None, target: Target) -> None:
        self._path, self._metadata = path, {"legalsat": legalsat.__version__, "target": str(target)}
        self._pending: list[Any] = []
        self._file: Any = None
        self._draft = ExitStack()

    def __enter__(self) -> _Writer:
        if self._path is not None:
            files.drop_drafts(self._path.parent)
            draft = self._draft.enter_context(files.replacing(self._path))
            self._file = parquet().ParquetWriter(
                draft, schema(self._metadata), compression=COMPRESSION, write_page_checksum=True
            )
        return self

    def write(self, table: Any) -> None:
        self._pending.append(table)
        if len(self._pending) == CHUNKS_WRITTEN:
            self._flush()

    def _flush(self) -> None:
        if self._file is not None and self._pending:
            together = arrow().concat_tables(self._pending).combine_chunks()
            try:
                self._file.write_table(together.cast(self._file.schema), row_group_size=CHUNK * CHUNKS_WRITTEN)
            except OSError as error:
                raise files.refusal(error, str(self._path)) from None
        self._pending = []

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._draft:
            if error is None:
                self._flush()
            if self._file is not None:
                self._close(loud=error is None)
            if error is not None:
                raise error  # which drops the draft

    def _close(self, *, loud: bool) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._file.is_open = False  # or it is closed once more when it is collected
            if loud:
                raise files.refusal(error, str(self._path)) from None
