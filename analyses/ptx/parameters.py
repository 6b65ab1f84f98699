"""Parameters that are read through registers: nvcc takes the address of a large one, and adds offsets to it.

`mov.b64 %rd2, p; ld.param.u64 %rd1, [%rd2+8]` reads `p+8`. Addresses are followed through copies, sums with numbers
and conversions to generic addresses; a register has one if all that write it agree. Several parameters that are read as
one vector are read one by one, so that each register hangs on its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace

from legalsat.analyses.ptx.instruction import Instruction, immediate, results_of, width_of
from legalsat.analyses.ptx.text import Kernel

ADDRESS = re.compile(r"\[\s*([%\w$@.]+)\s*(?:([+-])\s*(-?\s*\w+)\s*)?\]")
_STEPS = {"mov", "cvta", "add", "sub"}

Place = tuple[str, int]  # a variable and a byte in it


def address_of(operand: str) -> Place | None:
    """Return the register or variable of an address and the number that is added to it; None of anything else."""
    found = ADDRESS.fullmatch(operand)
    offset = immediate(found[3].replace(" ", "")) if found is not None and found[3] else 0
    return None if found is None or offset is None else (found[1], -offset if found[2] == "-" else offset)


def with_direct_parameters(kernel: Kernel) -> Kernel:
    """Return a kernel whose loads of parameters name these, as far as their addresses are known, one each."""
    places = places_of(kernel.instructions, {parameter.name for parameter in kernel.parameters})
    return kernel.expanded(lambda i: _one_by_one(_direct(i, places)))


def _one_by_one(i: Instruction) -> list[Instruction]:
    """Return the loads of which a load of several parameters consists; else the instruction itself."""
    if i.base != "ld" or "param" not in i.parts or len(i.results) < 2:
        return [i]
    found = ADDRESS.fullmatch(i.operands[1])
    begin = immediate(found[3]) if found is not None and found[3] and found[2] == "+" else 0
    if found is None or begin is None or found[2] == "-" or found[1] in i.results:
        return [i]
    each, parts = width_of(i) // len(i.results), tuple(p for p in i.parts if p not in {"v2", "v4", "v8"})
    places = [f"[{found[1]}+{begin + n * each}]" for n in range(len(i.results))]
    return [
        replace(i, name=".".join(parts), parts=parts, operands=(name, place, *i.operands[2:]))
        for name, place in zip(i.results, places, strict=True)
        if name != "_"
    ]


def _direct(i: Instruction, places: dict[str, Place]) -> Instruction:
    if i.base != "ld" or (not {"param", "param::entry"}.intersection(i.parts) and _other_space(i)):
        return i
    address = address_of(i.operands[1])
    place = places.get(address[0]) if address is not None else None
    if address is None or place is None:
        return i
    offset = place[1] + address[1]
    if offset < 0:
        return i
    parts = i.parts if "param" in i.parts else (i.base, "param", *(p for p in i.parts[1:] if p != "param::entry"))
    return replace(
        i, name=".".join(parts), parts=parts, operands=(i.operands[0], f"[{place[0]}+{offset}]", *i.operands[2:])
    )


def _other_space(i: Instruction) -> bool:
    return any(p.split("::")[0] in {"global", "shared", "const", "local"} for p in i.parts)


def places_of(instructions: Sequence[Instruction], names: Set[str]) -> dict[str, Place]:
    """Return the registers that hold addresses in variables of these names, with these."""
    definitions: dict[str, int] = {}
    readers: dict[str, list[Instruction]] = {}
    work: list[Instruction] = []
    for i in instructions:
        for name in results_of(i):
            definitions[name] = definitions.get(name, 0) + 1
        if i.base in _STEPS and len(i.operands) > 1:
            readers.setdefault(i.operands[1], []).append(i)
            if i.operands[1] in names:
                work.append(i)
    given: dict[str, list[Place]] = {}
    found: dict[str, Place] = {}
    while work:
        i = work.pop()
        place = _after(i, found, names)
        if place is None:
            continue
        to = i.operands[0]
        listed = given.setdefault(to, [])
        listed.append(place)
        if len(listed) == definitions[to] and len(set(listed)) == 1:
            found[to] = place
            work += readers.get(to, [])
    return found


def _after(i: Instruction, found: dict[str, Place], names: Set[str]) -> Place | None:
    """Return the address that an instruction makes of one."""
    source = i.operands[1]
    place = (source, 0) if source in names else found.get(source)
    if place is None or i.base in {"mov", "cvta"}:
        return place
    step = immediate(i.operands[2]) if len(i.operands) > 2 else None
    if step is None:
        return None
    return place[0], place[1] + (-step if i.base == "sub" else step)
