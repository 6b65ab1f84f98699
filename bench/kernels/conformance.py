"""Whether kernels of products do what their programs say: their PTX is run beside them, and events are compared.

    python -m bench.kernels.conformance [--backend NAME] [--few] [--sample N [--seed N]] [--processes N] [--seconds S]
                                        [--whole S] [--out FOLDER] [--json FILE] [WORD...]

With words, of classes alone that have them all in their names. The backend "cute" needs nvcc and CuTe's headers,
"triton" Triton, "ptx" nothing, and none a GPU. Every class of the products below that the backend prints, on all CTAs
of a cluster, for 0 to 3 tiles, and as few k-tiles as it takes up to twice the stages and one more.
With a folder, a line of JSON is written there as each is done.

Exit code 1 if a text does something else than its program, or breaks the asynchronous contract, or has no answer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from bench import pool
from bench.conformance.kernel_launches import launches
from bench.conformance.printed_gluon import PrintedGluon
from bench.conformance.printed_kernel import PrintedKernel
from bench.machine import write
from legalsat.backends import refusal_of
from legalsat.backends.cute.compile import OPTIONS, headers, nvcc, nvcc_version
from legalsat.backends.cute.product import emit
from legalsat.backends.ptx.persistent import emit as emit_ptx
from legalsat.backends.triton.product_program import compiled, program_for
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.moved.relayouts import ways_of
from legalsat.operators.gemm import Gemm
from legalsat.operators.grouped import GroupedGemm
from legalsat.plans.product_kernel import WARPS, ProductKernel
from legalsat.runtime import Cache
from legalsat.runtime.cache import key_of
from legalsat.targets import target
from legalsat.tensor import Tensor

PRODUCTS = (
    Gemm(8192, 8192, 8192, "bf16"),
    Gemm(512, 512, 8192, "bf16"),
    Gemm(4096, 4096, 4095, "bf16"),
    Gemm(64, 4096, 4096, "bf16"),
    Gemm(4096, 4096, 4096, "e4m3"),
    Gemm(2048, 2048, 2048, "fp32"),
    Gemm(777, 4096, 4096, "bf16"),
    Gemm(4096, 4097, 4099, "fp16"),
    Gemm(128, 128, 16384, "bf16"),
    Gemm(300, 1000, 4090, "e4m3"),
    Gemm(512, 512, 1024, "bf16", batch=6),
    Gemm(512, 512, 1023, "bf16", batch=6),
    Gemm(
        1000, 1003, 8000, "bf16", a=Tensor((1000, 8000), "bf16", (1, 1000)), b=Tensor((1003, 8000), "bf16", (1, 1003))
    ),
    Gemm(
        1000, 2052, 8000, "bf16", a=Tensor((1000, 8000), "bf16", (1, 1000)), b=Tensor((2052, 8000), "bf16", (1, 2052))
    ),
    Gemm(300, 200, 8001, "bf16"),
    Gemm(2048, 2048, 2048, "i8"),
    Gemm(512, 512, 8192, "u8", out_dtype="i8"),
    Gemm(300, 1000, 4096, "i8", out_dtype="i8"),
    Gemm(2048, 2048, 2048, "bf16", out_dtype="e4m3"),
    GroupedGemm(2048, 512, 1024, "bf16", groups=7),
    GroupedGemm(2048, 512, 1023, "bf16", groups=7),
    GroupedGemm(2048, 511, 1016, "bf16", groups=7, b=Tensor((7, 511, 1016), "bf16", (511 * 1024, 1017, 1))),
    GroupedGemm(
        *(512, 512, 8192, "bf16"),
        groups=7,
        along="k",
        a=Tensor((512, 8192), "bf16", (1, 512)),
        b=Tensor((512, 8192), "bf16", (1, 512)),
    ),
    GroupedGemm(512, 512, 8192, "e4m3", groups=7, along="k"),
)
Classes = dict[str, tuple[Gemm, ProductKernel]]
SLICES = 3  # of k, at most: what a class's kernels do is the same whatever their number
BACKENDS = ("cute", "ptx", "triton")


@cache
def classes(products: tuple[Gemm, ...] = PRODUCTS, backend: str = "cute") -> Classes:
    """Return by name a kernel of each class, which says who does what whatever the tiles, and a product of it."""
    found: Classes = {}
    refusal = refusal_of(backend)
    for gemm in products:

        def named(kernel: ProductKernel, gemm: Gemm = gemm) -> str:
            return ", ".join([name_of(kernel), *types_of(gemm)])

        for _, kernel in each_kernel(gemm, target("h200"), lambda kernel: named(kernel) not in found):
            way = next((one for one in ways_of(kernel) if not refusal(gemm, one)), None)
            if way is not None:
                found[named(kernel)] = gemm, replace(way, slices=min(way.slices, SLICES))
    return found


def types_of(gemm: Gemm) -> Iterator[str]:
    """Yield what types change of who does what: registers of an accumulator, and how C is laid down."""
    if gemm.dtype.kind != "float":
        yield "integers"
    if gemm.out_dtype.bits == 8:
        yield "C of bytes"


def printed(gemm: Gemm, kernel: ProductKernel, backend: str = "cute") -> PrintedKernel:
    """Return what a backend prints for a kernel, compiled to PTX and made ready to run.

    Raises:
        LegalSatError: what compiles the text is missing.
    """
    if backend == "cute":
        return PrintedKernel(ptx_of(emit(gemm, kernel), Cache.default()), gemm, kernel)
    if backend == "ptx":
        return PrintedKernel(emit_ptx(gemm, kernel), gemm, kernel)
    made = program_for(gemm, kernel, target("h200"))
    return PrintedGluon(compiled(made.text, made.signature, made.architecture, WARPS).ptx, gemm, kernel)


def name_of(kernel: ProductKernel) -> str:
    """Return the class of a kernel in words."""
    words = [f"C by {kernel.store}"]
    words += ["ping-pong"] if kernel.ping_pong else [f"{kernel.warpgroups} consumer{'s' * (kernel.warpgroups > 1)}"]
    words += ["overlapped epilogue"] if kernel.overlapped else []
    words += ["cluster {}x{}".format(*kernel.cluster)] if kernel.cluster != (1, 1) else []
    words += [f"split {kernel.split}"] if kernel.split > 1 else []
    words += ["slices of k"] if kernel.slices > 1 else []
    words += ["stream-K"] * kernel.stream_k
    done = "A woven" if kernel.woven else f"{'B' if kernel.slides else 'A'} realigned in {kernel.realign}"
    words += [done] if kernel.realign != "none" else []
    words += [f"{' and '.join(one for one, so in zip('AB', kernel.aligned, strict=True) if so)} aligned"] * any(
        kernel.aligned
    )
    words += ["one buffer"] if kernel.by_boxes and kernel.buffers == 1 else []
    words += [{"m": "groups of rows", "k": "groups along k"}[kernel.ragged]] if kernel.ragged else []
    words += ["others' k cleared"] * kernel.clipped
    words += ["a batch"] if kernel.batch and not kernel.ragged else []
    return ", ".join(words)


def ptx_of(text: str, cache: Cache | None = None) -> str:
    """Return the PTX of a text in CUDA C++, which is compiled once where there is a cache.

    Raises:
        CompilationFailed: nvcc or CuTe's headers are missing.
    """
    kept = cache or Cache(None)
    key = key_of("ptx", nvcc_version(), " ".join(OPTIONS), text)
    found = kept.read(key)
    if found is None:
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
            source.write_text(text, encoding="utf-8")
            command = [nvcc(), *OPTIONS, "-ptx", "-arch=sm_90a", "-I", str(headers()), "-o", str(made), str(source)]
            subprocess.run(command, check=True, capture_output=True)
            found = made.read_bytes()
        kept.write(key, found)
    return found.decode()


def judged(gemm: Gemm, kernel: ProductKernel, *, few: bool, backend: str = "cute") -> dict[str, Any]:
    """Return what runs of a kernel's text show: launches, events, differences, and the seconds that they take."""
    started = time.process_time()
    ready = printed(gemm, kernel, backend)
    counts: set[int] = set()
    tiles: set[int] = set()
    events = runs = 0
    differences: dict[str, None] = {}
    for launch in launches(kernel, gemm.dtype.bytes, few=few):
        recorded = ready.run(launch)
        found = [*ready.differences(recorded), *recorded.findings]
        differences.update(dict.fromkeys(f"{launch}: {one}" for one in found))
        runs, events = runs + 1, events + recorded.events
        tiles.add(len(launch.own))
        counts.update(launch.k_tiles(tile) for tile in launch.own)
    return {
        "kernel": str(kernel),
        "launches": runs,
        "tiles": sorted(tiles),
        "k-tiles": sorted(counts),
        "events": events,
        "differences": list(differences)[:20],
        "seconds": round(time.process_time() - started, 1),
    }


def _spanned(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _row(name: str, found: dict[str, Any]) -> Iterator[str]:
    tiles, counts, equal = _spanned(found["tiles"]), _spanned(found["k-tiles"]), not found["differences"]
    row = f"{name:76} {tiles:>7} {counts:>10} {found['launches']:8} {found['events']:9,} {found['seconds']:6.1f}"
    yield f"{row}  {'yes' if equal else 'no'}"
    yield from (f"    {one}" for one in found["differences"][:3])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--backend", choices=BACKENDS, default="cute")
    parser.add_argument("--few", action="store_true", help="one launch of a kind")
    parser.add_argument("--json", type=Path)
    pool.sample_options_of(parser)
    pool.options_of(parser, seconds=1800.0)
    given = parser.parse_args(arguments)
    listed = classes(backend=given.backend)
    chosen = {name: one for name, one in listed.items() if all(word in name for word in given.words)}
    chosen = {name: chosen[name] for name in pool.sampled(list(chosen), given)}

    def work(name: str) -> dict[str, Any]:
        return judged(*chosen[name], few=given.few, backend=given.backend)

    results: dict[str, Any] = {}
    late: dict[str, str] = {}
    print(f"{'class':76} {'tiles':>7} {'k-tiles':>10} {'launches':>8} {'events':>9} {'s':>6}  equal")
    file = given.out and given.out / f"conformance_{given.backend}.jsonl"
    done = pool.done(work, list(chosen), pool.limits_of(given))
    for name, found in pool.noted(done, file, lambda name, one: {"class": name, "found": one}):
        if isinstance(found, Exception):
            late[name] = str(found)
            print(f"{name:76} {found}", flush=True)
        else:
            results[name] = found
            print("\n".join(_row(name, found)), flush=True)
    equal = sum(not one["differences"] for one in results.values())
    events, seconds = (sum(one[key] for one in results.values()) for key in ("events", "seconds"))
    print(f"{equal} of {len(results)} classes equal, {events:,} events, {seconds:.0f} s; {len(late)} without an answer")
    for written in filter(None, (given.json, given.out and given.out / f"conformance_{given.backend}.json")):
        write(written, {"classes": results, "no answer": late})
    return int(equal < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
