"""Are the files that backends emit what their users need: do they compile by the line in them, and are they right?

    python -m bench.gpu.files prepare FOLDER N [SEED]   # where LegalSAT is: N random products and movements, each
                                                        # emitted by every backend that has it
    python -m bench.gpu.files compile FOLDER [WORKERS]  # by the line in each file; CUTLASS_PATH names CuTe's headers
    python -m bench.gpu.files run FOLDER [WORKERS]      # on a GPU, beside torch; compiles first what is not yet

Each file is called by the Python lines in its own comment, a module of Triton's by its `run`, in a process without
LegalSAT. Products are checked exactly, movements byte by byte, and memory around each result must stay as it is. No
line compiles a module of Triton's: where there is no torch, `compile` calls its `run` as `bench.gpu.no_gpu` does.
Writes files_report.json into $OUT, else into FOLDER. Exit status 1 if a file does not compile or is wrong.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gpu.no_gpu import imported
from bench.gpu.steps import Steps, answer_of

TARGET = "h200"
WORKERS, CALLERS = 15, 12
COMPILE_SECONDS, CALL_SECONDS = 600, 120
GUARD = 4096  # bytes
POISON = 0xA5
CALLS = 3
MOST_BITS = 2**25  # of a movement's tensors, whose bytes numpy works out one bit at a time
EXTENTS = (1, 7, 8, 16, 33, 64, 100, 128, 255, 256, 333, 512, 777, 1000, 1024, 1111, 2048)
LONG = (4095, 4096, 5000)
TYPES = ("bf16", "bf16", "bf16", "fp16", "fp32", "e4m3", "e5m2")
KINDS = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
}
# The backends, and which of their programs says how the memory of a file lies.
BACKENDS = {
    "product": {"cute": "cute", "host": "ptx", "triton": "triton"},
    "movement": {"cute": "cute", "triton": "triton"},
}


# Where LegalSAT is.


def random_product(rng: random.Random) -> Any:
    """Return a random product: odd and even extents, either major, wide pitches, offsets, constants, scales."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    dtype = rng.choice(TYPES)
    m, n = (rng.choice(EXTENTS + LONG) for _ in "mn")
    k = rng.choice(EXTENTS[2:] + LONG)
    narrow = dtype in ("e4m3", "e5m2")
    out = rng.choice((None, None, "fp32")) if not narrow else rng.choice(("bf16", "fp16", "fp32"))
    a, b = (_operand(rng, rows, k, dtype) for rows in (m, n))
    c = None
    if rng.random() < 0.2:
        element = out or dtype
        c = ls.Tensor((m, n), element, (n + rng.choice((0, 1, 8)), 1))
    scaled = narrow and rng.random() < 0.4
    return ls.Gemm(m, n, k, dtype, out_dtype=out, a=a, b=b, c=c, constant_b=rng.random() < 0.2, scaled=scaled)


def _operand(rng: random.Random, rows: int, k: int, dtype: str) -> Any:
    import legalsat as ls  # noqa: PLC0415

    extra, chance = rng.choice((0, 0, 1, 8)), rng.random()
    if chance < 0.55:
        return None
    strides = (k + extra, 1) if chance < 0.75 else (1, rows + extra)
    size = {"fp32": 4, "bf16": 2, "fp16": 2}.get(dtype, 1)
    return ls.Tensor((rows, k), dtype, strides, offset=size * rng.choice((0, 0, 1, 3)))


def random_movement(rng: random.Random) -> Any:
    """Return a random copy, transpose or padding, of not too many bits."""
    from bench.gpu.copies import random_pad  # noqa: PLC0415
    from bench.search.random_problems import problem  # noqa: PLC0415

    while True:
        operator: Any = random_pad(rng) if rng.random() < 0.3 else problem(rng).operator
        if max(operator.source.span_bits, operator.target.span_bits) <= MOST_BITS:
            return operator


def prepare(folder: Path, count: int, seed: int) -> None:
    """Write a folder for each file: its text, how its memory lies, and of movements the bytes."""
    import legalsat as ls  # noqa: PLC0415

    rng, entries, problems = random.Random(seed), list[dict[str, Any]](), 0
    refused: dict[str, int] = {}
    while problems < count:
        kind = ("product", "movement")[problems % 2]
        found = list[dict[str, Any]]()
        operator, number = None, problems
        for backend, printed in BACKENDS[kind].items():
            try:
                operator = operator or (random_product(rng) if kind == "product" else random_movement(rng))
                found.append(prepared_file(folder, f"file{number:04}_{backend}", operator, backend, printed))
            except ls.LegalSatError as error:
                reason = f"{backend}: " + re.sub(r"\d+", "N", str(error).partition("\n")[0])[:120]
                refused[reason] = refused.get(reason, 0) + 1
        entries += found
        problems += bool(found)
    (folder / "files.json").write_text(
        json.dumps({"seed": seed, "problems": problems, "files": entries, "refused": refused})
    )
    print(f"{problems} problems, {len(entries)} files; refused: {sum(refused.values())}")


def prepared_file(folder: Path, name: str, operator: Any, backend: str, printed: str) -> dict[str, Any]:
    """Write the folder of a file, and return what is to be known of it; raises `LegalSatError` where there is none."""
    import numpy as np  # noqa: PLC0415

    import legalsat as ls  # noqa: PLC0415
    from bench.kernels.moved import memory_of, moved  # noqa: PLC0415
    from legalsat.backends import program  # noqa: PLC0415
    from legalsat.runtime.program import span_bytes  # noqa: PLC0415
    from legalsat.tensor import plain  # noqa: PLC0415

    product = isinstance(operator, ls.Gemm)
    kind, suffix = "product" if product else "movement", "py" if backend == "triton" else "cu"
    how: dict[str, Any] = {"backend": printed} if product else {}
    plan: Any = ls.synthesize(operator, TARGET, **how)
    made, text = program(plan, printed), plan.emit(backend)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{kind}.{suffix}").write_text(text)
    if not product:
        source, target = memory_of(operator.source, 1), memory_of(operator.target)
        np.save(place / "source.npy", source)
        np.save(place / "want.npy", moved(operator, source, target))
    operands = [
        {
            "name": one.name,
            "dtype": one.tensor.dtype.name,
            "shape": plain(one.tensor.shape),
            "strides": plain(one.tensor.strides),
            "offset": one.tensor.offset,
            "bytes": span_bytes(one.tensor),
        }
        for one in made.operands
    ]
    if not product and backend == "triton":
        operands = [{**one, **_in_torch(text, one["name"])} for one in operands]
    file = f"{kind}.{suffix}"
    return {"name": name, "kind": kind, "file": file, "subject": f"{operator}, by {backend}", "operands": operands}


def _in_torch(text: str, name: str) -> dict[str, Any]:
    """Return what a module moves as torch has it: elements of whole bytes, of which packed ones have several."""
    side = name.upper()
    shape, strides = ast.literal_eval(text.partition(f"{side}_SHAPE, {side}_STRIDE = ")[2].partition("\n")[0])
    size = int(text.partition("ELEMENT_BYTES = ")[2].partition("\n")[0])
    return {"dtype": f"i{8 * size}", "shape": shape, "strides": strides}


# Where nvcc is.


def head_of(text: str) -> str:
    """Return the comment that a file begins with."""
    return text[text.index("/*") + 2 : text.index("*/")]


def command_of(text: str) -> str:
    """Return the line of a file that makes a shared library."""
    found = re.search(r"^    (nvcc (?:.*\\\n)*.* -shared .*)$", head_of(text), re.MULTILINE)
    assert found, "no line says how to make a shared library"
    return found[1].replace("\\\n", " ")


def compile_one(folder: Path, entry: dict[str, Any]) -> str:
    """Compile a file by the line in it; return what is wrong, "" if nothing is."""
    place = folder / entry["name"]
    if list(place.glob("*.so")):
        return ""
    words: str | list[str]
    path = place / entry.get("file", f"{entry['kind']}.cu")
    if path.suffix == ".py":
        if importlib.util.find_spec("torch") is not None:
            return ""  # its call compiles it
        words = [sys.executable, "-m", "bench.gpu.no_gpu", str(path), json.dumps(typed_as(entry))]
    else:
        words = f"cd {shlex.quote(str(place))} && {command_of(path.read_text())}"
    try:
        done = subprocess.run(
            words,
            shell=isinstance(words, str),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {COMPILE_SECONDS} s"
    return done.stderr[-1000:] if done.returncode else ""


def typed_as(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operands of a file by torch's names of their types."""
    return [{**one, "dtype": KINDS[one["dtype"]]} for one in entry["operands"]]


def compile_all(folder: Path, workers: int) -> dict[str, str]:
    """Compile all files at once; return what is wrong, by name."""
    entries = json.loads((folder / "files.json").read_text())["files"]
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda entry: compile_one(folder, entry), entries))
    return {entry["name"]: wrong for entry, wrong in zip(entries, found, strict=True) if wrong}


# Where the GPU is.


def python_of(text: str) -> str:
    """Return the Python lines in a file's comment."""
    found = re.search(r"^From Python.*\n((?:    .*\n)+)", head_of(text), re.MULTILINE)
    assert found, "no lines say how to call it from Python"
    return "\n".join(line[4:] for line in found[1].splitlines())


def call(folder: Path, name: str) -> None:
    """Call one file as its comment says, and print what is wrong with what it computes."""
    import torch  # noqa: PLC0415

    entry = next(one for one in json.loads((folder / "files.json").read_text())["files"] if one["name"] == name)
    os.chdir(folder / name)
    module = entry["file"].endswith(".py")
    lines = "" if module else python_of(Path(entry["file"]).read_text())
    torch.manual_seed(1)
    memory = {one["name"]: _memory(one) for one in entry["operands"]}
    expected = (_product if entry["kind"] == "product" else _movement)(entry, memory)
    result = entry["operands"][-1]
    whole, _ = memory[result["name"]]
    given = {of: place for of, (_, place) in memory.items()}
    typed = {one["name"]: _typed(one, memory[one["name"]][0]) for one in entry["operands"]} if module else {}
    for number in range(CALLS):
        whole.fill_(POISON)
        if module:
            imported(Path(entry["file"])).run(**typed)
        else:
            exec(lines, dict(given))
        torch.cuda.synchronize()
        wrong = (whole != expected).nonzero()
        if len(wrong):
            first = int(wrong[0]) - GUARD
            print(
                json.dumps({"wrong": f"call {number}: {len(wrong)} bytes, the first {first} from the result's start"})
            )
            return
    assert "legalsat" not in sys.modules
    print(json.dumps({"wrong": ""}))


def _memory(operand: dict[str, Any]) -> tuple[Any, Any]:
    """Return an allocation, and where the operand begins in it."""
    import torch  # noqa: PLC0415

    size = operand["bytes"] + 2 * GUARD + operand["offset"]
    whole = torch.full((-(-size // 256) * 256,), POISON, dtype=torch.uint8, device="cuda")
    begin = GUARD + operand["offset"]
    return whole, whole[begin : begin + operand["bytes"]]


def _typed(operand: dict[str, Any], whole: Any) -> Any:
    import torch  # noqa: PLC0415

    kind = getattr(torch, KINDS[operand["dtype"]])
    size = torch.empty((), dtype=kind).element_size()
    start = (GUARD + operand["offset"]) // size
    return torch.as_strided(whole.view(kind), operand["shape"], operand["strides"], start)


def _product(entry: dict[str, Any], memory: dict[str, Any]) -> Any:
    """Draw small whole numbers, and return what the memory of C must hold."""
    import torch  # noqa: PLC0415

    typed = {one["name"]: _typed(one, memory[one["name"]][0]) for one in entry["operands"]}
    c, expected = typed["c"], memory["c"][0].clone()
    place = torch.as_strided(expected.view(c.dtype), c.shape, c.stride(), c.storage_offset())
    place.copy_(exact_product(typed).to(c.dtype))
    return expected


def exact_product(typed: dict[str, Any]) -> Any:
    """Draw small whole numbers for a and b, set their scales, and return what c must hold."""
    import torch  # noqa: PLC0415

    for name in "ab":
        typed[name].copy_(torch.randint(-2, 3, tuple(typed[name].shape), device="cuda").float().to(typed[name].dtype))
    exact = typed["a"].double() @ typed["b"].double().T + 0.0  # a sum that begins at 0 is never -0
    for name, scale in (("scale_a", 0.5), ("scale_b", 4.0)):
        if name in typed:
            typed[name].fill_(scale)
            exact = exact * scale
    return exact


def _movement(entry: dict[str, Any], memory: dict[str, Any]) -> Any:
    """Write the source's bytes, and return what the memory of the target must hold."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    memory["source"][1].copy_(torch.from_numpy(np.load("source.npy")))
    whole, place = memory["target"]
    expected = whole.clone()
    begin = place.storage_offset()
    want = torch.from_numpy(np.load("want.npy"))
    expected[begin : begin + len(want)] = want.cuda()
    del entry
    return expected


def call_one(folder: Path, name: str) -> str:
    """Call a file in a process of its own; return what is wrong, "" if nothing is."""
    wrong, died = answer_of("bench.gpu.files", folder, name, "wrong", CALL_SECONDS)
    return died or str(wrong)


def run(folder: Path, workers: int) -> int:
    """Compile all files, call each; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    prepared = json.loads((folder / "files.json").read_text())
    begin = time.time()
    refused = compile_all(folder, workers)
    compiled = time.time() - begin
    # What is compiled as it is called comes last.
    entries = sorted(prepared["files"], key=lambda entry: entry["file"].endswith(".py"))
    names = [one["name"] for one in entries if one["name"] not in refused]
    subjects = {one["name"]: one["subject"] for one in entries}
    kinds = [f"{one['kind']}, {one['name'].partition('_')[2]}" for one in entries]
    found, report, where = dict[str, str](), dict[str, Any](), machine()
    with ThreadPoolExecutor(min(workers, CALLERS)) as pool:
        for first in range(0, len(names), 4 * CALLERS):
            some = names[first : first + 4 * CALLERS]
            found |= zip(some, pool.map(lambda name: call_one(folder, name), some), strict=True)
            wrong = {f"{name}: {subjects[name]}": said for name, said in found.items() if said}
            report = {
                "question": "do emitted files compile by the line in them, and are they right, called as they say",
                "machine": where,
                "problems": prepared["problems"],
                "files": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
                "refused": prepared["refused"],
                "calls_each": CALLS,
                "called": len(found),
                "right": len(found) - len(wrong),
                "wrong": wrong,
                "not_compiled": {f"{name}: {subjects[name]}": said for name, said in refused.items()},
                "compile_seconds": round(compiled, 1),
                "seconds": round(time.time() - begin, 1),
            }
            (Path(os.environ.get("OUT", folder)) / "files_report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 1 if report.get("wrong") or refused or len(found) < len(names) else 0


STEPS = Steps(__doc__ or "", prepare, compile_all, run, call, WORKERS)

if __name__ == "__main__":
    sys.exit(STEPS.main(sys.argv[1:]))
