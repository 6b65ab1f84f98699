"""Whether bank wavefronts equal what an H200 took for 6,000 accesses, and how fast they are counted.

Run `python -m bench.banks`; it writes `bench/results/banks.json`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import legalsat as ls
from bench.machine import write
from legalsat.analyses.banks.bank_wavefronts import shared_access, wavefronts

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data" / "bank_cycles.npz"
RESULT = ROOT / "bench" / "results" / "banks.json"
TARGET = "sm_90a"


def measure(path: Path = DATA) -> dict[str, Any]:
    """Count every access of the file by itself, then those of one instruction at a time."""
    data = np.load(path)
    names = [str(name) for name in data["op_names"]]
    cycles = np.round(data["cycles"]).astype(int)
    accesses = [(names[op], row.tolist()) for op, row in zip(data["op"], data["address"], strict=True)]
    begin = time.perf_counter()
    found = [ls.bank_wavefronts(op, addresses, TARGET) for op, addresses in accesses]
    alone = time.perf_counter() - begin
    begin = time.perf_counter()
    together = np.zeros(len(found), dtype=np.int64)
    for number, name in enumerate(names):
        access, rows = shared_access(name, TARGET), data["op"] == number
        together[rows] = wavefronts(access, data["address"][rows, : access.addresses].astype(np.int64))
    batch = time.perf_counter() - begin
    right = np.array(found) == cycles
    merging = sum(op in {"ld.b64", "ld.b128"} for op, _ in accesses)
    return {
        "question": "do the predicted wavefronts equal the measured cycles",
        "accesses": len(found),
        "right": int(right.sum()),
        "right_in_batches": int((together == cycles).sum()),
        "loads_of_64_and_128_bits": merging,
        "by_instruction": {
            name: f"{int(right[data['op'] == n].sum())} of {int((data['op'] == n).sum())}"
            for n, name in enumerate(names)
        },
        "microseconds_per_access": round(alone / len(found) * 1e6, 1),
        "microseconds_per_access_in_batches": round(batch / len(found) * 1e6, 2),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.banks", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="measured accesses")
    parser.add_argument("--json", type=Path, default=RESULT, help="write the result here")
    given = parser.parse_args(arguments)
    report = measure(given.data)
    print(f"{report['right']}/{report['accesses']} accesses right")
    print(
        f"{report['microseconds_per_access']} us each, "
        f"{report['microseconds_per_access_in_batches']} us in batches of one instruction"
    )
    write(given.json, report)
    return int(report["right"] != report["accesses"] or report["right_in_batches"] != report["accesses"])


if __name__ == "__main__":
    sys.exit(main())
