"""Instructions of wgmma that a text names by shape and types, judged by the rules of the instruction.

PTX spells them `m64n32k16.f32.bf16.bf16`, CuTe `64x32x16_F32BF16BF16`, Triton's verifier `m64n32k32 with A=s8, B=s8,
C=s32`, and Triton's IR as an encoding, `versionMajor = 3, ... instrShape = [16, 32, 16]`, beside the operands' types;
its 16 rows are those of one of the four warps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from legalsat.api import violations
from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.targets import Target
from legalsat.units.sites import WgmmaMultiply

MOST_INSTRUCTIONS = 64
_TYPE = r"(?:b?f16|f32|tf32|s8|u8|s32|e4m3|e5m2|bf16)"
_CUTE_TYPE = r"(?:TF32|F32|BF16|F16|E4M3|E5M2|S8|U8|S32)"
_NAMED = re.compile(
    rf"(?:wgmma\.mma_async\.sync\.aligned\.|\b(?:wgmma|WGMMA)[ :]{{1,2}})"
    rf"m(?P<m>\d{{1,4}})n(?P<n>\d{{1,4}})k(?P<k>\d{{1,4}})[. ](?P<c>{_TYPE})[. ](?P<a>{_TYPE})[. ](?P<b>{_TYPE})\b"
    rf"|\bSM90_(?P<m1>\d{{1,4}})x(?P<n1>\d{{1,4}})x(?P<k1>\d{{1,4}})_"
    rf"(?P<c1>{_CUTE_TYPE})(?P<a1>{_CUTE_TYPE})(?P<b1>{_CUTE_TYPE})_"
    rf"|\bwgmma [^\n]{{0,40}}?m(?P<m2>\d{{1,4}})n(?P<n2>\d{{1,4}})k(?P<k2>\d{{1,4}}) with A=(?P<a2>{_TYPE}), "
    rf"B=(?P<b2>{_TYPE}), C=(?P<c2>{_TYPE})\b"
)
_ENCODING = re.compile(
    r"#(?P<name>\w{1,40}) = #[\w.]{1,40}<\{versionMajor = 3,[^}\n]{0,200}instrShape = \[(?P<shape>[\d, ]+)\]"
)
_OPERANDS_FOLLOW = 600  # characters behind the name of a multiply, in which its operands' types stand
_OPERAND = re.compile(r"<[\dx]{1,40}x(?P<type>[a-z]\w{1,12}),")
_MLIR = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "i8": "i8", "f16": "fp16", "bf16": "bf16", "f32": "tf32"}


def explain_products(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the instructions that a text names break, each finding once; nothing of a GPU without wgmma."""
    if target.wgmma is None:
        return
    told = set()
    for instruction in _instructions(text):
        for diagnostic in violations(instruction, target):
            if diagnostic.level == "error" and (diagnostic.code, diagnostic.message) not in told:
                told.add((diagnostic.code, diagnostic.message))
                yield diagnostic


def legal_products(text: str, target: Target) -> list[str]:
    """Return the instructions of wgmma that a text names and that are legal, in words."""
    if target.wgmma is None:
        return []
    legal = (one for one in _instructions(text) if not any(d.level == "error" for d in violations(one, target)))
    return [f"{one} is legal" for one in dict.fromkeys(legal)]


def _instructions(text: str) -> Iterator[WgmmaMultiply]:
    for match in islice(_NAMED.finditer(text), MOST_INSTRUCTIONS):
        given = {name.rstrip("12"): word for name, word in match.groupdict().items() if word is not None}
        made = _instruction([int(given[name]) for name in "mnk"], [given[name].lower() for name in "abc"])
        if made is not None:
            yield made
    at = text.find("warp_group_dot ")
    operands = [match["type"] for match in _OPERAND.finditer(text[at : at + _OPERANDS_FOLLOW])][:2] if at >= 0 else []
    if len(operands) < 2 or not set(operands) <= set(_MLIR):
        return
    a, b = (_MLIR[one] for one in operands)
    for match in islice(_ENCODING.finditer(text), MOST_INSTRUCTIONS):
        shape = [int(word) for word in match["shape"].split(",") if word.strip()]
        if len(shape) != 3:
            continue
        made = _instruction((4 * shape[0], *shape[1:]), (a, b, "i32" if a == "i8" else "fp32"))
        if made is not None:
            yield made


def _instruction(shape: Sequence[int], types: Sequence[str]) -> WgmmaMultiply | None:
    rows, columns, depth = shape
    a, b, sums = types
    try:
        return WgmmaMultiply(rows, columns, depth, as_dtype(a).name, as_dtype(b).name, as_dtype(sums).name)
    except InvalidInput:
        return None
