"""What went wrong, from what a program printed when the driver refused its tensor map."""

import legalsat as ls

DUMP = """
TMA Desc Addr:   0x7ffd2b0f1c40
format         9
dim            2
gmem_address   0x7f0000000000
globalDim      (4095,4096,1,1,1)
globalStrides  (2,8190,0,0,0)
boxDim         (64,128,1,1,1)
elementStrides (1,1,1,1,1)
interleave     0
swizzle        3
l2Promotion    2
oobFill        0
Error: Failed to initialize the TMA descriptor 1
"""
found = ls.explain(DUMP, "h200")
for reason in found.diagnostics:
    print(reason)
