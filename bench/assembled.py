"""Do the kernels of products that language models compute assemble for sm_100a? `python -m bench.assembled`.

Plans every shape of `legalsat/llm_gemm_shapes.json` for a B200, in bf16 and in turn in other types, prints PTX and
assembles it. Writes bench/results/assembled.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import legalsat as ls
from bench.machine import write
from legalsat.backends.ptx.assemble import assemble

TARGET = "b200"
SHAPES = Path(__file__).parents[1] / "legalsat" / "llm_gemm_shapes.json"
RESULT = Path(__file__).parent / "results" / "assembled.json"
OTHERS = ("fp16", "e4m3", "e5m2", "i8", "fp32")


def main() -> int:
    """Assemble all; return 1 if one is refused."""
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))["entries"]
    problems = [(shape, "bf16") for shape in shapes]
    problems += [(shape, OTHERS[i % len(OTHERS)]) for i, shape in enumerate(shapes)]
    refused, tiles, sizes, done = {}, Counter[str](), [], 0
    begin = time.perf_counter()
    for (m, n, k), dtype in problems:
        name = f"{dtype} {m}x{n}x{k}"
        try:
            plan = ls.synthesize(ls.Gemm(m, n, k, dtype), TARGET, backend="ptx")
            sizes.append(len(assemble(plan.emit("ptx"), plan.target.architecture)))
            tiles["x".join(map(str, plan.tile))] += 1
            done += 1
        except ls.LegalSatError as error:
            refused[name] = str(error)[:300]
    found = {
        "question": "do planned products assemble for sm_100a",
        "assembler": f"ptxas of triton {version('triton')}",
        "shapes": len(shapes),
        "kernels": len(problems),
        "assembled": done,
        "refused": refused,
        "dtypes": dict(Counter(dtype for _, dtype in problems)),
        "tiles": dict(tiles.most_common()),
        "largest_cubin_bytes": max(sizes, default=0),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    write(RESULT, found)
    print(json.dumps(found, indent=1))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
