"""Instructions of wgmma: the table, the text, and fragments against the formulae of the document."""

from __future__ import annotations

import pytest

from legalsat.backends.ptx.assemble import AssemblyFailed, assemble
from legalsat.errors import InvalidInput
from legalsat.units.wgmma import PAIRS, Wgmma, columns

INSTRUCTIONS = [Wgmma(columns(a)[-1], a, b, d) for a, (partners, sums) in PAIRS.items() for b in partners for d in sums]


@pytest.mark.parametrize(("bits", "name"), [(16, "fp16"), (16, "bf16"), (8, "e4m3"), (8, "i8"), (32, "tf32")])
def test_fragment_of_a_is_the_documents(bits: int, name: str) -> None:
    """Warp w, lane l: row 16 w + l / 4 (+ 8), and the k of its packed values."""
    fragment = Wgmma(8, name).a_fragment
    seen = set()
    for thread in range(128):
        w, lane = divmod(thread, 32)
        for value in range(fragment[1].size):
            packed = 32 // bits
            i0, i1, i2 = value % packed, value // packed % 2, value // packed // 2
            row = 16 * w + lane // 4 + 8 * i1
            k = {16: 2 * (lane % 4) + i0 + 8 * i2, 8: 4 * (lane % 4) + i0 + 16 * i2, 32: lane % 4 + 4 * i2}[bits]
            assert fragment((thread, value)) == row + 64 * k
            seen.add((row, k))
    assert seen == {(row, k) for row in range(64) for k in range(256 // bits)}
    assert fragment[1].size * bits == 32 * Wgmma(8, name).a_registers == 128


@pytest.mark.parametrize("n", [8, 96, 256])
def test_fragment_of_d_is_the_documents(n: int) -> None:
    instruction = Wgmma(n, "bf16")
    seen = set()
    for thread in range(128):
        w, lane = divmod(thread, 32)
        for value in range(n // 2):
            i0, i1, j = value % 2, value // 2 % 2, value // 4
            row, column = 16 * w + lane // 4 + 8 * i1, 8 * j + 2 * (lane % 4) + i0
            assert instruction.d_fragment((thread, value)) == row + 64 * column
            seen.add((row, column))
    assert len(seen) == 64 * n


def test_registers_of_sums() -> None:
    assert Wgmma(256, "bf16").d_registers == 128
    assert Wgmma(256, "fp16", sums="fp16").d_registers == 64
    assert Wgmma(8, "i8").d_registers == 4


def test_columns_of_integers_are_fewer() -> None:
    assert len(columns("bf16")) == 32
    assert len(columns("i8")) == 18  # FACTS WG-03
    assert set(columns("i8")) < set(columns("e4m3"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((12, "bf16"), "n of bf16 is 12"),
        ((264, "fp16"), "n of fp16"),
        ((0, "fp16"), "n of fp16"),
        ((40, "i8"), "n of i8 is 40"),
        ((64, "fp64"), "type of A"),
        ((64, "fp16", "bf16"), "type of B beside fp16"),
        ((64, "bf16", "bf16", "fp16"), "sums of bf16"),
        ((64, "i8", "u8", "fp32"), "sums of i8"),
        ((64, "tf32", "tf32", "fp16"), "sums of tf32"),
    ],
)
def test_instructions_that_do_not_exist_are_refused(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Wgmma(*arguments)  # type: ignore[arg-type]


def test_operands_that_nothing_turns_are_refused() -> None:
    assert Wgmma(64, "bf16").immediates("MN", "K") == (1, 1, 1, 0)
    assert Wgmma(64, "bf16").immediates("K", "MN", from_registers=True) == (1, 1, 1)
    assert Wgmma(64, "e4m3").immediates() == (1, 1)
    assert Wgmma(64, "i8").immediates() == ()
    with pytest.raises(InvalidInput, match="B of e4m3 is MN-major"):
        Wgmma(64, "e4m3").immediates("K", "MN")
    with pytest.raises(InvalidInput, match="from registers"):
        Wgmma(64, "bf16").immediates("MN", "K", from_registers=True)


def kernel(instruction: str, registers: int, kind: str, immediates: tuple[int, ...], *, from_registers: bool) -> str:
    sums = ", ".join(f"%d{i}" for i in range(registers))
    a = "{%a0, %a1, %a2, %a3}" if from_registers else "%w"
    rest = "".join(f", {value}" for value in immediates)
    return f"""
    .reg .{kind} %d<{registers}>;
    {instruction} {{{sums}}}, {a}, %w, %p{rest};
"""


def text(instructions: list[Wgmma]) -> str:
    entries = []
    for i, one in enumerate(instructions):
        kind = {"fp32": "f32", "fp16": "b32", "i32": "s32"}[one.sums]
        for from_registers in (False, True):
            body = kernel(
                str(one),
                one.d_registers,
                kind,
                one.immediates(from_registers=from_registers),
                from_registers=from_registers,
            )
            entries.append(
                f".visible .entry k{i}{'r' * from_registers}() {{ .reg .pred %p; .reg .b32 %a<4>; .reg .b64 %w;"
                f"setp.eq.u32 %p, 0, 1; mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0;"
                f"mov.b64 %w, 0;\n{body} ret; }}"
            )
    return ".version 8.4\n.target sm_90a\n.address_size 64\n" + "\n".join(entries)


def test_ptxas_takes_every_instruction() -> None:
    assert assemble(text(INSTRUCTIONS), "sm_90a")


@pytest.mark.parametrize(("n", "sums"), [("n40k32", "s32"), ("n12k16", "f32")])
def test_ptxas_refuses_what_the_table_does(n: str, sums: str) -> None:
    real = str(Wgmma(32, "i8") if sums == "s32" else Wgmma(8, "bf16"))
    wrong = real.replace("n32k32" if sums == "s32" else "n8k16", n)
    registers = int(n[1:3]) // 2
    body = kernel(wrong, registers, sums, (1, 1, 0, 0) if sums == "f32" else (), from_registers=False)
    with pytest.raises(AssemblyFailed):
        assemble(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .pred %p; .reg .b64 %w;"
            f"setp.eq.u32 %p, 0, 1; mov.b64 %w, 0;\n{body} ret; }}",
            "sm_90a",
        )
