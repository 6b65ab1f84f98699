"""What else must hold of a legal tensor map and of an execution of a copy: with numbers, before anything fails."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from legalsat.analyses.banks.bank_wavefronts import shared_access, wavefronts
from legalsat.analyses.copy_engine import smem_bytes, tx_bytes
from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Consequence, Explanation, Obligation
from legalsat.layout.swizzle import Swizzle
from legalsat.rules.tensor_copy import bits_of, counted, past_the_end, step_of
from legalsat.targets import Target, TmaLimits
from legalsat.units.sites import SWIZZLE_SPANS, TmaCopy
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import SWIZZLES, TensorMap, driver_value

# One phase of ldmatrix, and one core matrix of a matrix unit: eight rows of 16 bytes.
_READER, _ROWS, _CHUNK = "ldmatrix.x1", 8, 16
_MOST_CHUNKS = 8  # of a row: the banks begin again after 128 bytes
_NOTE = "measured, FACTS {}"
_COPY_SWIZZLES = ("32B", "64B", "128B")


def explain_copy(copy: TensorCopy | BulkCopy, target: Target, found: list[Diagnostic]) -> Explanation:
    """Return the explanation of one execution of a copy from its violations."""
    legal = not any(d.level == "error" for d in found)
    more = obligations(copy, target) if legal else ()
    return Explanation(str(copy), str(target), legal, tuple(found), obligations=more, of=copy)


def obligations(subject: TensorMap | TensorCopy | BulkCopy, target: Target) -> tuple[Obligation, ...]:
    """Return what must hold besides of a legal map, or of a copy whose other fields are not known.

    None where the target lacks the copy engine, or the map has no meaning to it.
    """
    if target.tma is None:
        return ()
    if isinstance(subject, BulkCopy):
        return tuple(_of_bulk_copy(subject))
    copy = TensorCopy(subject) if isinstance(subject, TensorMap) else subject
    brought, needed = counted(tx_bytes, copy.tensor_map), counted(smem_bytes, copy.tensor_map)
    if brought is None or needed is None:
        return ()
    either = isinstance(subject, TensorMap)
    return (
        *_of_barrier(copy, brought),
        *_of_shared_memory(copy, brought, needed, target.tma),
        *_of_coordinates(copy, target.tma, either=either),
        *_of_banks(copy.tensor_map, target, rows=brought // TmaCopy.of(copy.tensor_map).inner_bytes),
    )


def _of_bulk_copy(copy: BulkCopy) -> Iterator[Obligation]:
    if copy.bytes is not None and not copy.stores:
        yield Obligation("hang", f"the barrier must expect {copy.bytes} bytes for it", "FACTS BK-05")


def _of_barrier(copy: TensorCopy, brought: int) -> Iterator[Obligation]:
    if copy.transaction_bytes is None and not copy.stores:
        several = f", {copy.copies * brought} in a phase of {copy.copies}" if copy.copies > 1 else ""
        outside = "also where the box lies outside the tensor"
        yield Obligation(
            "hang", f"the barrier must expect {brought} bytes a copy{several}, {outside}", _NOTE.format("M-10")
        )


def _of_shared_memory(copy: TensorCopy, brought: int, needed: int, tma: TmaLimits) -> Iterator[Obligation]:
    tm = copy.tensor_map
    if copy.shared_bytes is None:
        site = TmaCopy.of(tm)
        rows = f": rows lie {SWIZZLE_SPANS[site.swizzle]} bytes apart, not {site.inner_bytes}"
        padded = rows if needed != brought and tm.interleave == "none" else ""
        lacking: Consequence = "wrong" if copy.stores else "clobber"
        yield Obligation(lacking, f"the box needs {needed} bytes of shared memory{padded}", _NOTE.format("M-08"))
    if copy.shared_address is None:
        place = f"the box must lie at a multiple of {tma.shared_alignment} bytes of shared memory"
        yield Obligation("fault", place, _NOTE.format("M-11"))
        if copy.pattern_bytes > 1 and not copy.by_address:
            place = f"the box must lie at a multiple of {copy.pattern_bytes} bytes"
            yield Obligation("wrong", f"{place}, unless readers swizzle absolute addresses", _NOTE.format("M-09"))
    if copy.read_as is None and tm.swizzle != "none":
        readers = f"what reads the box, such as a matrix descriptor, must name swizzle {tm.swizzle} too"
        yield Obligation("wrong", readers, "PTX ISA 9.1, 9.7.15.5")


def _of_coordinates(copy: TensorCopy, tma: TmaLimits, *, either: bool) -> Iterator[Obligation]:
    """Yield what holds of coordinates; of stores too where it could be `either`."""
    tm = copy.tensor_map
    step, writes = step_of(tm, tma), either or copy.stores
    if copy.coordinate is None:
        parts = [f"coordinates of dimension 0 must be multiples of {step} elements"] if step > 1 else []
        parts += ["no coordinate of a store may be negative"] if writes else []
        if parts:
            yield Obligation("fault", ", and ".join(parts), _NOTE.format("M-12"))
    past = past_the_end(tm, tma)
    if past and either:
        size = past * bits_of(tm) // 8
        behind = f"a store overwrites the {past} elements ({size} bytes) behind each row of {tm.global_dim[0]}"
        yield Obligation("clobber", behind, _NOTE.format("M-13"))


def _of_banks(tm: TensorMap, target: Target, rows: int) -> Iterator[Obligation]:
    inner = TmaCopy.of(tm).inner_bytes
    if rows < _ROWS or tm.interleave != "none":
        return
    taken, pitch = column_wavefronts(inner, str(tm.swizzle), target)
    if taken == 1:
        return
    instead = ""
    for name in _COPY_SWIZZLES:
        best, padded = column_wavefronts(min(inner, 128), name, target) if inner <= _span(name) else (taken, 0)
        if best < taken:
            more = f", in rows padded to {padded} bytes" if padded > inner else ""
            instead = f"; swizzle {name} takes {best}{more}"
            break
    if inner > _span("128B"):
        best, _ = column_wavefronts(_span("128B"), "128B", target)
        instead = f"; boxes of {_span('128B')} bytes in dimension 0 with swizzle 128B take {best}"
    yield Obligation(
        "conflict",
        f"{_ROWS} rows of a column, as ldmatrix and matrix units read them, take {taken} wavefronts, as rows lie "
        f"{pitch} bytes apart{instead}",
        _NOTE.format("M-15"),
    )


def column_wavefronts(inner_bytes: int, swizzle: str, target: Target) -> tuple[int, int]:
    """Return the most wavefronts that eight rows of 16 bytes in a column of a box take, and the bytes between rows.

    Args:
        inner_bytes: of the box, a multiple of 16 and at most the swizzle's span.
        swizzle: of the map, by name.
        target: whose banks serve.
    """
    pitch = inner_bytes if swizzle == "none" else _span(swizzle)
    chunks = np.arange(min(inner_bytes // _CHUNK, _MOST_CHUNKS), dtype=np.int64)
    linear = chunks[:, None] * _CHUNK + np.arange(_ROWS, dtype=np.int64) * pitch
    # Flipping halves of 16 bytes moves none to other banks' rows.
    addresses = Swizzle.tma(swizzle.removesuffix("_flip_8B"))(linear)
    return int(wavefronts(shared_access(_READER, target), addresses).max()), pitch


def _span(swizzle: str) -> int:
    """Return the bytes that a swizzle's rows take."""
    assert swizzle in SWIZZLES
    return SWIZZLE_SPANS[driver_value("swizzle", swizzle)]
