"""Registers of roles: what machine code uses, what is predicted of a kernel, and the split that is solved of it."""

from __future__ import annotations

from itertools import product, takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import legalsat as ls
from bench.kernels.conformance import classes
from bench.kernels.registers import compared
from legalsat.analyses.sass.roles import RoleRegisters, highest, role_registers
from legalsat.analyses.sass.text import parse
from legalsat.backends.cute.compile import CompilationFailed, headers, nvcc
from legalsat.backends.ptx.disassemble import disassembler
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.registers import SPREAD, UNUSED, Work, of_consumers, of_producer, solved
from legalsat.program.kernel import Parts, ReadPeers, ReadRows, Tiles, every
from legalsat.program.pipeline import UseSums
from legalsat.targets import target

H200 = target("h200")
# Of a kernel that nvcc made, loops and addresses cut out: consumers fall through to where the producer's code begins,
# and one of them waits out of line.
TEXT = """
	.target	sm_90a
//--------------------- .text.product --------------------------
	.section	.text.product,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   IMAD.MOV.U32 R200, RZ, RZ, R1 ;
        /*0020*/               @P0 BRA `(.L_x_6) ;
.L_x_7:
        /*0030*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 ;
        /*0040*/                   PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0 ;
        /*0050*/              @!P0 BRA `(.L_x_7) ;
        /*0060*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0 ;
        /*0070*/              @!P0 BRA `(.L_x_8) ;
.L_x_9:
        /*0080*/                   HGMMA.64x96x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
        /*0090*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*00a0*/                   STG.E.128 desc[UR10][R2.64], R24 ;
.L_x_6:
        /*00b0*/                   ISETP.NE.AND P0, PT, R0, 0x1, PT ;
        /*00c0*/               @P0 EXIT ;
        /*00d0*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;
        /*00e0*/                   CS2R R18, SRZ ;
        /*00f0*/                   STL.64 [R1], R20 ;
        /*0100*/                   LDL.LU.64 R4, [R1] ;
        /*0110*/                   EXIT ;
.L_x_8:
        /*0120*/                   IMAD.U32 R90, RZ, RZ, UR7 ;
        /*0130*/                   SYNCS.PHASECHK.TRANS64 P1, [R90+URZ+0x1b880], R3 ;
        /*0140*/                   BRA `(.L_x_9) ;
"""


def test_roles_of_a_text() -> None:
    """By hand: 48 accumulators from R24 on; a pair in R20 that is spilled; R200 is used before roles part."""
    (kernel,) = parse(TEXT).kernels
    consumer, producer = RoleRegisters(True, 232, 91, 0), RoleRegisters(False, 24, 22, 2)
    assert role_registers(kernel) == (consumer, producer)
    (shorter,) = parse(TEXT.replace("R90", "R9")).kernels
    assert role_registers(shorter)[0].used == 24 + 48
    (wider,) = parse(TEXT.replace("96x16", "128x16").replace("R90", "R9")).kernels
    assert role_registers(wider)[0].used == 24 + 64


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("LDS.128 R12, [R3]", 15),
        ("STS.64 [R30+0x8], R4", 30),
        ("IMAD.WIDE R6, R2, 0x4, R40", 41),
        ("LDG.E R5, desc[UR4][R62.64]", 63),
        ("HGMMA.64x256x16.F32.BF16 R24, R152, gdesc[UR4], R24, gsb0", 155),
        ("HGMMA.64x64x16.F16 R24, gdesc[UR4], R24", 39),
        ("UIADD3 UR50, UR4, 0x1, URZ", -1),
        ("MOV R1, RZ", 1),
    ],
)
def test_highest_register_of_an_instruction(line: str, last: int) -> None:
    """64-bit values take two registers, vectors four, and a 64 x N tile of 32-bit sums N / 2."""
    (kernel,) = parse(f"/*0000*/ {line} ;").kernels
    assert highest(kernel.instructions[0]) == last


@settings(deadline=None)
@given(st.integers(1, 255), st.integers(1, 100), st.integers(1, 3), st.integers(1, 3), st.sampled_from((0, 8)))
@example(1, 87, 3, 3, 0)  # what is left for consumers is less than setmaxnreg gives at least
def test_split_is_the_best_there_is(consumer: int, producer: int, warpgroups: int, blocks: int, spare: int) -> None:
    """Beside every split that setmaxnreg allows: nobody gives consumers more, nor one where none is found.

    Where both can have some to spare, splits that do not give as many are not asked for.
    """
    # Registers come to a launch in steps of 8 a thread, as many for each; later the CTA shares them.
    each = H200.registers_per_processor // blocks // 128 // (warpgroups + 1) // 8 * 8
    pool = each * (warpgroups + 1)
    counts = range(24, 257, 8)
    allowed = [
        (c, p)
        for c, p in product(counts, counts)
        if c * warpgroups + p <= pool and c >= consumer + 2 and producer + 2 <= p <= each and c <= 232
    ]
    taken, kept_back = solved(consumer, producer, warpgroups, blocks, H200, spare=spare)
    found = int(taken), int(kept_back)
    assert (found == (0, 0)) == (not allowed)
    if allowed:
        least = max(24, -(-(producer + 2) // 8) * 8)
        sparing = [(c, p) for c, p in allowed if c >= max(24, consumer + 2) + spare and p >= least + spare]
        asked, kept = sparing or allowed, 40 if blocks == 1 else 24
        most = max(c for c, _ in asked)
        assert found in allowed
        assert found == max((c, p) for c, p in asked if c == most and p <= max(kept, least + spare * bool(sparing)))


PRODUCTS = (
    ls.Gemm(8192, 8192, 8192, "bf16"),
    ls.Gemm(64, 4096, 4096, "bf16"),
    ls.Gemm(16, 4096, 4095, "bf16"),
    ls.Gemm(4096, 4097, 4099, "fp16"),
    ls.Gemm(2048, 2048, 2048, "fp32"),
)


@pytest.mark.parametrize("gemm", PRODUCTS, ids=str)
def test_every_kernel_has_what_it_is_predicted_to_use(gemm: ls.Gemm) -> None:
    """Both roles, and all accumulators fit with what the program keeps beside them: fragments, or the tile before."""
    for _, kernel in product_kernels(gemm, H200):
        size, work = gemm.out_dtype.bytes, Work.of(kernel)
        consumer, producer = int(of_consumers(work, size, kernel.overlapped > 0)), int(of_producer(work))
        assert consumer <= kernel.registers[0] - UNUSED
        assert producer <= kernel.registers[1] - UNUSED
        assert not any(given % 8 for given in kernel.registers)
        assert 128 * kernel.blocks * (kernel.warpgroups * kernel.registers[0] + kernel.registers[1]) <= 65536
        program = printed_program(kernel, size)
        blocks = kernel.tile[0] // 64 // (1 if kernel.ping_pong else kernel.warpgroups)
        sums = blocks * 64 * kernel.tile[1] // 128
        ops = [*every(program.roles[0].body)]
        # Two sets of fragments, each of 4 words for an instruction: a step's of 64 rows.
        fragments = 2 * 4 * blocks * max((len(op.steps) for op in ops if isinstance(op, ReadRows)), default=0)
        (tiles,) = [op for op in ops if isinstance(op, Tiles)]
        before = list(takewhile(lambda op: not isinstance(op, UseSums), every(tiles.body)))
        held = sums * size // 4 * any(isinstance(op, Parts) for op in before)
        peers = program.ctas * 16 // size if any(isinstance(op, ReadPeers) for op in ops) else 0
        assert consumer > sums + held + fragments
        assert consumer > peers
        assert consumer < max(sums + held + 2 * fragments, peers) + 80, "what a program keeps is most of it"


def test_few_kernels_compiled() -> None:
    """What nvcc makes of three kernels: tiles by boxes, overlapped, and A through registers with a split."""
    try:
        nvcc()
        headers()
    except CompilationFailed as error:
        pytest.skip(str(error))
    if disassembler() is None:
        pytest.skip("no nvdisasm")
    every_class = classes((ls.Gemm(300, 1000, 4090, "e4m3"), ls.Gemm(8192, 8192, 8192, "bf16")))
    names = (
        "C by tma, ping-pong",
        "C by tma, 2 consumers, overlapped epilogue",
        "C by sums, 1 consumer, split 2, A realigned in registers",
    )
    found = [one for _, one in compared(("class", *every_class[name]) for name in names)]
    assert len(found) == len(names)
    for one in found:
        assert not one.spills, one.name
        assert max(map(abs, one.off())) <= SPREAD, (one.name, one.off())
