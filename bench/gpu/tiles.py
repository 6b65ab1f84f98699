"""Which tile of a product is fastest on the GPU, and does the cost model know?

    python -m bench.gpu.tiles prepare FOLDER    # where LegalSAT is
    python -m bench.gpu.tiles run FOLDER        # where the GPU is: torch and a driver are enough
    python -m bench.gpu.tiles judge [FILE]      # today's model beside the times in FILE, else the committed ones

Every tile of the table, with one and with two blocks on a processor, of products of many shapes: each is timed, beside
torch.matmul, in turns. Writes tiles.json into $OUT, else into FOLDER: microseconds, and the terms that were predicted.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

TARGET = "h200"
SHAPES = (
    (16, 4096, 4096),
    (16, 7168, 16384),
    (64, 7168, 2048),
    (128, 4096, 7168),
    (256, 8192, 1024),
    (512, 4096, 7168),
    (1024, 1024, 1024),
    (1024, 4096, 4096),
    (2048, 2048, 2048),
    (2048, 7168, 2048),
    (4096, 4096, 1024),
    (4096, 4096, 4096),
    (8192, 1536, 7168),
)
TERMS = ("nanoseconds", "compute", "memory", "load", "latency", "epilogue")
WARM, ROUNDS, CALLS = 2, 9, 5
FLUSH_BYTES = 256 << 20  # written before every launch: L2 is cold, and launches are queued while that goes on


def prepare(folder: Path) -> None:
    """Write a kernel for every tile of every shape."""
    import legalsat as ls  # noqa: PLC0415
    from bench.gpu.products import entry_of  # noqa: PLC0415
    from legalsat.backends.ptx import emit_ptx  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import assemble  # noqa: PLC0415
    from legalsat.extract.kernels import joint  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    gpu = target(TARGET)
    entries: list[dict[str, Any]] = []
    for shape in SHAPES:
        product = ls.Gemm(*shape, "bf16")
        chosen = ls.synthesize(product, TARGET).block
        for tile in joint._tiles(product, gpu):
            for solved in joint._planned(product, tile, gpu):
                plan = joint.finished(product, gpu, [solved])
                name = f"tile{len(entries):04}"
                (folder / f"{name}.cubin").write_bytes(assemble(emit_ptx(plan), gpu.architecture))
                terms = {term: getattr(plan.cost, term) for term in TERMS}
                mine = (plan.tile, plan.blocks) == (chosen.tile, chosen.blocks)
                entries.append({**entry_of(plan, name), "shape": shape, "predicted": terms, "chosen": mine})
    (folder / "tiles.json").write_text(json.dumps(entries))
    print(f"{len(entries)} kernels of {len(SHAPES)} products")


def measured(folder: Path, entries: list[dict[str, Any]]) -> dict[str, float]:
    """Return median microseconds of each kernel of one product, and of torch's, in turns."""
    import torch  # noqa: PLC0415

    from bench.gpu.products import Runner  # noqa: PLC0415

    first = Runner(folder, entries[0], normal=True)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    ways: dict[str, Any] = {"torch": first.rival()}
    for entry in entries:
        runner = Runner(folder, entry, normal=True) if entry is not entries[0] else first
        ways[entry["name"]] = runner.launch
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + ROUNDS):
        for name, way in ways.items():
            times = []
            for _ in range(CALLS):
                flush.zero_()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                way()
                end.record()
                times.append((begin, end))
            torch.cuda.synchronize()
            if number >= WARM:
                samples[name] += [begin.elapsed_time(end) * 1000 for begin, end in times]
    return {name: sorted(found)[len(found) // 2] for name, found in samples.items()}


def run(folder: Path) -> int:
    """Time all, and say how much time the model's choice loses."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    entries = json.loads((folder / "tiles.json").read_text())
    rows, choices = [], []
    for shape in SHAPES:
        own = [entry for entry in entries if tuple(entry["shape"]) == shape]
        found = measured(folder, own)
        kept = ("shape", "tile", "stages", "blocks", "predicted", "chosen")
        timed = [{**{k: e[k] for k in kept}, "us": round(found[e["name"]], 2)} for e in own]
        rows += timed
        best, mine = min(timed, key=lambda row: row["us"]), next(row for row in timed if row["chosen"])
        choices.append(
            {
                "shape": shape,
                "torch_us": round(found["torch"], 2),
                "chosen": {k: mine[k] for k in ("tile", "blocks", "us")},
                "fastest": {k: best[k] for k in ("tile", "blocks", "us")},
                "of_fastest": round(best["us"] / mine["us"], 3),
            }
        )
        print(json.dumps(choices[-1]), flush=True)
    report = {
        "question": "which tile is fastest, and does the cost model know",
        "machine": machine(),
        "choices": choices,
        "rows": rows,
    }
    Path(os.environ.get("OUT", folder), "tiles.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0


def judge(file: Path) -> None:
    """Print how far predictions are off, and how much of the fastest tile's speed the model's choice has."""
    import legalsat as ls  # noqa: PLC0415
    from legalsat.extract.kernels import joint  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, rows = target(TARGET), json.loads(file.read_text())["rows"]
    errors, shares = [], []
    for shape in SHAPES:
        product = ls.Gemm(*shape, "bf16")
        us = {(tuple(r["tile"]), r["blocks"]): r["us"] for r in rows if tuple(r["shape"]) == shape}
        said = {
            (one.candidate.tile, one.candidate.blocks): one.candidate.cost.nanoseconds / 1000
            for tile in joint._tiles(product, gpu)
            for one in joint._planned(product, tile, gpu)
        }
        errors += [math.log(said[way] / us[way]) for way in said if way in us]
        chosen = min(said, key=lambda way: said[way])
        shares.append(min(us.values()) / us[chosen])
        print(f"{shape}: chosen {chosen}, {us[chosen]} us; predicted {said[chosen]:.1f}; fastest {min(us.values())}")
    off = math.sqrt(sum(e * e for e in errors) / len(errors))
    mean = math.exp(sum(map(math.log, shares)) / len(shares))
    print(f"predictions of {len(errors)} kernels are off by a factor of {math.exp(off):.2f} (root mean square of logs)")
    print(f"the choice has {100 * mean:.1f}% of the fastest tile's speed, {100 * min(shares):.0f}% at least")


def main(arguments: list[str]) -> int:
    """Run the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case ["judge"]:
            judge(Path(__file__).parent / "results" / "tiles.json")
            return 0
        case ["judge", file]:
            judge(Path(file))
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
