"""The check of PTX on tiles that blocks take in turn: one more for a block comes after many more of them."""

from __future__ import annotations

import pytest
from test_ptx_branches import BARRIERS, BYTES, LOAD, kernel, only, wait

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.ptx_sweep import Sweep

SLOTS = 7  # barriers, so that the state of tiles repeats after 14 of them


def strided(blocks: int, wrong_from: int = 0, unrolled: str = "") -> str:
    """Tiles that a fixed number of blocks takes in turn, counted by barriers in turn.

    `wrong_from`: tiles of a block, counted from 0, from which nobody waits; never for 0. `unrolled`: what is done
    before with what is left of n.
    """
    skips = f"setp.ge.u32 %p5, %r8, {wrong_from};\n@%p5 bra OVER;\n" if wrong_from else ""
    inits = "".join(f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS + 8 * n}], 1;\n" for n in range(SLOTS))
    return kernel(
        f"""{inits}@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u32 %r2, [n];
mov.u32 %r4, 0;
mov.u32 %r7, 0;
mov.u32 %r8, 0;
mov.u32 %r9, 0;
{unrolled}
TILE:
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
{LOAD}{skips}{wait("%r20", "%r9", "FULL")}OVER:
ld.shared.u32 %r21, [%r1];
bar.sync 0;
add.u32 %r8, %r8, 1;
add.u32 %r7, %r7, 1;
setp.eq.u32 %p2, %r7, {SLOTS};
selp.b32 %r7, 0, %r7, %p2;
selp.b32 %r22, 1, 0, %p2;
xor.b32 %r9, %r9, %r22;
add.u32 %r4, %r4, {blocks};
bra TILE;
END:
"""
    )


def sweep_of(text: str) -> Sweep:
    module = parse(text)
    sweep = Sweep(compile_kernel(module, module.kernels[0]), {}, {})
    sweep.sizing = sweep.probing = False
    return sweep


@pytest.mark.parametrize("blocks", [33, 48, 64, 132])
def test_each_number_of_tiles_of_a_block_is_tried(blocks: int) -> None:
    """The state repeats after 14 tiles: so many and one more are tried, whatever falls to other blocks between."""
    sweep = sweep_of(strided(blocks))
    tried = sweep.rounds_of("n", 1, {"n": 1}, [])
    assert {-(-n // blocks) for n in tried} >= set(range(2 * SLOTS + 1)) and not sweep.unproven
    assert len(tried) < 128 < max(tried)
    apart = sweep.apart["n"]  # so many bring a tile at most, and four times so many bring two
    assert apart <= blocks and -(-(1 + 4 * apart) // blocks) >= 1 + 2


def test_rounds_of_which_each_few_bring_a_tile_are_tried_one_by_one_or_said_to_be_left_out() -> None:
    sweep = sweep_of(strided(20))
    tried = sweep.rounds_of("n", 1, {"n": 1}, [])
    assert {*range(129)} <= {*tried} and any("counts of rounds that differ" in reason for _, reason in sweep.unproven)


@pytest.mark.parametrize("blocks", [20, 33])
@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 5])
def test_what_is_wrong_in_one_of_the_first_tiles_of_a_block_is_found(blocks: int, tiles: int) -> None:
    found = only(strided(blocks, tiles))
    assert found.findings


def test_rounds_that_are_unrolled_are_not_left_out() -> None:
    """What is left of sixteen is loaded before, and nobody waits where ten are left: no round is one of others."""
    left = f"""and.b32 %r23, %r2, 15;
setp.ne.u32 %p6, %r23, 10;
@%p6 bra TILE;
@!%p0 bra TILE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+{BARRIERS}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], {BYTES}, [%r1+{BARRIERS}];
"""
    assert not only(strided(20, unrolled=left)).proven
