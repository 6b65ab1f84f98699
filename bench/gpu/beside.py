"""Is a change to printed kernels as fast as what was printed before?

    python -m bench.gpu.beside prepare FILE          # in each of two checkouts: the texts of the kernels below
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


def prepare(path: Path) -> None:
    """Write the texts and launches of this checkout's kernels."""
    from bench.conformance import name_of  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415
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
                steps = steps_of(program_for(gemm, kernel, gpu), texts)
                kernels.setdefault(steps[-1]["cubin"], (shape, kernel))
                entries.append({"kind": kind, "shape": shape.plain(), "kernel": str(kernel), "steps": steps})
    found = {"entries": entries, "checks": checks(kernels, gpu, texts), "texts": texts}
    path.write_text(json.dumps(found), encoding="utf-8")
    print(f"{len(entries)} kernels, {len(texts)} texts, {len(found['checks'])} small products")


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
        rows = []
        known = {(str(one["shape"]), one["kernel"]): one for one in old["entries"]}
        for after in new["entries"]:
            before = known.get((str(after["shape"]), after["kernel"]))
            if before is None or before["steps"][-1]["cubin"] == after["steps"][-1]["cubin"]:
                continue
            product = Product(shape_of(after["shape"]))
            us = microseconds({n: product.ours(e["steps"], load) for n, e in (("old", before), ("new", after))}, FINAL)
            rows.append(
                {"shape": str(product.shape), "kind": after["kind"], "kernel": after["kernel"]}
                | {name: round(one, 2) for name, one in us.items()}
            )
    summary = {}
    for kind in KINDS:
        ratios = [row["old"] / row["new"] for row in rows if row["kind"] == kind]
        mean = math.exp(math.fsum(map(math.log, ratios)) / max(1, len(ratios)))
        summary[kind] = {"kernels": len(ratios), "speed": round(mean, 4), "least": round(min(ratios, default=1), 3)}
        print(f"{kind}: {len(ratios)} kernels, {mean:.3f} times as fast, {min(ratios, default=1):.3f} at least")
    results = {**machine(), "small products": len(new["checks"]), "wrong": wrong, "summary": summary, "rows": rows}
    Path(os.environ.get("OUT", new_path.parent), "beside.json").write_text(json.dumps(results, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    verb, *paths = sys.argv[1:]
    if verb == "prepare":
        prepare(*map(Path, paths))
    else:
        sys.exit(run(*map(Path, paths)))
