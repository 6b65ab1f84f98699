"""The command `sweep`: many problems at once, their report, and two sweeps side by side."""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legalsat.cli import DONE, INTERRUPTED, REFUSED, Answer
from legalsat.cli_arguments import whole
from legalsat.errors import InvalidInput
from legalsat.show import Look, duration, table
from legalsat.sweeps.columns import BAD, LEGAL, REPAIRED
from legalsat.sweeps.columns import REFUSED as NO_WAY
from legalsat.sweeps.compare import Change, Comparison, compare
from legalsat.sweeps.engine import Progress, Sweep, rows_in, writable
from legalsat.sweeps.engine import sweep as run_sweep

MOST_CHANGES = 20  # of a comparison that a terminal shows
_MEANINGS = {
    LEGAL: "boxes of a tensor map reach every operand as it is",
    REPAIRED: "they do after the repair that is named",
    NO_WAY: "no layout of the same numbers makes them legal",
    BAD: "the row is no problem; its error says why",
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
        raise InvalidInput(
            "FILE or --target is missing; give a file of problems or a catalogue, and a GPU such as h200"
        )
    if args.table is not None:
        return _table(args)
    if args.report is not None:
        if args.out is None:
            raise InvalidInput("--report shows the answers that --out keeps; give --out too")
        writable(Path(args.report))
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
    return Answer(_json(done) | {"report": page}, lambda look: _summary(done, args.file, page, look), code)


def _table(args: Namespace) -> Answer:
    """Show a set of operators line by line."""
    if args.out is not None or args.report is not None:
        raise InvalidInput("--table shows answers and keeps none; leave out --out and --report")
    from legalsat.sweeps.tables import operator_table  # noqa: PLC0415 - it plans in this process

    found = operator_table(args.file, args.target)

    def shown(look: Look) -> str:
        if args.table == "markdown":
            return found.markdown().rstrip("\n")
        title = f"{Path(found.source).name} on {found.target}: what tensor maps take"
        return "\n".join([look.paint(title, "title"), "", *table(found.rows())])

    return Answer(found.to_json(), shown, REFUSED if found.total.errors else DONE)


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


def _report(answers: str | Path, page: str | Path) -> None:
    from legalsat.sweeps.report import report  # noqa: PLC0415 - it explains, which needs the planner

    report(answers, page)


def _json(done: Sweep) -> dict[str, object]:
    return {
        "target": done.target,
        "rows": done.rows,
        "reused": done.reused,
        "verdicts": done.verdicts,
        "seconds": round(done.seconds, 3),
        "complete": done.complete,
        "path": None if done.path is None else str(done.path),
    }


def _summary(done: Sweep, source: str, page: str | None, look: Look) -> str:
    title = f"{done.rows} problems of {Path(source).name} on {done.target}"
    lines = [look.paint(title, "title"), ""]
    rows = [
        (name, str(done.verdicts[name]), f"{100 * done.verdicts[name] / max(done.rows, 1):.1f}%", meaning)
        for name, meaning in _MEANINGS.items()
        if done.verdicts.get(name)
    ]
    lines += table(rows)
    rate = done.rows / max(done.seconds, 1e-9)
    reused = f", {done.reused} of them answered before" if done.reused else ""
    lines += ["", f"{done.seconds:.1f} s, {rate:.0f} problems a second{reused}"]
    if done.path is not None:
        lines.append(f"answers: {done.path}")
    if page is not None:
        lines.append(f"report: {page}")
    if not done.complete:
        lines.append("interrupted; run the same command again, it goes on from here")
    return "\n".join(lines)


def _compared(found: Comparison, look: Look) -> str:
    old, new = (f"{target} (legalsat {version})" for target, version in zip(found.targets, found.versions, strict=True))
    lines = [look.paint(f"{old} -> {new}: {found.both} problems in both", "title")]
    lines += [f"only in the old one: {found.only_old}; only in the new one: {found.only_new}", ""]
    lines += table([(f"{a} -> {b}", str(count)) for (a, b), count in sorted(found.verdicts.items())])
    if found.changes:
        lines += ["", look.paint("largest changes", "title"), *table(map(_row, found.changes[:MOST_CHANGES]))]
        more = len(found.changes) - MOST_CHANGES
        lines += [f"  and {more} more; --json lists all"] if more > 0 else []
    return "\n".join(lines)


def _row(one: Change) -> tuple[str, ...]:
    verdict = one.verdicts[0] if one.verdicts[0] == one.verdicts[1] else " -> ".join(one.verdicts)
    times = " -> ".join(duration(time) if time else "-" for time in one.nanoseconds)
    codes = one.codes[0] if one.codes[0] == one.codes[1] else " -> ".join(code or "none" for code in one.codes)
    return (one.problem, verdict, codes, times)
