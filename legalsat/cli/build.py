"""The command `build`: kernels of a set of products, compiled ahead."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from legalsat.cli import DONE, REFUSED, Answer
from legalsat.cli.arguments import whole
from legalsat.cli.sweep import cut, fitted
from legalsat.errors import InvalidInput
from legalsat.operators.gemm import Gemm
from legalsat.runtime.build import Built
from legalsat.runtime.build import build as run_build
from legalsat.runtime.cache import cache_folder
from legalsat.runtime.packs import VARIABLE
from legalsat.sweeps.problem import Problem
from legalsat.sweeps.tables import listed
from legalsat.targets import target as as_target
from legalsat.view.look import Look

NAMES = {"llm": "llm_gemm"}  # short for a catalogue
MOST_SHOWN = 8  # reasons


def build(args: Namespace) -> Answer:
    """Compile the kernels of all products of a file or a catalogue."""
    target, source = as_target(args.target), NAMES.get(args.pack, args.pack)
    workers = None if args.workers is None else whole(args.workers, "--workers")
    kernels = 1 if args.kernels is None else whole(args.kernels, "--kernels")
    skipped: dict[str, int] = {}
    products = list(dict.fromkeys(_products(source, skipped)))
    if not products:
        raise InvalidInput(f"{args.pack} has no products; give a file with rows of the operator gemm, or llm")
    show = None if args.json or not sys.stderr.isatty() else _progress
    found = run_build(products, target, pack=args.out, kernels=kernels, workers=workers, on_progress=show)
    data = {**asdict(found), "target": target.name, "pack": args.out, "left_out": skipped}
    return Answer(data, lambda look: _said(found, args, skipped, look), REFUSED if found.refused else DONE)


def _products(source: str, skipped: dict[str, int]) -> Iterator[Gemm]:
    """Yield products of a set; how many others there are, by operator, goes to `skipped`."""
    for _, one, _ in listed(source):
        product = one.operator.as_product if isinstance(one, Problem) else None
        if product is not None:
            yield product
        elif one is not None:
            kind = str(dict(one.fields)["operator"]) if isinstance(one, Problem) else "invalid rows"
            skipped[kind] = skipped.get(kind, 0) + 1


def _progress(done: int, count: int) -> None:
    end = "\n" if done == count else ""
    print(f"\r{done} of {count} kernels compiled", end=end, file=sys.stderr, flush=True)


def _said(found: Built, args: Namespace, skipped: dict[str, int], look: Look) -> str:
    title = f"{found.products} products of {args.pack} for {args.target}: {found.texts} kernels"
    lines = [look.paint(cut(title), "title"), "", f"compiled in {found.seconds:.0f} s by nvcc: {found.compiler}"]
    if args.out is None:
        folder = cache_folder()
        kept = f"kept in {folder}" if folder is not None else "nothing was kept, as LEGALSAT_CACHE is off"
        lines.append(f"{kept}; {found.bytes / 1e6:.1f} MB")
    else:
        lines.append(f"pack: {args.out}, {found.bytes / 1e6:.1f} MB")
        lines.append(f"used where {VARIABLE} names it: export {VARIABLE}={Path(args.out).absolute()}")
    if skipped:
        rows = ", ".join(f"{count} of {kind}" for kind, count in skipped.items())
        lines.append(f"left out, as they are no products of one type: {rows}")
    if found.refused:
        lines += [
            "",
            look.paint(f"{len(found.refused)} without a kernel", "title"),
            *fitted(found.refused[:MOST_SHOWN]),
        ]
        more = len(found.refused) - MOST_SHOWN
        lines += [f"  and {more} more; --json lists all"] if more > 0 else []
    return "\n".join(lines)
