"""The sweep itself: chunks of rows go to workers, answers come back in order and are written as they come."""

from __future__ import annotations

import glob
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import legalsat
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.sweeps.arrow import COMPRESSION, arrow, packed, parquet, schema, unpacked
from legalsat.sweeps.catalogues import CATALOGUES, catalogue
from legalsat.sweeps.problem import BadRow, Problem, as_problem, row_or_error
from legalsat.sweeps.reading import Row, read
from legalsat.sweeps.store import Store, key_of
from legalsat.sweeps.workers import Answering, Workers, processes, ray_cluster
from legalsat.targets import Target
from legalsat.targets import target as as_target

CHUNK = 2048  # rows that one worker answers at once
CHUNKS_WRITTEN = 8  # at once, as one row group
AHEAD = 4  # chunks a worker that may wait, so that memory stays flat


@dataclass(slots=True)
class Progress:
    """How far a sweep is: rows answered, of them from the store, and by verdict."""

    rows: int = 0
    reused: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    begun: float = field(default_factory=time.monotonic)

    def add(self, answers: Any, *, reused: bool) -> None:
        """Count a table of answers."""
        self.rows += answers.num_rows
        self.reused += answers.num_rows if reused else 0
        self.verdicts.update(answers.column("verdict").to_pylist())

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
        rows: answered, of which `reused` came from the store of a sweep before.
        verdicts: how many rows have which: "legal", "repaired", "refused", "error".
        seconds: that it took.
        complete: whether every row was answered; False after Ctrl-C.
    """

    path: Path | None
    target: str
    rows: int
    reused: int
    verdicts: dict[str, int]
    seconds: float
    complete: bool

    def table(self) -> Any:
        """Return the answers as a pyarrow table.

        Raises:
            InvalidInput: the sweep wrote no file.
        """
        if self.path is None:
            raise InvalidInput("the sweep wrote no file; give it out=")
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
            dictionaries, of operators, or of `Problem`s.
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
    path = None if out is None else writable(Path(out))
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
    return Sweep(path, str(gpu), progress.rows, progress.reused, dict(progress.verdicts), seconds, complete)


def rows_in(problems: str) -> int | None:
    """Return about how many rows a file or a catalogue has; None where only reading it tells."""
    if problems in CATALOGUES:
        return sum(1 for _ in catalogue(problems))
    file = Path(problems)
    if not file.is_file() or file.suffix.lower() in (".json", ".parquet"):
        return None
    with file.open("rb") as lines:
        return max(sum(1 for line in lines if line.strip()) - (file.suffix.lower() in (".csv", ".tsv")), 0)


def writable(path: Path) -> Path:
    """Return the path of a file that is to be written, if its folder exists.

    Raises:
        InvalidInput: it does not, or the path is a folder.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}; name a file in a folder that exists")
    return path


def _rows(problems: Any) -> Iterator[Row | Problem | BadRow]:
    if isinstance(problems, str | Path):
        yield from catalogue(str(problems)) if str(problems) in CATALOGUES else read(problems)
        return
    if not isinstance(problems, Iterable):
        raise InvalidInput(f"problems are {type(problems).__name__}; give a file, a catalogue, or an iterable of rows")
    empty = True
    for place, one in enumerate(problems, start=1):
        empty = False
        yield Row(place, one) if isinstance(one, Mapping) else as_problem(one, place)
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
        while more or waiting:
            while more and len(waiting) < AHEAD * at_work.count:
                chunk = next(chunks, None)
                if chunk is None:
                    more = False
                    break
                key = _key(chunk, target)
                known = None if store is None else store.get(key)
                if known is not None and _whole(known):
                    waiting.append((_kept(known), True))
                else:
                    folder = None if store is None else str(store.folder)
                    waiting.append((at_work.submit(answer_chunk, (chunk, target, folder, key)), False))
            if waiting:
                try:
                    answers = waiting[0][0].result()
                except KeyboardInterrupt:
                    yield from ((unpacked(one.result()), reused) for one, reused in waiting if one.done())
                    raise
                yield unpacked(answers), waiting.popleft()[1]


def _kept(answers: bytes) -> Answering:
    return Answering(lambda: answers, lambda: True)


def _key(chunk: list[Row | Problem | BadRow], target: Target) -> str:
    said = [[one.line, dict(one.values)] if isinstance(one, Row) else repr(one) for one in chunk]
    return key_of(repr(target), json.dumps(said, sort_keys=True, default=repr))


def _whole(answers: bytes) -> bool:
    """Return whether stored answers can be read; a disk that was full may have cut them."""
    try:
        unpacked(answers)
    except (arrow().ArrowException, OSError, EOFError):
        return False
    return True


def answer_chunk(asked: tuple[list[Row | Problem | BadRow], Target, str | None, str]) -> bytes:
    """Answer one chunk, in whatever process: rows, the GPU, the store's folder or None, and the key there."""
    from legalsat.sweeps.answers import answer  # noqa: PLC0415 - who only hands chunks out needs no planner

    rows, target, folder, key = asked
    read_rows = [row_or_error(row.values, row.line) if isinstance(row, Row) else row for row in rows]
    answers = packed(answer(read_rows, target))
    if folder is not None:
        Store(folder).put(key, answers)
    return answers


def _drop_drafts(path: Path) -> None:
    """Remove what sweeps that were killed left of a file; those that still run keep theirs."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.draft"):
        owner = draft.name.split(".")[-2]
        if owner.isdigit() and not _runs(int(owner)):
            draft.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


class _Writer:
    """A Parquet file that takes its name when it is closed, so that no reader sees half of it."""

    def __init__(self, path: Path | None, target: Target) -> None:
        self._path, self._pending, self._file = path, [], None  # type: tuple[Path | None, list[Any], Any]
        self._draft = None if path is None else path.with_name(f".{path.name}.{os.getpid()}.draft")
        if path is not None:
            _drop_drafts(path)
        self._metadata = {"legalsat": legalsat.__version__, "target": str(target)}

    def __enter__(self) -> _Writer:
        if self._draft is not None:
            try:
                self._file = parquet().ParquetWriter(self._draft, schema(self._metadata), compression=COMPRESSION)
            except OSError as error:
                raise InvalidInput(f"cannot write {self._path}: {error}; name another file") from None
        return self

    def write(self, table: Any) -> None:
        self._pending.append(table)
        if len(self._pending) == CHUNKS_WRITTEN:
            self._flush()

    def _flush(self) -> None:
        if self._file is not None and self._pending:
            together = arrow().concat_tables(self._pending).combine_chunks()
            self._file.write_table(together.cast(self._file.schema), row_group_size=CHUNK * CHUNKS_WRITTEN)
        self._pending = []

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is None or self._draft is None or self._path is None:
            return
        if kind is None:
            self._flush()
        self._file.close()
        if kind is None:
            self._draft.replace(self._path)
        else:
            self._draft.unlink(missing_ok=True)
