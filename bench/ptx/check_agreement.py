"""Does the PTX check say the same as in another checkout, and how long does it take in each?

    python -m bench.ptx.check_agreement CHECKOUT FOLDER...      # PTX below folders

Each kernel is checked in both, one after the other, in processes of their own, so that a busy machine slows both down.
Prints what differs, and processor time: median, nine in ten, the worst, and the ratio. Exit status 1 if anything else
differs than that what was open for want of time is decided.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.foreign_mutants.texts import sources
from bench.machine import ROOT

_LATE = re.compile(r"not decided within|not all values of parameters are tried within")
_WORKER = """
import json, sys, time
from legalsat.errors import LegalSatError
from legalsat.extract.check.check_ptx import check_ptx
for line in sys.stdin:
    begin = time.process_time()
    try:
        found = check_ptx(json.loads(line)).kernels[0]
        said = [[f.kind, f.line, f.message] for f in found.findings], [[u.line, u.reason] for u in found.unproven]
        row = {"errors": said[0], "open": said[1], "warnings": sorted({w.kind for w in found.warnings}),
               "conditions": list(map(str, found.conditions))}
    except LegalSatError as error:
        row = {"refused": str(error)}
    print(json.dumps([row, time.process_time() - begin]), flush=True)
"""


class Checkout:
    """A process that checks texts with the library of a checkout."""

    def __init__(self, root: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(root)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=env
        )

    def check(self, text: str) -> tuple[dict[str, Any], float]:
        """Return what is said of a text of one kernel, and the seconds of processor time that it took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(text), file=self.process.stdin, flush=True)
        row, seconds = json.loads(self.process.stdout.readline())
        return row, seconds


def late(row: dict[str, Any]) -> bool:
    """Was not all decided for want of time?"""
    return any(_LATE.search(reason) for _, reason in row.get("open", ()))


def times(seconds: list[float]) -> str:
    """Return median, nine in ten and the worst, in words."""
    listed = sorted(seconds)
    most = listed[len(listed) * 9 // 10]
    return f"median {statistics.median(listed):.3f} s, 90 % {most:.2f} s, worst {listed[-1]:.2f} s"


def main(arguments: list[str]) -> int:
    """Compare; return 1 if anything else differs than what was late."""
    there, here = Checkout(Path(arguments[0]).resolve()), Checkout(ROOT)
    before: list[float] = []
    now: list[float] = []
    differ = decided = 0
    for source in (one for folder in arguments[1:] for one in sources(Path(folder))):
        (old, took), (new, takes) = there.check(source.text), here.check(source.text)
        before.append(took)
        now.append(takes)
        decided += late(old) and not late(new)
        if old != new and not late(old):
            differ += 1
            print(source.name, *(f"\n    {key}: {old.get(key)} -> {new.get(key)}" for key in old | new
                                 if old.get(key) != new.get(key)), flush=True)  # fmt: skip
    ratios = [a / b for a, b in zip(before, now, strict=True)]
    print(f"{len(now)} kernels: {differ} differ, {decided} were late and are not")
    print(f"there: {times(before)}\nhere:  {times(now)}\nratio: median {statistics.median(ratios):.2f}, "
          f"of the sums {sum(before) / sum(now):.2f}")  # fmt: skip
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
