"""tcgen05 instructions: descriptors against CUTLASS's, shapes against PTX's table, and what ptxas assembles."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legalsat.backends.ptx.assemble import AssemblyFailed, assemble
from legalsat.errors import InvalidInput
from legalsat.extract.kernels.tensor_memory import Instruction, choose_instruction
from legalsat.extract.solve.fields import Conflict
from legalsat.options import MAJORS, Major
from legalsat.rules import TENSOR_MEMORY_RULES
from legalsat.rules.examples.tcgen05 import mma
from legalsat.targets import target
from legalsat.units.tcgen05 import (
    KINDS,
    MAX_SHIFTS,
    InstructionDescriptor,
    Scales,
    kind_of,
    legal_m,
    legal_n,
    scale_ids,
    scale_steps,
)
from legalsat.units.tcgen05_sites import Tcgen05Mma, TensorMemoryAllocation, TensorMemoryCopy, TensorMemoryTransfer
from legalsat.units.tensor_memory_layouts import TRANSFERS

B200 = target("b200")
DATA = Path(__file__).parent / "data"
NAMES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "tfloat32": "tf32",
    "float32": "fp32",
    "float8_e4m3": "e4m3",
    "int8": "i8",
    "uint8": "u8",
    "int32": "i32",
}
STEPS = {
    8: tuple(range(8, 257, 8)),
    16: tuple(range(16, 257, 16)),
    32: tuple(range(32, 257, 32)),
    "i8": (8, 16, 24, *range(32, 257, 16)),
}


def codes(site: Any) -> set[str]:
    """Return the codes of the rules that a site violates on a B200."""
    return {d.code for rule in TENSOR_MEMORY_RULES if rule.site == type(site).__name__ for d in rule.check(site, B200)}


def golden() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((DATA / "cutlass_tcgen05_instr_desc.json").read_text())["entries"]
    return entries


def test_descriptors_equal_cutlass() -> None:
    entries = golden()
    assert len(entries) == 84
    for entry in entries:
        a, b, d = (NAMES[entry[name]] for name in "abc")
        kind = kind_of(a, b).name
        fields: dict[str, Any] = {"d": d, "a_major": entry["a_major"], "b_major": entry["b_major"]}
        ours = InstructionDescriptor(kind, a, b, entry["M"], entry["N"], **fields)
        assert ours.word == int(entry["idesc"], 16), entry
        assert InstructionDescriptor.from_word(kind, int(entry["idesc"], 16)) == ours


@pytest.mark.parametrize(("word", "m", "n", "b_major"), [(0x08200010, 128, 128, "K"), (0x08410010, 128, 256, "MN")])
def test_words_that_other_projects_show(word: int, m: int, n: int, b_major: Major) -> None:
    """FACTS 17.3."""
    ours = InstructionDescriptor("f16", "fp16", "fp16", m, n, b_major=b_major)
    assert (ours.word, ours.k, ours.d) == (word, 16, "fp32")


def test_block_scaled_words_bit_by_bit() -> None:
    """FACTS TC-17 and TC-18, each field set in turn."""
    base = InstructionDescriptor("mxf8f6f4", "e4m3", "e4m3", 128, 8)
    assert base.word == 1 << 17 | 1 << 23 | 1 << 27
    for field, value, bits in (
        ("sparse", True, 1 << 2),
        ("b_scale_id", 3, 3 << 4),
        ("a", "e2m1", 5 << 7),
        ("b", "e3m2", 4 << 10),
        ("negate_a", True, 1 << 13),
        ("negate_b", True, 1 << 14),
        ("a_major", "MN", 1 << 15),
        ("b_major", "MN", 1 << 16),
        ("a_scale_id", 2, 2 << 29),
    ):
        changed: dict[str, Any] = {"a": "e4m3", "b": "e4m3", field: value}
        assert InstructionDescriptor("mxf8f6f4", m=128, n=8, **changed).word == base.word | bits, field
    assert InstructionDescriptor("mxf8f6f4", "e4m3", "e4m3", 256, 8).word == 1 << 17 | 1 << 23 | 2 << 27
    narrow = 1 << 7 | 1 << 10 | 1 << 17 | 1 << 27
    assert InstructionDescriptor("mxf4nvf4", "e2m1", "e2m1", 128, 8).word == narrow
    assert InstructionDescriptor("mxf4nvf4", "e2m1", "e2m1", 128, 8, scale="e8m0").word == narrow | 1 << 23
    assert InstructionDescriptor("mxf4", "e2m1", "e2m1", 128, 8, wide=True).word == narrow | 1 << 23 | 1 << 31


def test_types_go_by_every_name() -> None:
    named = InstructionDescriptor("f16", "float16", "f16", 128, 256, d="float32")
    assert named == InstructionDescriptor("f16", "fp16", "fp16", 128, 256)
    assert (named.a, named.b, named.d) == ("fp16", "fp16", "fp32")
    assert InstructionDescriptor("tf32", "float32", "tf32", 128, 256).a == "tf32"
    scaled = InstructionDescriptor("mxf8f6f4", "float8_e4m3fn", "fp4", 128, 256, scale="float8_e8m0fnu")
    assert (scaled.a, scaled.b, scaled.scale) == ("e4m3", "e2m1", "e8m0")
    assert Scales("float8_e8m0fnu", 32) == Scales("e8m0", 32)
    assert kind_of("half", "bfloat16").name == "f16"


@pytest.mark.parametrize(("dtype", "block"), [("bf16", 32), ("e8m0", 0), ("e8m0", True), (None, 32)])
def test_scales_without_meaning_are_refused(dtype: Any, block: Any) -> None:
    with pytest.raises(InvalidInput):
        Scales(dtype, block)


@st.composite
def descriptors(draw: st.DrawFn) -> InstructionDescriptor:
    """Draw a descriptor all of whose fields exist in its kind, legal or not."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    scaled, narrow = bool(kind.scales), kind.k == 64
    flag, two_bits = st.booleans(), st.integers(0, 3)
    major = st.sampled_from(MAJORS[:1]) if narrow else st.sampled_from(MAJORS)
    return InstructionDescriptor(
        kind.name,
        draw(st.sampled_from(kind.operands)),
        draw(st.sampled_from(kind.operands)),
        draw(st.integers(1, 3)) * 128 if scaled else draw(st.integers(1, 31)) * 16,
        draw(st.integers(1, 63)) * 8,
        d=draw(st.sampled_from(kind.sums)),
        a_major=draw(major),
        b_major=draw(major),
        negate_a=draw(flag),
        negate_b=draw(flag),
        sparse=draw(flag),
        selector=0 if scaled else draw(two_bits),
        saturate=not scaled and draw(flag),
        max_shift=0 if scaled else draw(st.sampled_from(MAX_SHIFTS)),
        scale=draw(st.sampled_from([s.dtype for s in kind.scales])) if scaled else "",
        a_scale_id=draw(two_bits) if scaled and not narrow else 0,
        b_scale_id=draw(two_bits) if scaled else 0,
        wide=narrow and draw(flag),
    )


@given(descriptors())
def test_words_say_everything_but_the_kind(descriptor: InstructionDescriptor) -> None:
    assert 0 <= descriptor.word < 2**32
    assert InstructionDescriptor.from_word(descriptor.kind, descriptor.word) == descriptor


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(KINDS)))
def test_a_word_is_read_or_refused(word: int, kind: str) -> None:
    try:
        found = InstructionDescriptor.from_word(kind, word)
    except InvalidInput:
        return
    assert found.word == word


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (0x08200010 | 1 << 6, "f16"),
        (0x08200010 | 1 << 29, "tf32"),
        (0x08200010 | 2 << 7, "f16"),
        (0x08A00010, "mxf8f6f4"),
        (0, "f16"),
    ],
)
def test_words_without_meaning_are_refused(word: int, kind: str) -> None:
    if kind == "mxf8f6f4":  # legal so far: the id of B's scales is 1
        assert InstructionDescriptor.from_word(kind, word).b_scale_id == 1
        word |= 1 << 24
    with pytest.raises(InvalidInput):
        InstructionDescriptor.from_word(kind, word)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "f32"}, "give one of f16, tf32"),
        ({"a": "e4m3"}, "type of A"),
        ({"d": "i32"}, "type of D"),
        ({"m": 24}, "multiple of 16"),
        ({"m": 512}, "at most 496"),
        ({"n": 12}, "multiple of 8"),
        ({"n": True}, "n is True"),
        ({"a_major": "M"}, "a_major"),
        ({"max_shift": 4}, "0, 8, 16 or 32"),
        ({"max_shift": True}, "max_shift is True"),
        ({"max_shift": 8.0}, "give an integer"),
        ({"max_shift": [8]}, "give an integer"),
        ({"sparse": 2}, "sparse is 2; give True or False"),
        ({"negate_a": "yes"}, "negate_a is 'yes'"),
        ({"negate_b": 1}, "negate_b is 1"),
        ({"saturate": None}, "saturate is None"),
        ({"kind": "mxf4", "a": "e2m1", "b": "e2m1", "wide": 5}, "wide is 5"),
        ({"a": None}, "dtype None is unknown"),
        ({"a": "f17"}, "dtype 'f17' is unknown"),
        ({"scale": 3}, "dtype 3 is unknown"),
        ({"a_scale_id": 1}, "no field for"),
        ({"wide": True}, "no field for"),
        ({"selector": 4}, "at most 3"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], said: str) -> None:
    legal: dict[str, Any] = {"kind": "f16", "a": "bf16", "b": "bf16", "m": 128, "n": 128}
    with pytest.raises(InvalidInput, match=said):
        InstructionDescriptor(**{**legal, **fields})


@pytest.mark.parametrize(
    ("a", "b", "scales", "kind"),
    [
        ("bf16", "fp16", None, "f16"),
        ("fp32", "tf32", None, "tf32"),
        ("e4m3", "e2m1", None, "f8f6f4"),
        ("u8", "i8", None, "i8"),
        ("e4m3", "e5m2", Scales("e8m0", 32), "mxf8f6f4"),
        ("e2m1", "e2m1", Scales("e8m0", 32), "mxf4"),
        ("e2m1", "e2m1", Scales("e8m0", 16), "mxf4nvf4"),
        ("e2m1", "e2m1", Scales("e4m3", 16), "mxf4nvf4"),
        ("e2m1", "e4m3", Scales("e8m0", 32), "mxf8f6f4"),
    ],
)
def test_types_name_their_kind(a: str, b: str, scales: Scales | None, kind: str) -> None:
    assert kind_of(a, b, scales).name == kind


@pytest.mark.parametrize(
    ("a", "b", "scales"),
    [("bf16", "e4m3", None), ("fp64", "fp64", None), ("e4m3", "e4m3", Scales("e4m3", 16)), ("i4", "i4", None)],
)
def test_types_of_no_kind_are_refused(a: str, b: str, scales: Scales | None) -> None:
    with pytest.raises(InvalidInput, match="give types of one of"):
        kind_of(a, b, scales)


# PTX's table (FACTS 10.2), written out: kind, CTAs, sparse, .ws, K = 96 -> rows and columns.
def table() -> dict[tuple[str, int, bool, bool, bool], tuple[tuple[int, ...], tuple[int, ...]]]:
    found: dict[tuple[str, int, bool, bool, bool], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        for sparse in (False, True):
            one, two = (STEPS["i8"], STEPS[32]) if kind == "i8" else (STEPS[8], STEPS[16])
            found[kind, 1, sparse, False, False] = (64, 128), one
            found[kind, 2, sparse, False, False] = (128, 256), two
            found[kind, 1, sparse, True, False] = (32, 64, 128), ((64, 128) if sparse else (64, 128, 256))
    for kind, sparse, wide in product(("mxf8f6f4", "mxf4", "mxf4nvf4"), (False, True), (False, True)):
        if not (kind == "mxf8f6f4" and wide):
            found[kind, 1, sparse, False, wide] = (128,), STEPS[8]
            found[kind, 2, sparse, False, wide] = ((256,) if sparse or wide else (128, 256)), STEPS[16]
    return found


@pytest.mark.parametrize("row", table(), ids=str)
def test_every_shape_is_legal_or_refused_as_the_table_says(row: tuple[str, int, bool, bool, bool]) -> None:
    kind, cta_group, sparse, ws, wide = row
    rows, columns = table()[row]
    assert legal_m(KINDS[kind], cta_group, ws=ws, sparse=sparse, wide=wide) == rows
    assert legal_n(KINDS[kind], cta_group, ws=ws, sparse=sparse) == columns
    scaled = bool(KINDS[kind].scales)
    shape = {"sparse": sparse, "wide": wide, "ws": ws, "cta_group": cta_group}
    for m in (128, 256, 384) if scaled else range(16, 289, 16):
        assert ("TCGEN003" in codes(mma(kind, m=m, **shape))) == (m not in rows)
    for n in range(8, 281, 8):
        assert ("TCGEN004" in codes(mma(kind, m=rows[-1], n=n, **shape))) == (n not in columns)


def test_weight_stationary_block_scaling_is_refused_once() -> None:
    assert codes(mma("mxf4", ws=True)) == {"TCGEN012"}
    assert codes(mma("f16", max_shift=8)) == {"TCGEN012"}
    assert not codes(mma("f16", max_shift=8, ws=True))


def test_transposed_bytes_have_fewer_columns() -> None:
    """FACTS TC-06."""
    for kind, cta_group, step in product(("f8f6f4", "i8", "mxf8f6f4"), (1, 2), (16,)):
        element = {} if kind == "i8" else {"b": "e5m2"}
        for n in STEPS[8]:
            legal = n in STEPS[step * cta_group]
            refused = codes(mma(kind, m=128 * cta_group, n=n, b_major="MN", cta_group=cta_group, **element))
            assert ("TCGEN006" in refused) == (not legal)
    assert not codes(mma("f16", n=8, b_major="MN"))


def test_which_operands_may_be_transposed() -> None:
    for kind in ("f8f6f4", "mxf8f6f4"):
        for element in KINDS[kind].operands:
            narrow = element in {"e2m1", "e2m3", "e3m2"}
            for name in "ab":
                refused = codes(mma(kind, **{name: element, f"{name}_major": "MN"}))
                assert ("TCGEN007" in refused) == narrow
    with pytest.raises(InvalidInput, match="no field for MN-major"):
        mma("mxf4", a_major="MN")
    for swizzle in ("none", "32B", "64B", "128B", "128B_atom_32B"):
        split = swizzle == "128B_atom_32B"
        assert ("TCGEN008" in codes(mma("tf32", a_major="MN", a_swizzle=swizzle))) != split
        assert ("TCGEN008" in codes(mma("tf32", a_swizzle=swizzle))) == split
        assert ("TCGEN008" in codes(mma("f16", a_major="MN", a_swizzle=swizzle))) == split
        assert not codes(mma("f16", a_in_tensor_memory=True, a_swizzle=swizzle))


def test_cutlass_is_stricter_and_so_are_warnings() -> None:
    """FACTS TC-05."""

    def warned(**fields: Any) -> bool:
        return "TCGEN005" in codes(mma(**fields))

    assert warned(n=24, a_in_tensor_memory=True) and not warned(n=24, m=64, a_in_tensor_memory=True)
    assert warned(n=48, m=256, cta_group=2, a_in_tensor_memory=True) and not warned(n=48, m=256, cta_group=2)
    assert warned(kind="f8f6f4", n=24, sparse=True) and not warned(kind="f8f6f4", n=24)
    assert warned(kind="i8", n=24) and not warned(kind="i8", n=8) and not warned(kind="i8", n=48)
    levels = {rule.level for rule in TENSOR_MEMORY_RULES if rule.code == "TCGEN005"}
    assert levels == {"warning"}


def test_scales_have_the_kinds_type_and_block() -> None:
    every = [Scales(dtype, block) for dtype in ("e8m0", "e4m3") for block in (16, 32)]
    for kind, legal in (
        ("mxf8f6f4", {("e8m0", 32)}),
        ("mxf4", {("e8m0", 32)}),
        ("mxf4nvf4", {("e8m0", 32), ("e8m0", 16), ("e4m3", 16)}),
    ):
        for scales in every:
            known = scales.dtype if kind == "mxf4nvf4" else "e8m0"
            refused = codes(mma(kind, scales=scales, scale=known))
            assert ("TCGEN010" in refused) == ((scales.dtype, scales.block) not in legal)
    assert "TCGEN010" in codes(mma("mxf4nvf4", scale="e8m0"))
    assert "TCGEN010" in codes(mma("mxf4", scales=None)) and "TCGEN010" in codes(mma("f16", scales=every[0]))


def test_scale_ids() -> None:
    assert (scale_ids(1), scale_ids(2), scale_ids(4)) == ((0, 1, 2, 3), (0, 2), (0,))
    assert scale_ids(3) == scale_ids(6) == (0, 2)  # K = 96
    for kind, scales, legal in (
        ("mxf8f6f4", Scales("e8m0", 32), {0, 1, 2, 3}),
        ("mxf4", Scales("e8m0", 32), {0, 2}),
        ("mxf4nvf4", Scales("e8m0", 32), {0, 2}),
        ("mxf4nvf4", Scales("e4m3", 16), {0}),
    ):
        for number, name in product(range(4), "ab"):
            site = mma(kind, scales=scales, scale=scales.dtype, **{f"{name}_scale_id": number})
            assert ("TCGEN011" in codes(site)) == (number not in legal)


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_steps_along_k_take_scales_one_after_the_other(kind: str) -> None:
    for scales in KINDS[kind].scales:
        factors = KINDS[kind].k // scales.block
        taken = [
            4 * group + number + i for group, number in scale_steps(KINDS[kind], scales, 8) for i in range(factors)
        ]
        assert taken == list(range(8 * factors))
        assert {number for _, number in scale_steps(KINDS[kind], scales, 8)} == set(scale_ids(factors))


def test_steps_of_foreign_scales_are_refused() -> None:
    with pytest.raises(InvalidInput, match="kind::mxf4 takes no e4m3 scales of 16 elements; give e8m0"):
        scale_steps(KINDS["mxf4"], Scales("e4m3", 16), 4)
    with pytest.raises(InvalidInput, match="give a block-scaled kind"):
        scale_steps(KINDS["f16"], Scales("e8m0", 32), 4)


TILES = [
    (m, n, k) for m in (64, 128, 192, 256, 96) for n in (8, 24, 72, 128, 160, 256, 320, 100) for k in (64, 128, 48)
]


@pytest.mark.parametrize(
    ("types", "majors", "scales"),
    [
        (("bf16", "bf16", "fp32"), ("K", "MN"), None),
        (("u8", "i8", "i32"), ("K", "MN"), None),
        (("e4m3", "e4m3", "fp32"), ("MN", "MN"), Scales("e8m0", 32)),
        (("e2m1", "e2m1", "fp32"), ("K", "K"), Scales("e4m3", 16)),
    ],
)
@pytest.mark.parametrize("cta_group", [1, 2])
def test_the_chosen_instruction_is_the_largest_legal_one(
    types: tuple[str, str, str], majors: tuple[Major, Major], scales: Scales | None, cta_group: int
) -> None:
    kind = kind_of(types[0], types[1], scales)
    fields: dict[str, Any] = {"d": types[2], "a_major": majors[0], "b_major": majors[1]}
    fields["scale"] = scales.dtype if scales else ""
    legal = {}
    for m, n in product((128, 256) if scales else (64, 128, 256), range(8, 257, 8)):
        word = InstructionDescriptor(kind.name, types[0], types[1], m, n, **fields)
        said = codes(Tcgen05Mma(word, cta_group, scales=scales))
        if said <= {"TCGEN005"}:
            legal[m, n] = (len(said), -m, -n)
    for tile in TILES:
        fitting = [shape for shape in legal if tile[0] % shape[0] == tile[1] % shape[1] == tile[2] % kind.k == 0]
        found = choose_instruction(types, tile, B200, majors=majors, scales=scales, cta_group=cta_group)
        if fitting:
            assert isinstance(found, Instruction)
            assert found.shape == (*min(fitting, key=lambda shape: legal[shape]), kind.k)
            assert found.shape[:2] == (found.descriptor.m, found.descriptor.n)
        else:
            assert isinstance(found, Conflict)
            assert {d.code for d in found.diagnostics} & {"TCGEN018", "TCGEN006"}


def test_no_instruction_is_chosen_without_tensor_cores() -> None:
    with pytest.raises(InvalidInput, match="no tensor memory"):
        choose_instruction(("bf16", "bf16", "fp32"), (128, 128, 64), target("h200"))


# What follows asks ptxas.


def kernel(*lines: str) -> str:
    """Return a PTX text for sm_100a with these instructions in one kernel."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry probe()
{{
  .reg .b32 %r<300>;
  .reg .b64 %rd<8>;
  .reg .pred %p<2>;
  .shared .align 1024 .b8 shared[2048];
  mov.u32 %r0, shared;
  ld.shared.b32 %r1, [shared];
  ld.shared.b64 %rd0, [shared+8];
  setp.ne.u32 %p0, %r1, 0;
{body}
  ret;
}}
"""


def multiply(site: Tcgen05Mma) -> list[str]:
    """Return a multiply as PTX, its descriptor first; operands are where the kernel says."""
    options = f".cta_group::{site.cta_group}.kind::{site.kind.name}"
    a = "[%r1]" if site.a_in_tensor_memory else "%rd0"
    operands = ["[%r1]", a, "%rd0", "%r2"]
    if site.kind.scales:
        assert site.scales is not None
        options += f".block_scale.scale_vec::{site.kind.k // site.scales.block}X"
        operands += ["[%r1]", "[%r1]"]
    operands += ["%p0"] + ([str(site.scale_d)] if site.scale_d is not None else [])
    ws = ".ws" if site.ws else ""
    return [f"mov.b32 %r2, {site.descriptor.word:#x};", f"tcgen05.mma{ws}{options} {', '.join(operands)};"]


def transfer(instruction: str, shape: str, num: int, registers: int) -> str:
    """Return a load or store as PTX."""
    vector = "{" + ", ".join(f"%r{10 + i}" for i in range(registers)) + "}"
    split = ", 16" if shape == "16x32bx2" else ""
    operands = f"{vector}, [%r1]{split}" if instruction == "ld" else f"[%r1]{split}, {vector}"
    return f"tcgen05.{instruction}.sync.aligned.{shape}.x{num}.b32 {operands};"


def copy(shape: str, multicast: str) -> str:
    """Return a copy into tensor memory as PTX."""
    return f"tcgen05.cp.cta_group::1.{shape}{'.' + multicast if multicast else ''} [%r1], %rd0;"


def allocate(columns: int) -> str:
    """Return an allocation as PTX."""
    return f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], {columns};"


LIFETIME = (
    allocate(512),
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st.sync.aligned;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512;",
)
ACCEPTED = (
    *(mma(kind) for kind in KINDS),
    *(mma(kind, a_in_tensor_memory=True) for kind in KINDS),
    *(mma(kind, ws=True, max_shift=8) for kind in ("f16", "tf32", "f8f6f4", "i8")),
    mma("mxf4nvf4", scales=Scales("e8m0", 32), scale="e8m0"),
    mma("tf32", scale_d=15),
)


def test_ptxas_takes_every_kind_and_every_shape() -> None:
    lines = list(LIFETIME[:2])
    for site in ACCEPTED:
        assert not codes(site)
        lines += multiply(site)
    for shape, multicast in (
        ("128x256b", ""),
        ("4x256b", ""),
        ("128x128b", ""),
        ("64x128b", "warpx2::02_13"),
        ("64x128b", "warpx2::01_23"),
        ("32x128b", "warpx4"),
    ):
        assert not codes(TensorMemoryCopy(shape, multicast))
        lines.append(copy(shape, multicast))
    for shape, known in TRANSFERS.items():
        for num in (1, known.most):
            registers = known.registers * num
            for instruction in ("ld", "st"):
                assert not codes(TensorMemoryTransfer(instruction, shape, num, 0, 0, registers))
                lines.append(transfer(instruction, shape, num, registers))
    assert assemble(kernel(*lines, *LIFETIME[2:]), "sm_100a")[:4] == b"\x7fELF"


# What our rules refuse and ptxas does too; a code of None stands for what cannot be said at all.
REFUSED: tuple[tuple[str, Any, list[str]], ...] = (
    ("TMEM001", TensorMemoryAllocation(16), [allocate(16)]),
    ("TMEM001", TensorMemoryAllocation(48), [allocate(48)]),
    ("TMEM001", TensorMemoryAllocation(1024), [allocate(1024)]),
    ("TMEM012", TensorMemoryTransfer("ld", "16x256b", 64, 0, 0, 256), [transfer("ld", "16x256b", 64, 256)]),
    ("TMEM012", TensorMemoryTransfer("st", "16x128b", 128, 0, 0, 256), [transfer("st", "16x128b", 128, 256)]),
    ("TMEM012", TensorMemoryTransfer("ld", "32x32b", 3, 0, 0, 3), [transfer("ld", "32x32b", 3, 3)]),
    ("TMEM013", TensorMemoryTransfer("ld", "16x128b", 2, 0, 0, 2), [transfer("ld", "16x128b", 2, 2)]),
    ("TMEM024", TensorMemoryCopy("32x128b", ""), [copy("32x128b", "")]),
    ("TMEM024", TensorMemoryCopy("128x128b", "warpx4"), [copy("128x128b", "warpx4")]),
    ("TCGEN010", mma("mxf4", scales=Scales("e4m3", 16)), multiply(mma("mxf4", scales=Scales("e4m3", 16)))),
    ("TCGEN012", mma(ws=True, cta_group=2), multiply(mma(ws=True, cta_group=2))),
    ("TCGEN015", mma("f8f6f4", scale_d=1), multiply(mma("f8f6f4", scale_d=1))),
    ("TCGEN015", mma("f16", scale_d=16), multiply(mma("f16", scale_d=16))),
)


@pytest.mark.parametrize(
    ("code", "site", "lines"), REFUSED, ids=[f"{code}.{i}" for i, (code, *_) in enumerate(REFUSED)]
)
def test_ptxas_refuses_what_rules_refuse(code: str, site: Any, lines: list[str]) -> None:
    assert code in codes(site)
    with pytest.raises(AssemblyFailed, match="ptxas refuses"):
        assemble(kernel(*lines), "sm_100a")


def test_ptxas_13_refuses_kernels_that_mix_groups(tmp_path: Path) -> None:
    """Triton's ptxas 12.8 and 12.9 let them pass; that of CUDA 13 does not (rule TMEM015)."""
    tool = shutil.which("ptxas")
    command = [tool or "ptxas", "--version"]
    if tool is None or " release 13" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout:
        pytest.skip("no ptxas of CUDA 13")
    for groups, accepted in (((1, 1), True), ((1, 2), False)):
        text = tmp_path / "probe.ptx"
        text.write_text(kernel(*(line for g in groups for line in multiply(mma(m=128, cta_group=g)))))
        command = [tool, "-arch=sm_100a", "-o", str(tmp_path / "probe.cubin"), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == accepted, done.stderr
