"""Do plans of programs run, as one file and as one kernel, are they right, and are they faster than torch's operators?

    python -m bench.gpu.programs prepare FOLDER [N [SEED]]  # where LegalSAT is: `bench.search.programs`, N random ones
    python -m bench.gpu.programs compile FOLDER [WORKERS]  # by the line in each file; CUTLASS_PATH names CuTe's headers
    python -m bench.gpu.programs run FOLDER [WORKERS]      # on a GPU, beside torch; compiles first what is not yet

Each program runs in a process of its own: its file is called by the Python lines in its comment, and `compile()` of its
plan, read back, is called with the same tensors, thrice each, inputs changed in between and constants changed once.
Inputs are small whole numbers; every element must be what the program means, and memory around results must stay. The
programs of bench.search.programs are timed in turns with torch's operators, which keep what is made of constants alone.
Writes programs_report.json into $OUT, else into FOLDER. Exit status 1 if a file does not compile or anything is wrong.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gpu.files import CALL_SECONDS, GUARD, KINDS, POISON, WORKERS, compile_all, python_of
from bench.gpu.steps import Steps, answer_of

TARGET = "h200"
CALLS, ROUNDS, REPEATS = 3, 15, 20
MOST_EXACT = 2**24  # whole numbers up to which sums in fp32 are exact
RANDOM = 40


# Where LegalSAT is.


def prepare(folder: Path, count: int, seed: int) -> None:
    """Write a folder for each program: its file, its plan, and what it means."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from bench.search.programs import drawn, one_by_one, programs  # noqa: PLC0415
    from legalsat.backends.composed import schedule  # noqa: PLC0415

    rng, entries, refused = random.Random(seed), list[dict[str, Any]](), dict[str, str]()
    named = list(programs().items())
    waiting = [(title, program, True) for title, program in named]
    waiting += [(f"random {number}", drawn(rng), False) for number in range(count)]
    for title, program, timed in waiting:
        try:
            plan = ls.synthesize(program, TARGET)
            text, made = plan.emit("cute"), schedule(plan, "cute")
        except ls.LegalSatError as error:
            refused[f"{title}: {program}"] = str(error)
            continue
        place = folder / (name := f"program{len(entries):03}")
        place.mkdir(parents=True, exist_ok=True)
        (place / "program.cu").write_text(text)
        plan.save(place / "plan.json")
        constants = {one.name for one in program.inputs if one.constant}
        steps = [[one.operator, one.operands, one.numbers, one.dtype.name] for one in program.steps]
        entries.append(
            {
                "name": name,
                "kind": "program",
                "title": title,
                "subject": str(program),
                "timed": timed,
                "operands": [{**_described(one), "constant": one.name in constants} for one in made.operands],
                "steps": steps,
                "results": [one.value for one in program.results],
                "kernels": [one.what for one in plan.steps],
                "predicted_us": plan.cost.nanoseconds / 1000,
                "predicted_one_by_one_us": one_by_one(program) / 1000,
            }
        )
    (folder / "files.json").write_text(json.dumps({"seed": seed, "files": entries, "refused": refused}))
    print(f"{len(entries)} programs; refused: {refused}")


def _described(operand: Any) -> dict[str, Any]:
    from legalsat.runtime.program import span_bytes  # noqa: PLC0415
    from legalsat.tensor import plain  # noqa: PLC0415

    tensor = operand.tensor
    return {
        "name": operand.name,
        "dtype": tensor.dtype.name,
        "shape": plain(tensor.shape),
        "strides": plain(tensor.strides),
        "offset": tensor.offset,
        "bytes": span_bytes(tensor),
    }


# Where the GPU is.


class Tried:
    """One program with its memory: each operand between guards, inputs that are drawn, and what results must be."""

    def __init__(self, entry: dict[str, Any]) -> None:
        import torch  # noqa: PLC0415

        self.torch, self.entry = torch, entry
        count = len(entry["results"])
        self.inputs, self.outputs = entry["operands"][:-count], entry["operands"][-count:]
        self.memory = {one["name"]: self._allocated(one) for one in entry["operands"]}
        self.typed = {one["name"]: self._typed(one) for one in entry["operands"]}
        self.exact = True

    def _allocated(self, operand: dict[str, Any]) -> Any:
        size = operand["bytes"] + 2 * GUARD + operand["offset"]
        return self.torch.full((-(-size // 256) * 256,), POISON, dtype=self.torch.uint8, device="cuda")

    def _typed(self, operand: dict[str, Any]) -> Any:
        kind = getattr(self.torch, KINDS[operand["dtype"]])
        size = self.torch.empty((), dtype=kind).element_size()
        start = (GUARD + operand["offset"]) // size
        whole = self.memory[operand["name"]].view(kind)
        return self.torch.as_strided(whole, operand["shape"], operand["strides"], start)

    def draw(self, *, constants: bool) -> None:
        """Draw inputs anew, constant ones too if asked."""
        most = 2 if self.entry["timed"] else 1
        for one in self.inputs:
            if constants or not one["constant"]:
                numbers = self.torch.randint(-most, most + 1, tuple(one["shape"]), device="cuda")
                self.typed[one["name"]].copy_(numbers.to(self.typed[one["name"]].dtype))

    def meant(self) -> list[Any]:
        """Return what results must hold: float64, each product rounded to its type."""
        torch = self.torch
        values = [self.typed[one["name"]].double() for one in self.inputs]
        for operator, operands, numbers, kind in self.entry["steps"]:
            read = [values[operand] for operand in operands]
            if operator == "product":
                self.exact &= float((read[0].abs() @ read[1].abs().T).max()) < MOST_EXACT
                values.append((read[0] @ read[1].T).to(getattr(torch, KINDS[kind])).double())
            else:
                values.append(_viewed(torch, operator, read, numbers))
        return [values[number] for number in self.entry["results"]]

    def wrong(self, wanted: list[Any]) -> str:
        """Return what is wrong with the results or around them, "" if nothing is; poison them again."""
        for operand, values in zip(self.outputs, wanted, strict=True):
            name, found = operand["name"], self.typed[operand["name"]]
            expected = self.torch.full_like(self.memory[name], POISON)
            size = found.element_size()
            start = (GUARD + operand["offset"]) // size
            place = self.torch.as_strided(expected.view(found.dtype), found.shape, found.stride(), start)
            place.copy_(values.to(found.dtype))
            if not self.exact and self.torch.allclose(found.double(), values, rtol=2**-6, atol=1.0):
                place.copy_(found)
            bad = (self.memory[name] != expected).nonzero()
            if len(bad):
                return f"{len(bad)} bytes of {name}, the first {int(bad[0]) - GUARD} from its start"
            self.memory[name].fill_(POISON)
        return ""

    def operators(self) -> Callable[[], list[Any]]:
        """Return the program as torch's operators have it, what is made of constants alone made already."""
        values: list[Any] = [self.typed[one["name"]] for one in self.inputs]
        constant = [one["constant"] for one in self.inputs]
        later = []
        for operator, operands, numbers, kind in self.entry["steps"]:
            constant.append(all(constant[operand] for operand in operands))
            values.append(None)
            step = operator, operands, numbers, kind
            if constant[-1]:
                values[-1] = self._made(values, *step)
            else:
                later.append((len(values) - 1, step))

        def run() -> list[Any]:
            made = list(values)
            for at, step in later:
                made[at] = self._made(made, *step)
            return [made[number] for number in self.entry["results"]]

        return run

    def _made(self, values: list[Any], operator: str, operands: list[int], numbers: Any, kind: str) -> Any:
        read = [values[operand] for operand in operands]
        if operator == "product":
            return (read[0] @ read[1].T).to(getattr(self.torch, KINDS[kind]))
        return _viewed(self.torch, operator, read, numbers)


def _viewed(torch: Any, operator: str, read: list[Any], numbers: Any) -> Any:
    """Return what an operator that multiplies nothing makes of its operands."""
    if operator == "slice":
        axis, begin, count = numbers
        return read[0].narrow(axis, begin, count)
    if operator == "pad":
        axis, before, after = numbers
        sides = (before, after, 0, 0) if axis == 1 else (0, 0, before, after)
        return torch.nn.functional.pad(read[0], sides)
    return torch.cat(read, dim=numbers[0]) if operator == "concat" else read[0].T


def call(folder: Path, name: str) -> None:
    """Run one program both ways, and print what is wrong and how long it takes."""
    import torch  # noqa: PLC0415

    entry = next(one for one in json.loads((folder / "files.json").read_text())["files"] if one["name"] == name)
    os.chdir(folder / name)
    torch.manual_seed(1)
    tried, lines = Tried(entry), python_of(Path("program.cu").read_text())
    names: dict[str, Any] = dict(tried.typed)

    def by_file() -> None:
        exec(lines, names)  # which prepares what is constant, and runs

    found: dict[str, Any] = {"file": _called(tried, by_file), "times_us": {}}
    assert "legalsat" not in sys.modules
    kernel = _compiled(Path("plan.json"))
    given = [tried.typed[one["name"]] for one in tried.inputs]
    results = tuple(tried.typed[one["name"]] for one in tried.outputs)
    out = results if len(results) > 1 else results[0]
    found["kernel"] = kernel if isinstance(kernel, str) else _called(tried, lambda: kernel(*given, out=out))
    if entry["timed"] and not found["file"]:
        library, workspace = names["library"], names["workspace"]
        pointers = _pointers([*given, *results, workspace])
        stream = names["stream"]
        ways: dict[str, Callable[[], Any]] = {
            "file": lambda: library.run(*pointers, stream),
            "torch": tried.operators(),
        }
        if not isinstance(kernel, str):
            ways["kernel"] = lambda: kernel(*given, out=out)
        found["times_us"] = _times(ways)
    found["exact"] = tried.exact
    print(json.dumps({"found": found}))


def _compiled(path: Path) -> Any:
    """Return the kernel of a plan that is read back, or why there is none; unchecked, since that needs the solvers."""
    from legalsat.errors import LegalSatError  # noqa: PLC0415
    from legalsat.plans.codec import read_plan  # noqa: PLC0415
    from legalsat.plans.program_plan import from_json  # noqa: PLC0415

    try:
        return from_json(read_plan(path)).compile("cute")
    except LegalSatError as error:
        return f"not compiled: {error}"


def _pointers(arrays: list[Any]) -> list[Any]:
    import ctypes  # noqa: PLC0415

    return [ctypes.c_void_p(one.data_ptr()) for one in arrays]


def _called(tried: Tried, run: Callable[[], Any]) -> str:
    """Return what is wrong with some calls: inputs change between them, constants before the last one."""
    for number in range(CALLS):
        tried.draw(constants=number in {0, CALLS - 1})
        wanted = tried.meant()
        run()
        tried.torch.cuda.synchronize()
        if wrong := tried.wrong(wanted):
            return f"call {number}: {wrong}"
    return ""


def _times(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median microseconds of each way, in turns: calls in a CUDA graph, so that the host adds nothing."""
    import torch  # noqa: PLC0415

    graphs = {}
    for name, run in ways.items():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            run()
        torch.cuda.synchronize()
        if name == "file":  # which launches in the stream that it was given
            continue
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for _ in range(REPEATS):
                run()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(2_000_000)  # about a millisecond, in which the host gets ahead
            begin.record()
            if name in graphs:
                graphs[name].replay()
            else:
                for _ in range(REPEATS):
                    run()
            end.record()
            torch.cuda.synchronize()
            taken[name].append(begin.elapsed_time(end) * 1000 / REPEATS)
    return {name: round(statistics.median(some), 2) for name, some in taken.items()}


def call_one(folder: Path, name: str) -> dict[str, Any]:
    """Run a program in a process of its own."""
    found, died = answer_of("bench.gpu.programs", folder, name, "found", CALL_SECONDS)
    return {"file": died, "kernel": "", "times_us": {}, "exact": True} if died else dict(found)


def run(folder: Path, workers: int) -> int:
    """Compile all files, run each program; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    os.environ.setdefault("LEGALSAT_CACHE", str((folder / "cache").resolve()))
    prepared, begin = json.loads((folder / "files.json").read_text()), time.time()
    refused = compile_all(folder, workers)
    entries = [one for one in prepared["files"] if one["name"] not in refused]
    with ThreadPoolExecutor(workers) as pool:  # into the cache, or each program would wait for its own kernels
        list(pool.map(lambda one: _compiled(folder / one["name"] / "plan.json"), entries))
    slow = [one for one in entries if not one["timed"]]
    with ThreadPoolExecutor(min(workers, 6)) as pool:
        found = dict(zip((e["name"] for e in slow), pool.map(lambda e: call_one(folder, e["name"]), slow), strict=True))
    found |= {one["name"]: call_one(folder, one["name"]) for one in entries if one["timed"]}  # alone on the GPU
    titles = {one["name"]: f"{one['title']}: {one['subject']}" for one in prepared["files"]}
    wrong = {f"{titles[n]}, {w}": one[w] for n, one in found.items() for w in ("file", "kernel") if one[w]}
    report = {
        "question": "are programs right, as a file and as a kernel, and how long do they take beside torch's operators",
        "machine": machine(),
        "programs": len(prepared["files"]),
        "right": sum(not one["file"] and not one["kernel"] for one in found.values()),
        "of_these_exact": sum(one["exact"] for one in found.values()),
        "wrong": wrong,
        "not_compiled": {titles[name]: said for name, said in refused.items()},
        "not_planned": prepared["refused"],
        "times_us": {
            one["title"]: {
                **found[one["name"]]["times_us"],
                "predicted": one["predicted_us"],
                "predicted one by one": one["predicted_one_by_one_us"],
                "steps": one["kernels"],
            }
            for one in entries
            if one["timed"]
        },
        "seconds": round(time.time() - begin, 1),
    }
    (Path(os.environ.get("OUT", folder)) / "programs_report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 1 if wrong or refused else 0


STEPS = Steps(__doc__ or "", prepare, compile_all, run, call, WORKERS, seed=18, count=RANDOM)

if __name__ == "__main__":
    sys.exit(STEPS.main(sys.argv[1:]))
