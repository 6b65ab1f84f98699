"""Rules of a tcgen05 multiply: types, shapes, majors, scales and what else an instruction says."""

from __future__ import annotations

from legalsat.logic import among, any_of, multiple_of
from legalsat.rule import Requirements, Source, require
from legalsat.rules.tcgen05_tiles import TCGEN05
from legalsat.targets import Tcgen05Limits
from legalsat.units.tcgen05 import WIDE_K, legal_m, legal_n, legal_transposed_n, scale_ids
from legalsat.units.tcgen05_sites import InstructionBits, IssuedOnce, Tcgen05Mma, Tcgen05Tile

_PTX = "PTX ISA 9.1, 9.7.16.10, tcgen05.mma"
_SHAPES = "PTX ISA 9.1, 9.7.16.2.1, table 39"
_CUTLASS = "CUTLASS 4.7, cute/arch/mma_sm100_umma.hpp"
_ATOM = "128B_atom_32B"
_SPLIT_ATOMS = (_ATOM, "128B_atom_64B")


def listed(numbers: tuple[int, ...]) -> str:
    """Return numbers in words: all of a few, else how they run."""
    if len(numbers) <= 5:
        return ", ".join(map(str, numbers)) or "nothing"
    runs = numbers[-1] - numbers[-2]
    first = next(n for i, n in enumerate(numbers) if numbers[i:] == tuple(range(n, numbers[-1] + 1, runs)))
    rest = f"{first} to {numbers[-1]} in steps of {runs}"
    return ", ".join([*(str(n) for n in numbers if n < first), rest])


@TCGEN05.rule(
    "TCGEN001",
    Source("PTX ISA 9.1, 9.7.16.2.1.1", "kind").saying("K = 96 is only supported for target architecture sm_103a"),
    refused_by="hardware",
)
def kind_absent(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """A chip has the kinds that its table lists, and multiplies 96 elements along K only where the table says so.

    A is dense then.
    """
    yield require(
        mma.kind.name in tcgen05.kinds,
        "{kind} does not exist on this chip",
        help="use one of {kinds}",
        kind=mma.kind,
        kinds=", ".join(tcgen05.kinds),
    )
    yield require(
        (tcgen05.wide_k and not mma.descriptor.sparse) or not mma.descriptor.wide,
        "{kind} multiplies no {wide} elements along K at once on this chip",
        help="set K to {k}",
        kind=mma.kind,
        wide=WIDE_K,
        k=mma.kind.k,
    )


@TCGEN05.rule(
    "TCGEN002",
    Source(_SHAPES, "dtype").saying("kind::f16, dtype .f16: .f16; dtype .f32: .f16, .bf16"),
    refused_by="hardware",
)
def sums_too_narrow(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Sums of fp16 are for fp16 operands alone, among those of 16 bits."""
    word = mma.descriptor
    yield require(
        not (word.kind == "f16" and word.d == "fp16") or word.a == word.b == "fp16",
        "{a} x {b} has no {d} sums",
        help="use fp32 sums",
        a=word.a,
        b=word.b,
        d=word.d,
    )


@TCGEN05.rule(
    "TCGEN003",
    Source(_SHAPES, "m").saying("support a limited set of shapes for the operand matrices A, B and D"),
    refused_by="hardware",
)
def rows_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """D has 64 or 128 rows in one CTA, 128 or 256 in two; weight-stationary 32, 64 or 128.

    Block-scaled kinds have 128 in one CTA; in two 128 or 256, but only 256 where A is sparse or K is 96.
    """
    word = mma.descriptor
    rows = legal_m(mma.kind, mma.cta_group, ws=mma.ws, sparse=word.sparse, wide=word.wide)
    if rows:
        yield require(
            among(word.m, rows),
            "{kind} in {group} CTAs has no {m} rows",
            help="take {rows} rows",
            kind=mma.kind,
            group=mma.cta_group,
            m=word.m,
            rows=" or ".join(map(str, rows)),
        )


@TCGEN05.rule(
    "TCGEN004",
    Source(_SHAPES, "n").saying("support a limited set of shapes for the operand matrices A, B and D"),
    refused_by="hardware",
)
def columns_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """D has 8 to 256 columns in steps of 8 in one CTA, and twice as many at least and in steps in two.

    Integers go in steps of 16 and 32, with 8 and 24 besides in one CTA. Weight-stationary multiplies have 64, 128 or
    256, those of a sparse A not 256.
    """
    word = mma.descriptor
    columns = legal_n(mma.kind, mma.cta_group, ws=mma.ws, sparse=word.sparse)
    if columns:
        yield require(
            among(word.n, columns),
            "{kind} in {group} CTAs has no {n} columns",
            help="take {columns} columns",
            kind=mma.kind,
            group=mma.cta_group,
            n=word.n,
            columns=listed(columns),
        )


@TCGEN05.rule(
    "TCGEN005",
    Source(_CUTLASS, "n").saying("N-mode size should be a multiple of 32 between 32 and 256"),
    refused_by="document",
    level="warning",
)
def columns_untried(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """CUTLASS takes fewer column counts than PTX lists, so nobody is known to have run the others.

    With 128 rows in one CTA and A in tensor memory (or e4m3-like and sparse) it wants a multiple of 16, in two CTAs
    with such an A a multiple of 32; of integers in one CTA 8 or a multiple of 16.
    """
    word = mma.descriptor
    unusual = mma.a_in_tensor_memory or (word.sparse and word.kind == "f8f6f4")
    step = 8
    if unusual and not mma.ws:
        step = 32 if mma.cta_group == 2 else 16 if word.m == 128 else 8
    if word.kind == "i8" and word.n != 8 and not mma.ws:
        step = max(step, 16)
    yield require(
        word.n % step == 0,
        "{n} columns are no multiple of {step}, which CUTLASS asks for here",
        help="take a multiple of {step} columns",
        n=word.n,
        step=step,
    )


@TCGEN05.rule(
    "TCGEN006",
    Source("PTX ISA 9.1, 9.7.16.10.1, table 52", "n").saying(
        "combinations of N shape with .cta_group qualifier for 8bit transpose B"
    ),
    refused_by="hardware",
)
def transposed_columns_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """An MN-major B of 8-bit elements has columns in steps of 16, in two CTAs of 32."""
    word = mma.descriptor
    if word.b_major == "MN" and mma.kind.element_bits == 8:
        columns = legal_transposed_n(mma.cta_group)
        yield require(
            among(word.n, columns),
            "an MN-major B of {type} has no {n} columns in {group} CTAs",
            help="take {columns} columns",
            type=word.b,
            n=word.n,
            group=mma.cta_group,
            columns=listed(columns),
        )


@TCGEN05.rule(
    "TCGEN007",
    Source("PTX ISA 9.1, 9.7.16.10.3, table 54", "major").saying(
        "Valid Combinations of Type-Size, Major-ness and Swizzling"
    ),
    refused_by="hardware",
)
def narrow_operand_transposed(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Elements of 4 and 6 bits lie side by side along K."""
    word = mma.descriptor
    for name, element, major in (("A", word.a, word.a_major), ("B", word.b, word.b_major)):
        yield require(
            major == "K" or element not in {"e2m1", "e2m3", "e3m2"},
            "operand {name} of {element} is MN-major",
            help="store {name} with K fastest, or convert it to e4m3",
            name=name,
            element=element,
        )


@TCGEN05.rule(
    "TCGEN008",
    Source("PTX ISA 9.1, 9.7.16.10.1", "swizzle").saying(
        "supported only with 128B swizzling mode with 32B swizzle-atomicity"
    ),
    refused_by="hardware",
)
def swizzle_atom_differs(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """MN-major tf32 needs the swizzle of 128 bytes with atoms of 32, and nothing else may have it (FACTS D20)."""
    word = mma.descriptor
    operands = (("A", word.a_major, mma.a_swizzle), ("B", word.b_major, mma.b_swizzle))
    for name, major, swizzle in operands[mma.a_in_tensor_memory :]:
        if swizzle:
            transposed = major == "MN" and word.kind == "tf32"
            yield require(
                swizzle == _ATOM if transposed else swizzle not in _SPLIT_ATOMS,
                "operand {name} is {major}-major {kind} with swizzle {swizzle}",
                help="set the swizzle to {wanted}",
                name=name,
                major=major,
                kind=word.kind,
                swizzle=swizzle,
                wanted=_ATOM if transposed else "none, 32B, 64B or 128B",
            )


@TCGEN05.rule("TCGEN009", Source(_CUTLASS, "major").saying("A from TMEM can't be transposed"), refused_by="hardware")
def tensor_memory_operand_transposed(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """A in tensor memory has a row in a lane, so it is K-major."""
    yield require(
        not mma.a_in_tensor_memory or mma.descriptor.a_major == "K",
        "operand A lies in tensor memory and is MN-major",
        help="set A's major to K, as tensor memory has it",
    )


@TCGEN05.rule(
    "TCGEN010",
    Source("PTX ISA 9.1, 9.7.16.10.7.1, table 57", "scales").saying(
        "Valid combinations of scale_vectorsize with types and MMA-Kind"
    ),
    refused_by="hardware",
)
def scales_differ(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Scales have the type and the block of the kind; kinds without block scaling have none.

    mxf8f6f4 takes one e8m0 for 32 elements (1X), mxf4 the same (2X), mxf4nvf4 that (2X) or one e8m0 or e4m3 for 16
    (4X). Which it is, the descriptor and the instruction say both.
    """
    known = mma.kind.scales
    if not known:
        yield require(
            mma.scales is None,
            "{kind} takes no {scales}",
            help="use a block-scaled kind, or keep the scales to the epilogue",
            kind=mma.kind,
            scales=mma.scales,
        )
        return
    yield require(
        mma.scales in known and mma.scales is not None and mma.scales.dtype == mma.descriptor.scale,
        "{kind} of {type} scales is given {scales}",
        help="give {known}",
        kind=mma.kind,
        type=mma.descriptor.scale,
        scales=mma.scales or "none",
        known=" or ".join(map(str, known)),
    )


@TCGEN05.rule(
    "TCGEN011",
    Source("PTX ISA 9.1, 9.7.16.10.7.2", "scale_id").saying(
        "selects the sub-columns in the Tensor Memory to form the scale factor A matrix"
    ),
    refused_by="hardware",
)
def scale_id_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """One scale of a row begins at any byte of four, two at the first or the third, four at the first."""
    word = mma.descriptor
    if mma.scales is None or not mma.kind.scales:
        return
    ids = scale_ids(word.k // (2 if word.sparse else 1) // mma.scales.block)
    for name, number in (("A", word.a_scale_id), ("B", word.b_scale_id)):
        yield require(
            number in ids,
            "scales of {name} have the id {number}",
            help="set the id to {ids}",
            name=name,
            number=number,
            ids=" or ".join(map(str, ids)),
        )


@TCGEN05.rule(
    "TCGEN012",
    Source(_SHAPES, "ws").saying(".ws, 1 / 2, Either: Invalid"),
    refused_by="hardware",
)
def weight_stationary_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """A weight-stationary multiply runs in one CTA and has no block scales; only it has a maximum shift."""
    if mma.ws:
        yield require(
            mma.cta_group == 1 and not mma.kind.scales,
            "weight-stationary multiply of {kind} in {group} CTAs",
            help="take one CTA and a kind without block scaling, or no .ws",
            kind=mma.kind,
            group=mma.cta_group,
        )
    yield require(
        mma.ws or mma.descriptor.max_shift == 0,
        "descriptor has a maximum shift of {shift} columns, and the multiply is not weight-stationary",
        help="set the maximum shift to 0",
        shift=mma.descriptor.max_shift,
    )


@TCGEN05.rule(
    "TCGEN013",
    Source("PTX ISA 9.1, 9.7.16.10.1 and 9.7.16.10.8", "flags").saying("must be 0 for .kind::i8 and .kind::f8f6f4"),
    refused_by="hardware",
)
def flag_of_another_kind(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Integers saturate and are not negated, floats the other way round; elements of 8 bits select no metadata."""
    word = mma.descriptor
    yield require(
        not word.saturate or word.kind == "i8",
        "{kind} does not saturate",
        help="set saturate to false",
        kind=mma.kind,
    )
    yield require(
        not (word.negate_a or word.negate_b) or word.kind != "i8",
        "{kind} does not negate",
        help="set negate_a and negate_b to false",
        kind=mma.kind,
    )
    yield require(
        word.selector == 0 or (word.sparse and word.kind not in {"i8", "f8f6f4"}),
        "{kind} has the sparsity selector {selector}",
        help="set the selector to 0",
        kind=mma.kind,
        selector=word.selector,
    )


@TCGEN05.rule(
    "TCGEN014",
    Source(_PTX, "mask_words").saying("Size of the vector disable-output-lane: 4, 8"),
    refused_by="hardware",
)
def lane_mask_differs(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """A mask of lanes that are not written has a bit for each: 4 words for one CTA, 8 for two."""
    if mma.mask_words is not None:
        yield require(
            mma.mask_words == 4 * mma.cta_group,
            "mask of {words} words for {group} CTAs",
            help="give {needed} words",
            words=mma.mask_words,
            group=mma.cta_group,
            needed=4 * mma.cta_group,
        )


@TCGEN05.rule(
    "TCGEN015",
    Source(_PTX, "scale_d").saying("scale-input-d is only valid for .kind::tf32 and .kind::f16"),
    refused_by="hardware",
)
def sums_scaled_illegally(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Sums are divided by a power of two, 1 to 32768, before the multiply adds to them: of f16 and tf32 alone."""
    if mma.scale_d is not None:
        yield require(
            mma.kind.name in {"f16", "tf32"} and 0 <= mma.scale_d <= 15,
            "{kind} divides its sums by two to the {power}",
            help="use f16 or tf32 and a power of 0 to 15",
            kind=mma.kind,
            power=mma.scale_d,
        )


@TCGEN05.rule(
    "TCGEN016",
    Source(_PTX, "shifts_a").saying("Qualifier .ashift is only allowed with M = 128 or M = 256"),
    refused_by="hardware",
)
def shifted_operand_illegal(mma: Tcgen05Mma, tcgen05: Tcgen05Limits) -> Requirements:
    """Rows of A are shifted where they lie in tensor memory, fill the lanes, and no collector keeps them."""
    if mma.shifts_a:
        yield require(
            mma.a_in_tensor_memory and mma.descriptor.m in {128, 256} and mma.collector not in {"fill", "use"},
            "operand A of {m} rows in {where} memory is shifted, collector {collector}",
            help="keep A in tensor memory with 128 or 256 rows and no collector, or do not shift it",
            m=mma.descriptor.m,
            where="tensor" if mma.a_in_tensor_memory else "shared",
            collector=mma.collector or "unused",
        )


@TCGEN05.rule(
    "TCGEN017",
    Source("PTX ISA 9.1, 9.7.16.5", "threads").saying(
        "An issue from a single thread in the current CTA would initiate the base operation"
    ),
    refused_by="hardware",
)
def issued_repeatedly(issue: IssuedOnce, tcgen05: Tcgen05Limits) -> Requirements:
    """One thread issues a multiply, a copy or a commit; every further one does it again."""
    yield require(
        issue.threads == 1,
        "{threads} threads issue {instruction}",
        help="use one thread, such as the one that elect.sync chooses",
        threads=issue.threads,
        instruction=issue.instruction,
    )


@TCGEN05.rule(
    "TCGEN018",
    Source("PTX ISA 9.1, 9.7.16.2.2", "tile").saying("implicitly determined by the MMA-kind and the sparsity"),
    refused_by="hardware",
)
def tile_of_no_instructions(tile: Tcgen05Tile, tcgen05: Tcgen05Limits) -> Requirements:
    """Instructions of one shape fill a tile: their rows, columns and K divide the tile's."""
    rows, columns = legal_m(tile.kind, tile.cta_group), legal_n(tile.kind, tile.cta_group)
    for name, extent, steps in zip("mnk", tile.shape, (rows, columns, (tile.kind.k,)), strict=True):
        yield require(
            any_of(*(multiple_of(extent, step) for step in steps)),
            "{extent} elements along {name} are no multiple of {step}",
            help="round the tile up to a multiple of {step} along {name}",
            extent=extent,
            name=name,
            step=" or ".join(str(s) for s in steps if not any(s % t == 0 for t in steps if t < s)),
        )


@TCGEN05.rule(
    "TCGEN019",
    Source("PTX ISA 9.1, 9.7.16.4.2, table 42", "word").saying(
        "Instruction descriptor format for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8"
    ),
    refused_by="hardware",
)
def instruction_word_unknown(bits: InstructionBits, tcgen05: Tcgen05Limits) -> Requirements:
    """An instruction descriptor sets no bit that its kind keeps 0, and holds codes that the kind has.

    The word does not say its kind, and the kinds lay it out differently, so a word that is right for one is none for
    another.
    """
    yield require(
        not bits.reason,
        "{reason}",
        help="set the fields as the instruction's own .kind lays them out, and name that kind before the word",
        reason=bits.reason,
    )
