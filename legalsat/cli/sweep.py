"""The command `sweep`: many problems at once, their report, and two sweeps side by side."""

from __future__ import annotations

import importlib
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legalsat import files
from legalsat.cli import DONE, INTERRUPTED, REFUSED, Answer
from legalsat.cli.arguments import whole
from legalsat.errors import InvalidInput
from legalsat.printable import printable
from legalsat.sweeps.columns import BAD, LEGAL, REPAIRED
from legalsat.sweeps.columns import REFUSED as NO_WAY
from legalsat.sweeps.compare import Change, Comparison, compare
from legalsat.sweeps.engine import Progress, Sweep, rows_in
from legalsat.sweeps.engine import sweep as run_sweep
from legalsat.sweeps.rows import placed
from legalsat.view.look import Look
from legalsat.view.show import duration, table

MOST_CHANGES = 20  # of a comparison that a terminal shows
WIDTH = 100  # columns that no line is longer than
_MEANINGS = {
    BAD: ("invalid rows", "could not be read; each is named below"),
    NO_WAY: ("refused", "no layout of the same numbers makes them legal"),
    REPAIRED: ("repaired", "legal after the repair that is named"),
    LEGAL: ("legal", "boxes of a tensor map reach every operand as it is"),
}


def sweep(args: Namespace) -> Answer:
    """Plan every problem of a file, show it as a table, report on a file of answers, or compare two."""
    given = (args.file, args.target, args.out)
    if args.compare is not None:
        if given != (None,) * 3 or args.report is not None or args.answers is not None:
            raise InvalidInput("--compare reads two files of answers; leave out FILE and the other options")
        found = compare(*args.compare)
        return Answer(found.to_json(), lambda look: _compared(found, look), DONE)
    if args.answers is not None:
        if given != (None,) * 3 or args.report is None:
            raise InvalidInput("--from reads answers for --report PAGE.html alone; leave out FILE, --target and --out")
        _report(args.answers, args.report)
        return Answer({"report": args.report}, lambda _: f"report: {args.report}", DONE)
    if args.file is None or args.target is None:
        lacking = {"FILE": "a file of problems or a catalogue"} if args.file is None else {}
        lacking |= {"--target": "a GPU such as h200"} if args.target is None else {}
        are = "are" if len(lacking) > 1 else "is"
        raise InvalidInput(f"{' and '.join(lacking)} {are} missing; give {' and '.join(lacking.values())}")
    if args.report is not None:
        if args.out is None:
            raise InvalidInput("--report shows the answers that --out keeps; give --out too")
        files.writable(args.report)
        if files.same(args.report, args.out):
            raise InvalidInput("--report and --out name one file; give each its own")
    if args.table is not None and args.out is None:
        return _table(args, None)
    workers = None if args.workers is None else whole(args.workers, "--workers")
    ray = True if args.ray == "auto" else args.ray
    total = None if args.json or not sys.stderr.isatty() else rows_in(args.file)
    with _bar(total) as on_progress:
        done = run_sweep(
            args.file,
            args.target,
            out=args.out,
            workers=workers,
            ray=ray,
            store=args.store,
            on_progress=on_progress,
        )
    code = INTERRUPTED if not done.complete else REFUSED if done.verdicts.get(BAD) else DONE
    page = args.report if done.complete else None
    if page is not None:
        _report(args.out, page)
    if args.table is not None and done.complete:
        return _table(args, done)
    return Answer(_json(done) | {"report": page}, lambda look: _summary(done, args.file, page, look), code)


def _table(args: Namespace, done: Sweep | None) -> Answer:
    """Show a set of operators line by line, as a sweep has answered it or as is answered now."""
    from legalsat.sweeps.tables import operator_table  # noqa: PLC0415 - it plans in this process

    found = operator_table(args.file, args.target, None if done is None else done.table().to_pylist())
    kept = {} if done is None else {**_json(done), "report": args.report}

    def shown(look: Look) -> str:
        if args.table == "markdown":
            return found.markdown().rstrip("\n")
        title = f"{Path(found.source).name} on {found.target}: what tensor maps take"
        lines = [look.paint(cut(title), "title"), "", *fitted(found.rows())]
        if done is not None:
            lines += ["", *_written(done, args.report)]
        return "\n".join(lines)

    return Answer({**kept, **found.to_json()}, shown, REFUSED if found.total.errors else DONE)


def cut(text: str) -> str:
    """Return a line of as many columns as fit."""
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def fitted(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the rows as lines of `WIDTH` columns at most: the last cell goes on below itself, long first ones are cut.

    A first cell that takes more than a third of the width is cut in its middle, since names differ at their ends.
    What a terminal would obey is written out first, or columns would not stand below each other.
    """
    most = WIDTH // 3
    cells = [(_shortened(printable(row[0]), most), *row[1:]) for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    begin = 2 + sum(widths) + 3 * len(widths)
    lines: list[str] = []
    for *first, last in cells:
        head = "  " + "".join(cell.ljust(width) + "   " for cell, width in zip(first, widths, strict=True))
        wrapped = textwrap.wrap(last, max(WIDTH - begin, 20), break_on_hyphens=False) or [""]
        lines += [f"{head}{wrapped[0]}".rstrip(), *(" " * begin + line for line in wrapped[1:])]
    return lines


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    front = (most - 3) // 3
    return f"{text[:front]}...{text[len(text) - (most - 3 - front) :]}"


@contextmanager
def _bar(total: int | None) -> Iterator[Callable[[Progress], None] | None]:
    """Yield what shows progress on a terminal, of so many rows: rate, time left, how many have which verdict."""
    tqdm = None if total is None else _tqdm()
    if tqdm is None:
        yield None
        return
    with tqdm(total=total, unit=" problems", dynamic_ncols=True, leave=False) as bar:

        def show(progress: Progress) -> None:
            bar.update(progress.rows - bar.n)
            bar.set_postfix({name: progress.verdicts[name] for name in _MEANINGS if progress.verdicts[name]})

        yield show


def _tqdm() -> Any:
    """Return tqdm's bar; None where it is not installed, since a sweep needs none."""
    try:
        return importlib.import_module("tqdm").tqdm
    except ImportError:
        return None


def _written(done: Sweep, page: str | None) -> list[str]:
    """Return what was written where; paths are never cut, since they are copied."""
    found = [] if done.path is None else [f"answers: {done.path}"]
    return found + ([] if page is None else [f"report: {page}"])


def _report(answers: str | Path, page: str | Path) -> None:
    from legalsat.sweeps.report import report  # noqa: PLC0415 - it explains, which needs the planner

    report(answers, page)


def _json(done: Sweep) -> dict[str, object]:
    return {
        "target": done.target,
        "rows": done.rows,
        "reused": done.reused,
        "verdicts": done.verdicts,
        "invalid_rows": [{"line": one.line, "name": one.name, "error": one.error} for one in done.invalid],
        "seconds": round(done.seconds, 3),
        "complete": done.complete,
        "path": None if done.path is None else str(done.path),
    }


def _summary(done: Sweep, source: str, page: str | None, look: Look) -> str:
    title = f"{done.rows} {'row' if done.rows == 1 else 'rows'} of {Path(source).name} on {done.target}"
    lines = [look.paint(cut(title), "title"), ""]
    lines += fitted(
        (named, str(done.verdicts[verdict]), f"{100 * done.verdicts[verdict] / max(done.rows, 1):.1f}%", meaning)
        for verdict, (named, meaning) in _MEANINGS.items()
        if done.verdicts.get(verdict)
    )
    if done.invalid:
        lines += ["", *fitted((placed(one.line, one.name), one.error) for one in done.invalid)]
        more = done.verdicts[BAD] - len(done.invalid)
        lines += [f"  and {more} more"] if more > 0 else []
    rate = done.rows / max(done.seconds, 1e-9)
    reused = f", {done.reused} of them answered before" if done.reused else ""
    lines += ["", f"{done.seconds:.1f} s, {rate:.0f} problem{'s' * (f'{rate:.0f}' != '1')} a second{reused}"]
    lines += _written(done, page)
    if not done.complete:
        lines.append("interrupted; run the same command again, it goes on from here")
    return "\n".join(lines)


def _compared(found: Comparison, look: Look) -> str:
    old, new = (f"{target} (legalsat {version})" for target, version in zip(found.targets, found.versions, strict=True))
    lines = [look.paint(f"{old} -> {new}: {found.both} problems in both", "title")]
    lines += [f"only in the old one: {found.only_old}; only in the new one: {found.only_new}", ""]
    lines += table([(f"{a} -> {b}", str(count)) for (a, b), count in sorted(found.verdicts.items())])
    if found.changes:
        lines += ["", look.paint("largest changes", "title"), *fitted(map(_row, found.changes[:MOST_CHANGES]))]
        more = len(found.changes) - MOST_CHANGES
        lines += [f"  and {more} more; --json lists all"] if more > 0 else []
    return "\n".join(lines)


def _row(one: Change) -> tuple[str, ...]:
    verdict = one.verdicts[0] if one.verdicts[0] == one.verdicts[1] else " -> ".join(one.verdicts)
    times = " -> ".join(duration(time) if time else "-" for time in one.nanoseconds)
    codes = one.codes[0] if one.codes[0] == one.codes[1] else " -> ".join(code or "none" for code in one.codes)
    return (verdict, times, ": ".join(filter(None, (one.problem, codes))))
