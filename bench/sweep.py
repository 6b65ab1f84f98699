"""How fast a sweep is, how its cost grows, and whether a killed one loses or repeats anything.

Run `python -m bench.sweep [speed] [growth] [kills] [ray] [--problems N] [--json FILE]`; all four when none is named.
Each runs `legalsat sweep` on files of distinct products and attentions. `speed`: problems a second and the memory of
all processes, for one worker and two, from nothing remembered. `growth`: seconds and classes against the number of
problems (plot docs/plots/sweep_growth.svg). `kills`: kill -9 at ten random moments, then to the end. `ray`: a local
cluster of two nodes. All files are compared byte for byte; exit code 1 if they differ.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.machine import write
from legalsat.sweeps.classes import smallest_equal
from legalsat.sweeps.problem import problem_of
from legalsat.targets import target

RESULT = Path(__file__).parent / "results" / "sweep.json"
PLOT = Path(__file__).parents[1] / "docs" / "plots" / "sweep_growth.svg"
ROOT = Path(__file__).parents[1]
SEED, PROBLEMS, KILLS = 1, 100_000, 10
GROWTH = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
RAY_PROBLEMS, KILLED_PROBLEMS = 20_000, 40_000
FIELDS = ("operator", "m", "n", "k", "dtype", "batch", "heads", "kv_heads", "queries", "keys", "head")
HEADS = (64, 80, 96, 128, 192, 256)


def problems(count: int) -> list[dict[str, Any]]:
    """Return distinct rows: half products whose extents are multiples of anything from 1 to 64, half attentions."""
    rng = random.Random(SEED)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    while len(found) < count:
        if rng.random() < 0.5:
            largest, step = rng.choice((64, 300, 9000, 9000, 60_000)), rng.choice((1, 1, 8, 16, 64))
            m, n, k = (
                rng.randint(1, largest),
                *(max(1, rng.randint(1, most) // step) * step for most in (largest, 20_000)),
            )
            row = {"operator": "gemm", "m": m, "n": n, "k": k, "dtype": rng.choice(("bf16", "bf16", "e4m3"))}
        else:
            shared = rng.choice((1, 4, 8))
            shape = {"batch": rng.randint(1, 64), "heads": 8 * shared, "kv_heads": 8}
            row = {"operator": "attention", "dtype": "bf16", **shape, "queries": rng.randint(1, 16_384)}
            row |= {"keys": rng.randint(1, 16_384), "head": rng.choice(HEADS)}
        found[tuple(row.items())] = row
    return list(found.values())


def written(rows: list[dict[str, Any]], path: Path) -> Path:
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def command(file: Path, out: Path, *more: str) -> list[str]:
    """Return the words of a sweep."""
    return [
        sys.executable,
        "-m",
        "legalsat",
        "sweep",
        str(file),
        "--target",
        "h200",
        "--out",
        str(out),
        "--json",
        *more,
    ]


def swept(file: Path, out: Path, *more: str) -> dict[str, Any]:
    """Run a sweep, and return what it says, its seconds from start to end, and the largest memory of any process."""
    begun = time.monotonic()
    with subprocess.Popen(command(file, out, *more), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        largest = 0
        while process.poll() is None:
            largest = max(largest, _resident(process.pid))
            time.sleep(0.2)
        said = json.loads(process.stdout.read()) if process.stdout else {}
    seconds = time.monotonic() - begun
    return {
        "problems": said["rows"],
        "verdicts": said["verdicts"],
        "seconds": round(seconds, 2),
        "problems_a_second": round(said["rows"] / seconds),
        "megabytes_of_all_processes": round(largest / 2**20),
        "sha256": digest(out),
    }


def digest(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _resident(root: int) -> int:
    """Return the bytes of memory of a process and of all processes below it, shared pages counted each time."""
    children: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        pages[pid] = int(fields[21])
    found, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        found += pages.get(pid, 0)
        waiting += children.get(pid, [])
    return found * resource.getpagesize()


def speed(folder: Path, count: int) -> dict[str, Any]:
    """Return the rates of one worker and of two."""
    file = written(problems(count), folder / "speed.csv")
    found = {f"workers_{n}": swept(file, folder / f"speed{n}.parquet", "--workers", str(n)) for n in (1, 2)}
    return {**found, "same_bytes": found["workers_1"]["sha256"] == found["workers_2"]["sha256"]}


def growth(folder: Path, count: int) -> dict[str, Any]:
    """Return seconds and classes against the number of problems, on two workers."""
    rows, h200, points = problems(count), target("h200"), []
    for number in (n for n in GROWTH if n <= count):
        file = written(rows[:number], folder / "growth.csv")
        done = swept(file, folder / "growth.parquet", "--workers", "2")
        operands = (problem_of(row, 1).operator.travels(h200).values() for row in rows[:number])
        classes = {smallest_equal(one) for sides in operands for one in sides}
        points.append({"problems": number, "seconds": done["seconds"], "legality_classes": len(classes)})
        print(points[-1], flush=True)
    _plot(points)
    first, last = points[0], points[-1]
    times = (last["problems"] / first["problems"], last["seconds"] / first["seconds"])
    return {"points": points, "problems_times": round(times[0], 1), "seconds_times": round(times[1], 1)}


def _plot(points: list[dict[str, Any]]) -> None:
    try:
        import matplotlib  # noqa: PLC0415 - an extra
    except ImportError:
        print("no plot, since matplotlib is not installed; install the extra bench")
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "legalsat"
    from matplotlib import pyplot  # noqa: PLC0415

    figure, times = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    counts = times.twinx()
    at = [point["problems"] for point in points]
    times.plot(at, [point["seconds"] for point in points], "o-", color="tab:blue", label="seconds")
    linear = [points[0]["seconds"] * number / at[0] for number in at]
    times.plot(at, linear, ":", color="tab:gray", label="as many times as problems")
    counts.plot(at, [point["legality_classes"] for point in points], "s--", color="tab:orange", label="classes")
    times.set(xscale="log", yscale="log", xlabel="problems", ylabel="seconds", ylim=(0.5, None))
    counts.set_ylabel("legality classes")
    counts.set_ylim(0)
    figure.legend(loc="upper left", bbox_to_anchor=(0.12, 0.95))
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def kills(folder: Path, count: int) -> dict[str, Any]:
    """Kill a sweep at random moments, start it again each time, and compare its file with an undisturbed one's."""
    rng = random.Random(SEED)
    file, out = written(problems(count), folder / "kills.csv"), folder / "kills.parquet"
    whole = swept(file, folder / "whole.parquet", "--workers", "2")
    kept, moments = [], []
    for _ in range(KILLS):
        seconds = rng.uniform(0.5, max(2.0, whole["seconds"] / 3))
        process = subprocess.Popen(command(file, out, "--workers", "2"), cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        moments.append(round(seconds, 2))
        time.sleep(1.5)  # its workers see that it is gone, and end
        kept.append({path.name: path.stat().st_mtime_ns for path in folder.glob("kills.parquet.parts/*/*.arrow")})
    last = swept(file, out, "--workers", "2")
    again = sum(1 for before, after in pairwise(kept) for name in before if before[name] != after.get(name))
    return {
        "killed_after_seconds": moments,
        "chunks_kept_after_each": [len(names) for names in kept],
        "chunks_planned_again": again,
        "undisturbed_seconds": whole["seconds"],
        "last_run_seconds": last["seconds"],
        "same_bytes": last["sha256"] == whole["sha256"],
        "left_behind": sorted(path.name for path in folder.glob("kills.parquet?*")),
    }


def ray(folder: Path, count: int) -> dict[str, Any]:
    """Compare a local Ray cluster of two nodes with one worker."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

    file = written(problems(count), folder / "ray.csv")
    alone = swept(file, folder / "alone.parquet", "--workers", "1")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        together = swept(file, folder / "ray.parquet", "--ray", cluster.address)
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call,unused-ignore]
    return {"nodes": 2, "alone": alone, "cluster": together, "same_bytes": alone["sha256"] == together["sha256"]}


def main() -> int:
    """Measure, write the result, and return 1 if any files differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", choices=["speed", "growth", "kills", "ray", []])
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--json", type=Path, default=RESULT)
    args = parser.parse_args()
    wanted = args.parts or ["speed", "growth", "kills", "ray"]
    known = json.loads(args.json.read_text(encoding="utf-8")) if args.json.is_file() else {}
    found = {name: value for name, value in known.items() if name != "machine"}
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        for name, run, most in (
            ("speed", speed, PROBLEMS),
            ("growth", growth, PROBLEMS),
            ("kills", kills, KILLED_PROBLEMS),
            ("ray", ray, RAY_PROBLEMS),
        ):
            if name in wanted:
                found[name] = run(Path(folder), min(args.problems, most))
                print(json.dumps({name: found[name]}, indent=1), flush=True)
    write(args.json, {"command": "python -m bench.sweep", **found})
    return 0 if all(part.get("same_bytes", True) for part in found.values() if isinstance(part, dict)) else 1


if __name__ == "__main__":
    sys.exit(main())
