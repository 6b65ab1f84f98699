"""What the encode call cannot see: every number is what the copy engine or the banks do."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.extract.region.obligations import column_wavefronts, obligations
from legalsat.targets import target
from legalsat.units.tensor_map import SWIZZLES

H200 = target("h200")
SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128}
MAP = ls.TensorMap("bf16", (64, 128), (128,), (64, 8), swizzle="128B")
SIZES = {"u8": 1, "bf16": 2, "fp32": 4}


@st.composite
def legal_maps(draw: st.DrawFn) -> ls.TensorMap:
    """Draw a legal map of two dimensions; its box may be narrower than the swizzle's span."""
    dtype = draw(st.sampled_from(sorted(SIZES)))
    swizzle = draw(st.sampled_from(sorted(SPANS)))
    most = min(SPANS[swizzle], 256 * SIZES[dtype])
    row = 16 * draw(st.integers(1, most // 16))
    extent = draw(st.integers(1, 600))
    pitch = -(-extent * SIZES[dtype] // 16) * 16
    return ls.TensorMap(
        dtype,
        (extent, 300),
        (pitch,),
        (row // SIZES[dtype], draw(st.integers(1, 64))),
        swizzle=swizzle,  # type: ignore[arg-type]
    )


def said(subject: Any, consequence: str, word: str = "") -> list[str]:
    return [o.message for o in obligations(subject, H200) if o.consequence == consequence and word in o.message]


def first_number(text: str) -> int:
    return int(re.findall(r"\d+", text)[0])


@settings(deadline=None, max_examples=120)
@given(legal_maps())
def test_numbers_are_those_of_the_copy_engine(tm: ls.TensorMap) -> None:
    """Every number that is said, put into an execution, is legal, and the next smaller or larger one is not."""
    assert ls.explain(tm, "h200").obligations == obligations(tm, H200)
    expected, needed = first_number(said(tm, "hang")[0]), first_number(said(tm, "clobber", "shared memory")[0])
    assert (expected, needed) == (ls.tx_bytes(tm), ls.smem_bytes(tm))
    step = int(re.findall(r"multiples of (\d+) elements", said(tm, "fault", "coordinates")[0])[0])
    place = max(first_number(m) for m in (*said(tm, "fault", "lie at"), *said(tm, "wrong", "lie at")))
    copy = ls.TensorCopy(
        tm,
        transaction_bytes=expected,
        shared_bytes=needed,
        shared_address=place,
        coordinate=(step, 0),
        read_as=tm.swizzle,
    )
    assert not ls.violations(copy, H200)
    for wrong, code in (
        ({"transaction_bytes": expected - 1}, "COPY006"),
        ({"shared_bytes": needed - 1}, "COPY007"),
        ({"shared_address": place // 2}, "COPY005" if place > 128 else "COPY004"),
        ({"coordinate": (step // 2, 0)}, "COPY001"),
    ):
        assert [d.code for d in ls.violations(replace(copy, **wrong), H200)] == [code]


@settings(deadline=None, max_examples=80)
@given(legal_maps())
def test_a_store_past_the_inner_extent_is_foretold(tm: ls.TensorMap) -> None:
    told = said(tm, "clobber", "a store overwrites")
    refused = [d for d in ls.violations(ls.TensorCopy(tm, stores=True), H200) if d.code == "COPY008"]
    assert bool(told) == bool(refused) == bool(tm.global_dim[0] * tm.map_type.bits % 128)
    if told:
        assert re.findall(r"(\d+) elements \((\d+) bytes\)", told[0]) == re.findall(
            r"(\d+) elements \((\d+) bytes\)", refused[0].message
        )


def worst_column(tm: ls.TensorMap) -> int:
    """Return the most wavefronts of eight rows of 16 bytes, from where an image of the box has each byte."""
    row = tm.box[0] * tm.map_type.bits // 8
    dense = replace(tm, global_dim=(tm.box[0], 300), global_stride=(row,))
    image = ls.smem_image(dense, (0, 0))
    place = {int(source): at for at, source in enumerate(image) if source >= 0}
    worst = 0
    for chunk in range(0, row, 16):
        for top in range(0, tm.box[1] - 7, 8):
            addresses = [place[(top + i) * row + chunk] for i in range(8)]
            worst = max(worst, ls.bank_wavefronts("ldmatrix.x1", addresses, "h200"))
    return worst


@settings(deadline=None, max_examples=40)
@given(legal_maps())
def test_bank_conflicts_are_those_of_the_image(tm: ls.TensorMap) -> None:
    tm = replace(tm, box=(tm.box[0], 8 + tm.box[1] % 16))
    worst = worst_column(tm)
    told = said(tm, "conflict")
    assert bool(told) == (worst > 1)
    assert not said(replace(tm, box=(tm.box[0], 7)), "conflict"), "nobody reads eight rows of seven"
    if not told:
        return
    assert f"take {worst} wavefronts" in told[0]
    instead = re.search(r"; (?:boxes of (\d+) bytes .*)?swizzle (\w+) takes? (\d+)", told[0])
    if instead is not None:
        width = int(instead[1] or tm.box[0] * tm.map_type.bits // 8)
        other = replace(tm, box=(width * 8 // tm.map_type.bits, tm.box[1]), swizzle=instead[2])  # type: ignore[arg-type]
        assert worst_column(other) == int(instead[3]) < worst


@pytest.mark.parametrize("swizzle", [s for s in SWIZZLES if s != "none"])
def test_no_swizzle_of_a_full_row_has_conflicts(swizzle: str) -> None:
    span = int(swizzle.partition("B")[0])
    taken, pitch = column_wavefronts(span, swizzle, target("b200"))
    assert pitch == span
    atoms = {"128B_atom_32B": 2, "128B_atom_32B_flip_8B": 2, "128B_atom_64B": 4}
    assert taken == atoms.get(swizzle, 1), "chunks of an atom stay together"


def test_what_is_known_is_not_said_again() -> None:
    known: dict[str, Any] = {
        "transaction_bytes": 1024,
        "shared_bytes": 1024,
        "shared_address": 1024,
        "coordinate": (0, 0),
    }
    of_map = {o.message for o in obligations(ls.TensorCopy(MAP), H200)}
    for field, value in known.items():
        fewer = {o.message for o in obligations(ls.TensorCopy(MAP, **{field: value}), H200)}
        assert fewer < of_map, field
    assert not obligations(ls.TensorCopy(MAP, **known, read_as="128B"), H200)
    assert not said(ls.TensorCopy(MAP, stores=True), "hang"), "a store signals no barrier"
    assert "2048 in a phase of 2" in said(ls.TensorCopy(MAP, copies=2), "hang")[0]
    assert first_number(said(ls.BulkCopy(bytes=4096), "hang")[0]) == 4096


def test_nothing_is_added_to_what_is_refused() -> None:
    assert not ls.explain(replace(MAP, global_stride=(130,)), "h200").obligations
    assert not ls.explain(ls.TensorCopy(MAP, coordinate=(3, 0)), "h200").obligations
    assert not obligations(MAP, target("a100"))
    packed = ls.TensorMap("16u4_align16b", (128, 8), (64,), (128, 8))
    assert not ls.explain(packed, "b200").obligations, "nobody measured what lies where"


def test_obligations_are_shown_and_saved() -> None:
    found = ls.explain(MAP, "h200")
    assert "what the encode call cannot see" in str(found)
    assert found.to_json()["obligations"][0] == found.obligations[0].to_json()
    for said_here in found.obligations:
        assert not said_here.message.endswith(".")
        assert said_here.message[0].islower() or said_here.message[0].isdigit()
    assert np.unique([o.message for o in found.obligations]).size == len(found.obligations)
