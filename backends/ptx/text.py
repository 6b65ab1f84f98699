"""The text of one PTX kernel: lines, and registers that are declared as they come up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# A register's first letter tells its type.
_TYPES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
INDENT = "    "


class Text:
    """Collects a kernel's instructions; registers and labels are new on each call."""

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


def braced(registers: Iterable[str]) -> str:
    """Return registers as one vector operand."""
    return "{" + ", ".join(registers) + "}"


def address(register: str, offset: int = 0) -> str:
    """Return the memory operand at a register plus bytes."""
    return f"[{register}+{offset}]" if offset else f"[{register}]"


def grouped(registers: Sequence[str], count: int) -> list[Sequence[str]]:
    """Return registers in groups of `count`."""
    return [registers[i : i + count] for i in range(0, len(registers), count)]
