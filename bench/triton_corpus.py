"""Does the check of real PTX raise a false alarm, and how much does it prove? `python -m bench.triton_corpus`.

Compiles kernels with Triton for sm_90 and sm_100, which needs no GPU: pipelined, persistent and warp-specialised
products by pointers, by tensor maps and by maps made on the device, attention, reductions, and Gluon kernels that
drive barriers by hand; prints products and copies that this library plans; and checks them all, with nothing given
but the text. Writes ptx_check_triton_3.9.json, or another number as Triton is, into a folder, bench/results when left
out. Exit status 1 if an error is reported: these kernels are all right.

    python -m bench.triton_corpus [FOLDER] [--made] [--processes N] [--seconds S] [--whole S] [--out FOLDER]

also writes the texts to FOLDER, with their names and the Triton that made them; `--made` checks those that lie there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import pool
from bench.machine import RESULTS, write
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx

CORPUS = "corpus.json"
CAPABILITIES = (90, 100)
COPIES = 12
SEED = 20261121
TRITON, GLUON, PRODUCT, COPY = "Triton", "Gluon", "product of this library", "copy of this library"


def compiled(function: Any, capability: int, signature: dict[str, str], constants: dict[str, Any], warps: int) -> str:
    """Compile one kernel; return its PTX."""
    import triton  # noqa: PLC0415 - takes a second to import
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction  # noqa: PLC0415

    names = function.arg_names
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    values = {(names.index(name),): value for name, value in constants.items()}
    aligned = [["tt.divisibility", 16]]
    attributes = {(names.index(n),): aligned for n, t in signature.items() if t.startswith("*") or t == "i32"}
    kind = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    source = kind(function, types, values, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    text: str = made.asm["ptx"]
    return text


def _boxes(dtype: str, *shapes: tuple[int, ...]) -> list[str]:
    return [f"tensordesc<{dtype}{list(shape)}>" for shape in shapes]


def triton_kernels() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield names of kernels in Triton's language, and what compiles them."""
    import triton.language as tl  # noqa: PLC0415

    from bench.ptx import corpus_kernels as kernels  # noqa: PLC0415

    def product(kind: str, cap: int, stages: int, *, tile: Any = (128, 128, 64), dtype: str = "bf16", warps: int = 4,
                **more: Any) -> tuple[str, Callable[[], str]]:  # fmt: skip
        m, n, k = tile
        constants = {"TILE_M": m, "TILE_N": n, "TILE_K": k, "STAGES": stages, "OUT": tl.bfloat16}
        name = f"product {kind}, {dtype} {m}x{n}x{k}, {stages} stages, {warps} warps, sm_{cap}"
        pointers = {a: f"*{dtype if a != 'c' else 'bf16'}" for a in "abc"}
        extents = dict.fromkeys(("m", "n", "k"), "i32")
        width = n // 2 if more.get("HALVES") else n
        boxes = dict(zip("abc", _boxes(dtype, (m, k), (n, k)) + _boxes("bf16", (m, width)), strict=True))
        if more:
            name += ", " + ", ".join(f"{key.lower()}" for key, value in more.items() if value)
        if kind == "by pointers":
            strides = {f"stride_{a}": "i32" for a in "abc"}
            function, signature = kernels.product_by_pointers, {**pointers, **extents, **strides}
        elif kind == "by maps":
            function, signature = kernels.product_by_descriptors, {**boxes, "k": "i32"}
            constants["SPECIALIZED"] = more.get("SPECIALIZED", False)
        elif kind == "by maps made here":
            function, signature = kernels.product_with_maps_made_here, {**pointers, **extents}
        elif kind == "in parts of k":
            function, signature = kernels.product_of_split_depth, {**pointers, "c": "*fp32", **extents}
            del constants["OUT"]
            constants["PARTS"] = 4
        else:
            function, signature = kernels.product_persistent, {**boxes, **extents}
            constants |= {flag: more.get(flag, False) for flag in ("SPECIALIZED", "FLAT", "HALVES")}
        return name, lambda: compiled(function, cap, signature, constants, warps)

    for cap in CAPABILITIES:
        for stages in range(1, 6):
            yield product("by pointers", cap, stages)
            yield product("by maps", cap, stages)
        yield product("by pointers", cap, 4, tile=(64, 64, 32), dtype="fp16")
        yield product("by pointers", cap, 3, tile=(128, 64, 32), dtype="fp32")
        yield product("by maps", cap, 3, tile=(128, 256, 64), warps=8)
        # Tiles of 64 rows, which one warpgroup holds, of 256 columns, and what 8 warps share by rows or by columns.
        for tile, warps in (((64, 64, 64), 4), ((64, 256, 64), 4), ((64, 256, 64), 8), ((256, 128, 64), 8)):
            yield product("by maps", cap, 3, tile=tile, warps=warps)
        yield product("by pointers", cap, 3, tile=(64, 256, 32), dtype="fp16", warps=8)
        yield product("persistent", cap, 3, tile=(64, 256, 64), warps=8)
        yield product("by maps", cap, 4, tile=(128, 128, 128), dtype="fp8e4nv")
        yield product("by maps made here", cap, 3)
        yield product("in parts of k", cap, 3)
        yield product("persistent", cap, 3)
        yield product("persistent", cap, 4, FLAT=True)
        yield product("persistent", cap, 3, FLAT=True, HALVES=True)
    for stages in (2, 3, 4):
        yield product("by maps", 100, stages, SPECIALIZED=True)
    yield product("persistent", 100, 3, FLAT=True, SPECIALIZED=True)
    yield product("persistent", 100, 2, FLAT=True, SPECIALIZED=True, HALVES=True)
    yield from _other_kernels(kernels, tl)


def _other_kernels(kernels: Any, tl: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    for cap in CAPABILITIES:
        for width, stages, specialized, warps, rows in (
            (64, 2, False, 4, 128),
            (128, 3, False, 4, 128),
            (64, 2, True, 4, 128),
            (128, 2, True, 4, 128),
            (64, 2, False, 8, 128),
            (128, 2, False, 8, 128),
            (64, 2, False, 4, 64),
            (64, 2, False, 8, 256),
            (64, 2, True, 8, 128),
        ):
            if specialized and cap == 90 and warps == 4:
                continue  # Triton 3.6 to 3.9 stop with an error
            boxes = _boxes("bf16", (rows, width), (64, width), (64, width), (rows, width))
            signature = {**dict(zip("qkvo", boxes, strict=True)), "length": "i32", "scale": "fp32"}
            constants = {"ROWS": rows, "KEYS": 64, "WIDTH": width, "STAGES": stages, "OUT": tl.bfloat16,
                         "SPECIALIZED": specialized}  # fmt: skip
            name = f"attention by maps, {rows} rows of {width}, {stages} stages, {warps} warps"
            name += f"{', specialized' * specialized}, sm_{cap}"
            yield name, _later(kernels.attention_by_descriptors, cap, signature, constants, warps)
        for causal, warps in ((False, 4), (True, 4), (False, 8), (True, 8)):
            signature = {**dict.fromkeys("qkvo", "*bf16"), "length": "i32", "scale": "fp32"}
            constants = {"ROWS": 128, "KEYS": 64, "WIDTH": 64, "STAGES": 2, "OUT": tl.bfloat16, "CAUSAL": causal}
            name = f"attention by pointers{', causal' * causal}, {warps} warps, sm_{cap}"
            yield name, _later(kernels.attention_by_pointers, cap, signature, constants, warps)
        boxes = _boxes("fp16", (64, 64), (64, 64))
        signature = dict(zip(("source", "target"), boxes, strict=True))
        constants = {"ROWS": 64, "COLUMNS": 64}
        yield f"transpose by maps, sm_{cap}", _later(kernels.transpose_by_descriptors, cap, signature, constants, 4)
        signature = {"source": "*fp32", "target": "*fp32", "rows": "i32", "columns": "i32"}
        constants = {"WIDTH": 1024, "STAGES": 3}
        yield f"softmax of rows, sm_{cap}", _later(kernels.softmax_of_rows, cap, signature, constants, 8)
        signature = {"source": "*fp16", "target": "*fp16", "weight": "*fp32", "columns": "i32"}
        yield f"layer norm of rows, sm_{cap}", _later(kernels.layer_norm_of_rows, cap, signature, {"WIDTH": 1024}, 4)


def _later(function: Any, cap: int, signature: dict[str, str], constants: Any, warps: int) -> Callable[[], str]:
    return lambda: compiled(function, cap, signature, constants, warps)


def gluon_kernels() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield names of kernels in Gluon, and what compiles them."""
    from triton.experimental.gluon import language as gl  # noqa: PLC0415

    from bench.ptx import corpus_gluon as kernels  # noqa: PLC0415

    def boxes(names: str, *shapes: tuple[int, int]) -> dict[str, str]:
        shared = gl.NVMMASharedLayout(128, 16, 2)
        return {n: f"tensordesc<bf16{list(s)},{shared!r}>" for n, s in zip(names.split(), shapes, strict=True)}

    rows = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for cap in CAPABILITIES:
        signature = boxes("source target", (64, 64), (64, 64))
        yield f"copy by boxes, sm_{cap}", _later(kernels.copy_by_boxes, cap, signature, {}, 4)
        for stages in (2, 3, 4):
            signature = boxes("a b c", (64, 64), (64, 64), (64, 64)) | {"columns": "i32"}
            constants = {"STAGES": stages, "LAYOUT": rows}
            yield f"add in a ring of {stages}, sm_{cap}", _later(kernels.add_in_a_ring, cap, signature, constants, 4)
            signature = {"source": "*bf16", "target": "*bf16", "columns": "i32"}
            constants = {"WIDTH": 1024, "STAGES": stages}
            name = f"cp.async in a ring of {stages}, sm_{cap}"
            yield name, _later(kernels.copy_by_threads_in_a_ring, cap, signature, constants, 4)
    for warps, m, n in ((4, 64, 128), (8, 128, 128), (4, 64, 256), (8, 128, 256), (8, 256, 64)):
        signature = boxes("a b c", (m, 64), (n, 64), (m, n)) | {"k": "i32"}
        for stages in (3, 4, 5) if n == 128 else (3,):
            constants = {"STAGES": stages, "WARPS": warps}
            name = f"wgmma by hand, {m}x{n}, {stages} stages, {warps} warps"
            yield name, _later(kernels.product_by_wgmma, 90, signature, constants, warps)
        for stages in (2, 3, 4) if n == 128 else (2,):
            constants = {"STAGES": stages, "WARPS": warps}
            name = f"wgmma by two roles, {m}x{n}, {stages} stages, {warps} warps"
            yield name, _later(kernels.product_by_two_roles, 90, signature, constants, warps)
    signature = boxes("a b c", (128, 64), (128, 64), (128, 128)) | {"k": "i32"}
    for stages in (1, 2, 3, 4):
        constants = {"STAGES": stages, "WARPS": 4}
        yield f"tcgen05 by hand, {stages} stages", _later(kernels.product_by_tcgen05, 100, signature, constants, 4)
    numbers = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    signature = boxes("source target", (1, 64), (1, 64)) | {"rows": "*i32"}
    yield "gather of rows", _later(kernels.gather_rows, 100, signature, {"LAYOUT": numbers, "COUNT": 32}, 4)


def products() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the products of `bench.gpu.products`, planned for both generations."""
    from bench.gpu.products import products as listed  # noqa: PLC0415

    for target in ("h200", "b200"):
        for gemm, _ in listed():
            yield f"{gemm}, {target}", partial(_product, gemm, target)


def _product(gemm: Any, target: str) -> str:
    import legalsat as ls  # noqa: PLC0415

    text: str = ls.synthesize(gemm, target).emit("ptx")
    return text


def _copied(plan: Any) -> str:
    from legalsat.backends.triton.adapter import kernel_of  # noqa: PLC0415
    from legalsat.backends.triton.compile import compile_kernel  # noqa: PLC0415

    return compile_kernel(kernel_of(plan)).ptx


def _copy_by_boxes(number: int) -> str:
    """Return the text of one of the random copies that go through the copy engine; others are drawn and passed over."""
    import legalsat as ls  # noqa: PLC0415
    from bench.gpu.copies import random_operator  # noqa: PLC0415

    rng = random.Random(f"{SEED} {number}")
    while True:
        operator, values = random_operator(rng)
        with suppress(ls.LegalSatError):
            return _copied(ls.synthesize(operator.bind(values) if values else operator, "h200", means=("tma",)))


def _transpose_in(ring: str) -> str:
    import legalsat as ls  # noqa: PLC0415
    from bench.gpu.copies import RINGS, in_a_ring  # noqa: PLC0415

    large: Any = ls.synthesize(ls.Transpose(ls.Tensor((4096, 4096), "bf16")), "h200")
    return _copied(in_a_ring(large, **RINGS[ring]))


def copies() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield some of the random copies of `bench.gpu.copies`, planned where they are made: e-graphs survive no fork."""
    from bench.gpu.copies import RINGS  # noqa: PLC0415

    for number in range(1, COPIES + 1):
        yield f"copy {number} by boxes", partial(_copy_by_boxes, number)
    for name in RINGS:
        yield f"transpose, {name}", partial(_transpose_in, name)


def texts() -> dict[str, dict[str, Any]]:
    """Return what makes each text, by source and name."""
    sources = {TRITON: triton_kernels(), GLUON: gluon_kernels(), PRODUCT: products(), COPY: copies()}
    return {f"{source}: {name}": {"source": source, "name": name, "make": make}
            for source, listed in sources.items() for name, make in listed}  # fmt: skip


def written(folder: Path, limits: pool.Limits) -> dict[str, Any]:
    """Compile all, and write the texts and what they are to a folder."""
    listed = texts()
    refused: dict[str, str] = {}
    kernels: dict[str, dict[str, Any]] = {}
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    numbers = {key: number for number, key in enumerate(listed)}

    def made(key: str) -> float:
        begin = time.perf_counter()
        (folder / "texts" / f"{numbers[key]:03}.ptx").write_text(listed[key]["make"]())
        return time.perf_counter() - begin

    for key, took in pool.done(made, list(listed), limits):
        if isinstance(took, Exception):
            refused[listed[key]["name"]] = str(took)[-300:]
            print(f"REFUSED {listed[key]['name']}: {refused[listed[key]['name']]}", flush=True)
        else:
            one = {"source": listed[key]["source"], "name": listed[key]["name"], "made_s": round(took, 2)}
            kernels[f"{numbers[key]:03}"] = one
    found = {"triton": version("triton"), "refused": refused, "kernels": dict(sorted(kernels.items()))}
    (folder / CORPUS).write_text(json.dumps(found, indent=1))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all; return 1 if an error is reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--made", action="store_true")
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp())
    read = options.made and (folder / CORPUS).exists()
    corpus = json.loads((folder / CORPUS).read_text()) if read else written(folder, pool.limits_of(options))
    held = {number: (folder / "texts" / f"{number}.ptx").read_text() for number in corpus["kernels"]}
    longest = sorted(held.items(), key=lambda one: -len(one[1]))
    found_of: dict[str, dict[str, Any]] = {}
    for (number, _), entry in pool.done(_checked, longest, pool.limits_of(options)):
        found_of[number] = entry if isinstance(entry, dict) else {**_NO_ANSWER, "not_proven": [f"line 0: {entry}"]}
        one = {**corpus["kernels"][number], **found_of[number]}
        print(f"{one['result']:10} {one['check_s']:6.2f} s  {one['source']}: {one['name']}", flush=True)
    entries = [{**one, **found_of[number]} for number, one in corpus["kernels"].items()]
    found = {**_summary(entries, corpus["refused"]), "compiler": f"Triton {corpus['triton']}"}
    release = ".".join(corpus["triton"].split(".")[:2])
    write((options.out or RESULTS) / f"ptx_check_triton_{release}.json", {**found, "kernels": entries})
    print(json.dumps(found, indent=1))
    return 1 if found["errors"] else 0


_NO_ANSWER: dict[str, Any] = {
    "result": "no answer", "errors": [], "warnings": [], "assumed_boxes": 0, "runs": 0, "check_s": 0.0,
}  # fmt: skip


def _checked(one: tuple[str, str]) -> dict[str, Any]:
    return _entry(check_ptx(one[1]), one[1])


def _entry(check: PtxCheck, text: str) -> dict[str, Any]:
    return {
        "target": check.target,
        "lines": text.count("\n"),
        "result": "error" if check.findings else "proven" if check.proven else "not proven",
        "errors": [f"{f.kind}, line {f.line}: {f.message}" for f in check.findings],
        "warnings": [f"{f.kind}, line {f.line}" for f in check.warnings],
        "assumed_boxes": sum(len(kernel.assumed) for kernel in check.kernels),
        "not_proven": [f"line {u.line}: {u.reason}" for u in check.unproven],
        "runs": sum(k.runs for k in check.kernels),
        "check_s": round(sum(k.seconds for k in check.kernels), 2),
    }


def _summary(entries: list[dict[str, Any]], refused: dict[str, str]) -> dict[str, Any]:
    reasons = Counter[str]()
    for entry in entries:
        reasons.update({_class(reason) for reason in entry["not_proven"]})
    by_source = {}
    for source in (TRITON, GLUON, PRODUCT, COPY):
        mine = [e for e in entries if e["source"] == source]
        by_source[source] = {"kernels": len(mine), "proven": sum(e["result"] == "proven" for e in mine)}
    seconds = sorted(e["check_s"] for e in entries)
    return {
        "question": "does the check of real PTX raise a false alarm, and how much does it prove",
        "count": len(entries),
        "errors": sum(e["result"] == "error" for e in entries),
        "proven": sum(e["result"] == "proven" for e in entries),
        "proven with assumed boxes": sum(e["result"] == "proven" and e["assumed_boxes"] > 0 for e in entries),
        "kernels with a warning": dict(Counter(w.partition(",")[0] for e in entries for w in e["warnings"])),
        "by_source": by_source,
        "reasons_not_proven": dict(reasons.most_common()),
        "refused_by_the_compiler": refused,
        "seconds": {"total": round(sum(seconds), 1), "median": seconds[len(seconds) // 2], "largest": seconds[-1]},
    }


def _class(reason: str) -> str:
    """Return a reason without its numbers."""
    return "".join("N" if c.isdigit() else c for c in reason.partition(": ")[2])


if __name__ == "__main__":
    sys.exit(main())
