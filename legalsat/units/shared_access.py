"""Instructions of a warp that access shared memory: what each address moves, and which addresses are served together.

One table per family of chips, named by `BankModel.accesses` of a target. A *phase* is the addresses that the banks
serve together, in one wavefront if no bank holds two different words of them. Ids are those of the hardware facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from legalsat.errors import LegalSatError

Phases: TypeAlias = tuple[tuple[int, ...], ...]
"""Places in the list of addresses, one tuple a phase."""

# Lane i of a load shares its address with lane i ^ d, for one of these d and every i: then phases merge in pairs.
PAIRS = (1, 2)


class UnknownPhases(LegalSatError):
    """Nobody has published or measured how this chip groups the lanes of this instruction."""


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """How banks serve one instruction of a warp.

    Attributes:
        name: such as "ld.b128".
        bytes: that each address moves.
        phases: addresses served together; empty where it is not known.
        merged: the phases of an access whose lanes share addresses in pairs; empty where nothing merges.
        banks: banks of 4 bytes that take part.
        matrices: of ldmatrix and stmatrix, how many 8 x 8 matrices are moved; 0 for others.
        transposed: whether the matrices are.
        stores: whether it writes.
    """

    name: str
    bytes: int
    phases: Phases
    merged: Phases = ()
    banks: int = 32
    matrices: int = 0
    transposed: bool = False
    stores: bool = False

    @property
    def addresses(self) -> int:
        """How many addresses it takes: one a lane, or one a matrix row."""
        return sum(map(len, self.phases))

    @property
    def alignment(self) -> int:
        """Bytes that each address must be a multiple of."""
        return self.bytes & -self.bytes


def _by(together: int, lanes: int) -> Phases:
    """Return phases of so many consecutive lanes each."""
    return tuple(tuple(range(first, first + together)) for first in range(0, lanes, together))


def _groups(*groups: str, lanes: int = 32) -> Phases:
    """Return phases written as "0-3 20-23", and the same `lanes` further for the other half of a wave of 64."""
    spans = [[tuple(map(int, span.split("-"))) for span in group.split()] for group in groups]
    half = [tuple(lane for first, last in group for lane in range(first, last + 1)) for group in spans]
    return tuple(tuple(lane + more for lane in group) for more in (0, lanes) for group in half)


def _nvidia(*, stmatrix: bool) -> dict[str, SharedAccess]:
    """Return the instructions of a chip with 32 banks and warps of 32 lanes.

    HW-09 to HW-12, and M-15: measured on an H200. The other chips have the same banks and no measurement against it.
    """
    warp, halves, quarters = _by(32, 32), _by(16, 32), _by(8, 32)
    found = []
    for name, size, phases, merged in (
        ("u8", 1, warp, ()),
        ("u16", 2, warp, ()),
        ("b32", 4, warp, ()),
        ("b64", 8, halves, warp),
        ("b128", 16, quarters, halves),
    ):
        found.append(SharedAccess(f"ld.{name}", size, phases, merged))
        found.append(SharedAccess(f"st.{name}", size, phases, stores=True))
    for instruction in ("ldmatrix", "stmatrix") if stmatrix else ("ldmatrix",):
        for matrices in (1, 2, 4):
            for suffix in ("", ".trans"):
                name = f"{instruction}.x{matrices}{suffix}"
                rows = _by(8, 8 * matrices)
                stores, transposed = instruction == "stmatrix", bool(suffix)
                found.append(SharedAccess(name, 16, rows, matrices=matrices, transposed=transposed, stores=stores))
    return {access.name: access for access in found}


_EIGHTS = _groups("0-3 20-23", "4-7 16-19", "8-11 28-31", "12-15 24-27")  # AMD-04
_SIXTEENS = _groups("0-3 12-15 20-23 24-27", "4-7 8-11 16-19 28-31")  # AMD-05


def _amd(*known: SharedAccess) -> dict[str, SharedAccess]:
    """Return the instructions whose phases are known, and those of which only the name is (AMD-06)."""
    sizes = {"b32": 4, "b64": 8, "b96": 12, "b128": 16}
    names = {f"ds_{way}_{size}": number for way in ("read", "write") for size, number in sizes.items()}
    found = {name: SharedAccess(name, size, (), stores="write" in name) for name, size in names.items()}
    return found | {access.name: access for access in known}


ACCESSES: dict[str, dict[str, SharedAccess]] = {
    "sm_80": _nvidia(stmatrix=False),  # AM-02
    "sm_90": _nvidia(stmatrix=True),
    "gfx90a": _amd(),
    "gfx942": _amd(
        SharedAccess("ds_read_b128", 16, _EIGHTS),
        SharedAccess("ds_write_b128", 16, _by(8, 64), stores=True),
    ),
    "gfx950": _amd(
        SharedAccess("ds_read_b64", 8, _by(32, 64), banks=64),
        SharedAccess("ds_read_b96", 12, _EIGHTS),
        SharedAccess("ds_read_b128", 16, _SIXTEENS, banks=64),
        SharedAccess("ds_write_b64", 8, _by(16, 64), stores=True),
    ),
}
