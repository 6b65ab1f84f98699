"""Operands of matrix units: which shared memory a descriptor says, and who wrote what is read there."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import read_addresses
from legalsat.analyses.ptx.findings import UNWRITTEN
from legalsat.analyses.ptx_machine.machine import Part, Run, Warp
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES, distinct, in_words
from legalsat.analyses.ptx_machine.shadow import Cells
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.options import Major
from legalsat.units.matrix_descriptor import MatrixDescriptor

STEP_BYTES = 32  # of K that one instruction takes


def meets(warp: Warp, part: Part) -> bool:
    """Are all lanes of a warp that have not ended at one place?"""
    return part.mask == warp.live


Rows = tuple[int, int]  # of an operand: the first, and the one behind the last


@lru_cache(maxsize=512)
def _cells(  # noqa: PLR0917
    unit: str, word: int, major: Major, mn: int, bits: int, granule: int, rank: int, step: int, rows: Rows
) -> NDArray[np.int64]:
    read = read_addresses(MatrixDescriptor.from_word(unit, word), major, mn, 8 * step // bits, bits)
    places = read[slice(*rows)].ravel()
    if granule < bits // 8:  # an element is several cells
        places = (places[:, None] + np.arange(0, bits // 8, granule)).ravel()
    found: NDArray[np.int64] = distinct(places // granule)
    if found[-1] >= SHARED_BYTES // granule:
        raise InvalidInput("it reads outside shared memory")
    found += rank * (SHARED_BYTES // granule)
    found.flags.writeable = False
    return found


def cells_of(  # noqa: PLR0917
    run: Run, unit: str, word: int, major: Major, mn: int, bits: int, line: int, rank: int, step: int = STEP_BYTES,
    rows: Rows = (0, -1),
) -> Cells | None:  # fmt: skip
    """Return what a descriptor says in the shared memory of a CTA, `step` bytes of each row, of all rows or of some."""
    held, rows = run.program.operands, rows if rows[1] > 0 else (0, mn)
    key = word, rank, unit, major, mn, bits, step, rows
    cells = held.get(key)
    if cells is None:
        try:
            cells = held[key] = _cells(unit, word, major, mn, bits, run.order.granule, rank, step, rows)
        except LegalSatError as error:
            run.note(line, f"the matrix descriptor {word:#x} is not understood: {error}")
    return cells


def let_read(  # noqa: PLR0917
    run: Run, warp: Warp, unit: str, cells: Cells | None, agent: int, epoch: int, line: int
) -> tuple[Cells, list[int]] | None:
    """Let a matrix unit read an operand.

    Returns:
        The cells, and the accesses that wrote them, 0 among them where nobody did; None where it is not understood.
    """
    if cells is None:
        return None
    order = run.order
    writers = order.read(order.shared, cells, warp.worker, agent, epoch, unit, line)
    if 0 not in writers or not (run.measures or run.sized):
        return cells, writers
    empty = order.shared.unwritten(cells)
    run.touched[empty] = True
    if run.sized:
        byte = in_words(int(empty[0]) * order.granule)
        order.find("read_before_full", line, f"a multiplication reads shared byte {byte}, {UNWRITTEN}")
    return cells, writers
