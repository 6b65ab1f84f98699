"""A CuTe kernel of one's own that loads by our maps and multiplies by our descriptors; beside numpy on a GPU."""

import subprocess
from ctypes.util import find_library
from pathlib import Path

import numpy as np

import legalsat as ls
from legalsat.backends.cute.compile import headers, nvcc

M, N, K, BRACES = 256, 384, 192, str.maketrans("[]", "{}", "'")
lines, values = [f"constexpr int m = {M}, n = {N}, k = {K}, k_tiles = {K // 64}, steps = 4;"], {}
for name, rows in (("a", M), ("b", N)):
    tile = ls.Copy(ls.Tensor((rows, K), "bf16"), tile=(128, 64), consumer=f"wgmma.{name}", into="shared")
    plan = ls.synthesize(tile, "h200", means=("tma",))  # str(plan) says which boxes to load
    operand = getattr(plan.mma, name)
    words = [[hex(operand.word(block, step)) for step in range(4)] for block in range(len(operand.offsets))]
    lines.append(f"__device__ constexpr std::uint64_t {name}_words[][4] = {str(words).translate(BRACES)};")
    lines.append(f"constexpr int {name}_bytes = {plan.pipeline.barriers[0].transaction_bytes};")
    Path(f"{name}.h").write_text(plan.emit("host"))
    values[name] = np.random.default_rng(rows).integers(-8, 9, (rows, K)).astype(np.float32)
    (values[name].view(np.uint32) >> 16).astype(np.uint16).tofile(f"{name}.bin")  # small whole numbers are bf16's
(values["a"] @ values["b"].T).tofile("c.bin")
Path("plan.h").write_text("namespace plan {\n" + "\n".join(lines) + "\n}\n")
build = [nvcc(), "-std=c++17", "-arch=sm_90a", "--expt-relaxed-constexpr", "-I.", f"-I{headers()}"]
subprocess.run([*build, "-c", "-o", "cute_kernel.o", str(Path(__file__).with_suffix(".cu"))], check=True)
print("compiled; where a GPU is: nvcc -o cute_kernel cute_kernel.o -lcuda && ./cute_kernel")
if find_library("cuda"):
    subprocess.run(f"{nvcc()} -o cute_kernel cute_kernel.o -lcuda && ./cute_kernel", shell=True, check=True)
