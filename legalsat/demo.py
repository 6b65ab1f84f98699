"""The main job in a page: one operand explained, one repaired, one kernel, one summary.

`make demo`, or `python -m legalsat.demo`. Where a GPU and torch are present the kernel also runs and is checked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
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

if TYPE_CHECKING:
    from legalsat.backends.triton import CompiledKernel

TARGET = "h200"
DTYPE = "bf16"
WRONG = "bytes are WRONG"
SHOWN = (4096, 4095)  # the matrix that is explained and repaired
TILE = (128, 64)
WIDTH = 100  # columns


def shapes() -> dict[str, Any]:
    """Return the shipped catalogue: `entries` and `cliff`, lists of (m, n, k), with their source."""
    text = resources.files("legalsat").joinpath("llm_gemm_shapes.json").read_text(encoding="utf-8")
    catalogue: dict[str, Any] = json.loads(text)
    return catalogue


def verdict(operator: ls.Copy) -> str:
    """Return "legal", "rewritten", "stored", "repaired" or "refused": how an operand travels."""
    explanation = ls.explain(operator, TARGET)
    if explanation.legal and explanation.plan is not None:
        if explanation.plan.store == "threads":
            return "stored"
        laws = [step.law for step in explanation.plan.derivation]
        return "legal" if all(law.startswith("deliver_by_") for law in laws) else "rewritten"
    return "repaired" if any(one.mends for one in explanation.repairs) else "refused"


def summary() -> list[str]:
    """Return the lines that count the operands of the catalogue by how they travel."""
    catalogue = shapes()
    entries = [*catalogue["entries"], *catalogue["cliff"]["entries"]]
    counts: Counter[str] = Counter()
    for at, (m, n, k) in enumerate(entries, start=1):
        progress(at, len(entries))
        counts.update(verdict(one) for one in gemm_operands(m, n, k, DTYPE, target(TARGET)).values())
    return [
        f"{counts.total()} operands of {len(entries)} {DTYPE} products of language models, by tensor maps:",
        f"  {counts['legal']} legal as they are, {counts['rewritten']} with their axes written in another way,",
        f"  {counts['stored']} whose result is stored from registers, {counts['repaired']} after a repair,",
        f"  {counts['refused']} not at all",
    ]


def progress(done: int, total: int) -> None:
    """Show how far the table is, on a terminal only."""
    if sys.stderr.isatty():
        end = "\r" if done < total else "\r\x1b[K"
        print(f"planning shape {done} of {total}", end=end, file=sys.stderr, flush=True)


def compiled_apart(plan: ls.MovementPlan) -> CompiledKernel:
    """Compile in a process of its own, whose last words nobody hears: Triton 3.9 reports leaks of its own there."""
    from legalsat.backends.triton import compile_kernel  # noqa: PLC0415 - imports Triton
    from legalsat.backends.triton.adapter import kernel_of  # noqa: PLC0415

    with ProcessPoolExecutor(1, get_context("spawn"), _mute) as pool:
        return pool.submit(compile_kernel, kernel_of(plan)).result()


def _mute() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def run_on_gpu(text: str, plan: ls.MovementPlan) -> str:
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


def explained(found: ls.Explanation) -> list[str]:
    """Return the lines of what is wrong, and who says so."""
    wrong = found.diagnostics[0]
    note = wrapped(f"who says so: {wrong.note}", "  ")
    return [*wrapped(f"{wrong.code}: {wrong.message}", "  "), *note]


def repaired(repair: ls.Repair, plan: ls.MovementPlan) -> list[str]:
    """Return the lines of a repair, and of the tensor map that it makes legal."""
    (load, *_) = plan.tensor_maps
    told = repair.message
    told += f"; {repair.nanoseconds / 1000:.1f} us a use" if repair.nanoseconds is not None else ""
    told += f", pays from {repair.pays_from} uses on" if repair.pays_from else ""
    return [
        *wrapped(told, "  "),
        f"  map: global_dim {load.global_dim}, global_stride {load.global_stride} bytes,",
        f"       box {load.box}, swizzle {load.swizzle}",
    ]


def wrapped(text: str, indent: str) -> list[str]:
    """Return a sentence as indented lines of at most `WIDTH` columns."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def main() -> int:
    """Print one refusal, its repair, the kernel of the repaired tensor, and the summary of a catalogue."""
    begin = time.perf_counter()
    found = ls.explain(ls.Tensor(SHOWN, DTYPE), TARGET, tile=TILE)
    repair = next(one for one in found.repairs if one.kind == "pad")
    title = f"{DTYPE} {SHOWN[0]} x {SHOWN[1]} on {TARGET}, in tiles of {TILE[0]} x {TILE[1]}"
    print(f"1. An operand explained: {title}", *explained(found), sep="\n")
    plan = ls.synthesize(repair.after, TARGET, tile=TILE)
    print("\n2. The same repaired", *repaired(repair, plan), sep="\n")
    plan = ls.synthesize(ls.Transpose(repair.after), TARGET)
    text, outcome = plan.emit("triton"), ""
    print("\n3. A kernel: the repaired tensor, transposed")
    print(f"  {len(text.splitlines())} lines of Gluon; predicted: {plan.cost.nanoseconds / 1000:.1f} us")
    if sys.platform == "linux":
        compiled = compiled_apart(plan)
        print(f"  compiled for {plan.target.architecture}: {len(compiled.ptx.splitlines())} lines of PTX,", end=" ")
        print(f"{len(compiled.cubin)} bytes of machine code, {compiled.shared_bytes} bytes of shared memory")
        outcome = run_on_gpu(text, plan)
        print(f"  {outcome}")
    print("\n4. A summary", *summary(), sep="\n")
    print(f"\n{time.perf_counter() - begin:.1f} s")
    return int(outcome.endswith(WRONG))


if __name__ == "__main__":
    sys.exit(main())
