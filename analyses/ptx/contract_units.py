"""Which instructions a chip has, of those that pipelines are made of (FACTS; PTX ISA, target notes of each)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import Kernel

_TENSOR_MEMORY = {100, 101, 103, 110}  # compute capabilities, tenfold, that have tcgen05


class _Chip(NamedTuple):
    """A target such as sm_90a: 90, and whether it is of one architecture or family (`a` or `f`)."""

    number: int
    specific: bool


class _Need(NamedTuple):
    """What some instructions need: which these are, the unit, whether a chip has it, and which do, in words."""

    uses: Callable[[Instruction], bool]
    unit: str
    has: Callable[[_Chip], bool]
    chips: str


def _since(number: int) -> Callable[[_Chip], bool]:
    return lambda chip: chip.number >= number


def _async_copy(i: Instruction) -> bool:
    return i.base == "cp" and i.parts[1:2] == ("async",)


_BY_ENGINE = {"expect_tx", "complete_tx", "try_wait"}
_OF_CLUSTERS = {"mapa", "stmatrix", "elect", "clusterlaunchcontrol", "griddepcontrol"}
_NEEDS = (
    _Need(lambda i: i.base == "wgmma", "wgmma", lambda chip: chip == (90, True), "sm_90a, and the only one"),
    _Need(
        lambda i: i.base == "tcgen05",
        "tcgen05",
        lambda chip: chip.number in _TENSOR_MEMORY and chip.specific,
        "sm_100a",
    ),
    _Need(lambda i: any("gather4" in p or "scatter4" in p for p in i.parts), "gather4", _since(100), "sm_100"),
    _Need(
        lambda i: i.base == "setmaxnreg" or (i.base == "tensormap" and "replace" in i.parts),
        "setmaxnreg and tensormap.replace",
        lambda chip: chip.number >= 90 and chip.specific,
        "sm_90a",
    ),
    _Need(lambda i: _async_copy(i) and "bulk" in i.parts, "copy engine", _since(90), "sm_90"),
    _Need(
        lambda i: i.base == "mbarrier" and bool(_BY_ENGINE & set(i.parts)),
        "mbarrier that counts bytes or suspends",
        _since(90),
        "sm_90",
    ),
    _Need(
        lambda i: i.base == "fence" and i.parts[1:2] in {("proxy",), ("mbarrier_init",)},
        "fence between proxies",
        _since(90),
        "sm_90",
    ),
    _Need(lambda i: i.base in _OF_CLUSTERS or "cluster" in i.parts[:2], "clusters", _since(90), "sm_90"),
    _Need(lambda i: i.base == "mbarrier" or _async_copy(i), "asynchronous copies and barriers", _since(80), "sm_80"),
    _Need(lambda i: i.base == "ldmatrix", "ldmatrix", _since(75), "sm_75"),
)


def lacking(target: str, kernel: Kernel) -> tuple[Finding, ...]:
    """Return the units that a kernel uses and the chip of its text has not, each at its first use.

    Args:
        target: of the text, such as "sm_90a"; of another form, nothing is said.
        kernel: whose instructions are looked at, reached or not: assemblers refuse them all.
    """
    named = re.fullmatch(r"sm_(\d+)([af]?)", target)
    if named is None:
        return ()
    chip = _Chip(int(named[1]), bool(named[2]))
    missing = [need for need in _NEEDS if not need.has(chip)]
    found: dict[str, Finding] = {}
    for i in kernel.instructions if missing else ():
        need = next((one for one in missing if one.uses(i)), None)
        if need is not None and need.unit not in found:
            message = f"{target} has no {need.unit}, which {i.base} needs; the first chip to have it is {need.chips}"
            found[need.unit] = Finding("pipeline_unit_lacking", i.line, message, "", HELP)
    return tuple(found.values())


HELP = "compile for a chip that has it, or use other means"
