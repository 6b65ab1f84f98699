"""A Triton user's product of matrices of odd pitch: a module that needs triton and torch, and LegalSAT no more."""

import sys
from importlib.util import find_spec
from pathlib import Path

import legalsat as ls

plan = ls.synthesize(ls.Gemm(512, 512, 511, "bf16"), "h200", backend="triton")
Path("product.py").write_text(plan.emit("triton"))
print(f"product.py: {plan.kernel}, predicted at {plan.cost.nanoseconds / 1000:.1f} us")
if find_spec("torch"):
    import torch

    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        sys.path.insert(0, ".")
        import product

        a, b = (torch.randint(-8, 9, (512, 511), device="cuda").bfloat16() for _ in "ab")
        assert torch.equal(product.run(a, b), a @ b.t())  # small whole numbers, so that sums are exact
        print("right in every element")
