"""The main job, shown: plan every operand of the language-model GEMM shapes, then compile one plan's kernel.

`make demo`, or `python -m legalsat.demo`. Where a GPU and torch are present the kernel also runs and is checked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import legalsat as ls
from legalsat.operators.gemm import gemm_operands
from legalsat.targets import target
from legalsat.view.show import show_plan
from legalsat.view.show_explanation import show_explanation

if TYPE_CHECKING:
    from legalsat.backends.triton import CompiledKernel

TARGET = "h200"
DTYPE = "bf16"
WRONG = "bytes are WRONG"
SHOWN = (4096, 4095)  # the matrix whose repair is planned in full


def shapes() -> dict[str, Any]:
    """Return the shipped catalogue: `entries` and `cliff`, lists of (m, n, k), with their source."""
    text = resources.files("legalsat").joinpath("llm_gemm_shapes.json").read_text(encoding="utf-8")
    catalogue: dict[str, Any] = json.loads(text)
    return catalogue


def verdict(name: str, operator: ls.Copy) -> tuple[str, str]:
    """Return (kind, words): "legal", "rewritten", "stored", "padded" or "refused", and how or why."""
    explanation = ls.explain(operator, TARGET)
    if explanation.legal and explanation.plan is not None:
        if explanation.plan.store == "threads":
            return "stored", "stored from registers"
        laws = [step.law for step in explanation.plan.derivation]
        return ("rewritten", "after " + ", ".join(dict.fromkeys(laws))) if laws else ("legal", "as it is")
    codes = ", ".join(dict.fromkeys(d.code for d in explanation.diagnostics))
    repair = next((one for one in explanation.repairs if one.mends), None)
    if repair is None:
        return "refused", f"refused by {codes}"
    share = 100 * repair.bytes_added / (operator.source.size * operator.source.dtype.bits // 8)
    return "padded", f"{codes}: {repair.kind}, +{share:.2f}% bytes"


def table(entries: list[list[int]], counts: Counter[str]) -> None:
    """Print one line a shape, and count the operands by kind of verdict."""
    print(f"  {'m':>6} {'n':>6} {'k':>6}   {'A  m x k':<28} {'B  n x k':<28} {'C  m x n':<28}")
    for at, (m, n, k) in enumerate(entries, start=1):
        progress(at, len(entries))
        cells = []
        for name, operator in gemm_operands(m, n, k, DTYPE, target(TARGET)).items():
            kind, words = verdict(name, operator)
            counts[kind] += 1
            cells.append(words)
        print(f"  {m:>6} {n:>6} {k:>6}   " + " ".join(f"{c:<28}" for c in cells).rstrip())


def progress(done: int, total: int) -> None:
    """Show how far the table is, on a terminal only."""
    if sys.stderr.isatty():
        end = "\r" if done < total else "\r\x1b[K"
        print(f"planning shape {done} of {total}", end=end, file=sys.stderr, flush=True)


def compiled_apart(plan: ls.Plan) -> CompiledKernel:
    """Compile in a process of its own, whose last words nobody hears: Triton 3.9 reports leaks of its own there."""
    from legalsat.backends.triton import compile_kernel  # noqa: PLC0415 - imports Triton
    from legalsat.backends.triton.adapter import kernel_of  # noqa: PLC0415

    with ProcessPoolExecutor(1, get_context("spawn"), _mute) as pool:
        return pool.submit(compile_kernel, kernel_of(plan)).result()


def _mute() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def run_on_gpu(text: str, plan: ls.Plan) -> str:
    """Run an emitted kernel on random data and compare every byte; says so where there is no GPU."""
    try:
        import torch  # noqa: PLC0415 - only machines with a GPU have it
    except ImportError:
        return "not run: no torch here"
    if not torch.cuda.is_available():
        return "not run: no GPU here"
    from legalsat.backends.triton import load_module  # noqa: PLC0415

    tensor = plan.operator.source
    source = torch.empty_strided(tensor.shape, tensor.strides, dtype=torch.bfloat16, device="cuda").normal_()
    with tempfile.TemporaryDirectory() as folder:
        result = load_module(text, Path(folder)).run(source)
        torch.cuda.synchronize()
    same = torch.equal(result.view(torch.int16), source.transpose(0, 1).contiguous().view(torch.int16))
    return f"ran on {torch.cuda.get_device_name()}: {'every byte right' if same else WRONG}"


def main() -> int:
    """Print the tables, one refusal with its repair, and the repaired plan with its compiled kernel."""
    begin = time.perf_counter()
    catalogue = shapes()
    counts: Counter[str] = Counter()
    print(f"Operands of language-model GEMMs, {DTYPE}, row-major, planned as TMA tiles on {TARGET}")
    print(f"source: {catalogue['source']}\n")
    table(catalogue["entries"], counts)
    print(f"\nShapes that leave the fast path\nsource: {catalogue['cliff']['source']}\n")
    table(catalogue["cliff"]["entries"], counts)
    print(
        f"\n{counts.total()} operands: {counts['legal']} legal as they are, {counts['rewritten']} after a rewrite, "
        f"{counts['padded']} after padding, {counts['stored']} stored from registers, {counts['refused']} refused\n"
    )
    matrix = ls.Tensor(SHOWN, DTYPE)
    explanation = ls.explain(ls.Transpose(matrix), TARGET)
    print(show_explanation(explanation))
    repaired = next(one for one in explanation.repairs if one.kind == "pad")
    plan = ls.synthesize(repaired.after, TARGET)
    print(f"\nThe repaired tensor, planned in full\n\n{show_plan(plan)}\n")
    text, outcome = plan.emit("triton"), ""
    if sys.platform == "linux":
        compiled = compiled_apart(plan)
        copies = [line.strip() for line in compiled.ptx.splitlines() if "cp.async.bulk.tensor" in line]
        print(f"kernel: {len(text.splitlines())} lines of Gluon, {len(compiled.ptx.splitlines())} of PTX for sm_90,")
        print(f"        {len(compiled.cubin)} bytes of machine code, {compiled.shared_bytes} bytes of shared memory")
        print("its copies:", *copies, sep="\n  ")
        outcome = run_on_gpu(text, plan)
        print(f"\n{outcome}")
    print(f"\n{time.perf_counter() - begin:.1f} s")
    return int(outcome.endswith(WRONG))


if __name__ == "__main__":
    sys.exit(main())
