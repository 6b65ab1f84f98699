"""Are registers of kernels' roles predicted? Compares predictions with machine code, role by role.

Run `python -m bench.kernels.registers [--seed N] [--backend ptx] [--fit] [WORD...]`; with words, of kernels alone that
have them all in their names. Needs nvcc, CuTe's headers and nvdisasm, or ptxas and nvdisasm, and no GPU. The kernels
are drawn by the seed of what `bench.gpu.gemm`, `dense` and `members` time: of each product the first, and two others
that are predicted to take up to so many times as long; and of classes of `bench.kernels.conformance`, which have what
products seldom take. What a role uses is the highest register of its code, from setmaxnreg to the exit. Constants of
the prediction were fitted to kernels of another seed, FITTED (--fit says which suit those of a seed best). Writes
bench/results/registers.json where neither words nor another backend are given.

Exit code 1 if fewer than 95% of the kernels are within 8 in both roles, or one spills.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from typing import Any

from bench.gpu.dense import MOST_LISTED, drawn
from bench.gpu.gemm_shapes import illegal, legal, narrow, product_of
from bench.gpu.member_cases import cases, operator_of
from bench.kernels.conformance import classes
from bench.machine import RESULTS, write
from legalsat.analyses.sass.roles import RoleRegisters, role_registers
from legalsat.analyses.sass.text import parse
from legalsat.backends import refusal_of
from legalsat.backends.cute.compile import cubin_of, nvcc_version
from legalsat.backends.cute.product import emit
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.disassemble import disassemble
from legalsat.backends.ptx.persistent import emit as emit_ptx
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.kernels.product_maps import stored_type
from legalsat.extract.kernels.registers import BESIDE, SPREAD, Beside, predicted
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import every as every_operation
from legalsat.program.pipeline import Registers
from legalsat.targets import target

RESULT = RESULTS / "registers.json"
GPU = target("h200")
FITTED, SEED = 1129, 2207
SHARE = 0.95
COLUMNS = "of consumers: predicted, used, off, given; of the producer the same; spills; kind; kernel"
ROUNDS = 40  # of the fit, in each of which every constant may move
WITHIN = (1.2, 3.0)  # of the best predicted time: kernels beside the first
LISTS = {"legal": (legal, 4), "narrow": (narrow, 1), "illegal": (illegal, 6)}  # of `bench.gpu.gemm`, and how many
RANDOM = {"legal": ("bf16", False, 5), "narrow": ("e4m3", False, 3), "illegal": ("bf16", True, 14)}  # of `dense`
RANDOM |= {"illegal and narrow": ("e4m3", True, 4)}
SHARED_OUT = "stream-K"
RANDOM |= {f"{SHARED_OUT}, illegal": ("bf16", True, 8), f"{SHARED_OUT}, legal": ("bf16", False, 4)}
MEMBERS = {"bmm": 5, "drawn": 8, "grouped": 3, "odd": 4, "gradients": 2, "clipped": 4, "scaled": 2, "loose": 4}
CLASSES = 30


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

    def off(self, beside: Beside = BESIDE) -> tuple[int, int]:
        """Return how far predictions lie above what is used."""
        consumer, producer = self.predicted(beside)
        return consumer - self.used[0], producer - self.used[1]

    def predicted(self, beside: Beside = BESIDE) -> tuple[int, int]:
        """Return the registers of both roles as they are predicted."""
        size, scaled = stored_type(self.gemm, self.kernel).bytes, self.gemm.scaled == "rows"
        return predicted(self.kernel, size, scaled=scaled, beside=beside)

    def within(self, beside: Beside = BESIDE) -> bool:
        """Whether both roles are predicted well enough."""
        return max(map(abs, self.off(beside))) <= SPREAD


def products(seed: int) -> Iterator[tuple[str, Gemm]]:
    """Yield products that benches time, drawn by a seed, with their kind."""
    rng = random.Random(seed)
    for kind, (listed, count) in LISTS.items():
        yield from ((kind, product_of(shape)) for shape in rng.sample(listed(), count))
    for kind, (dtype, odd, count) in RANDOM.items():
        yield from ((kind, product_of(shape)) for shape in drawn(seed, count, dtype, illegal=odd))
    for kind, count in MEMBERS.items():
        yield from ((kind, operator_of(case)) for case in rng.sample(list(cases(kind, seed)), count))


def kernels(seed: int) -> Iterator[tuple[str, Gemm, ProductKernel]]:
    """Yield kernels drawn by a seed: a product's first one, others of it, then some of all classes."""
    rng = random.Random(seed)
    for kind, gemm in products(seed):
        every = each_kernel(gemm, GPU)
        if kind == "loose":
            every = (one for one in every if any(one[1].loose))
        if kind.startswith(SHARED_OUT):
            every = (one for one in every if one[1].stream_k)
        listed = list(islice(every, MOST_LISTED))
        for n, share in enumerate((1.0, *WITHIN)):
            near = [kernel for ns, kernel in listed[n:] if ns <= share * listed[0][0]]
            if near:
                yield kind, gemm, near[0] if n == 0 else rng.choice(near)
    for gemm, kernel in rng.sample(list(classes().values()), CLASSES):
        yield "class", gemm, kernel


def roles_of(code: str, gemm: Gemm, kernel: ProductKernel) -> list[RoleRegisters]:
    """Return what a kernel's roles use in its machine code, in the order of its program: consumers, producer, others.

    Some give back as many registers as others do; their code lies in the program's order then.
    """
    (parsed,) = parse(code).kernels
    found, roles = [*role_registers(parsed)], list[RoleRegisters]()
    for role in printed_program(kernel, stored_type(gemm, kernel).bytes).roles:
        (asked,) = [op for op in every_operation(role.body) if isinstance(op, Registers)]
        mine = next(one for one in found if (one.takes, one.given) == (asked.more, asked.count))
        found.remove(mine)
        roles.append(mine)
    return roles


def compared(
    drawn_kernels: Iterable[tuple[str, Gemm, ProductKernel]], backend: str = "cute"
) -> Iterator[tuple[str, Compared]]:
    """Yield comparisons with their kind, each as soon as its text is compiled, of texts that differ."""
    seen, refusal = set[str](), refusal_of(backend)
    for kind, gemm, kernel in drawn_kernels:
        if refusal(gemm, kernel):
            continue
        text = emit_ptx(gemm, kernel) if backend == "ptx" else emit(gemm, kernel)
        if text not in seen:
            seen.add(text)
            cubin = assemble(text, GPU.architecture) if backend == "ptx" else cubin_of(text, GPU.architecture)
            consumer, producer, *others = roles_of(disassemble(cubin), gemm, kernel)
            spills = sum(one.spills for one in (consumer, producer, *others))
            yield kind, Compared(gemm, kernel, (consumer.used, producer.used), spills)


def fitted(found: Sequence[Compared]) -> Beside:
    """Return constants that leave fewest kernels outside, then the least squares: each moves while that helps."""

    def badness(beside: Beside) -> tuple[int, int]:
        return sum(not one.within(beside) for one in found), sum(n * n for one in found for n in one.off(beside))

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


def _row(kind: str, one: Compared) -> str:
    roles = zip(one.predicted(), one.used, one.off(), one.kernel.registers, strict=True)
    shown = "   ".join(f"{guess:4} {real:4} {off:+4} {given:4}" for guess, real, off, given in roles)
    return f"{shown}   {one.spills:4} {kind:18} {one.name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--backend", choices=("cute", "ptx"), default="cute")
    parser.add_argument("--fit", action="store_true", help="say which constants suit these kernels best")
    given = parser.parse_args(arguments)
    print(COLUMNS)
    chosen = (
        (kind, gemm, kernel)
        for kind, gemm, kernel in kernels(given.seed)
        if all(word in Compared(gemm, kernel, (0, 0), 0).name for word in given.words)
    )
    found, rows = list[tuple[str, Compared]](), list[str]()
    for kind, one in compared(chosen, given.backend):
        found.append((kind, one))
        rows.append(_row(kind, one))
        print(rows[-1], flush=True)
    every = [one for _, one in found]
    names = dict.fromkeys(kind for kind, _ in found)
    kinds = {name: summary([one for kind, one in found if kind == name]) for name in names}
    for name, numbers in {"all": summary(every), **kinds}.items():
        print(name, numbers)
    if given.fit:
        print(fitted(every))
    if not given.words and given.backend == "cute" and given.seed == SEED:
        constants = {
            "nvcc": nvcc_version(),
            "seed": SEED,
            "fitted to those of seed": FITTED,
            "constants": asdict(BESIDE),
        }
        write(RESULT, {**constants, "all": summary(every), "kinds": kinds, "columns": COLUMNS, "kernels": rows})
    return int(any(one.spills for one in every) or summary(every).get("share", 1) < SHARE)


if __name__ == "__main__":
    sys.exit(main())
