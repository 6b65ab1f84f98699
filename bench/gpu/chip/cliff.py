"""What does the row pitch of LegalSAT's repair win on a 4096 x 4096 x 4095 product? `python -m bench.gpu.chip.cliff`.

Both times cuBLAS multiplies the same numbers through torch; only the memory layout of the operands differs. Needs a GPU
and torch; LegalSAT is asked for the repair where it is installed, else the pitch below is used.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # so that it also runs as a script, without installing
from bench.gpu.machine import machine

M, N, K = 4096, 4096, 4095
PITCH = 4096  # elements a row after the repair, as `legalsat explain --shape 4096x4095 --dtype bf16` says
ROUNDS = 50


def repaired_pitch() -> int:
    """Return the row pitch, in elements, of the repair for an operand of K columns."""
    try:
        import legalsat as ls  # noqa: PLC0415 - the GPU's machine may lack it, or what it needs

        explanation = ls.explain(ls.Tensor((M, K), "bf16"), "h200", tile=(128, 64))
    except ImportError:
        return PITCH
    pads = (repair.after for repair in explanation.repairs if repair.kind == "pad")
    return next(int(str(one.strides[0])) for one in pads if isinstance(one, ls.Tensor))


def measure() -> dict[str, Any]:
    """Return TFLOP/s of the product with dense rows and with padded rows, interleaved in one process."""
    import torch  # noqa: PLC0415

    pitch = repaired_pitch()
    dense = [torch.randn(rows, K, device="cuda").to(torch.bfloat16) for rows in (M, N)]
    # Rows of the repaired pitch, zero beyond column K: the product over whole rows is the same, and legal.
    padded = [torch.zeros(rows, pitch, device="cuda", dtype=torch.bfloat16) for rows in (M, N)]
    for whole, d in zip(padded, dense, strict=True):
        whole[:, :K] = d
    legal = [torch.randn(rows, K + 1, device="cuda").to(torch.bfloat16) for rows in (M, N)]
    ways = {"dense_rows": dense, "padded_rows": padded, "nearest_legal_shape": legal}
    exact = dense[0].double() @ dense[1].double().t()
    errors = {
        name: float(((a @ b.t()).double() - exact).norm() / exact.norm())
        for name, (a, b) in ways.items()
        if name != "nearest_legal_shape"
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(ROUNDS + 5):
        for name, (a, b) in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            a @ b.t()
            end.record()
            torch.cuda.synchronize()
            if round_ >= 5:
                samples[name].append(begin.elapsed_time(end))
    flops = {name: 2 * M * N * min(a.shape[1], K) for name, (a, _) in ways.items()}  # useful ones alone
    table = {
        name: {
            "median_ms": (median := sorted(ms)[ROUNDS // 2]),
            "tflop_per_s": flops[name] / median / 1e9,
        }
        for name, ms in samples.items()
    }
    return {"shape": [M, N, K], "pitch": pitch, "relative_error": errors, "rounds": ROUNDS, **table}


def main() -> int:
    """Print and write cliff.json."""
    report = {"question": __doc__.splitlines()[0] if __doc__ else "", "machine": machine(), **measure()}
    Path("cliff.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
