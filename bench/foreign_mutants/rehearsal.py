"""What can be known of launches without a GPU: `python -m bench.foreign_mutants.rehearsal WORK [assemble]`.

WORK is what `device prepare` has written. Arguments must have the sizes of the text's parameters, maps must lie in
their buffers, and with `assemble` ptxas must take every fault. Exit status 1 if something is not so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.foreign_mutants.device import SHARED_OF_AN_SM, file_of
from bench.foreign_mutants.draws import drawn_for
from bench.foreign_mutants.launches import DTYPES, MIB, Argument, Map, MapInMemory, Recipe, Structure, value
from bench.foreign_mutants.recipes import RECIPES
from legalsat.backends.ptx.assemble import AssemblyFailed, assemble

_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)[^,)]*?([\w$]+)(?:\[(\d+)\])?\s*(?=[,)]|$)", re.MULTILINE
)
_SHARED = re.compile(r"^\s*\.shared\s+.*?([\w$]+)\[(\d+)\];", re.MULTILINE)


class _NoDevice:
    """Takes the place of a GPU where only sizes matter."""

    def encode(self, arguments: dict[str, Any]) -> bytes:
        return bytes(128)

    def allocate(self, size: int) -> int:
        return 0

    def write(self, pointer: int, data: bytes) -> None:
        pass


def parameters(text: str) -> list[int]:
    """Return the bytes of each parameter of the only entry."""
    head = text[text.index(".entry") :]
    declared = head[: head.index("{")]
    return [int(count or 1) * int(re.sub(r"\D", "", type_)) // 8 for type_, _, count in _PARAMETER.findall(declared)]


def maps(arguments: tuple[Argument, ...]) -> Iterator[Map]:
    """Yield all tensor maps among arguments."""
    for argument in arguments:
        if isinstance(argument, Map):
            yield argument
        elif isinstance(argument, MapInMemory):
            yield argument.map
        elif isinstance(argument, Structure):
            yield from maps(tuple(argument.parts.values()))


def problems(recipe: Recipe, text: str | None) -> Iterator[str]:
    """Yield what cannot be right about a recipe."""
    buffers = recipe.buffers
    if text is not None:
        given = [len(value(a, dict.fromkeys(buffers, 0), _NoDevice())) for a in recipe.arguments]
        if given != parameters(text):
            yield f"arguments have {given} bytes, parameters {parameters(text)}"
        body = text[text.index(".entry") :]
        fixed = sum(int(size) for name, size in _SHARED.findall(text) if re.search(rf"\b{re.escape(name)}\b", body))
        if fixed + recipe.shared > SHARED_OF_AN_SM:
            yield f"{fixed + recipe.shared} bytes of shared memory"
    for one in maps(recipe.arguments):
        size = DTYPES[one.dtype][1]
        last = sum((dim - 1) * stride for dim, stride in zip(one.dims[1:], one.strides, strict=True))
        if last + one.dims[0] * size > buffers[one.buffer]:
            yield f"the map of {one.buffer} ends {last / MIB:.1f} MiB on"
        if len(one.box) != len(one.dims) or any(not 0 < extent <= 256 for extent in one.box):
            yield f"box {one.box} of {one.buffer}"
        if any(stride % 16 for stride in one.strides) or one.box[0] * size > (one.swizzle or 256):
            yield f"strides {one.strides}, box {one.box} of {one.buffer}"


def main(arguments: list[str]) -> int:
    """Rehearse all; return 1 if something is wrong."""
    work, wrong = Path(arguments[0]), 0
    for recipe in RECIPES:
        text = (work / f"{file_of(recipe.source)}.ptx").read_text()
        listed = list(problems(recipe, text))
        found = drawn_for(recipe.source, text)
        if "assemble" in arguments:
            for n, fault in enumerate([None, *found]):
                try:
                    assemble(text if fault is None else fault.text, "sm_90a")
                except AssemblyFailed as failure:
                    where = "the kernel" if fault is None else f"fault {n - 1}, {fault.kind}, line {fault.line}"
                    listed.append(f"{where}: {str(failure)[-300:]}")
        wrong += len(listed)
        print(f"{recipe.source}: {len(found)} faults", *listed, sep="\n    ", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
