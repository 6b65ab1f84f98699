"""Rules of one wgmma instruction: its types, its shape, which operands it can turn, and where A may come from."""

from __future__ import annotations

from legalsat.logic import implies, multiple_of, within
from legalsat.rule import Requirements, Source, require
from legalsat.rules.wgmma import WGMMA
from legalsat.targets import WgmmaLimits
from legalsat.units.sites import WgmmaMultiply
from legalsat.units.wgmma import PAIRS, TURNED

_PTX = "PTX ISA 9.1, 9.7.15, wgmma.mma_async"
INTEGERS = ("i8", "u8")
FINE_N = 32  # up to here integers have every multiple of 8, then of 16
BITS = {"fp16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "i8": 8, "u8": 8}


@WGMMA.rule(
    "WGMMA007",
    Source(_PTX, "types").saying(".e4m3 and .e5m2 mix, .s8 and .u8 mix; other types stand beside themselves"),
    refused_by="hardware",
)
def wgmma_types_apart(multiply: WgmmaMultiply, wgmma: WgmmaLimits) -> Requirements:
    """A and B have one type, but 8-bit floats mix with each other, and signed 8-bit integers with unsigned ones.

    Sums are fp32, of fp16 and of 8-bit floats also fp16, and of integers i32.
    """
    partners, sums = PAIRS.get(multiply.a, ((), ()))
    yield require(
        multiply.b in partners,
        "wgmma multiplies no {a} by {b}",
        help="convert B to {partners}" if partners else "convert both operands to one of {types}",
        a=multiply.a,
        b=multiply.b,
        partners=" or ".join(partners),
        types=", ".join(PAIRS),
    )
    yield require(
        multiply.sums in sums or not partners,
        "wgmma sums {a} in no {sums}",
        help="take sums of {possible}",
        a=multiply.a,
        sums=multiply.sums,
        possible=" or ".join(sums),
    )


@WGMMA.rule(
    "WGMMA008",
    Source(_PTX, "n").saying("n from 8 to 256 in steps of 8; for integers 8, 16, 24, 32, 48 and on in steps of 16"),
    refused_by="hardware",
)
def wgmma_columns_illegal(multiply: WgmmaMultiply, wgmma: WgmmaLimits) -> Requirements:
    """One instruction has a multiple of 8 columns of C, up to 256; of integers above 32, a multiple of 16."""
    yield require(
        within(wgmma.n_step, multiply.n, wgmma.max_n) & multiple_of(multiply.n, wgmma.n_step),
        "{n} columns, no multiple of {step} from {step} to {most}",
        help="split C into columns of a multiple of {step}, at most {most}",
        n=multiply.n,
        step=wgmma.n_step,
        most=wgmma.max_n,
    )
    if multiply.a in INTEGERS:
        yield require(
            implies(multiply.n > FINE_N, multiple_of(multiply.n, 2 * wgmma.n_step)),
            "{n} columns of {a}, above {fine} and no multiple of {step}",
            help="round the columns up to a multiple of {step}",
            n=multiply.n,
            a=multiply.a,
            fine=FINE_N,
            step=2 * wgmma.n_step,
        )


@WGMMA.rule(
    "WGMMA009", Source(_PTX, "m, k").saying(".m64nNk8, .m64nNk16, .m64nNk32 by the type"), refused_by="hardware"
)
def wgmma_shape_illegal(multiply: WgmmaMultiply, wgmma: WgmmaLimits) -> Requirements:
    """One instruction has 64 rows of A, and as many elements of K as 32 bytes hold."""
    yield require(
        multiply.m == wgmma.m,
        "{m} rows of A, where one instruction has {rows}",
        help="give each warpgroup {rows} rows an instruction",
        m=multiply.m,
        rows=wgmma.m,
    )
    if multiply.a in BITS:
        yield require(
            multiply.k * BITS[multiply.a] == 8 * wgmma.k_bytes,
            "{k} elements of K, where one instruction on {a} has {elements}",
            help="split K into steps of {elements} elements",
            k=multiply.k,
            a=multiply.a,
            elements=8 * wgmma.k_bytes // BITS[multiply.a],
        )


@WGMMA.rule(
    "WGMMA010",
    Source(_PTX, "imm-trans-a, imm-trans-b").saying("transpose is supported only for .f16 and .bf16"),
    refused_by="hardware",
)
def wgmma_turns_no_such_type(multiply: WgmmaMultiply, wgmma: WgmmaLimits) -> Requirements:
    """Only operands of fp16 and bf16 may be MN-major; those of 8 and 32 bits are K-major."""
    for operand, major, element in (("A", multiply.a_major, multiply.a), ("B", multiply.b_major, multiply.b)):
        yield require(
            major == "K" or element in TURNED,
            "operand {operand} of {element} is {major}-major",
            help="store {operand} with K fastest, or transpose it first",
            operand=operand,
            element=element,
            major=major,
        )


@WGMMA.rule(
    "WGMMA011",
    Source(_PTX, "imm-trans-a").saying("imm-trans-a is there where both operands are in shared memory"),
    refused_by="hardware",
)
def wgmma_turns_no_registers(multiply: WgmmaMultiply, wgmma: WgmmaLimits) -> Requirements:
    """A from registers is held as the fragment says; nothing turns it on the way."""
    yield require(
        not (multiply.a_in_registers and multiply.a_major != "K"),
        "operand A comes from registers and is {major}-major",
        help="load A's fragments row by row, or leave A in shared memory",
        major=multiply.a_major,
    )
