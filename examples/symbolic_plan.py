"""A product whose M the call brings: one file for all M, and host C++ (symbolic_plan.cpp) that reads M at run time."""

import subprocess
from ctypes.util import find_library
from pathlib import Path

import legalsat as ls
from legalsat.backends.cute.compile import OPTIONS, headers, nvcc

plan = ls.synthesize(ls.Gemm(ls.Dim("M", max=8192), 512, 512, "bf16"), "h200")
Path("product.cu").write_text(plan.emit("cute"))
print(f"{len(plan.choices)} kernels by ranges of M, of which run takes one; it refuses M above 8192")
host = Path(__file__).with_suffix(".cpp")
options = [*OPTIONS, "-gencode=arch=compute_90a,code=sm_90a", f"-I{headers()}"]
subprocess.run([nvcc(), *options, "-o", "symbolic_plan", "product.cu", str(host)], check=True)
print("compiled; where a GPU is: ./symbolic_plan 1 77 4096 9000")
if find_library("cuda"):
    subprocess.run(["./symbolic_plan", "1", "77", "4096", "9000"], check=True)
