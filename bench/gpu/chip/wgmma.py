"""Does wgmma read what LegalSAT's matrix descriptors say, on the GPU itself?

    python -m bench.gpu.chip.wgmma prepare FOLDER    # where LegalSAT is: kernels, maps and descriptors as plain numbers
    python -m bench.gpu.chip.wgmma run FOLDER        # where the GPU is: numpy and a driver are enough
    python -m bench.gpu.chip.wgmma                   # both

Three questions. Every legal combination of types, majors, swizzles, columns and source of A: loaded by the copy engine
as planned, multiplied, compared with float64. Wrong descriptors that rules refuse, each in a process of its own: they
must give wrong numbers or fault. Single reads of any descriptor: does each element come from the address that
`legalsat.analyses.matrix_layout.read_addresses` computes?

Writes wgmma.json and observed.npz (the element that each single read brought) into $OUT, else into FOLDER. Exit status
1 if a combination is wrong or a refused descriptor right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

WORKERS = 4
CHILD_SECONDS = 120
WRONG_SECONDS = 60
MOST_FAULTS = 20  # then something else is broken
WRONG = ("wrong", "CUDA_ERROR", "no answer")  # how an outcome begins that shows a descriptor to be wrong


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    from bench.gpu.chip import wgmma_kernels, wgmma_plans  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import assemble  # noqa: PLC0415
    from legalsat.units.wgmma import Wgmma  # noqa: PLC0415

    begin = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    kernels = wgmma_plans.kernels()

    def build(module: str) -> None:
        text = wgmma_kernels.module(
            [
                wgmma_kernels.kernel(name, instruction, majors, from_registers=from_registers)
                for name, instruction, majors, from_registers in kernels[module]
            ]
        )
        (folder / f"{module}.cubin").write_bytes(assemble(text, "sm_90a"))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, kernels))
    combinations = list(wgmma_plans.combinations())
    wrong: list[dict[str, Any]] = []
    written: dict[str, Any] = {}
    for case in wgmma_plans.wrong_descriptors():
        launch, places = wgmma_plans.wrong_launch(case)
        if places is not None:
            written[str(len(wrong))] = places
        wrong.append(launch)
    fragments = {f"a_{one.bits}": one.a_fragment for one in (Wgmma(8, name) for name in ("fp16", "tf32", "i8"))}
    sums = {f"d_{n}": Wgmma(n, "fp16").d_fragment for n in wgmma_plans.N}
    tables: dict[str, Any] = {
        name: layout.offsets().reshape((128, -1), order="F").astype(np.int32)
        for name, layout in (fragments | sums).items()
    }
    constants = {
        "image": wgmma_kernels.IMAGE,
        "image_bytes": wgmma_kernels.IMAGE_BYTES,
        "shared_bytes": wgmma_kernels.SHARED_BYTES,
        "registers": {name: one.d_registers for module in kernels.values() for name, one, *_ in module},
        "kinds": list(wgmma_plans.KINDS),
        "ptx_kernels": sum(map(len, kernels.values())),
    }
    (folder / "combinations.json").write_text(json.dumps(combinations))
    (folder / "wrong.json").write_text(json.dumps(wrong))
    (folder / "constants.json").write_text(json.dumps(constants))
    np.savez_compressed(folder / "tables.npz", **tables)
    np.savez_compressed(folder / "written.npz", **written)
    probes: dict[str, Any] = wgmma_plans.probes()
    np.savez_compressed(folder / "probes.npz", **probes)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(
        f"{len(combinations)} combinations in {constants['ptx_kernels']} kernels, {len(wrong)} wrong descriptors, "
        f"{len(probes['word'])} single reads; {size / 2**20:.1f} MB, {time.time() - begin:.0f} s"
    )


def child(folder: Path, what: str, start: int) -> None:
    """Go through one part from number `start` on; one line of JSON each, so that a fault loses one only."""
    from bench.gpu.chip.wgmma_device import Bench  # noqa: PLC0415

    bench = Bench(folder)
    if what == "wrong":
        launch = json.loads((folder / "wrong.json").read_text())[start]
        places = np.load(folder / "written.npz")
        print(json.dumps({"done": start, "found": bench.wrong(launch, places.get(str(start)))}), flush=True)
    elif what == "probes":
        observed = np.lib.format.open_memmap(_out(folder) / "observed.npy", mode="r+")
        try:
            bench.probe(start, observed)
        finally:
            observed.flush()
    else:
        for i, launch in enumerate(json.loads((folder / "combinations.json").read_text())[start:], start):
            print(json.dumps({"done": i, "found": bench.check(launch)}), flush=True)


def _out(folder: Path) -> Path:
    return Path(os.environ.get("OUT", folder))


def _child(folder: Path, what: str, start: int, seconds: int) -> tuple[list[dict[str, Any]], str]:
    """Return the lines of a child and why it ended, "" for well."""
    command = [sys.executable, "-m", "bench.gpu.chip.wgmma", "child", str(folder), what, str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
            why = err.strip().splitlines()[-1][-300:] if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            why = f"no answer within {seconds} s"
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], why


def check_combinations(folder: Path, count: int) -> dict[int, Any]:
    """Return (exact, worst error, bound), or why it failed, of every combination."""
    found: dict[int, Any] = {}
    faults = 0
    while len(found) < count and faults < MOST_FAULTS:
        at = len(found)
        lines, why = _child(folder, "combinations", at, CHILD_SECONDS)
        found.update({line["done"]: line["found"] for line in lines})
        if len(found) < count:
            found[len(found)] = why or "ended early"
            faults += 1
    return found | dict.fromkeys(range(len(found), count), "not run")


def check_wrong(folder: Path, count: int) -> list[str]:
    """Return what every wrong descriptor did, each in its own process."""

    def one(index: int) -> str:
        lines, why = _child(folder, "wrong", index, WRONG_SECONDS)
        return str(lines[0]["found"]) if lines else why

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, range(count)))


def check_probes(folder: Path) -> dict[str, Any]:
    """Return how many single reads brought what the model says, by kind, and the cells that differ."""
    probes = dict(np.load(folder / "probes.npz"))
    count, path = len(probes["word"]), _out(folder) / "observed.npy"
    never = 65534
    observed = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint16, shape=probes["expected"].shape)
    observed[:] = never
    observed.flush()
    faults: dict[int, str] = {}
    at = 0
    while at < count and len(faults) < MOST_FAULTS:
        _, why = _child(folder, "probes", at, CHILD_SECONDS)
        done = np.load(path)[:, 0, 0] != never
        at = count if done[-1] else int(np.flatnonzero(done)[-1]) + 1 if done.any() else 0
        if at < count:
            faults[at] = why
            view = np.lib.format.open_memmap(path, mode="r+")
            view[at] = 65535
            view.flush()
            at += 1
    seen = np.load(path)
    np.savez_compressed(_out(folder) / "observed.npz", observed=seen)
    path.unlink()
    kinds = json.loads((folder / "constants.json").read_text())["kinds"]
    equal = (seen == probes["expected"]).all(axis=(1, 2))
    groups: dict[str, list[int]] = {}
    for i in range(count):
        swizzle = ("none", "32B", "64B", "128B")[probes["fields"][i, 3]]
        for key in (
            kinds[probes["kind"][i]],
            f"{kinds[probes['kind'][i]]}; {('K', 'MN')[probes['major'][i]]} {swizzle}",
        ):
            groups.setdefault(key, []).append(int(equal[i]))
    table = {key: f"{sum(group)} of {len(group)}" for key, group in groups.items()}
    return {
        "reads": count,
        "equal_to_model": int(equal.sum()),
        "by_kind": {key: value for key, value in table.items() if ";" not in key},
        "cells_that_differ": {
            key: value for key, value in table.items() if ";" in key and sum(groups[key]) < len(groups[key])
        },
        "faults": faults,
    }


def run(folder: Path) -> int:
    """Answer the three questions; write wgmma.json."""
    begin = time.time()
    combinations = json.loads((folder / "combinations.json").read_text())
    wrong = json.loads((folder / "wrong.json").read_text())
    results = check_combinations(folder, len(combinations))
    rows, bad = [], []
    worst: dict[str, list[float]] = {}
    for i, launch in enumerate(combinations):
        found = results[i]
        right = isinstance(found, list) and found[0] and found[1] <= found[2]
        label = ["/".join(launch["types"]), *launch["majors"], launch["swizzles"][0] or "registers"]
        rows.append([*label, launch["swizzles"][1], launch["n"], "right" if right else found])
        if isinstance(found, list):
            held = worst.setdefault(label[0], [0.0, found[2]])
            held[0] = max(held[0], found[1])
        if not right:
            bad.append(rows[-1])
    seconds = {"combinations": time.time() - begin}
    begin = time.time()
    outcomes = check_wrong(folder, len(wrong))
    seconds["wrong"] = time.time() - begin
    begin = time.time()
    reads = check_probes(folder)
    seconds["reads"] = time.time() - begin
    refused = [
        {
            "what": launch["what"],
            "type": launch["types"][0],
            "tile": launch["tile"],
            "n": launch["n"],
            "told": {**launch["told"], "major": launch["majors"][1]},
            "codes": launch["codes"],
            "outcome": outcome,
        }
        for launch, outcome in zip(wrong, outcomes, strict=True)
    ]
    report = {
        "question": "does wgmma read what the matrix descriptors say, and not what refused ones say",
        "machine": _machine(),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "combinations": len(combinations),
        "right": len(combinations) - len(bad),
        "wrong": bad[:50],
        "worst_error_and_bound_in_sums_of_products": worst,
        "refused": len(refused),
        "refused_outcomes": dict(Counter(one["outcome"].split(":")[0] for one in refused)),
        "refused_and_not_wrong": [one for one in refused if not one["outcome"].startswith(WRONG)],
        "single_reads": reads,
        "refused_descriptors": refused,
        "columns": ["types", "major of A", "major of B", "swizzle of A", "swizzle of B", "n", "result"],
        "rows": rows,
    }
    (_out(folder) / "wgmma.json").write_text(_compact(report))
    print(_compact({k: v for k, v in report.items() if k not in {"rows", "refused_descriptors"}}))
    return 1 if bad or report["refused_and_not_wrong"] else 0


def _machine() -> dict[str, Any]:
    from bench.gpu.machine import machine  # noqa: PLC0415

    return machine()


def _compact(report: dict[str, Any]) -> str:
    """Return JSON with one row a line."""
    plain = {key: value for key, value in report.items() if key not in {"rows", "refused_descriptors"}}
    text = json.dumps(plain, indent=1)[:-2]
    for key in ("refused_descriptors", "rows"):
        if key in report:
            text += f',\n "{key}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in report[key]) + "\n ]"
    return text + "\n}\n"


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case ["child", folder, what, start]:
            child(Path(folder), what, int(start))
            return 0
        case []:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                return run(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
