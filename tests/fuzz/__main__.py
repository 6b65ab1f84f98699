"""The whole run: families shared out to processes, each watched from outside; and what became of all calls."""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
# Threads reserve address space, which is limited, as many as a machine has processors.
LEAN = {**os.environ, "OMP_NUM_THREADS": "2", "MALLOC_ARENA_MAX": "2"}
SILENT = 60  # seconds of a call, by the clock, after which its process is ended
# Calls of a whole run by family, in a million; the rest are quick.
SHARES = {"plan": 28_000, "explain": 36_000, "ptx": 5_200, "readers": 30_000, "verbs": 8_000}
SHARD = {"plan": 6000, "explain": 6000, "ptx": 1300, "readers": 10_000, "verbs": 4000, "quick": 120_000}


@dataclass(slots=True)
class Shard:
    """Calls of a family that one process makes."""

    family: str
    first: int
    last: int


@dataclass(slots=True)
class Worker:
    """A process at work on a shard."""

    shard: Shard
    process: subprocess.Popen[bytes]
    folder: Path

    def beat(self) -> tuple[int, float]:
        """Return the number of the call under way, and when it began, as two readings in a row say, lest it be torn."""
        before = b""
        while (now := (self.folder / "beat").read_bytes()) != before:
            before = now
        number, begun = struct.unpack("qd", now)
        return number, begun


def shards(calls: int, families: list[str]) -> Iterator[Shard]:
    """Yield all shards of a run, slow families first."""
    counts = {name: share * calls // 10**6 for name, share in SHARES.items()}
    counts["quick"] = calls - sum(counts.values())
    for family, count in counts.items():
        if family in families:
            for first in range(0, count, SHARD[family]):
                yield Shard(family, first, min(count, first + SHARD[family]))


def start(shard: Shard, seed: int, folder: Path) -> Worker:
    """Start a process on a shard."""
    folder.mkdir()
    (folder / "beat").write_bytes(struct.pack("qd", shard.first, time.time() + 60))  # it imports first
    words = [shard.family, str(seed), str(shard.first), str(shard.last), str(folder)]
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", *words]
        return Worker(
            shard,
            subprocess.Popen(command, cwd=ROOT, env=LEAN, stdout=log, stderr=log, stdin=subprocess.DEVNULL),
            folder,
        )


def run(calls: int, seed: int, families: list[str], processes: int) -> dict[str, Any]:
    """Return what became of all calls, by family."""
    waiting = deque(shards(calls, families))
    total: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as under:
        busy: list[Worker] = []
        count = 0
        while waiting or busy:
            while waiting and len(busy) < processes:
                busy.append(start(waiting.popleft(), seed, Path(under, str(count := count + 1))))
            time.sleep(0.2)
            for worker in list(busy):
                number, begun = worker.beat()
                late = time.time() - begun > SILENT
                if worker.process.poll() is None and not late:
                    continue
                worker.process.kill()
                code = worker.process.wait()
                busy.remove(worker)
                answer = worker.folder / "answer"
                of_family = total.setdefault(worker.shard.family, {"findings": []})
                if answer.exists():
                    _add(of_family, json.loads(answer.read_text(encoding="utf-8")))
                else:
                    why = f"no answer after {SILENT} s" if late else f"the process ended with {code}"
                    log = (worker.folder / "log").read_text(encoding="utf-8", errors="replace")[-300:]
                    name = f"{worker.shard.family}:{seed}:{number}"
                    of_family["findings"].append({"call": name, "row": "", "what": why, "where": log, "text": ""})
                    number += 1
                    of_family["lost"] = of_family.get("lost", 0) + number - worker.shard.first
                if number < worker.shard.last and number > worker.shard.first:
                    waiting.appendleft(Shard(worker.shard.family, number, worker.shard.last))
    return total


def _add(total: dict[str, Any], tally: dict[str, Any]) -> None:
    for outcome, count in tally["calls"].items():
        total[outcome] = total.get(outcome, 0) + count
    total["findings"] += tally["findings"]
    if tally["slowest"] > total.get("slowest", 0):
        total["slowest"], total["slowest_call"] = tally["slowest"], tally["slowest_call"]
    total["most_bytes"] = max(total.get("most_bytes", 0), tally["most_bytes"])
    rows = total.setdefault("rows", {})
    for name, count in tally["rows"].items():
        rows[name] = rows.get(name, 0) + count


def told(total: dict[str, Any], seconds: float) -> str:
    """Return the run in words."""
    lines = [
        f"{'family':9}{'calls':>10}{'answered':>10}{'refused':>10}{'python':>8}{'foreign':>9}{'slowest':>10}{'memory':>9}"
    ]
    for family, found in total.items():
        counts = [found.get(name, 0) for name in ("answered", "refused", "python", "foreign")]
        calls = sum(counts) + found.get("lost", 0)
        most = f"{found.get('slowest', 0):.2f} s"
        size = f"{found.get('most_bytes', 0) >> 20} MB"
        lines.append(
            f"{family:9}{calls:>10}{counts[0]:>10}{counts[1]:>10}{counts[2]:>8}{counts[3]:>9}{most:>10}{size:>9}"
        )
    findings = [finding for found in total.values() for finding in found["findings"]]
    kinds = {(f["where"], f["what"].split(":")[0]): f for f in reversed(findings)}
    lines += [f"{f['call']} {f['row']}: {f['what']} at {f['where']}\n    {f['text'][:300]}" for f in kinds.values()]
    return "\n".join([*lines, f"{len(kinds)} kinds of findings, {seconds:.0f} s"])


def main() -> int:
    """Run, or be one of a run's processes, or make one call again."""
    sys.path.insert(1, str(ROOT / "tests"))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", choices=(*SHARES, "quick"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="write what became of all calls there")
    parser.add_argument("--replay", metavar="FAMILY:SEED:NUMBER", help="make one call again, in this process")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        family, seed, first, last, folder = asked.worker
        from .run import prepare, work  # noqa: PLC0415 - the parent stays light

        prepare(Path(folder))
        work(family, int(seed), range(int(first), int(last)), Path(folder, "beat"), Path(folder, "answer"))
        return 0
    if asked.replay:
        return replay(asked.replay)
    begun = time.monotonic()
    total = run(asked.calls, asked.seed, asked.family or [*SHARES, "quick"], asked.processes)
    if asked.json:
        Path(asked.json).write_text(json.dumps(total, indent=1), encoding="utf-8")
    print(told(total, time.monotonic() - begun))
    return int(any(found["findings"] for found in total.values()))


def replay(name: str) -> int:
    """Make a call again and let what it raises escape."""
    from .run import drawn, prepare  # noqa: PLC0415 - the parent stays light

    family, seed, number = name.split(":")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        row, call = drawn(family, int(seed), int(number))
        print(f"{row.name}: {call}"[:3000])
        result = call()
        if call.good and row.judge is not None:
            row.judge(call.arguments, call.options, result)
        print(f"{result}"[:3000])
    return 0


if __name__ == "__main__":
    sys.exit(main())
