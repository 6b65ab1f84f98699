"""How fast do threads copy a matrix in vectors of 2 to 16 bytes, and boxes? `python -m bench.gpu.chip.vectors`.

The answer calibrates the cost model: what a warp's memory instruction takes (`extract/cost/cost.py`). Two steps:
    python -m bench.gpu.chip.vectors prepare FOLDER   plan the copies and write their kernels (needs LegalSAT)
    python bench/gpu/chip/vectors.py run FOLDER       check and time them, write FOLDER/vectors.json (torch, triton)
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # so that it also runs as a script, without installing
from bench.gpu.machine import machine

ROWS, COLUMNS = 16384, 16320
# Elements of bf16 from row to row: a pitch that is a multiple of 16, 8, 4 and 2 bytes and of no more.
PITCHES = {16: 16384, 8: 16388, 4: 16386, 2: 16385}
ROUNDS, CALLS = 20, 10


def prepare(folder: Path) -> None:
    """Write a kernel for each pitch by threads, and for the legal one by boxes."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for means, size in [("tma", 16), *(("threads", size) for size in PITCHES)]:
        pitch = PITCHES[size]
        tensor = ls.Tensor((ROWS, COLUMNS), "bf16", (pitch, 1))
        plan = ls.synthesize(ls.Copy(tensor, tensor), "h200", means=(means,))  # type: ignore[arg-type]
        name = f"{means}_{size}"
        (folder / f"{name}.py").write_text(plan.emit("triton"))
        manifest[name] = {
            "pitch": pitch,
            "vector_bytes": [copy.bytes for copy in plan.copies],
            "instructions": plan.cost.instructions,
            "predicted_us": plan.cost.nanoseconds / 1000,
        }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


def run(folder: Path) -> int:
    """Check every kernel against torch, then time all of them and torch's own copies, interleaved."""
    import torch  # noqa: PLC0415

    manifest = json.loads((folder / "manifest.json").read_text())
    ways: dict[str, tuple[Any, Any, Any]] = {}
    for name, entry in manifest.items():
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        size = ROWS * entry["pitch"]
        source, target = (torch.randint(-9999, 9999, (size,), dtype=torch.int16, device="cuda") for _ in range(2))
        views = [torch.as_strided(m, (ROWS, COLUMNS), (entry["pitch"], 1)) for m in (source, target)]
        untouched = target.view(ROWS, entry["pitch"])[:, COLUMNS:].clone()
        module.run(*views)
        torch.cuda.synchronize()
        assert torch.equal(*views), f"{name} is wrong"
        assert torch.equal(target.view(ROWS, entry["pitch"])[:, COLUMNS:], untouched), f"{name} wrote beside its rows"
        ways[name] = (module.run, *views)
        if name.startswith("threads"):
            ways[name.replace("threads", "torch")] = (lambda s, t: t.copy_(s), *views)
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(ROUNDS + 3):
        for name, (way, source, target) in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                way(source, target)
            end.record()
            torch.cuda.synchronize()
            if round_ >= 3:
                samples[name].append(begin.elapsed_time(end) * 1000 / CALLS)
    moved = 2 * ROWS * COLUMNS * 2
    timing = {
        name: {
            "median_us": (median := sorted(us)[len(us) // 2]),
            "gb_per_s": moved / median / 1000,
            **manifest.get(name, {}),
        }
        for name, us in samples.items()
    }
    report = {
        "question": "how fast do threads copy a matrix in vectors of 2 to 16 bytes, and boxes",
        "machine": machine(),
        "shape": [ROWS, COLUMNS],
        "dtype": "bf16",
        "rounds": ROUNDS,
        "calls_a_round": CALLS,
        "timing": timing,
    }
    (folder / "vectors.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0


def main(arguments: list[str]) -> int:
    """Run the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
