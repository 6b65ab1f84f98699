"""One process of the harness: calls by family, seed and number, each timed, limited and judged."""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
import signal
import struct
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

import legalsat as ls

from . import table_files, table_quick, table_slow, verbs
from .table import Call, Row

SECONDS, BYTES = 10, 2 << 30
HERE = Path(__file__).parent
PRODUCT = ("legalsat", "rules", "analyses", "extract", "backends")
ROWS: tuple[Row, ...] = (*table_quick.ROWS, *table_slow.ROWS, *table_files.ROWS, *verbs.ROWS)
_MISCOUNTED = re.compile(r"\(\) (got|missing|takes) .*argument|expected .* arguments?, got")
MOST_ALIKE = 3  # findings of one kind that are told


class TooSlow(BaseException):
    """A call took more than its seconds of this process's time."""


@dataclass(slots=True)
class Finding:
    """A call that did what none may: by what it is called again, and what happened."""

    call: str
    row: str
    what: str
    where: str
    text: str


@dataclass(slots=True)
class Tally:
    """What became of calls."""

    calls: Counter[str] = field(default_factory=Counter)  # by outcome
    rows: Counter[str] = field(default_factory=Counter)  # answered, by row
    alike: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest: float = 0.0
    slowest_call: str = ""
    most_bytes: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, unless as many like it are known."""
        kind = f"{finding.row} {finding.what.split(':')[0]} {finding.where}"
        self.alike[kind] += 1
        if self.alike[kind] <= MOST_ALIKE:
            self.findings.append(finding)


@cache
def _family(name: str) -> tuple[tuple[Row, ...], tuple[float, ...]]:
    rows = tuple(row for row in ROWS if row.family == name)
    return rows, tuple(accumulate(row.weight for row in rows))


def drawn(family: str, seed: int, number: int) -> tuple[Row, Call]:
    """Return a call by its family, seed and number, always the same one."""
    r = Random(f"{family}:{seed}:{number}")
    rows, weights = _family(family)
    row = r.choices(rows, cum_weights=weights)[0]
    return row, row.call(r)


def one_call(family: str, seed: int, number: int, tally: Tally) -> None:
    """Make a call and count what became of it."""
    name = f"{family}:{seed}:{number}"
    row: Row | None = None
    call: Call | None = None
    error: BaseException | None = None
    begun = time.process_time()
    try:
        row, call = drawn(family, seed, number)
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        result = call()
        if call.good and row.judge is not None:
            row.judge(call.arguments, call.options, result)
        outcome = "answered"
    except ls.LegalSatError as refusal:
        outcome = "answered" if isinstance(refusal, ls.NoLegalLayout) else "refused"  # the planner's own answer
        error = _unreadable(refusal) if call is not None else refusal  # a call that cannot be drawn tries nothing
    except (KeyboardInterrupt, SystemExit):
        raise
    except TypeError as raised:
        own = call is not None and call.miscounted and _MISCOUNTED.search(str(raised))
        outcome, error = ("python", None) if own else ("foreign", raised)
    except BaseException as raised:  # whatever escapes is what is looked for
        outcome, error = "foreign", raised
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    taken = time.process_time() - begun
    tally.calls[outcome] += 1
    if row is not None and outcome in {"answered", "refused"}:
        tally.rows[f"{row.name} {outcome}"] += 1
    if taken > tally.slowest:
        tally.slowest, tally.slowest_call = taken, name
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if size > max(tally.most_bytes, BYTES):
        error = error or MemoryError(f"{size >> 20} MB are in use")
    tally.most_bytes = max(tally.most_bytes, size)
    if error is not None:
        said = f"{type(error).__name__}: {_said(error)}"
        where = next(iter(_frames(error.__traceback__)[::-1]), "the harness")
        tally.add(Finding(name, row.name if row else "drawing", said, where, str(call)[:600]))


def _unreadable(refusal: Exception) -> Exception | None:
    """Return what is wrong with a refusal's text: none, or escapes that a terminal would obey."""
    said = str(refusal)
    if len(said) < 2 or "\x1b" in said:
        return AssertionError(f"a refusal that says {said[:100]!r}")
    return None


def _said(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except (ValueError, RecursionError):
        return "no text"


def _frames(trace: TracebackType | None) -> list[str]:
    """Return the product's places in a traceback, the outermost first."""
    found = []
    for frame in traceback.extract_tb(trace, limit=-400):
        parts = Path(frame.filename).parts
        if (
            HERE not in Path(frame.filename).parents
            and any(part in parts for part in PRODUCT)
            and "site-packages" not in parts
        ):
            at = max(i for i, part in enumerate(parts) if part in PRODUCT)
            found.append(f"{'/'.join(parts[at:])}:{frame.lineno}")
    return found


def _stop(*_: Any) -> None:
    raise TooSlow(f"more than {SECONDS} s")


def prepare(folder: Path) -> None:
    """Limit this process, and let relative paths lead into a folder of its own."""
    os.chdir(folder)
    os.environ["LEGALSAT_CACHE"] = str(folder / "cache")
    signal.signal(signal.SIGPROF, _stop)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES + (1 << 30),) * 2)


def work(family: str, seed: int, numbers: range, beat: Path, answer: Path) -> None:
    """Make calls of a family in turn; say before each which one it is, and at the end what became of all."""
    tally = Tally()
    with beat.open("r+b") as file, mmap.mmap(file.fileno(), 16) as pulse:
        for number in numbers:
            pulse[:] = struct.pack("qd", number, time.time())
            one_call(family, seed, number, tally)
            if tally.most_bytes > BYTES:  # what follows would be blamed for it
                break
        pulse[:] = struct.pack("qd", number + 1, time.time())
    told = {name: getattr(tally, name) for name in ("calls", "rows", "slowest", "slowest_call", "most_bytes")}
    findings = [asdict(finding) for finding in tally.findings]
    answer.write_text(json.dumps(told | {"findings": findings, "alike": tally.alike}), encoding="utf-8")
