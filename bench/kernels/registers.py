"""Are registers of kernels' roles predicted? Compares predictions with machine code, role by role.

Run `python -m bench.kernels.registers [--first N] [--fit] [WORD...]`; with words, of kernels alone that have them all
in their names. Needs nvcc, CuTe's headers and nvdisasm, and no GPU. The kernels are those that `bench.gpu.gemm` times,
the first N of each product, and one of each class of `bench.kernels.conformance`. What a role uses is the highest
register of its code, from setmaxnreg to the exit. Constants of the prediction were fitted to half of the kernels (--fit
shows by which); the others judge it. Writes bench/results/registers.json unless words are given.

Exit code 1 if fewer than 95% of the kernels are within 8 in both roles, or one spills.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from bench.gpu.gemm import MOST
from bench.gpu.gemm_shapes import illegal, legal, narrow, product_of
from bench.kernels.conformance import classes
from bench.machine import RESULTS, write
from legalsat.analyses.sass.roles import RoleRegisters, role_registers
from legalsat.analyses.sass.text import parse
from legalsat.backends.cute.compile import cubin_of, nvcc_version
from legalsat.backends.cute.product import emit
from legalsat.backends.ptx.disassemble import disassemble
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.extract.kernels.registers import BESIDE, SPREAD, Beside, predicted
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target

RESULT = RESULTS / "registers.json"
GPU = target("h200")
SEED = 18
SHARE = 0.95
COLUMNS = "of consumers: predicted, used, off, given; of the producer the same; spills; half; kernel"
ROUNDS = 40  # of the fit, in each of which every constant may move


@dataclass(frozen=True)
class Compared:
    """A kernel: registers predicted and used, and instructions that access spilled ones; consumers first."""

    gemm: Gemm
    kernel: ProductKernel
    used: tuple[int, int]
    spills: int

    @property
    def name(self) -> str:
        """What it computes, and how."""
        return f"{self.gemm.dtype} to {self.gemm.out_dtype}, {self.kernel}"

    @property
    def fitted(self) -> bool:
        """Whether constants were fitted to it: about half are, by a hash of seed and name."""
        return hashlib.sha256(f"{SEED} {self.name}".encode()).digest()[0] % 2 == 0

    def off(self, beside: Beside = BESIDE) -> tuple[int, int]:
        """Return how far predictions lie above what is used."""
        consumer, producer = predicted(self.kernel, stored_type(self.gemm, self.kernel).bytes, beside)
        return consumer - self.used[0], producer - self.used[1]

    def within(self, beside: Beside = BESIDE) -> bool:
        """Whether both roles are predicted well enough."""
        return max(map(abs, self.off(beside))) <= SPREAD


def kernels(first: int) -> dict[str, tuple[Gemm, ProductKernel]]:
    """Return the benches' kernels by text: the first ones of each product, those of all classes, then further ones."""
    products = [product_of(shape) for shape in (*legal(), *narrow(), *illegal())]
    listed = [(gemm, [one for _, one in product_kernels(gemm, GPU, first)]) for gemm in products]
    best = [(gemm, found[0]) for gemm, found in listed if found]
    others = [(gemm, found[n]) for n in range(1, first) for gemm, found in listed if n < len(found)]
    texts: dict[str, tuple[Gemm, ProductKernel]] = {}
    for gemm, kernel in (*best, *classes().values(), *others):
        texts.setdefault(emit(gemm, kernel), (gemm, kernel))
    return texts


def used(text: str) -> dict[bool, RoleRegisters]:
    """Return what roles use in the machine code of a text: consumers, which take registers, and the producer."""
    (kernel,) = parse(disassemble(cubin_of(text, GPU.architecture))).kernels
    return {one.takes: one for one in role_registers(kernel)}


def compared(texts: dict[str, tuple[Gemm, ProductKernel]]) -> Iterator[Compared]:
    """Yield comparisons, each as soon as its text is compiled."""
    for text, (gemm, kernel) in texts.items():
        roles = used(text)
        spills = sum(one.spills for one in roles.values())
        yield Compared(gemm, kernel, (roles[True].used, roles[False].used), spills)


def fitted(found: Iterable[Compared]) -> Beside:
    """Return constants that leave fewest kernels outside, then the least squares: each moves while that helps."""
    half = [one for one in found if one.fitted]

    def badness(beside: Beside) -> tuple[int, int]:
        return sum(not one.within(beside) for one in half), sum(n * n for one in half for n in one.off(beside))

    best = BESIDE
    for _ in range(ROUNDS):
        moved = [replace(best, **{f.name: getattr(best, f.name) + by}) for f in fields(best) for by in (-3, -1, 1, 3)]
        better = min(moved, key=badness)
        if badness(better) >= badness(best):
            break
        best = better
    return best


def summary(found: Sequence[Compared]) -> dict[str, Any]:
    """Return how many kernels are within, and how far predictions are off at worst."""
    if not found:
        return {"kernels": 0}
    offs = [one.off() for one in found]
    return {
        "kernels": len(found),
        "within": sum(one.within() for one in found),
        "share": round(sum(one.within() for one in found) / len(found), 4),
        "worst": {
            role: max((off[n] for off in offs), key=abs) for n, role in enumerate(("consumer", "producer"))
        },
        "spills": sum(one.spills > 0 for one in found),
    }  # fmt: skip


def _row(one: Compared) -> str:
    roles = zip(
        predicted(one.kernel, stored_type(one.gemm, one.kernel).bytes),
        one.used,
        one.off(),
        one.kernel.registers,
        strict=True,
    )
    shown = "   ".join(f"{guess:4} {real:4} {off:+4} {given:4}" for guess, real, off, given in roles)
    return f"{shown}   {one.spills:4} {'fitted' if one.fitted else 'judged'}  {one.name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--first", type=int, default=MOST, help=f"kernels of each product, {MOST} when left out")
    parser.add_argument("--fit", action="store_true", help="say which constants suit the half that is fitted best")
    given = parser.parse_args(arguments)
    print(COLUMNS)
    chosen = {
        text: (gemm, kernel)
        for text, (gemm, kernel) in kernels(given.first).items()
        if all(word in Compared(gemm, kernel, (0, 0), 0).name for word in given.words)
    }
    found, rows = list[Compared](), list[str]()
    for one in compared(chosen):
        found.append(one)
        rows.append(_row(one))
        print(rows[-1], flush=True)
    halves = {
        "all": summary(found),
        "judged": summary([one for one in found if not one.fitted]),
        "fitted": summary([one for one in found if one.fitted]),
    }
    for name, numbers in halves.items():
        print(name, numbers)
    if given.fit:
        print(fitted(found))
    if not given.words:
        constants = {"nvcc": nvcc_version(), "seed": SEED, "first of each product": given.first}
        write(RESULT, {**constants, "constants": asdict(BESIDE), **halves, "columns": COLUMNS, "kernels": rows})
    return int(any(one.spills for one in found) or halves["all"].get("share", 1) < SHARE)


if __name__ == "__main__":
    sys.exit(main())
