"""Where a product on Blackwell keeps its sums: columns of tensor memory, and how tcgen05 reads its operands."""

import legalsat as ls

plan = ls.synthesize(ls.Gemm(4096, 4096, 4096, "bf16"), "b200")
mma = plan.mma
assert mma is not None and mma.b is not None
print(f"{mma.unit}, instructions of {mma.shape}, instruction descriptor {mma.instruction:#x}")
for columns in mma.tensor_memory:
    print(f"{columns.name}: columns {columns.first} to {columns.first + columns.count - 1} of {mma.allocated}")
print(f"B's second step along K: descriptor {mma.b.word(block=0, step=1):#018x} and the address >> 4")
