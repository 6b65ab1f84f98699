"""How many passes ("wavefronts") the banks of shared memory take for one access of a warp, from its addresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from legalsat.checks import integers, one_of
from legalsat.errors import InvalidInput
from legalsat.targets import Target
from legalsat.targets import target as target_called
from legalsat.units.shared_access import ACCESSES, PAIRS, Phases, SharedAccess, UnknownPhases

WORD_BYTES = 4


def bank_wavefronts(op: str, addresses: Sequence[int], target: str | Target) -> int:
    """Return how many wavefronts one warp-wide access of shared memory takes.

    An instruction's lanes are served in phases: all 32 for 32 bits and less, halves for 64 bits, quarters for 128, and
    for ldmatrix and stmatrix the eight rows of each matrix. A phase takes as many wavefronts as its busiest bank holds
    different words. A 64- or 128-bit load in which every lane i has the address of lane i ^ 1, or every lane that of
    lane i ^ 2, needs half the bytes, and its phases merge in pairs; stores never merge. On AMD the phases are those of
    the target's table.

    Args:
        op: the instruction: on NVIDIA "ld." or "st." with u8, u16, b32, b64 or b128 (".shared" may stand in between),
            "ldmatrix." or "stmatrix." with x1, x2 or x4 and perhaps ".trans"; on AMD such as "ds_read_b128".
        addresses: byte addresses in shared memory, one per lane (32; AMD 64), all lanes active; of ldmatrix and
            stmatrix the row addresses, 8 a matrix in lane order, of which those of the first 8, 16 or 32 lanes count.
            What they move lies below `Target.shared_bytes_per_processor`, which is as far as a block's addresses go:
            its own bytes, and before them those that the driver keeps.
        target: a target or its name.

    Raises:
        InvalidInput: an unknown instruction or target, another number of addresses, one that is negative, misaligned or
            beyond shared memory.
        UnknownPhases: nobody has published how this chip serves the instruction.

    Source: measured on an H200 (FACTS M-15); FACTS HW-09 to HW-12 and AMD-03 to AMD-05.
    """
    access = shared_access(op, target)
    room = target_called(target).shared_bytes_per_processor
    given = integers(addresses, "addresses", low=0, high=room - access.bytes)
    if len(given) != access.addresses and not (access.matrices and len(given) == 32):
        raise InvalidInput(
            f"{access.name} was given {len(given)} addresses; give {access.addresses}, one per lane"
            + (", or 32" if access.matrices else "")
        )
    return int(wavefronts(access, np.array([given[: access.addresses]], dtype=np.int64))[0])


def shared_access(op: str, chip: str | Target) -> SharedAccess:
    """Return how the target serves an instruction, or raise `InvalidInput` or `UnknownPhases`."""
    at = target_called(chip)
    table = ACCESSES.get(at.banks.accesses, {})
    name = op.replace(".shared.", ".", 1) if isinstance(op, str) else op
    if not table:
        raise InvalidInput(f"target {at} lists no instructions of shared memory; give one of those in legalsat.targets")
    access = table[one_of(name, f"instruction on {at}", table)]
    if not access.phases:
        known = ", ".join(name for name, a in table.items() if a.phases)
        raise UnknownPhases(
            f"how {at} groups the lanes of {access.name} is not known (no document, no measurement); use {known}"
        )
    return access


def wavefronts(access: SharedAccess, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the wavefronts of many accesses of one instruction, shape (n,), from their addresses, (n, addresses)."""
    _check(access, addresses)
    found = _served(access, addresses, access.phases)
    merging = paired(access, addresses)
    found[merging] = _served(access, addresses[merging], access.merged)
    return found


def least_wavefronts(access: SharedAccess, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the accesses would take if no two words shared a bank: one wavefront a phase, shape (n,).

    No layout does better, since which lanes share addresses is not the layout's choice; and for each access alone one
    does as well, since a phase needs no more bytes than the banks hold.
    """
    return np.where(paired(access, addresses), len(access.merged), len(access.phases)).astype(np.int64)


def paired(access: SharedAccess, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which accesses merge phases: those whose lanes share addresses in pairs, shape (n,)."""
    lanes = np.arange(addresses.shape[1])
    found = np.zeros(len(addresses), dtype=np.bool_)
    for apart in PAIRS if access.merged else ():
        found |= (addresses == addresses[:, lanes ^ apart]).all(axis=1)
    return found


def _served(access: SharedAccess, addresses: NDArray[np.int64], phases: Phases) -> NDArray[np.int64]:
    """Return the wavefronts of each access, given its phases, all of one length."""
    count = len(addresses)
    if not count:
        return np.zeros(0, dtype=np.int64)
    # Aligned units of a power of two never straddle banks, so that they can be counted instead of words.
    unit = max(WORD_BYTES, access.alignment)
    words = addresses[:, np.array(phases)][..., None] // unit + np.arange(-(-access.bytes // unit))
    words = np.sort(words.reshape(count * len(phases), -1), axis=1)
    first = np.ones(words.shape, dtype=np.bool_)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    groups = access.banks * WORD_BYTES // unit
    rows = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    held = np.bincount((rows * groups + words % groups)[first], minlength=len(words) * groups)
    served: NDArray[np.int64] = held.reshape(count, len(phases), groups).max(axis=2).sum(axis=1)
    return served


def _check(access: SharedAccess, addresses: NDArray[np.int64]) -> None:
    """Raise `InvalidInput` for an address that is negative or misaligned."""
    wrong = np.argwhere((addresses < 0) | (addresses % access.alignment != 0))
    if len(wrong):
        number, lane = wrong[0]
        raise InvalidInput(
            f"address {lane} of {access.name} is {addresses[number, lane]} bytes; give a multiple of "
            f"{access.alignment}, at least 0"
        )
