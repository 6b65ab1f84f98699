"""Registers under names of their own: each reads what it has read before, whatever way is taken."""

from __future__ import annotations

from random import Random

import pytest

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.text import Kernel, parse
from legalsat.analyses.ptx.webs import with_own_registers
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.check_ptx import check_ptx

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 32, 1, 1
{
"""


def kernel_of(*lines: str) -> Kernel:
    return parse(HEAD + "\n".join(lines) + "\nret;\n}").kernels[0]


def named(*lines: str) -> list[str]:
    found = with_own_registers(kernel_of(*lines), Bounds()).instructions
    return [f"{i.guard} {', '.join(i.operands)}".strip() for i in found]


def test_what_is_written_anew_is_another_register() -> None:
    first, second, third, fourth, _ = named(
        "mov.u32 %r1, 0;", "add.u32 %r2, %r1, 1;", "mov.u32 %r1, 5;", "add.u32 %r3, %r1, %r1;"
    )
    assert (first, second) == ("%r1, 0", "%r2, %r1, 1")
    assert third != "%r1, 5"
    one = third.partition(",")[0]
    assert fourth == f"%r3, {one}, {one}"


def test_what_meets_is_one_register() -> None:
    lines = ("mov.u32 %r1, 0;", "LOOP:", "add.u32 %r1, %r1, 1;", "@%p1 bra LOOP;", "st.global.u32 [%rd1], %r1;")
    assert {name for line in named(*lines) for name in line.split(", ") if name.startswith("%r1")} == {"%r1"}
    guarded = ("mov.u32 %r1, 0;", "@%p1 mov.u32 %r1, 1;", "st.global.u32 [%rd1], %r1;")
    assert {name.split()[-1] for line in named(*guarded) for name in line.split(", ") if "%r1" in name} == {"%r1"}


def test_what_others_write_keeps_its_name() -> None:
    lines = (
        "ld.global.u32 %r1, [%rd1];",
        "st.global.u32 [%rd2], %r1;",
        "mov.u32 %r1, 0;",
        "st.global.u32 [%rd2], %r1;",
    )
    assert all("@" not in line for line in named(*lines))


def drawn(r: Random) -> list[str]:
    """Return random straight code, jumps and stores on four registers and two predicates."""
    found = []
    for _ in range(r.randrange(4, 24)):
        a, b, c = (f"%r{r.randrange(4)}" for _ in range(3))
        guard = r.choice(("", "", f"@%p{r.randrange(2)} ", f"@!%p{r.randrange(2)} "))
        found.append(guard + r.choice((
            f"mov.u32 {a}, {r.randrange(9)};", f"add.u32 {a}, {b}, {c};", f"add.u32 {a}, {a}, 1;", f"mov.u32 {a}, {b};",
            f"st.global.u32 [%rd1], {a};", f"bra L{r.randrange(4)};", f"selp.u32 {a}, {b}, {c}, %p{r.randrange(2)};",
        )))  # fmt: skip
    for label in range(4):
        found.insert(r.randrange(len(found) + 1), f"L{label}:")
    return found


def stored(kernel: Kernel, r: Random) -> list[int | None]:
    """Return what a kernel stores; nobody knows what is read before it is written. Predicates are drawn at each use."""
    held: dict[str, int | None] = {}
    found: list[int | None] = []
    at = 0
    for _ in range(80):
        if at >= len(kernel.instructions) or kernel.instructions[at].base == "ret":
            break
        i = kernel.instructions[at]
        at += 1
        if i.guard and (r.random() < 0.5) != i.negated:
            continue
        values = [int(one) if one.isdigit() else held.get(one) for one in i.operands[1:]]
        if i.base == "bra":
            at = kernel.labels[i.operands[0]]
        elif i.base == "st":
            found.append(values[0])
        elif i.base == "add":
            held[i.operands[0]] = None if None in values else sum(v for v in values if v is not None)
        else:
            held[i.operands[0]] = values[r.random() < 0.5] if i.base == "selp" else values[0]
    return found


@pytest.mark.parametrize("seed", range(300))
def test_random_code_stores_the_same(seed: int) -> None:
    kernel = kernel_of(*drawn(Random(seed)))
    own = with_own_registers(kernel, Bounds())
    for way in range(8):
        before = stored(kernel, Random(way))
        assert len(before) == len(after := stored(own, Random(way)))
        assert all(old is None or old == new for old, new in zip(before, after, strict=True))


def test_a_first_stage_begins_with_what_is_known() -> None:
    """The next stage begins anew where it is the last: in a loop, which a launch decides, and never before it."""
    step = "add.u32 %r{0}, %r{0}, 1;", "setp.eq.u32 %p{0}, %r{0}, 4;", "@%p{0} mov.u32 %r{0}, 0;"
    text = kernel_text(
        "ld.param.u32 %r3, [n];", "mov.u32 %r7, memory;", "mov.u32 %r1, 0;", "mov.u32 %r4, 0;",
        "mov.u32 %r2, 0;", "setp.eq.u32 %p5, %r3, 0;", "@%p5 bra END;", *(one.format(2) for one in step),
        "mad.lo.u32 %r5, %r2, 4, %r7;", "st.shared.u32 [%r5], %r2;",
        "LOOP:", *(one.format(1) for one in step), "mad.lo.u32 %r6, %r1, 4, %r7;", "st.shared.u32 [%r6], %r1;",
        "add.u32 %r4, %r4, 1;", "setp.lt.u32 %p6, %r4, %r3;", "@%p6 bra LOOP;", "END:",
    )  # fmt: skip
    module = parse(text)
    program = compile_kernel(module, module.kernels[0])
    assert {watch.condition.name for watch in program.watches} == {"%p1", "%p5", "%p6"}
    assert check_ptx(text).proven


def kernel_text(*lines: str) -> str:
    declared = ".reg .pred %p<8>;\n.reg .b32 %r<16>;\n.shared .align 16 .b8 memory[64];\n"
    return HEAD + declared + "\n".join(lines) + "\nret;\n}\n"
