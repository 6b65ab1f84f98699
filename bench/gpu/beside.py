"""Is a change to printed kernels as fast as what was printed before?

    python -m bench.gpu.beside prepare FILE          # in each of two checkouts: the texts of the kernels below
    python -m bench.gpu.beside prepare FILE ptx      # the same kernels in PTX, relayouts in front as they are
    python -m bench.gpu.beside run OLD NEW           # where the GPU, nvcc and CuTe's headers (CUTLASS_PATH) are

Of every product of `bench.gpu.gemm` the first choice, and of each further class of kernels one: kernels that both
checkouts list, as each prints them, timed in turns. First small random products by all new texts, on whole numbers:
every element must be right, and no byte around C may change. Writes beside.json into $OUT, else beside NEW.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.gpu.gemm import (
    FINAL,
    KINDS,
    MOST,
    TARGET,
    Product,
    build,
    check,
    checks,
    loader,
    microseconds,
    shape_of,
    steps_of,
)
from bench.gpu.gemm_shapes import Shape, product_of


def prepare(path: Path, backend: str = "cute") -> None:
    """Write the texts and launches of this checkout's kernels."""
    from bench.kernels.conformance import name_of  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415
    from legalsat.backends.ptx.persistent import emit  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, texts, entries = target(TARGET), dict[str, str](), list[dict[str, Any]]()
    kernels: dict[str, tuple[Shape, Any]] = {}
    seen: set[str] = set()
    for kind, shapes in KINDS.items():
        for shape in shapes():
            gemm = product_of(shape)
            for number, (_, kernel) in enumerate(product_kernels(gemm, gpu, MOST)):
                name = name_of(kernel)
                if -(-gemm.k // kernel.tile[2]) < kernel.least_k_tiles or (number and name in seen):
                    continue
                seen.add(name)
                program = program_for(gemm, kernel, gpu)
                if backend == "ptx":
                    program = replace(program, text=emit(gemm, kernel))
                steps = steps_of(program, texts)
                kernels.setdefault(steps[-1]["cubin"], (shape, kernel))
                entries.append({"kind": kind, "shape": shape.plain(), "kernel": str(kernel), "steps": steps})
    small = checks(kernels, gpu, texts) if backend == "cute" else []
    found = {"entries": entries, "checks": small, "texts": texts}
    path.write_text(json.dumps(found), encoding="utf-8")
    print(f"{len(entries)} kernels, {len(texts)} texts, {len(small)} small products")


def run(old_path: Path, new_path: Path) -> int:
    """Check the new texts, and time both of each kernel; return 1 where one is wrong."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (old_path, new_path))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        build(folder, {**old["texts"], **new["texts"]})
        load = loader(folder)
        wrong = [found for entry in new["checks"] if (found := check(entry, load))]
        print(f"{len(new['checks']) - len(wrong)} of {len(new['checks'])} small products right", flush=True)
        rows = [timed(before, after, load) for before, after in pairs(old, new)]
    summary = summed(rows)
    results = {**machine(), "small products": len(new["checks"]), "wrong": wrong, "summary": summary, "rows": rows}
    Path(os.environ.get("OUT", new_path.parent), "beside.json").write_text(json.dumps(results, indent=1) + "\n")
    return int(bool(wrong))


def pairs(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return kernels that both have, in texts that differ."""
    known = {(str(one["shape"]), one["kernel"]): one for one in old["entries"]}
    both = [(known.get((str(one["shape"]), one["kernel"])), one) for one in new["entries"]]
    return [(a, b) for a, b in both if a is not None and a["steps"][-1]["cubin"] != b["steps"][-1]["cubin"]]


def timed(before: dict[str, Any], after: dict[str, Any], load: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Return microseconds of a kernel in both texts, in turns."""
    product = Product(shape_of(after["shape"]))
    us = microseconds({n: product.ours(e["steps"], load) for n, e in (("old", before), ("new", after))}, FINAL)
    row = {"shape": str(product.shape), "kind": after["kind"], "kernel": after["kernel"]}
    return row | {name: round(one, 2) for name, one in us.items()}


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return by kind, and print, how fast new texts are beside old ones."""
    summary = {}
    for kind in KINDS:
        ratios = [row["old"] / row["new"] for row in rows if row["kind"] == kind]
        mean = math.exp(math.fsum(map(math.log, ratios)) / max(1, len(ratios)))
        summary[kind] = {"kernels": len(ratios), "speed": round(mean, 4), "least": round(min(ratios, default=1), 3)}
        print(f"{kind}: {len(ratios)} kernels, {mean:.3f} times as fast, {min(ratios, default=1):.3f} at least")
    return summary


if __name__ == "__main__":
    verb, *paths = sys.argv[1:]
    if verb == "prepare":
        prepare(Path(paths[0]), *paths[1:])
    else:
        sys.exit(run(*map(Path, paths)))
