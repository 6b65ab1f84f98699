"""Instructions of wgmma: types, shapes, and which element each thread holds in which register.

PTX ISA 9.1, 9.7.15; FACTS WG-03 to WG-06 and WG-15 to WG-17. One-bit operands and sparse ones are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legalsat.checks import flag, integer, one_of
from legalsat.dtypes import dtype
from legalsat.errors import InvalidInput
from legalsat.layout import Layout
from legalsat.options import MAJORS, Major

M = 64  # rows of A that a warpgroup multiplies
THREADS = 128
K_BYTES = 32
_REGISTER_BITS = 32

# What goes with what: element types of A, those of B with it, those of the sums.
PAIRS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fp16": (("fp16",), ("fp32", "fp16")),
    "bf16": (("bf16",), ("fp32",)),
    "tf32": (("tf32",), ("fp32",)),
    "e4m3": (("e4m3", "e5m2"), ("fp32", "fp16")),
    "e5m2": (("e4m3", "e5m2"), ("fp32", "fp16")),
    "i8": (("i8", "u8"), ("i32",)),
    "u8": (("i8", "u8"), ("i32",)),
}
TURNED = ("fp16", "bf16")
"""Element types whose operands may be MN-major; all others are K-major."""

_PTX = {"fp16": "f16", "fp32": "f32", "i8": "s8", "i32": "s32"}
FLOAT_N = tuple(range(8, 257, 8))
INTEGER_N = (8, 16, 24, *range(32, 257, 16))


def columns(a: str) -> tuple[int, ...]:
    """Return the numbers of columns of C that one instruction may have, for A of element type `a`."""
    return INTEGER_N if dtype(one_of(dtype(a).name, "type of A", PAIRS)).kind in {"int", "uint"} else FLOAT_N


@dataclass(frozen=True, slots=True, init=False)
class Wgmma:
    """One wgmma instruction: D[64,n] = A[64,k] B[n,k]^T + D, with k elements of 32 bytes.

    Attributes:
        n: columns of C.
        a, b: element types: fp16, bf16, tf32, e4m3, e5m2, i8 or u8.
        sums: element type of D: fp32, fp16 (of fp16 and of 8-bit floats) or i32 (of integers).

    Raises:
        InvalidInput: there is no such instruction.
    """

    n: int
    a: str
    b: str
    sums: str

    def __init__(self, n: int, a: Any, b: Any = None, sums: Any = None) -> None:
        """Take n and the types; B's is A's when left out, and sums are as wide as there are."""
        put = object.__setattr__
        put(self, "a", one_of(dtype(a).name, "type of A", PAIRS))
        partners, results = PAIRS[self.a]
        put(self, "b", one_of(self.a if b is None else dtype(b).name, f"type of B beside {self.a}", partners))
        put(self, "sums", one_of(results[0] if sums is None else dtype(sums).name, f"sums of {self.a}", results))
        put(self, "n", integer(n, "n"))
        if self.n not in columns(self.a):
            raise InvalidInput(f"n of {self.a} is {n}; give one of {', '.join(map(str, columns(self.a)))}")

    @property
    def bits(self) -> int:
        """Bits of an element of A and of B."""
        return dtype(self.a).bits

    @property
    def k(self) -> int:
        """Elements of K."""
        return 8 * K_BYTES // self.bits

    @property
    def a_registers(self) -> int:
        """32-bit registers of each thread that hold A, where it does not come from shared memory."""
        return M * self.k * self.bits // (THREADS * _REGISTER_BITS)

    @property
    def d_registers(self) -> int:
        """32-bit registers of each thread that hold D; two sums of 16 bits share one."""
        return M * self.n * dtype(self.sums).bits // (THREADS * _REGISTER_BITS)

    @property
    def a_fragment(self) -> Layout:
        """(thread, value) -> row + 64 column of A; `32 / bits` values in a row share a register, the first one lowest.

        Eight rows of four threads each hold neighbours along K; then come eight rows further down, then the second
        half of K. Warps hold 16 rows each. FACTS WG-16.
        """
        packed = _REGISTER_BITS // self.bits
        return Layout(((4, 8, 4), (packed, 2, 2)), ((M * packed, 1, 16), (M, 8, 4 * M * packed)))

    @property
    def d_fragment(self) -> Layout:
        """(thread, value) -> row + 64 column of D; sums of 16 bits share a register in pairs. FACTS WG-15."""
        return Layout(((4, 8, 4), (2, 2, self.n // 8)), ((2 * M, 1, 16), (M, 8, 8 * M)))

    def immediates(
        self, a_major: Major = "K", b_major: Major = "K", *, from_registers: bool = False
    ) -> tuple[int, ...]:
        """Return the constants that end the instruction: signs of A and B, then whether each is MN-major.

        Args:
            a_major: "K" or "MN".
            b_major: "K" or "MN".
            from_registers: whether A comes from registers.

        Raises:
            InvalidInput: the instruction cannot turn this operand.
        """
        flag(from_registers, "from_registers")
        for what, major in (("A", a_major), ("B", b_major)):
            if one_of(major, f"major of {what}", MAJORS) == "MN" and self.a not in TURNED:
                raise InvalidInput(f"{what} of {self.a} is MN-major; lay it out K-major")
        if from_registers and a_major == "MN":
            raise InvalidInput("A comes from registers, where nothing turns it; hold it as a_fragment says")
        turns = [major == "MN" for major in (a_major, b_major)][1 if from_registers else 0 :]
        signs = (1, 1) if self.sums != "i32" else ()
        return (*signs, *(int(turn) for turn in turns if self.a in TURNED))

    def __str__(self) -> str:
        d, a, b = (_PTX.get(name, name) for name in (self.sums, self.a, self.b))
        return f"wgmma.mma_async.sync.aligned.m{M}n{self.n}k{self.k}.{d}.{a}.{b}"
