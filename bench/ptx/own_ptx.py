"""How much of what this library prints does the check of PTX prove, told nothing but the text?

    python -m bench.ptx.own_ptx [--processes N] [--products N] [--plans N] [--out FOLDER] [--texts FOLDER] [WORD...]

Every class of products that `bench.kernels.conformance` compares, by the backends "ptx" and "cute", or so many of each
drawn at random (--products); and the texts of random movements that `bench.kernels.movement_conformance` compares, in
PTX; those whose names have all words. nvcc and Triton are needed, and no GPU. Each is checked as `legalsat check` does
it. With --texts the PTX is written to a folder, or read from there if it is there.

Exit status 1 if an error is reported, or if fewer than 95 % are proven.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench import pool
from bench.kernels.conformance import classes, ptx_of
from bench.machine import write
from legalsat.backends.cute.product import emit
from legalsat.backends.ptx.persistent import emit as emit_ptx
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.runtime import Cache

PLANS, SEED = 120, 11  # of movements: those of docs/pipelines.md
LEAST = 0.95  # of all that is proven
TEXTS = "texts.json"
Made = tuple[str, Callable[[], str]]


def products(count: int | None) -> Iterator[Made]:
    """Yield the classes of products by name, all or so many by each backend, and what prints each."""
    for backend in ("ptx", "cute"):
        found = classes(backend=backend)
        for name in found if count is None else Random(SEED).sample(list(found), min(count, len(found))):
            gemm, kernel = found[name]
            by_cute = partial(_by_cute, gemm, kernel)
            yield f"product by {backend}: {name}", partial(emit_ptx, gemm, kernel) if backend == "ptx" else by_cute


def _by_cute(gemm: Any, kernel: Any) -> str:
    return ptx_of(emit(gemm, kernel), Cache.default())


def movements(count: int) -> Iterator[Made]:
    """Yield texts of random plans of movements."""
    from bench.kernels.movement_conformance import chosen, kind_of, texts  # noqa: PLC0415 - imports Triton
    from legalsat.backends.triton import program as triton  # noqa: PLC0415

    r, plans = Random(SEED), 0
    while plans < count:
        plan = chosen(r)
        if plan is None:
            continue
        plans += 1
        for backend, made in texts(plan):
            make = partial(ptx_of, made.text, Cache.default()) if backend == "cute" else partial(triton.ptx_of, made)
            yield f"movement {plans}: {kind_of(plan, backend)}", make


def judged(one: tuple[str, str]) -> dict[str, Any]:
    """Return what the check says of a text."""
    found = check_ptx(one[1])
    answer = "error" if found.findings else "proven" if found.proven else "not proven"
    return {
        "answer": answer,
        "says": [f"line {f.line}: {f.message}" for f in found.findings]
        + [f"line {u.line}: {u.reason}" for u in found.unproven],
        "conditions": [str(one) for kernel in found.kernels for one in kernel.conditions],
        "runs": sum(kernel.runs for kernel in found.kernels),
        "seconds": round(sum(kernel.seconds for kernel in found.kernels), 2),
    }


def listed(options: argparse.Namespace) -> dict[str, str]:
    """Return the texts by name: those of a folder, or made in several processes and written there."""
    file = options.texts / TEXTS if options.texts else None
    if file is not None and file.exists():
        held: dict[str, str] = json.loads(file.read_text())
        return held
    made = dict([*products(options.products), *movements(options.plans)])
    made = {name: one for name, one in made.items() if all(word in name for word in options.words)}
    found: dict[str, str] = {}
    for name, text in pool.done(lambda name: made[name](), list(made), pool.limits_of(options)):
        if isinstance(text, Exception):
            print(f"not made: {name}: {text}", flush=True)
        else:
            found[name] = text
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--products", type=int, help="classes by each backend; all of them when left out")
    parser.add_argument("--plans", type=int, default=PLANS)
    parser.add_argument("--texts", type=Path)
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    texts = listed(options)
    rows: dict[str, dict[str, Any]] = {}
    longest = sorted(texts.items(), key=lambda one: -len(one[1]))
    for (name, _), row in pool.done(judged, longest, pool.limits_of(options)):
        rows[name] = row if isinstance(row, dict) else {"answer": "no answer", "says": [str(row)], "seconds": 0.0}
        print(f"{rows[name]['answer']:10} {rows[name]['seconds']:6.2f} s  {name}  {rows[name]['says'][:1]}", flush=True)
    counts = Counter(row["answer"] for row in rows.values())
    kinds: dict[str, Counter[str]] = {}
    for name, row in rows.items():
        kinds.setdefault(name.partition(":")[0].rstrip("0123456789 "), Counter())[row["answer"]] += 1
    found: dict[str, Any] = {
        "question": "how much of what this library prints does the check of PTX prove, told nothing but the text",
        "texts": len(rows),
        **counts,
        "by kind": kinds,
        "most_s": max((row["seconds"] for row in rows.values()), default=0.0),
        "others": {name: row["says"] for name, row in sorted(rows.items()) if row["answer"] != "proven"},
    }
    print(json.dumps(found, indent=1))
    if options.out:
        write(options.out / "own_ptx.json", {**found, "rows": dict(sorted(rows.items()))})
    return int(bool(counts["error"]) or counts["proven"] < LEAST * len(rows))


if __name__ == "__main__":
    sys.exit(main())
