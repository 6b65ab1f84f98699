"""Sums become elements of C: registers in, packed registers out."""

from __future__ import annotations

from collections.abc import Sequence

from legalsat.backends.ptx.text import Text, grouped

PAIRS = {"bf16": "cvt.rn.bf16x2.f32", "fp16": "cvt.rn.f16x2.f32"}
_QUARTERS = {"e4m3": "cvt.rn.satfinite.e4m3x2.f32", "e5m2": "cvt.rn.satfinite.e5m2x2.f32"}
AS_THEY_ARE = {("fp32", "fp32"), ("fp32", "tf32"), ("i32", "i32")}
PACKED = {*(("fp32", name) for name in (*PAIRS, *_QUARTERS)), ("i32", "i8")}


def packed(text: Text, sums: Sequence[str], kind: tuple[str, str]) -> list[str]:
    """Return sums of neighbouring columns as elements of C, in registers of 32 bits.

    Two elements of 8 bits come in the low half of a register.

    Args:
        text: where the instructions go.
        sums: registers, as many as fill whole registers of 32 bits, or two.
        kind: element types of the sums and of C, of `AS_THEY_ARE` or `PACKED`.
    """
    _, to = kind
    if kind in AS_THEY_ARE:
        return list(sums)
    if to in PAIRS:
        return [text.put(PAIRS[to], high, low) for low, high in grouped(sums, 2)]
    if to == "i8":
        return [_bytes(text, four) for four in grouped(sums, 4)]
    halves = [text.put(_QUARTERS[to], high, low, kind="h") for low, high in grouped(sums, 2)]
    if len(halves) == 1:
        return [text.put("cvt.u32.u16", halves[0])]
    return [text.put("mov.b32", f"{{{low}, {high}}}") for low, high in grouped(halves, 2)]


def _bytes(text: Text, sums: Sequence[str]) -> str:
    """Return two or four integers as saturated bytes of a register."""
    upper = text.put("cvt.pack.sat.s8.s32.b32", sums[3], sums[2], 0) if len(sums) == 4 else "0"
    return text.put("cvt.pack.sat.s8.s32.b32", sums[1], sums[0], upper)
