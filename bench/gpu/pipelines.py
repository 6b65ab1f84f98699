"""Does a GPU agree with the contract of pipelines? Checked plans must never hang, broken ones must fail as predicted.

    python -m bench.gpu.pipelines prepare FOLDER [PLANS]    # where LegalSAT is; 1,000 plans when left out
    python -m bench.gpu.pipelines run FOLDER                # where the GPU is: torch and a driver are enough

Random products in random tiles with rings of random depth, whose kernels the checker has passed, run 100 times each;
every byte of C is compared every time. Then kernels with planted faults, each in a process of its own that may hang:
what becomes of them, beside what the checker says of their text.

Writes pipelines.json into $OUT, else into FOLDER. Exit status 1 if a checked plan fails, or a fault that the checker
calls harmless does.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

TARGET, SEED = "h200", 5
PLANS, RUNS = 1000, 100
MUTANT_RUNS, HANG_SECONDS = 20, 6  # runs of a kernel with a fault, which take milliseconds
MUTANT_SECONDS, CHUNK_SECONDS = 90, 240  # of a process, its start included
WORKERS, MUTANT_WORKERS, CHUNK = 4, 10, 50
TYPES = {"bf16": 16, "fp16": 16, "fp32": 32, "e4m3": 8, "i8": 8}
MUTANTS_OF, OF_A_KIND = 3, 3  # kernels that faults are planted in, and how many of a kind in each


def random_plan(draw: random.Random) -> Any:
    """Return the plan of a random product in a random tile with a random ring, None where that fits nothing."""
    import legalsat as ls  # noqa: PLC0415
    from legalsat.extract.kernels import joint  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    name, gpu = draw.choice(list(TYPES)), target(TARGET)
    m, n = draw.randint(1, 400), draw.randint(1, 400)
    k = draw.randint(1, 10 * 1024 // TYPES[name] // 8) * 128 // TYPES[name]
    gemm = ls.Gemm(m, n, k, name)
    try:
        found = joint._planned(gemm, draw.choice(joint._tiles(gemm, gpu)), gpu)
    except ls.LegalSatError:
        return None
    if not found:
        return None
    plan = joint.finished(gemm, gpu, [draw.choice(found)])
    return replace(plan, stages=draw.randint(2, plan.stages))


def broken_plans() -> list[Any]:
    """Return the plans in whose kernels faults are planted: long rings that wrap, C stored by boxes and by threads."""
    import legalsat as ls  # noqa: PLC0415

    products = (ls.Gemm(640, 512, 4096, "bf16"), ls.Gemm(1000, 777, 2048, "e4m3"), ls.Gemm(1024, 2048, 1024, "fp16"))
    return [ls.synthesize(product, TARGET).block for product in products]


def prepare(folder: Path, plans: int) -> None:
    """Write everything that a run needs."""
    from bench.gpu.products import entry_of  # noqa: PLC0415
    from legalsat.backends.ptx import emit_ptx  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import assemble  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(SEED)
    entries: list[dict[str, Any]] = []
    while len(entries) < plans + MUTANTS_OF:
        plan = broken_plans()[len(entries)] if len(entries) < MUTANTS_OF else random_plan(draw)
        if plan is None:
            continue
        name, text = f"plan{len(entries):04}", emit_ptx(plan)
        found = said(plan, text)
        if found:
            raise RuntimeError(f"{plan.operator}: the checker says {found}")
        (folder / f"{name}.cubin").write_bytes(assemble(text, plan.target.architecture))
        entries.append(entry_of(plan, name))
        if len(entries) <= MUTANTS_OF:
            # `bench.ptx.ptx_judged` reads these from results/judged, beside the verdicts.
            (folder / f"{name}.ptx").write_text(text)
            entries[-1]["mutants"] = planted(folder, plan, name, text)
    (folder / "pipelines.json").write_text(json.dumps(entries))
    count = sum(len(e.get("mutants", ())) for e in entries)
    print(f"{len(entries)} plans, {count} kernels with planted faults")


def said(plan: Any, text: str) -> list[str]:
    """Return what the checker finds in a kernel's text, told how many bytes the boxes of its maps have."""
    from legalsat.analyses.copy_engine import tx_bytes  # noqa: PLC0415
    from legalsat.backends.ptx import launch_of  # noqa: PLC0415
    from legalsat.extract.check.check_ptx import check_ptx  # noqa: PLC0415

    launch = launch_of(plan)
    boxes = {name: tx_bytes(tm) for name, tm in zip(launch.parameters, launch.maps, strict=False)}
    return [finding.kind for finding in check_ptx(text, box_bytes=boxes).findings]


def planted(folder: Path, plan: Any, name: str, text: str) -> list[dict[str, Any]]:
    """Write the kernel with each fault, a few of a kind, and return what the checker says of them."""
    from bench.ptx.ptx_mutants import mutants  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import AssemblyFailed, assemble  # noqa: PLC0415

    found: list[dict[str, Any]] = []
    for kind, line, edited in mutants(text):
        if sum(one["kind"] == kind for one in found) == OF_A_KIND:
            continue
        own = f"{name}_fault{len(found):03}"
        try:
            (folder / f"{own}.cubin").write_bytes(assemble(edited, plan.target.architecture))
        except AssemblyFailed:
            continue
        found.append({"name": own, "kind": kind, "line": line, "said": said(plan, edited)})
    return found


def plain(folder: Path, start: int, stop: int) -> None:
    """Run plans, one line of JSON each."""
    from bench.gpu.products import Runner  # noqa: PLC0415

    entries = json.loads((folder / "pipelines.json").read_text())
    for index in range(start, min(stop, len(entries))):
        found = Runner(folder, entries[index]).check(RUNS)
        print(json.dumps({"done": index, "found": found}), flush=True)
        if found:
            return


def broken(folder: Path, index: int, name: str) -> None:
    """Run one kernel with a planted fault; print what is wrong, or that nothing is."""
    from bench.gpu.products import Runner  # noqa: PLC0415

    entry = json.loads((folder / "pipelines.json").read_text())[index]
    runner = Runner(folder, {**entry, "name": name})

    def give_up() -> None:
        print("hang", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    watch = threading.Timer(HANG_SECONDS, give_up)
    watch.daemon = True
    watch.start()
    print(runner.check(MUTANT_RUNS) or "right", flush=True)
    watch.cancel()


def _process(words: list[str], seconds: int) -> tuple[str, str, bool]:
    """Return what a child printed on both streams, and whether it had to be killed."""
    command = [sys.executable, "-m", "bench.gpu.pipelines", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            return (*process.communicate(timeout=seconds), False)
        except subprocess.TimeoutExpired:
            process.kill()
            return (*process.communicate(), True)


def _chunk(folder: Path, start: int, stop: int) -> dict[int, str]:
    """Return what is wrong with each plan of a chunk, going on behind one that fails."""
    found: dict[int, str] = {}
    while start < stop:
        out, errors, hung = _process(["plain", str(folder), str(start), str(stop)], CHUNK_SECONDS)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"done"')]
        found |= {line["done"]: line["found"] for line in lines}
        start += len(lines)
        if start < stop and not (lines and lines[-1]["found"]):
            found[start] = "hang" if hung else f"died: {errors[-200:]}"
            start += 1
    return found


def _outcome(folder: Path, index: int, name: str) -> str:
    out, errors, hung = _process(["broken", str(folder), str(index), name], MUTANT_SECONDS)
    if hung:
        return f"no answer in {MUTANT_SECONDS} s"
    if "hang" in out:
        return "hang"
    if "right" in out:
        return "right"
    if out.strip():
        return "wrong"
    # The driver's own name of the error, or torch's words for it.
    error = re.search(r"CUDA_ERROR_\w+|CUDA error: ([^\n]+)", errors)
    return f"fault: {error[1] or error[0]}" if error else f"died: {errors[-200:]}"


def run(folder: Path) -> int:
    """Run all; return 0 if the GPU agrees."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    entries = json.loads((folder / "pipelines.json").read_text())
    begin = time.time()
    with ThreadPoolExecutor(WORKERS) as pool:
        starts = range(0, len(entries), CHUNK)
        parts = pool.map(lambda start: _chunk(folder, start, min(start + CHUNK, len(entries))), starts)
        plans = {index: what for part in parts for index, what in part.items()}
    failed = {entries[i]["operator"]: what for i, what in plans.items() if what}
    plan_seconds = time.time() - begin
    mutants = [(i, mutant) for i, entry in enumerate(entries) for mutant in entry.get("mutants", ())]
    with ThreadPoolExecutor(MUTANT_WORKERS) as pool:
        outcomes = list(pool.map(lambda one: _outcome(folder, one[0], one[1]["name"]), mutants))
    rows = [
        {"kernel": entries[i]["operator"], "kind": m["kind"], "line": m["line"], "said": m["said"], "outcome": outcome}
        for (i, m), outcome in zip(mutants, outcomes, strict=True)
    ]
    missed = [row for row in rows if row["outcome"] != "right" and not row["said"]]
    harmful = [row for row in rows if row["outcome"] != "right"]
    report = {
        "question": "do checked pipelines run, and do broken ones fail as predicted",
        "machine": machine(),
        "plans": len(entries),
        "runs_each": RUNS,
        "failed": failed,
        "plan_seconds": round(plan_seconds, 1),
        "mutants": len(rows),
        "kinds": len({row["kind"] for row in rows}),
        "outcomes": dict(Counter(r["outcome"].partition(":")[0] for r in rows)),
        "harmful_on_the_gpu": len(harmful),
        "harmful_and_not_flagged": missed,
        "flagged_and_right_on_the_gpu": sum(1 for r in rows if r["said"] and r["outcome"] == "right"),
        "seconds": round(time.time() - begin, 1),
        "rows": rows,
    }
    Path(os.environ.get("OUT", folder), "pipelines.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: value for name, value in report.items() if name != "rows"}, indent=1))
    return 1 if failed or missed else 0


def main(arguments: list[str]) -> int:
    """Run the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder), PLANS)
        case ["prepare", folder, plans]:
            prepare(Path(folder), int(plans))
        case ["run", folder]:
            return run(Path(folder))
        case ["plain", folder, start, stop]:
            plain(Path(folder), int(start), int(stop))
        case ["broken", folder, index, name]:
            broken(Path(folder), int(index), name)
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
