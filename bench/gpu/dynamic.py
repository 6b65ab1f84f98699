"""Are files with open extents what their users need: one compilation, then every extent right, or refused?

    python -m bench.gpu.dynamic prepare FOLDER N [SEED]   # where LegalSAT is: N random problems with dims, emitted
    python -m bench.gpu.dynamic compile FOLDER [WORKERS]  # by the line in each file; CUTLASS_PATH names CuTe's headers
    python -m bench.gpu.dynamic run FOLDER [WORKERS]      # on a GPU, beside torch; compiles first what is not yet

Every file is compiled once and called with 20 extents by the Python lines in its own comment, in one process without
LegalSAT, inside its guard and outside. Products are checked exactly, movements byte by byte, memory around each result
must stay as it is, and what is refused must be refused with the guard's sentence. Writes dynamic_report.json into $OUT,
else into FOLDER. Exit status 1 if a file does not compile or a call is wrong.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gpu.files import GUARD, KINDS, POISON, WORKERS, compile_all, exact_product, python_of
from bench.gpu.steps import Steps, answer_of

TARGET = "h200"
EXTENTS_EACH = 20
CALL_SECONDS = 300
KNOWN = (64, 100, 128, 250, 256, 333, 512, 777, 1000, 1024, 2048, 4096)
OPEN = (1, 2, 7, 8, 16, 24, 33, 48, 64, 65, 100, 128, 200, 255, 256, 300, 512, 777, 1000, 1024, 1111, 2048, 3001, 4096)
MOST_ELEMENTS = 2**24  # of an operand
FACTS: tuple[dict[str, int], ...] = (
    {},
    {},
    {"multiple_of": 8},
    {"multiple_of": 16},
    {"max": 2048},
    {"min": 64, "max": 8192},
)  # of dims
WORDS = {"i8": "int8", "u8": "uint8", "i32": "int32"}
LARGE = (2**31, 2**32, 2**40)  # which most guards refuse; no memory holds what the others take, and so no call has it


# Where LegalSAT is.


def drawn_dims(rng: random.Random, names: str, least: int) -> dict[str, Any]:
    """Return an extent for each name: a number or a dim, of which there are some at least."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    while True:
        found: dict[str, Any] = {name: rng.choice(KNOWN) for name in names}
        for name in rng.sample(names, rng.randint(1, len(names))):
            facts = rng.choice(
                ({}, {}, {"multiple_of": 8}, {"multiple_of": 16}, {"max": 2048}, {"min": 64, "max": 8192})
            )
            stated = {"typical": 128} if rng.random() < 0.3 else {}
            found[name] = ls.Dim(name.upper(), **facts, **stated)
        if sum(isinstance(one, ls.Dim) for one in found.values()) >= least:
            return found


def random_product(rng: random.Random) -> Any:
    """Return a random product with dims: any type, either major, wide pitches, constants, scales."""
    import legalsat as ls  # noqa: PLC0415

    extents = drawn_dims(rng, "mnk", 1)
    dtype = rng.choice(("bf16", "bf16", "fp16", "fp32", "e4m3", "e5m2"))
    narrow = dtype in {"e4m3", "e5m2"}
    out = rng.choice(("bf16", "fp16", "fp32")) if narrow else rng.choice((None, None, "fp32"))
    given: dict[str, Any] = {}
    for name, rows in (("a", extents["m"]), ("b", extents["n"])):
        chance = rng.random()
        if chance < 0.25:
            given[name] = ls.Tensor((rows, extents["k"]), dtype, (1, rows))
        elif chance < 0.4:
            given[name] = ls.Tensor((rows, extents["k"]), dtype, (ls.Dim(f"P{name}"), 1))
    return ls.Gemm(
        **extents,
        dtype=dtype,
        out_dtype=out,
        constant_b=rng.random() < 0.2,
        scaled=narrow and rng.random() < 0.3,
        **given,
    )


def random_movement(rng: random.Random) -> Any:
    """Return a random copy or transpose with dims, of two or three axes, maybe with pitches."""
    import legalsat as ls  # noqa: PLC0415

    extents = list(drawn_dims(rng, "mnk"[: rng.choice((2, 2, 3))], 1).values())
    dtype = rng.choice(("bf16", "fp16", "fp32", "i8", "u8", "i32"))
    strides = None
    if rng.random() < 0.25 and len(extents) == 2:
        strides = (ls.Dim("Pa"), 1)
    source = ls.Tensor(extents, dtype, strides)
    return ls.Transpose(source) if rng.random() < 0.5 else ls.Copy(source)


def drawn_extents(made: Any, rng: random.Random) -> list[dict[str, int]]:
    """Return values of the dims, in their ranges and not, aligned and not, of tensors that are not too large."""
    from legalsat.runtime.program import span_bytes  # noqa: PLC0415

    found: list[dict[str, int]] = []
    for number in range(1000):
        values = {dim.name: rng.choice(OPEN) for dim in made.dims if not dim.name.startswith("P")}
        if number % 3 == 0:
            values = {name: -(-value // 16) * 16 for name, value in values.items()}
        for dim in made.dims:
            if dim.name.startswith("P"):
                values[dim.name] = max([*values.values(), 4096]) + rng.choice((0, 8, 16, 1))
        if number % 17 == 5:
            values[rng.choice(list(values))] = rng.choice(LARGE)
        large = any(_at(span_bytes(one.tensor), values) > 2 * MOST_ELEMENTS for one in made.operands)
        if large and (number % 17 != 5 or takes(made, values)):
            continue
        if values not in found:
            found.append(values)
        if len(found) == EXTENTS_EACH:
            break
    return found


def _at(extent: Any, values: dict[str, int]) -> int:
    from legalsat.dims import at  # noqa: PLC0415

    return int(at(extent, values))


def takes(made: Any, values: dict[str, int]) -> bool:
    """Return whether a file takes extents."""
    from legalsat.runtime.views import Mismatch  # noqa: PLC0415

    try:
        made.choice(values)
    except Mismatch:
        return False
    return True


def prepare(folder: Path, count: int, seed: int) -> None:
    """Write a folder for each file: its text, and for each call what the dims are and how memory lies."""
    import legalsat as ls  # noqa: PLC0415
    from legalsat.backends import program  # noqa: PLC0415

    rng, entries = random.Random(seed), list[dict[str, Any]]()
    refused: dict[str, int] = {}
    while len(entries) < count:
        is_product = len(entries) % 2 == 0
        try:
            operator = random_product(rng) if is_product else random_movement(rng)
            plan = ls.synthesize(operator, TARGET)
            printed, backend = ("ptx", "host") if is_product and rng.random() < 0.2 else ("cute", "cute")
            made, text = program(plan, printed), plan.emit(backend)
            calls = [_call(made, values) for values in drawn_extents(made, rng)]
        except ls.LegalSatError as error:
            reason = re.sub(r"\d+", "N", str(error).partition("\n")[0])[:120]
            refused[reason] = refused.get(reason, 0) + 1
            continue
        name = f"file{len(entries):04}"
        (folder / name).mkdir(parents=True, exist_ok=True)
        kind, subject = "product" if is_product else "movement", f"{operator}, by {backend}"
        (folder / name / f"{kind}.cu").write_text(text)
        turned = isinstance(operator, ls.Transpose)
        entry = {"name": name, "kind": kind, "subject": subject, "guard": made.guard, "turned": turned}
        entries.append({**entry, "kernels": len(made.choices), "calls": calls})
    (folder / "files.json").write_text(json.dumps({"seed": seed, "files": entries, "refused": refused}))
    inside = sum(one["inside"] for entry in entries for one in entry["calls"])
    total = sum(len(entry["calls"]) for entry in entries)
    print(f"{len(entries)} files, {inside} calls inside their guards, {total - inside} outside; refused: {refused}")


def _call(made: Any, values: dict[str, int]) -> dict[str, Any]:
    """Return a call: the dims' values, whether the guard takes them, and the operands' memory if it does."""
    from legalsat.runtime.program import span_bytes  # noqa: PLC0415
    from legalsat.tensor import plain  # noqa: PLC0415

    inside = takes(made, values)
    operands = [
        {
            "name": one.name,
            "dtype": one.tensor.dtype.name,
            "shape": plain(one.tensor.shape),
            "strides": plain(one.tensor.strides),
            "offset": one.tensor.offset,
            "bytes": span_bytes(one.tensor),
        }
        for one in (made.bind(values).operands if inside else ())
    ]
    return {"values": values, "inside": inside, "names": [one.name for one in made.operands], "operands": operands}


# Where the GPU is.


def call(folder: Path, name: str) -> None:
    """Call one file with all its extents, and print what is wrong with what it computes."""
    import torch  # noqa: PLC0415

    entry = next(one for one in json.loads((folder / "files.json").read_text())["files"] if one["name"] == name)
    os.chdir(folder / name)
    text = Path(f"{entry['kind']}.cu").read_text()
    lines = python_of(text)
    wrong: list[str] = []
    torch.manual_seed(1)
    for one in entry["calls"]:
        said = (_inside if one["inside"] else _outside)(lines, entry, one)
        if said:
            wrong.append(f"{one['values']}: {said}")
    assert "legalsat" not in sys.modules
    print(json.dumps({"wrong": wrong}))


def _outside(lines: str, entry: dict[str, Any], one: dict[str, Any]) -> str:
    """Return what is wrong with a refusal."""
    import torch  # noqa: PLC0415

    some = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    try:
        exec(lines, {**dict.fromkeys(one["names"], some), **one["values"]})
    except AssertionError as error:
        said = error.args[0].decode()
        return "" if said == entry["guard"] else f"refused with {said!r}"
    return "not refused"


def _inside(lines: str, entry: dict[str, Any], one: dict[str, Any]) -> str:
    """Return what is wrong with a result and the memory around it."""
    import torch  # noqa: PLC0415

    memory = {operand["name"]: _memory(operand) for operand in one["operands"]}
    typed = {operand["name"]: _typed(operand, memory[operand["name"]]) for operand in one["operands"]}
    exact = exact_product(typed) if entry["kind"] == "product" else _moved(typed, turned=entry["turned"])
    *_, (name, result) = typed.items()
    whole = memory[name]
    expected = whole.clone()
    place = torch.as_strided(expected.view(result.dtype), result.shape, result.stride(), result.storage_offset())
    place.copy_(exact.to(result.dtype))
    for turn in range(2):
        whole.fill_(POISON)
        try:
            exec(lines, {**typed, **one["values"]})
        except AssertionError as error:
            return f"refused with {error.args[0].decode()!r}"
        torch.cuda.synchronize()
        off = (whole != expected).nonzero()
        if len(off):
            return f"call {turn}: {len(off)} bytes, the first {int(off[0]) - GUARD} from the result's start"
    return ""


def _moved(typed: dict[str, Any], *, turned: bool) -> Any:
    """Draw words, and return what the target must hold."""
    import torch  # noqa: PLC0415

    source = typed["source"]
    source.copy_(torch.randint(-100, 100, tuple(source.shape), device="cuda"))
    return source.mT if turned else source


def _memory(operand: dict[str, Any]) -> Any:
    import torch  # noqa: PLC0415

    size = operand["bytes"] + 2 * GUARD + operand["offset"]
    return torch.full((-(-size // 256) * 256,), POISON, dtype=torch.uint8, device="cuda")


def _typed(operand: dict[str, Any], whole: Any) -> Any:
    import torch  # noqa: PLC0415

    kind = getattr(torch, {**KINDS, **WORDS}[operand["dtype"]])
    start = (GUARD + operand["offset"]) // torch.empty((), dtype=kind).element_size()
    return torch.as_strided(whole.view(kind), operand["shape"], operand["strides"], start)


def call_one(folder: Path, name: str) -> list[str]:
    """Call a file in a process of its own; return what is wrong."""
    wrong, died = answer_of("bench.gpu.dynamic", folder, name, "wrong", CALL_SECONDS)
    return [died] if died else list(wrong)


def run(folder: Path, workers: int) -> int:
    """Compile all files, call each; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    prepared = json.loads((folder / "files.json").read_text())
    begin = time.time()
    refused = compile_all(folder, workers)
    compiled = time.time() - begin
    names = [one["name"] for one in prepared["files"] if one["name"] not in refused]
    with ThreadPoolExecutor(min(workers, 6)) as pool:
        found = dict(zip(names, pool.map(lambda name: call_one(folder, name), names), strict=True))
    subjects = {one["name"]: one["subject"] for one in prepared["files"]}
    calls = [one["inside"] for entry in prepared["files"] for one in entry["calls"]]
    report = {
        "question": "are files with open extents right for every extent of their guard, and refused outside it",
        "machine": machine(),
        "files": len(prepared["files"]),
        "compilations": len(names),
        "calls_inside": sum(calls),
        "calls_outside": len(calls) - sum(calls),
        "wrong": {f"{name}: {subjects[name]}": said for name, said in found.items() if said},
        "not_compiled": {f"{name}: {subjects[name]}": said for name, said in refused.items()},
        "compile_seconds": round(compiled, 1),
        "seconds": round(time.time() - begin, 1),
    }
    (Path(os.environ.get("OUT", folder)) / "dynamic_report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 1 if report["wrong"] or refused else 0


STEPS = Steps(__doc__ or "", prepare, compile_all, run, call, WORKERS)

if __name__ == "__main__":
    sys.exit(STEPS.main(sys.argv[1:]))
