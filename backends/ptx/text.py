"""The text of one PTX kernel: lines, and registers that are declared as they come up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

# A register's first letter tells its type.
_TYPES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
INDENT = "    "
EVERY_LANE = "0xffffffff"
VERSION = "8.6"  # of PTX, the first that knows both sm_90a and sm_100a
ENTRY = "product"  # of kernels of products
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of a tensor map among the parameters
Value: TypeAlias = str | int
"""32 bits: a register, or a number that is known when the text is written."""


class Text:
    """Collects a kernel's instructions; registers and labels are new on each call.

    Arithmetic is on values of 32 bits, and done here where all of them are known: only what a launch decides is left
    to instructions.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._counts = dict.fromkeys(_TYPES, 0)
        self._labels = 0

    def new(self, kind: str = "r") -> str:
        """Return a new register: "p" a predicate, "h", "r" and "d" 16, 32 and 64 bits."""
        self._counts[kind] += 1
        return f"%{kind}{self._counts[kind] - 1}"

    def label(self, name: str) -> str:
        """Return a new label."""
        self._labels += 1
        return f"{name}_{self._labels}"

    def do(self, instruction: str) -> None:
        """Add an instruction."""
        self._lines.append(f"{INDENT}{instruction};")

    def put(self, operation: str, *operands: object, kind: str = "r") -> str:
        """Add an instruction that writes a new register, and return that."""
        register = self.new(kind)
        self.do(f"{operation} {', '.join(map(str, (register, *operands)))}")
        return register

    def when(self, comparison: str, *operands: object) -> str:
        """Return a new predicate: `comparison`, such as "lt.u32", of two operands."""
        return self.put(f"setp.{comparison}", *operands, kind="p")

    def place(self, label: str) -> None:
        """Put a label here."""
        self._lines.append(f"{label}:")

    def say(self, comment: str) -> None:
        """Add a comment."""
        self._lines.append(f"{INDENT}// {comment}")

    def declarations(self) -> list[str]:
        """Return the declarations of all registers that came up."""
        return [f"{INDENT}.reg .{_TYPES[kind]} %{kind}<{count}>;" for kind, count in self._counts.items() if count]

    def lines(self) -> list[str]:
        """Return the instructions so far."""
        return list(self._lines)

    # Blocks.

    @contextmanager
    def only(self, predicate: str, *, holds: bool = True) -> Iterator[None]:
        """Have what is added meanwhile done where a predicate holds, or where it does not."""
        end = self.label("END")
        self.do(f"@{'!' if holds else ''}{predicate} bra {end}")
        yield
        self.place(end)

    @contextmanager
    def loop(self, counter: str, limit: Value, step: Value = 1) -> Iterator[None]:
        """Have what is added meanwhile done while a register, which `step` is added to each time, is below a limit."""
        again = self.label("LOOP")
        with self.only(self.when("lt.s32", counter, limit)):
            self.place(again)
            yield
            self.do(f"add.s32 {counter}, {counter}, {step}")
            self.do(f"@{self.when('lt.s32', counter, limit)} bra {again}")

    # Arithmetic.

    def held(self, value: Value) -> str:
        """Return a new register that holds a value, and may be changed."""
        return self.put("mov.b32", value)

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if 0 in (a, b):
            return b if a == 0 else a
        return self.put("add.s32", *((b, a) if isinstance(a, int) else (a, b)))

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        if isinstance(b, int):
            return self.add(a, -b)
        return self.put("sub.s32", a, b)

    def mul(self, a: Value, b: int) -> Value:
        """Return a * b."""
        if isinstance(a, int):
            return a * b
        if b in {0, 1}:
            return a if b else 0
        return self.put("shl.b32", a, b.bit_length() - 1) if b & (b - 1) == 0 else self.put("mul.lo.s32", a, b)

    def mad(self, a: Value, b: int, c: Value) -> Value:
        """Return a * b + c."""
        if isinstance(a, int) or b in {0, 1}:
            return self.add(self.mul(a, b), c)
        return self.put("mad.lo.s32", a, b, c)

    def div(self, a: Value, b: Value) -> Value:
        """Return a / b, of numbers that are not below 0."""
        if isinstance(b, int):
            if isinstance(a, int) or b == 1:
                return a // b if isinstance(a, int) else a
            if b & (b - 1) == 0:
                return self.put("shr.u32", a, b.bit_length() - 1)
        return self.put("div.u32", a, b)

    def rem(self, a: Value, b: Value) -> Value:
        """Return a % b, of numbers that are not below 0."""
        if isinstance(b, int):
            if isinstance(a, int) or b == 1:
                return a % b if isinstance(a, int) else 0
            if b & (b - 1) == 0:
                return self.put("and.b32", a, b - 1)
        return self.put("rem.u32", a, b)

    def xor(self, a: Value, b: Value) -> Value:
        """Return a ^ b."""
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if 0 in (a, b):
            return b if a == 0 else a
        return self.put("xor.b32", *((b, a) if isinstance(a, int) else (a, b)))

    def least(self, a: Value, b: Value) -> Value:
        """Return the lesser of two numbers, which may be below 0."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self.put("min.s32", a, b)

    def most(self, a: Value, b: Value) -> Value:
        """Return the greater of two numbers, which may be below 0."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self.put("max.s32", a, b)

    def wide(self, value: Value) -> str:
        """Return a value in 64 bits, with its sign."""
        return self.put("mov.b64" if isinstance(value, int) else "cvt.s64.s32", value, kind="d")

    def narrow(self, register: str) -> str:
        """Return the lower half of a register of 64 bits."""
        return self.put("cvt.u32.u64", register)

    def meet_lanes(self) -> None:
        """Have all lanes of the warp meet."""
        self.do(f"bar.warp.sync {EVERY_LANE}")


def braced(registers: Iterable[str]) -> str:
    """Return registers as one vector operand."""
    return "{" + ", ".join(registers) + "}"


def address(register: str, offset: int = 0) -> str:
    """Return the memory operand at a register plus bytes."""
    return f"[{register}+{offset}]" if offset else f"[{register}]"


def grouped(registers: Sequence[str], count: int) -> list[Sequence[str]]:
    """Return registers in groups of `count`."""
    return [registers[i : i + count] for i in range(0, len(registers), count)]


def wait(text: Text, barrier: str, parity: Value) -> None:
    """Wait until the phase of a barrier with this parity is over; the waiting instruction may give up (MB-13)."""
    loop = text.label("WAIT")
    text.place(loop)
    done = text.put("mbarrier.try_wait.parity.shared::cta.b64", barrier, parity, kind="p")
    text.do(f"@!{done} bra {loop}")
