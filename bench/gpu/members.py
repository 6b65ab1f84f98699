"""How fast are products of batches, and of groups of rows or along k, beside torch's own?

    python -m bench.gpu.members prepare FOLDER [--of bmm|drawn|grouped|odd|gradients|clipped|scaled|random|loose|cut]
        [--kernels 1] [--seed 1] [--target h200] [--spread]
    python -m bench.gpu.members run FOLDER    # where the GPU, nvcc, CuTe's headers and torch are
        [--seconds 400] [--routings 1] [--alone]
    python -m bench.gpu.members judge [FILE]

Of each product as many kernels as asked of those predicted to be fastest are compiled. Small whole numbers, whose sums
are exact, must come out right in every element, with guards around C; groups with routings of several kinds in turn, by
the same kernel, and in one CUDA graph that is replayed with each. Then kernels and torch's ways are timed in turns, in
CUDA graphs that go through more memory than L2 holds. `gradients` are groups along k, as those of experts' weights;
`scaled` groups of rows in e4m3, each row and each column with a scale. `drawn` are batches by the seed, and `odd`
groups of rows beside those whose extents are whole. `clipped` are groups along k of operands that lie along it, beside
torch's products of groups of whole granules, which it takes, and its products one after the other. `random` are many
small products and routings, `loose` small batches and groups whose members or rows begin anywhere, and `cut` small ones
of operands along k, which are checked alone. `--spread` takes kernels of different tiles. Groups of whole tiles are
timed beside as many that are not. So many `--routings` of each kind are checked, and one in which a group has no
numbers; `--alone` times no way of torch. Writes members.json into $OUT, else into FOLDER.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.gpu.member_arrays import Arrays
from bench.gpu.member_cases import CHECKED, OF, cases, operator_of
from bench.gpu.search import first_of_each

WORKERS = 16
RIVALS = ("torch", "loop", "nearest", "dense", "bound", "aligned")


def prepare(asked: argparse.Namespace) -> None:
    """Write every case's programs."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import each_kernel  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, found = target(asked.target), list[dict[str, Any]]()
    asked.folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(asked.seed)
    for number, case in enumerate(cases(asked.of, asked.seed)):
        operator = operator_of(case)
        every, checked = each_kernel(operator, gpu), asked.of in CHECKED
        if asked.of == "loose":
            every = (one for one in every if any(one[1].loose) or (one[1].ragged and any(one[1].aligned)))
        if asked.spread:
            every = first_of_each(every, lambda kernel: (kernel.tile, kernel.ping_pong))
        listed = list(islice(every, asked.kernels if not checked else 300))
        if checked:
            listed = rng.sample(listed, min(asked.kernels, len(listed)))
        candidates = []
        for i, (ns, kernel) in enumerate(listed):
            name = f"{number:03}_{i}.json"
            program_for(operator, kernel, gpu).save(asked.folder / name)
            candidates.append({"program": name, "kernel": str(kernel), "predicted_us": round(ns / 1000, 2)})
        found.append({**case, "candidates": candidates})
    (asked.folder / "cases.json").write_text(json.dumps({"of": asked.of, "cases": found}))
    print(f"{len(found)} products, {sum(len(one['candidates']) for one in found)} kernels")


def measured(
    case: dict[str, Any], kernels: dict[str, Any], refused: dict[str, str], stream: Any, asked: argparse.Namespace
) -> dict[str, Any]:
    """Return what is wrong with a case's kernels, and how long they and torch's ways take."""
    import torch  # noqa: PLC0415

    from bench.gpu.dense import graphed  # noqa: PLC0415

    timed = asked.of not in CHECKED
    with torch.cuda.stream(stream):
        arrays = Arrays(case)
        ways, wrong = dict[str, list[Callable[[], None]]](), dict[str, str]()
        for number, one in enumerate(case["candidates"]):
            kernel = kernels[one["program"]]
            wrong[str(number)] = refused[one["program"]] or arrays.wrong(kernel, asked.routings)
            if not wrong[str(number)]:
                ways[str(number)] = [partial(arrays.call, kernel, place) for place in arrays.sets]
        rivals = arrays.rivals() if timed and not asked.alone else {}
        if rivals and case["kind"] != "bmm":
            rivals["dense"] = arrays.dense()
        if timed and "0" in ways:
            first = case["candidates"][0]
            rivals |= arrays.by_tiles(kernels[first["program"]], int(first["kernel"].partition("x")[0]))
    us = graphed({**rivals, **ways}, stream) if timed else {}
    return {
        **case,
        **{f"{name}_us": round(us.pop(name), 2) for name in rivals},
        "us": {name: round(one, 2) for name, one in us.items()},
        "bound_us": round(arrays.bound_us(), 2),
        "wrong": {name: one for name, one in wrong.items() if one},
    }


def run(asked: argparse.Namespace) -> int:
    """Compile, check and time; return 1 where something is wrong."""
    import torch  # noqa: PLC0415

    from bench.gpu.machine import machine  # noqa: PLC0415
    from legalsat.runtime.kernel import Kernel  # noqa: PLC0415
    from legalsat.runtime.program import Program  # noqa: PLC0415

    folder, started = asked.folder, time.monotonic()
    prepared = json.loads((folder / "cases.json").read_text())
    asked.of = prepared["of"]
    listed = [one["program"] for case in prepared["cases"] for one in case["candidates"]]
    kernels = {name: Kernel(Program.load(folder / name)) for name in listed}

    def built(name: str) -> str:
        try:
            kernels[name].build()
        except Exception as error:  # it goes into the report
            return str(error)[:300]
        return ""

    with ThreadPoolExecutor(WORKERS) as pool:
        refused = dict(zip(listed, pool.map(built, listed), strict=True))
    print(f"compiled in {time.monotonic() - started:.0f} s", flush=True)
    out, rows = Path(os.environ.get("OUT", folder), "members.json"), list[dict[str, Any]]()
    stream, of_machine = torch.cuda.Stream(), machine()
    for case in prepared["cases"]:
        if time.monotonic() - started > asked.seconds:
            break
        rows.append(measured(case, kernels, refused, stream, asked))
        report = {"machine": of_machine, "of": asked.of, "routings": asked.routings, "rows": rows}
        out.write_text(json.dumps(report, indent=1) + "\n")
        torch.cuda.empty_cache()
    judge(out)
    return int(any(row["wrong"] for row in rows))


def judge(file: Path) -> None:
    """Print how fast first choices are beside torch's ways."""
    report = json.loads(file.read_text(encoding="utf-8"))
    wrong = [f"{row}: {row['wrong']}" for row in report["rows"] if row["wrong"]]
    print(f"{len(report['rows'])} products, {sum(len(row['candidates']) for row in report['rows'])} kernels")
    print(*(f"WRONG {one}" for one in wrong[:10]), sep="\n")
    for rival in RIVALS:
        rows = [row for row in report["rows"] if f"{rival}_us" in row and "0" in row["us"]]
        if rows:
            own = [row["ragged_us"] if rival == "aligned" else row["us"]["0"] for row in rows]
            found = sorted(row[f"{rival}_us"] / one for row, one in zip(rows, own, strict=True))
            print(
                f"first choices: {statistics.geometric_mean(found):.3f} of {rival}, worst {found[0]:.3f}, {len(found)}"
            )
    off = [row["candidates"][int(i)]["predicted_us"] / us for row in report["rows"] for i, us in row["us"].items()]
    if off:
        away = math.exp(statistics.mean(abs(math.log(one)) for one in off))
        high = statistics.geometric_mean(off)
        print(f"predictions off by {away:.3f}, {high:.3f} of the measured time in the mean, {len(off)} kernels")
    for row in report["rows"]:
        if row["us"]:
            words = " ".join(f"{name} {row[f'{name}_us']}" for name in RIVALS if f"{name}_us" in row)
            best = min(row["us"], key=lambda i: row["us"][i])
            many = row.get("batch", row.get("groups"))
            size = f"{row['m']}x{row['n']}x{row['k']}"
            ours = f"ours {row['us'].get('0')} best {row['us'][best]}"
            kernel = row["candidates"][int(best)]["kernel"]
            kind = f"{row['kind']} {row.get('dtype', '')}".rstrip()
            print(f"{kind} {many} {size} {row.get('routing', '')}: {words}, {ours} | {kernel}")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.members")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("folder", type=Path)
    one.add_argument("--of", choices=OF, default="bmm")
    one.add_argument("--kernels", type=int, default=1)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--target", default="h200")
    one.add_argument("--spread", action="store_true")
    two = commands.add_parser("run")
    two.add_argument("folder", type=Path)
    two.add_argument("--seconds", type=float, default=400.0)
    two.add_argument("--routings", type=int, default=1, help="of each kind, that are checked")
    two.add_argument("--alone", action="store_true", help="without torch's ways")
    results = Path(__file__).parent / "results" / "members" / "grouped.json"
    commands.add_parser("judge").add_argument("file", type=Path, nargs="?", default=results)
    asked = parser.parse_args()
    if asked.command == "prepare":
        prepare(asked)
    elif asked.command == "run":
        return run(asked)
    else:
        judge(asked.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
