"""torch's matmul by a planned kernel, and which one that is, or why it is torch's: the way of each pair of operands."""

import torch

import legalsat.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
for k in (4096, 4095):
    a, b = (torch.randn(1024, k, device=device, dtype=torch.bfloat16) for _ in "ab")
    c = legalsat.torch.matmul(a, b.t())
    assert c.shape == (1024, 1024)
    print(f"k = {k}: {legalsat.torch.way(a, b.t())}")
