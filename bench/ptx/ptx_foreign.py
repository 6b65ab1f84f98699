"""What the PTX check says of other people's kernels, and how long it takes: PTX below folders.

    python -m bench.ptx.ptx_foreign FOLDER... [--seconds S] [--processes N] [--json FILE]

Each kernel that has barriers or asynchronous operations is checked alone, as `legalsat check` does it, in a process
that checks nothing else at the same time. Where its text leaves the threads of a block open, it is given those of its
known launches (`bench.foreign_mutants.recipes`). Seconds are of processor time, which the check's own bound counts too;
on a busy machine, whose cores share their units, they are more, and `--seconds` gives a kernel as many more. Prints one
line a kernel, and the summary.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.foreign_mutants.recipes import RECIPES
from bench.foreign_mutants.texts import Source, sources
from bench.machine import write
from legalsat.analyses.ptx.bounds import SECONDS
from legalsat.extract.check.check_ptx import check_ptx

BLOCKS = {recipe.source: recipe.block for recipe in RECIPES if recipe.block}
# CUTLASS, examples/cute/tutorial/blackwell: all five launch `dim3 dimBlock(128)`, as files are named here or by nvcc.
TUTORIALS = re.compile(r"cutlass/tut_0\d_mma|cute_tutorial_blackwell_0\d_mma")
OF_TUTORIALS = 128
ASYNCHRONOUS = re.compile(r"\b(mbarrier|cp\.async|wgmma|tcgen05|barrier\.cluster)\b")


def block_of(name: str) -> int | None:
    """Return the threads of a block in a kernel's known launch; None where none is known."""
    return BLOCKS.get(name) or (OF_TUTORIALS if TUTORIALS.search(name) else None)


def checked(source: Source, bound: float = SECONDS) -> dict[str, Any]:
    """Return the answer about one kernel."""
    block, began = block_of(source.name), time.process_time()
    (found,) = check_ptx(source.text, block=block, seconds=bound).kernels
    seconds = time.process_time() - began
    reached, there = found.reached
    return {
        "kernel": source.name,
        "block": block,
        "title": found.title,
        "answer": "flagged" if found.findings else "proven" if found.proven else "not proven",
        "cpu_s": round(seconds, 2),
        "runs": found.runs,
        "covered": f"{reached} of {there}",
        "findings": [f"line {one.line}: {one.message}" for one in found.findings],
        "reasons": [f"line {one.line}: {one.reason}" for one in found.unproven],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a kernel may take")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    all_ = [one for folder in options.folders for one in sources(folder) if ASYNCHRONOUS.search(one.text)]
    rows, loads = [], [os.getloadavg()[0]]
    with ProcessPoolExecutor(options.processes) as pool:
        for row in pool.map(partial(checked, bound=options.seconds), all_):
            rows.append(row)
            loads.append(os.getloadavg()[0])
            why = (*row["findings"], *row["reasons"], "")[0]
            print(f"{row['answer']:10} {row['cpu_s']:6.2f} s  {row['kernel']}  {why[:160]}", flush=True)
    counts = Counter(row["answer"] for row in rows)
    seconds = [row["cpu_s"] for row in rows]
    found = {
        "kernels": len(rows),
        **counts,
        "median_cpu_s": round(statistics.median(seconds), 2),
        "most_cpu_s": max(seconds),
        "bound_s": options.seconds,
        "load": round(statistics.mean(loads), 1),
    }
    print(", ".join(f"{key} {value}" for key, value in found.items()))
    if options.json:
        write(options.json, {**found, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
