"""For which blocks a comparison of a block's number is the same, against its arithmetic done with Python's numbers."""

from __future__ import annotations

import random

import pytest

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.launches.conditions import FALSE, TRUE
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.ptx_most_blocks import MANY, last_block

COMPARED = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
}  # fmt: skip
MOST = 2**31 - 2  # the greatest number of a block along x


def made(grown: tuple[int, int, int], comparison: str, other: int, *, wide: bool) -> tuple[str, int] | None:
    """Return what is said of a comparison of `(block << shift) * times + more`."""
    shift, times, more = grown
    kind, register = ("s64", "%rd2") if wide else ("s32", "%r5")
    multiply = f"mul.wide.u32 %rd1, %r3, {times}; add.s64 %rd2, %rd1, {more};"
    text = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 32
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
mov.u32 %r1, %ctaid.x;
shl.b32 %r3, %r1, {shift};
{multiply if wide else f"mul.lo.s32 %r4, %r3, {times}; add.s32 %r5, %r4, {more};"}
setp.{comparison}.{kind} %p1, {register}, {other};
@%p1 bra END;
bar.sync 0;
END:
ret;
}}
"""
    module = parse(text)
    program = compile_kernel(module, module.kernels[0])
    watch = next(one for one in program.watches if one.condition.name == "%p1")
    watch.seen = TRUE if COMPARED[comparison](more, other) else FALSE
    return last_block(program.conditions, watch)


@pytest.mark.parametrize("seed", range(60))
def test_up_to_the_last_block_nothing_turns_round_or_wraps(seed: int) -> None:
    r = random.Random(seed)
    shift, times, more, wide = r.choice([0, 3, 7]), r.choice([1, 2, 96]), r.choice([0, 1, 127]), r.random() < 0.5
    comparison = r.choice([*COMPARED])
    block = r.choice([0, 5, r.randrange(MANY), MANY - 1, MANY, MANY + r.randrange(MANY)])
    other = ((block << shift) * times + more + r.choice([-1, 0, 0, 1])) % 2**31
    found = made((shift, times, more), comparison, other, wide=wide)

    def turns(number: int) -> bool:
        held = (number << shift) * times + more
        return COMPARED[comparison](held, other) is not COMPARED[comparison](more, other)

    def wraps(number: int) -> bool:
        return number << shift >= 2**31 or (not wide and (number << shift) * times + more >= 2**31)

    near = [n for n in range(max(0, block - 3), block + 4) if turns(n)]
    if found is None:  # it turns round early, or is one that a single block makes so
        first = min(near, default=MANY)
        assert first <= MANY or turns(1) or wraps(MANY)
        return
    key, last = found
    assert key == "%ctaid.x" and last >= MANY
    tried = {0, 1, last, last // 2, *(r.randrange(last + 1) for _ in range(200)), *(n for n in near if n <= last)}
    assert not any(turns(n) or wraps(n) for n in tried)
    assert last == MOST or turns(last + 1) or wraps(last + 1)


def test_what_is_not_a_block_number_times_a_constant_says_nothing() -> None:
    assert made((0, -1, 0), "ne", 5, wide=False) is None
    assert made((7, 1, -4), "ne", 2**31 - 128, wide=False) is None
