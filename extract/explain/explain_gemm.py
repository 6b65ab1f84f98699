"""Why operands of a product have no tensor map, what is done about it, and what layouts of them would be worth.

An operand is judged as tiles of 128 rows by 128 bytes that boxes bring to whoever multiplies. A product is refused if
one of them has no such plan; the library computes it all the same, and the predicted times say at what price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import LegalSatError
from legalsat.explanation import FALL_BACK, USES, Explanation, Obligation, Repair, way_and_time
from legalsat.extract.explain.explain import reasons
from legalsat.extract.explain.tensor_layouts import GRANULE_BITS
from legalsat.extract.explain.tensor_repair import boxed, copy_nanoseconds, ranked
from legalsat.extract.explain.tensor_values import OF_LAYOUTS
from legalsat.extract.explain.values import Works, in_words
from legalsat.extract.kernels.product_class import refusals_of
from legalsat.extract.kernels.product_kernels import derivation_of, product_kernels
from legalsat.extract.moved.relayouts import uncounted
from legalsat.extract.region.open_products import product_region
from legalsat.extract.search.planner import BOXES, NoLegalLayout, cached_plan
from legalsat.extract.search.rows import in_axes
from legalsat.logic import round_up
from legalsat.operators import Copy
from legalsat.operators.gemm import Gemm, judged_operands
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.product_kernel import REALIGNED, ProductKernel
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain
from legalsat.view.snippets import matmul_snippets, product_snippets

LEAST = 2  # a single row has no pitch that matters
MEASURED = ("bf16", "sm_90a")  # what FACTS M-17 is about
_RATES = {"": 782, "K": 130, "N": 103}  # TFLOP/s of 4096^3, and of the same with 4095 along one axis (FACTS M-17)


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout that boxes take of an operand: its kind, what to do, in words after the operand's name, and itself."""

    kind: str
    words: str
    tensor: Tensor


class Computed(NamedTuple):
    """How a product is computed: predicted nanoseconds, the kernel, what is done about operands, and `by` which kernel.

    The second and the third are words.
    """

    nanoseconds: float
    kernel: str
    mended: str
    by: ProductKernel


def explain_gemm(gemm: Gemm, target: Target, uses: int = USES) -> Explanation:
    """Return which operands of a product no tensor map describes, how it is computed then, and what would be faster.

    Args:
        gemm: the product.
        target: the GPU.
        uses: how often it is computed with operands that a repair lays out once.
    """
    said, chip = str(gemm), str(target)
    broken = refusals_of(gemm, target)
    if broken:
        return Explanation(said, chip, False, broken, of=gemm)
    if gemm.dims:
        region = product_region(gemm, target)
        values = tuple(str(one) for one in region.family if one.plan is None)
        return Explanation(said, chip, True, (), (), region.plan, values=values, of=gemm)
    many = bool(
        gemm.batch or gemm.members.ragged
    )  # whose operands are judged with all of their axes, and left as they are
    operands: Mapping[str, Any] = gemm.travels(target) if many else judged_operands(gemm, target)
    parts = {name: _operand(name, copy, target) for name, copy in operands.items()}
    now = computed(gemm, target)
    if now is None:
        parts |= {name: _uncounted(parts[name], gemm.tensors[name], target) for name in "AB"}
    refused = [name for name, part in parts.items() if not part.legal]
    steps = () if now is None else derivation_of(gemm, now.by, target)
    found: tuple[Repair, ...] = ()
    if refused and target.tma is not None and not many:
        found = tuple(_repairs(gemm, target, {name: operands[name] for name in refused if name in "AB"}, now, uses))
    return Explanation(
        said,
        chip,
        not refused and not (many and now is None),
        _together(parts),
        found,
        obligations=() if many else tuple(_cliffs(gemm, target)),
        values=() if many else (*in_words(product_works(gemm, target, parts)), *_stored(gemm, parts["C"].plan)),
        of=gemm,
        parts=tuple(parts.values()),
        way="" if now is None else way_and_time(now.kernel, now.nanoseconds),
        derivation=tuple(step.law for step in steps),
        uses=uses,
    )


def _operand(name: str, copy: Copy, target: Target) -> Explanation:
    """Return whether boxes bring an operand's tiles, without repairs, which are those of the product."""
    tensor = copy.target if name == "C" else copy.source
    subject = f"{name}: {tensor}"
    try:
        plan = cached_plan(copy, target, BOXES)
    except NoLegalLayout as refusal:
        side = "target" if name == "C" else "source"
        why = in_axes(reasons(copy, target, refusal), tensor, copy.tile, target, side)
        return Explanation(subject, str(target), False, why, of=tensor)
    except LegalSatError:
        return Explanation(subject, str(target), False, (), of=tensor)
    return Explanation(subject, str(target), True, (), (), plan, of=tensor)


def _uncounted(part: Explanation, tensor: Tensor, target: Target) -> Explanation:
    """Return what is said of an operand, with why it is not laid out anew first."""
    said = [d for found in uncounted(tensor, target).values() for d in found]
    return replace(part, legal=part.legal and not said, diagnostics=(*part.diagnostics, *said[:1]))


def _together(parts: dict[str, Explanation]) -> tuple[Diagnostic, ...]:
    """Return every broken rule once, the operands that break it in `where`."""
    rows: dict[str, dict[str, Diagnostic]] = {}
    for name, part in parts.items():
        for diagnostic in part.diagnostics:
            rows.setdefault(diagnostic.code, {}).setdefault(name, diagnostic)
    found = []
    for by_name in rows.values():
        first = next(iter(by_name.values()))
        messages = dict.fromkeys(d.message for d in by_name.values())
        if len(messages) > 1:
            first = replace(first, message="; ".join(f"{name}: {d.message}" for name, d in by_name.items()))
        found.append(replace(first, where=f"{_list(list(by_name))}: {first.where}"))
    return tuple(worst_first(found))


def computed(gemm: Gemm, target: Target) -> Computed | None:
    """Return how a product is computed as it is, and its predicted time; None if it is not."""
    kernels = product_kernels(gemm, target, 1)
    if not kernels:
        return None
    time, kernel = kernels[0]
    return Computed(time, str(kernel), _mended(kernel), kernel)


def _mended(kernel: ProductKernel) -> str:
    """Return what a kernel does about operands that no tensor map describes, in words."""
    done: dict[str, list[str]] = {}
    for name, one in zip(kernel.operands, kernel.relayouts, strict=True):
        if one != "none":
            done.setdefault({"pad": "padded first", "transpose": "transposed first"}[one], []).append(name)
    for name, aligned in zip(kernel.operands, kernel.aligned, strict=True):
        if aligned:
            done.setdefault("aligned in shared memory", []).append(name)
    if kernel.realign != "none":
        done.setdefault(REALIGNED[kernel.realign], []).append(kernel.operands[kernel.slides > 0])
    found = [f"{_list(sorted(some))} {'are' if some[1:] else 'is'} {how}" for how, some in done.items()]
    return _list(sorted(found)) if found else ""


def _repairs(gemm: Gemm, target: Target, refused: dict[str, Copy], now: Computed | None, uses: int) -> Iterator[Repair]:
    """Yield repairs: other layouts of the operands, those made each time, and none at all; the least total first."""
    layouts = {name: list(_layouts(name, copy, target)) for name, copy in refused.items()}
    unchanged = None if now is None else now.nanoseconds
    found = []
    for place in range(max(map(len, layouts.values()), default=0) if all(layouts.values()) else 0):
        chosen = {name: some[min(place, len(some) - 1)] for name, some in layouts.items()}
        after = gemm.but(**{name.lower(): one.tensor for name, one in chosen.items()})
        time = computed(after, target)
        if time is not None:
            found.append(_repair(gemm, after, chosen, time.nanoseconds, target))
    offered = ranked(found, uses, unchanged)
    for first in offered[:1]:
        offered += _laid_out_by_us(gemm, first, refused, target)
    if now is not None:
        done = f"{now.mended}, in tiles of {now.kernel.partition(',')[0]}" if now.mended else now.kernel
        text = matmul_snippets(constant_b=gemm.constant_b, scaled=bool(gemm.scaled))
        offered.append(Repair(FALL_BACK, f"change nothing: {done}", gemm, 0, now.nanoseconds, 0.0, text))
    yield from ranked(offered, uses, unchanged)


def _layouts(name: str, copy: Copy, target: Target) -> Iterator[Layout]:
    """Yield layouts of an operand that boxes take: a better base, a longer pitch, the other axis as the fast one."""
    tensor = copy.source
    rows, depth = plain(tensor.shape)
    strides, size = plain(tensor.strides), tensor.dtype
    granule = math.lcm(GRANULE_BITS, size.bits) // size.bits
    letter = {"A": "M", "B": "N"}[name]
    base = {} if tensor.address % GRANULE_BYTES else {"align": tensor.align, "offset": tensor.offset}

    def bytes_of(elements: int) -> str:
        return f"{elements * size.bits / 8:g}"

    def tried(one: Layout) -> Iterator[Layout]:
        if one.tensor != tensor and boxed(replace(copy, source=one.tensor, target=one.tensor), target) is not None:
            yield one

    if tensor.address % GRANULE_BYTES:
        words = f"in an allocation aligned to {GRANULE_BYTES} bytes (now {tensor.address & -tensor.address})"
        moved = list(tried(Layout("align", words, Tensor(tensor.shape, size, strides, GRANULE_BYTES))))
        yield from moved
        if moved:
            return
    fast = 1 if strides[1] == 1 or depth == 1 else 0 if strides[0] == 1 or rows == 1 else None
    for major in (1, 0):
        length, pitch = (depth, strides[0]) if major else (rows, strides[1])
        wanted = round_up(max(length, pitch) if major == fast else length, granule)
        steps = (wanted, 1) if major else (1, wanted)
        if major == fast:
            words = f"with rows {bytes_of(wanted)} bytes apart (now {bytes_of(pitch)})"
            kind = "pad"
        else:
            words = f"with {'K' if major else letter} fastest, strides {steps}"
            kind = "dense" if fast is None else "major"
        yield from tried(Layout(kind, words, Tensor(tensor.shape, size, steps, **base)))


def _copied(gemm: Gemm, after: Gemm, names: str, target: Target) -> float:
    """Return the predicted time of copying operands to their layouts in another product."""
    pairs = {"A": (gemm.a, after.a), "B": (gemm.b, after.b)}
    moved = (pairs[name] for name in names if pairs[name][0] != pairs[name][1])
    return round(sum(copy_nanoseconds(old, new, target) or 0.0 for old, new in moved), 1)


def _added(gemm: Gemm, after: Gemm) -> int:
    pairs = ((gemm.a, after.a), (gemm.b, after.b))
    return sum(max(0, new.span_bits - old.span_bits) for old, new in pairs) // 8


def _repair(gemm: Gemm, after: Gemm, chosen: dict[str, Layout], time: float, target: Target) -> Repair:
    """Return the repair that stores operands in other layouts."""
    kinds = [one.kind for one in chosen.values()]
    kind = next((one for one in ("major", "dense", "pad", "align") if one in kinds), "pad")
    together: dict[str, list[str]] = {}
    for name, one in chosen.items():
        together.setdefault(one.words, []).append(name)
    said = " and ".join(f"{_list(names)} {words}" for words, names in together.items())
    added = _added(gemm, after)
    text = product_snippets(*(after_ if after_ != old else None for old, after_ in _pairs(gemm, after)))
    message = f"store {said}" + (f", adding {added} bytes" if added else "")
    return Repair(kind, message, after, added, time, _copied(gemm, after, "AB", target), text)


def _pairs(gemm: Gemm, after: Gemm) -> tuple[tuple[Tensor, Tensor], ...]:
    return (gemm.a, after.a), (gemm.b, after.b)


def _laid_out_by_us(gemm: Gemm, first: Repair, refused: dict[str, Copy], target: Target) -> Iterator[Repair]:
    """Yield the repairs that leave operands as they are stored: copies before each product, or one of a weight."""
    after: Gemm = first.after
    size = sum(-(-getattr(after, name.lower()).span_bits // 8) for name in refused)
    each = "A" if gemm.constant_b else "AB"
    if any(name in refused for name in each):
        names = _list([name for name in refused if name in each])
        yield Repair(
            "relayout",
            f"leave the operands as they are stored, and copy {names} to such a layout before each product",
            after,
            size,
            round((first.nanoseconds or 0.0) + _copied(gemm, after, each, target), 1),
            0.0 if "B" in each else _copied(gemm, after, "B", target),
            first.snippets,
        )
    # The library may know better than to copy A as well.
    kept = None if gemm.constant_b else computed(gemm.but(constant_b=True), target)
    if "B" in refused and kept is not None:
        by_copies = round((first.nanoseconds or 0.0) + _copied(gemm, after, "A", target), 1)
        yield Repair(
            "repack",
            "say that B is a weight, with `constant_b=True`: it is laid out once, and A at each product or not at all",
            after.but(constant_b=True),
            size,
            min(by_copies, kept.nanoseconds),
            _copied(gemm, after, "B", target),
            matmul_snippets(constant_b=True, scaled=bool(gemm.scaled)),
        )


def product_works(gemm: Gemm, target: Target, parts: dict[str, Explanation]) -> list[Works]:
    """Return for which M, N and K boxes bring A and B, one letter at a time, the others as they are.

    An operand's pitch is an extent where it is dense: K of one that is K-major, M or N of one that is not. A letter
    that alone decides nothing is left out.

    Args:
        gemm: the product.
        target: the GPU.
        parts: the explanations of A and B as they are.
    """
    codes = {d.code for name in "AB" for d in parts[name].diagnostics}
    if target.tma is None or gemm.dtype.bits % 8 or not codes <= OF_LAYOUTS:
        return []
    pitched = {name: _pitch_letter(getattr(gemm, name.lower()), name) for name in "AB"}
    period = GRANULE_BITS // math.gcd(GRANULE_BITS, gemm.dtype.bits)
    found = []
    for letter, extent in (("M", gemm.m), ("N", gemm.n), ("K", gemm.k)):
        bound = [name for name in "AB" if pitched[name] == letter]
        if extent < LEAST:
            continue
        if not bound:
            found.append(Works(letter, extent, 1, (0,), LEAST))
        elif all(parts[name].legal == (name not in bound or extent % period == 0) for name in "AB"):
            found.append(Works(letter, extent, period, (0,), LEAST))
    return found


def _pitch_letter(tensor: Tensor, name: str) -> str:
    """Return the letter of the extent that is an operand's pitch; "" where none is, as of one row or padded rows."""
    (rows, depth), (across, along) = plain(tensor.shape), plain(tensor.strides)
    if along == 1 and across == depth and rows > 1:
        return "K"
    return {"A": "M", "B": "N"}[name] if across == 1 and along == rows and depth > 1 else ""


def _stored(gemm: Gemm, plan: MovementPlan | None) -> tuple[str, ...]:
    """Return how C leaves, where it is dense and row-major, and for which N it would by boxes."""
    if plan is None or gemm.c.strides != (gemm.n, 1) or gemm.m < LEAST or gemm.n < LEAST or gemm.out_dtype.bits % 8:
        return ()
    period = GRANULE_BITS // math.gcd(GRANULE_BITS, gemm.out_dtype.bits)
    if (plan.store == "tma") != (gemm.n % period == 0):
        return ()
    such = "" if plan.store == "tma" else f", such as {gemm.n}"
    return (f"C leaves by boxes for N % {period} == 0, and from registers for any other N{such}",)


def _cliffs(gemm: Gemm, target: Target) -> Iterator[Obligation]:
    """Yield what was measured of another library on a product with such an extent."""
    if (gemm.dtype.name, target.architecture) != MEASURED:
        return
    period = GRANULE_BITS // gemm.dtype.bits
    for letter, tensor in (("K", gemm.a), ("N", gemm.c)):
        if plain(tensor.strides)[0] % period and tensor.strides[1] == 1 and gemm.m > 1:
            shape = {"K": "4096 x 4096 x 4095", "N": "4096 x 4095 x 4096"}[letter]
            yield Obligation(
                "slow",
                f"cuBLAS fell from {_RATES['']} TFLOP/s at 4096 x 4096 x 4096 to {_RATES[letter]} at {shape}",
                "measured on an H200, bf16, FACTS M-17",
            )


def _list(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
