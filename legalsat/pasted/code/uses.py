"""What code does with arrays that the copy engine or a matrix unit must take: descriptors, products, swizzled tiles.

A descriptor is judged by the rules of the tensor map that it becomes, a product by those of its operands. What is not
known of them is taken as something that breaks no rule, so that a finding never rests on it; that none is found says
nothing. What depends on whether a copy goes by the copy engine at all counts only where the text says that it failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from legalsat.analyses.described_memory import unlike
from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DTYPES, DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.logic import round_up
from legalsat.pasted.code.expressions import LAUNCH, Called
from legalsat.pasted.code.layouts import tensor_of
from legalsat.pasted.code.views import Array, Extent
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.tables.host_checks import CONTIGUOUS, PAD
from legalsat.rule import require
from legalsat.rules import COPY_RULES, TENSOR_MAP_RULES, judge
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, Target
from legalsat.tensor import Tensor
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import TensorMap, driver_value

_OPERANDS = ("the first operand", "the second operand")
_MATRICES = (("input", "mat_a", "mat1", "self"), ("mat_b", "mat2", "other", "weight"))
MOST_USES = 64
MOST_BLOCKS = (2**31 - 1, 65535, 65535)  # of a grid, along x, y and z
SPAN_BYTES, BUFFER_BYTES = 128, 128
_PLAIN = 64  # an extent that nothing is known of
_WIDTHS = ("u8", "bf16", "fp32", "fp64")
_RULES = tuple({rule.code: rule for rule in (*TENSOR_MAP_RULES, *COPY_RULES)}.values())
_OF_TENSORS = frozenset({"TMA001", "TMA002", "TMA004", "TMA005", "TMA006", "TMA008", "TMA024"})
_MAJOR = "lay the operand out K-major: A by rows, B by columns, such as b.t() of rows along K"


class Judged(NamedTuple):
    """A use: what it is in words, what it breaks, and the array as it is used, if all of it is known."""

    said: str
    found: tuple[Diagnostic, ...]
    array: Array | None = None
    block: tuple[int, ...] | None = None


class _Descriptor(NamedTuple):
    """A descriptor: the array that it is told of, its block and layout, and the array that it is given, if known."""

    array: Array
    block: tuple[Extent, ...]
    layout: Any
    of: Array | None = None


def judged_uses(calls: Sequence[Called], target: Target, *, failed: bool) -> Iterator[Judged]:
    """Yield what code does with arrays, each use once, in its order.

    Args:
        calls: what the code calls.
        target: the GPU.
        failed: whether the text says that a copy, a product or an encode call failed.
    """
    told: set[tuple[str, tuple[Diagnostic, ...]]] = set()
    for called in calls:
        for judged in _judged(called, target, failed):
            if len(told) < MOST_USES and (judged.said, judged.found) not in told:
                told.add((judged.said, judged.found))
                yield judged


def _judged(called: Called, target: Target, failed: bool) -> Iterator[Judged]:
    name = called.name.rpartition(".")[2]
    if _SCALED.search(called.name):
        yield from _multiplied(called, target)
    if called.name == LAUNCH and target.vendor == "nvidia":
        yield from _launched(called)
    if target.tma is None:
        return
    described = _described(called)
    if described is not None:
        yield _of_descriptor(name, described, target)
        if failed:
            yield from _of_box(name, described)
    for pattern, judge_call, needs_failure in _CALLS:
        if pattern.search(called.name) and (failed or not needs_failure):
            yield from judge_call(called, target)
    yield from _staged(called)
    yield from _moved(called)


# Descriptors


def _argument(called: Called, at: int, *names: str) -> Any:
    for name in names:
        if name in called.keywords:
            return called.keywords[name]
    return called.arguments[at] if len(called.arguments) > at else None


def _launched(called: Called) -> Iterator[Judged]:
    """Judge the blocks of a launch along each axis."""
    for axis, most, blocks in zip("xyz", MOST_BLOCKS, called.arguments, strict=False):
        if isinstance(blocks, int) and blocks > most:
            said = f"launch of a grid of {_shown(_list(called.arguments) or ())}"
            message = "{blocks} blocks along {axis} of the grid are more than the {most} that a launch takes there"
            help = "put the long axis first, along x, which takes 2147483647 blocks, or loop in the kernel"
            yield Judged(said, (_finding("TOOL011", message, help, said, blocks=blocks, axis=axis, most=most),))


def _of_box(name: str, of: _Descriptor) -> Iterator[Judged]:
    """Judge a block that no one box holds, which compilers cut in pieces, some only in later versions."""
    large = [extent for extent in of.block if extent is not None and extent > MAX_BOX_EXTENT]
    if large:
        said = f"{name} with a block of shape {_shown(of.block)}"
        message = "a block of {extent} along an axis is more than the 256 of a box, so it has to be cut in several"
        help = "take a block of at most 256 along each axis, or a compiler that cuts it (Triton from 3.4 on)"
        finding = _finding("TMA003", message, help, said, extent=large[0])
        yield Judged(said, (replace(finding, level="warning"),))


def _list(value: Any) -> tuple[Extent, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(one if isinstance(one, int) and not isinstance(one, bool) else None for one in value)


def _described(called: Called) -> _Descriptor | None:
    """Return the descriptor that a call makes; None if it makes none, or nothing of it is known."""
    name, base = called.name.rpartition(".")[2], _argument(called, 0, "base", "tensor")
    base = base if isinstance(base, Array) else None
    if name == "from_tensor":
        block = _list(_argument(called, 1, "block_shape"))
        return None if base is None else _Descriptor(base, block or (), _argument(called, 2, "layout"))
    if name.endswith("make_tensor_descriptor") or name == "TensorDescriptor":
        sizes, steps = _list(_argument(called, 1, "shape")), _list(_argument(called, 2, "strides"))
        if sizes is None or steps is None or len(sizes) != len(steps):
            return None
        array = Array(sizes, steps, base.dtype if base else None, base.offset if base else None)
        block, layout = _list(_argument(called, 3, "block_shape")) or (), _argument(called, 4, "layout")
        return _Descriptor(array, block, layout, base)
    if found := re.fullmatch(r"create_([12])d_tma_descriptor", name):
        return _of_helper(called, int(found[1]), base)
    return None


def _of_helper(called: Called, rank: int, base: Array | None) -> _Descriptor | None:
    """Return the descriptor of Triton's older helpers: extents, block and bytes of an element, as numbers."""
    numbers = _list(called.arguments[1 : 2 * rank + 2]) or ()
    if len(numbers) != 2 * rank + 1:
        return None
    kind = base.dtype if base is not None else {1: "u8", 2: "bf16", 4: "fp32", 8: "fp64"}.get(numbers[-1] or 0)
    sizes, block = numbers[:rank], numbers[rank:-1]
    steps: tuple[Extent, ...] = (sizes[-1], 1)
    return _Descriptor(Array(sizes, steps[-rank:], kind, base.offset if base else None), block, None)


def _of_descriptor(name: str, of: _Descriptor, target: Target) -> Judged:
    array, block = of.array, of.block if len(of.block) == of.array.rank else ()
    said = f"{name} of shape {_shown(array.shape)}, strides {_shown(array.strides)}"
    said += f", block {_shown(block)}" if block else ""
    said += f", {array.dtype}" if array.dtype else ""
    found = (*_certain(array, block, target, said), *_other_memory(of, said))
    known = None not in (*array.shape, *array.strides, array.dtype, array.offset)
    whole = tuple(one for one in block if one is not None)
    return Judged(said, found, array if known else None, whole if block and len(whole) == len(block) else None)


def _other_memory(of: _Descriptor, where: str) -> Iterator[Diagnostic]:
    """Yield that a descriptor of a whole view takes it for a dense tensor."""
    told, given = of.array, of.of
    if given is None or not given.rank or given.contiguous or told.dtype is None or told.strides[-1:] != (1,):
        return
    shape, strides, own, steps = map(_known, (told.shape, told.strides, given.shape, given.strides))
    kind = DTYPES[told.dtype]
    if shape is None or strides is None or own is None or steps is None or kind.bits % 8 or prod(shape) != prod(own):
        return
    outer = tuple(stride * kind.bytes for stride in strides[-2::-1])
    try:
        differs = unlike(TensorMap(kind.map_type, shape[::-1], outer, (1,) * len(shape)), Tensor(own, kind, steps))
    except InvalidInput:
        return
    if differs:
        help = "take extents and strides from the tensor: x.shape and x.stride(), or TensorDescriptor.from_tensor"
        yield _finding("COPY010", "{differs}", help, where, differs=differs)


def _known(numbers: Sequence[Extent]) -> tuple[int, ...] | None:
    known = tuple(one for one in numbers if one is not None)
    return known if len(known) == len(numbers) else None


def _shown(numbers: Sequence[Extent]) -> str:
    return f"({', '.join('?' if one is None else str(one) for one in numbers)})"


def _certain(array: Array, block: Sequence[Extent], target: Target, where: str) -> Iterator[Diagnostic]:
    """Yield what the tensor map of an array breaks, whatever its type where that is not known."""
    if not array.rank:
        return
    types = [as_dtype(array.dtype)] if array.dtype is not None else [DTYPES[name] for name in _WIDTHS]
    judged = [judge(site, target, _RULES) for kind in types if (site := _site(array, block, kind)) is not None]
    if len(judged) < len(types):
        return
    codes = set.intersection(*({one.code for one in found} for found in judged)) & _OF_TENSORS
    if "TMA024" in codes and 1 in array.strides:  # its own axis follows from the order of the axes
        codes.discard("TMA005")
    for diagnostic in judged[0]:
        if diagnostic.code in codes:
            yield replace(diagnostic, message=_message(diagnostic, array), where=where)


def _message(diagnostic: Diagnostic, array: Array) -> str:
    """Return what a finding says; of an address, which is nobody's, where in its allocation it is."""
    if diagnostic.code != "TMA004" or array.dtype is None or array.offset is None:
        return diagnostic.message
    begin = array.offset * DTYPES[array.dtype].bits // 8
    return f"it begins {begin} bytes into its allocation, no multiple of 16"


def _site(array: Array, block: Sequence[Extent], kind: DType) -> TmaCopy | None:
    """Return the tensor map that keeps an array's axes; None of packed elements.

    A box is as programs cut a block into: at most 256 elements along an axis, and 128 bytes along the fastest.
    """
    if kind.bits % 8:
        return None
    size = kind.bytes
    shape = [_PLAIN if extent is None else extent for extent in array.shape]
    strides = _legal_strides(array, shape, size)
    tile = [block[axis] if axis < len(block) else None for axis in range(array.rank)]
    box = [min(extent or 1, MAX_BOX_EXTENT) for extent in tile]
    box[-1] = min(tile[-1] or GRANULE_BYTES // size or 1, max(SPAN_BYTES // size, 1))
    return TmaCopy(
        tiled=True, rank=array.rank, dtype=driver_value("dtype", kind.map_type), interleave=0, swizzle=0,
        l2_promotion=0, oob_fill=0, map_offset=0, address=SPAN_BYTES + (array.offset or 0) * size,
        global_dim=tuple(reversed(shape)), global_stride=tuple(step * size for step in reversed(strides[:-1])),
        element_stride=(1,) * array.rank, box=tuple(reversed(box)), inner_stride_bits=strides[-1] * kind.bits,
        side="source", by_stride=tuple(range(array.rank)), axes=tuple(reversed(range(array.rank))),
    )  # fmt: skip


def _legal_strides(array: Array, shape: Sequence[int], size: int) -> list[int]:
    """Return the strides, with some that break no rule where they are not known."""
    strides: list[int] = []
    step, granule = 1, max(GRANULE_BYTES // size, 1)
    for extent, known in zip(reversed(shape), reversed(array.strides), strict=True):
        strides.append(step if known is None else known)
        step = round_up(max(strides[-1], 1) * max(extent, 1), granule)
    return strides[::-1]


# Products


def _finding(code: str, message: str, help: str, where: str, **numbers: Any) -> Diagnostic:
    return RULE_OF[code].diagnostic(require(False, message, help=help, **numbers), where)


def _operands(called: Called, *names: tuple[str, ...]) -> list[Array | None]:
    """Return the operands of a product by their places and names; None for one that is not known."""
    first = 1 if called.name.endswith(("addmm", "baddbmm")) else 0
    given = [_argument(called, first + at, *several) for at, several in enumerate(names or _MATRICES)]
    return [one if isinstance(one, Array) and one.rank >= 2 else None for one in given]


def _multiplied(called: Called, target: Target) -> Iterator[Judged]:
    """Judge whether the GPU multiplies the operands' types at all."""
    known = {name for name, _ in target.multiplies}
    kinds = dict.fromkeys(one.dtype for one in _operands(called) if one is not None)
    for kind in (one for one in kinds if one in ("e4m3", "e5m2")):
        if known and kind not in known:
            said = f"{called.name} of {kind}"
            message = "the matrix units of {target} multiply no {kind}"
            help = "take 16-bit operands there, or a GPU of compute capability 8.9 or later"
            yield Judged(said, (_finding("PROD001", message, help, said, target=target, kind=kind),))


def _scaled(called: Called, target: Target) -> Iterator[Judged]:
    """Judge a product of 8-bit operands, which the matrix unit and so cuBLAS read K-major alone."""
    operands = _operands(called)
    for array, name, inner in zip(operands, _OPERANDS, (-1, -2), strict=True):
        if array is None:
            continue
        said = f"{name} of {called.name}, shape {_shown(array.shape)}, strides {_shown(array.strides)}"
        found = list(_of_operand(array, said, target))
        if array.strides[inner] not in (1, None) and array.shape[inner] != 1:
            message = "{name} has stride {stride} along K, and 8-bit operands are read K-major alone"
            found = [_finding("WGMMA010", message, _MAJOR, said, name=name, stride=array.strides[inner])]
        yield Judged(said, tuple(found))
    columns = None if operands[1] is None else operands[1].shape[-1]
    if columns is not None and columns % 16:
        said = f"{called.name} with {columns} columns"
        message = "{columns} columns are no multiple of 16, which products of 8-bit operands ask for"
        yield Judged(said, (_finding("TMA005", message, PAD, said, columns=columns),))


def _grouped(called: Called, target: Target) -> Iterator[Judged]:
    """Judge a grouped product, whose operands the copy engine brings by either major."""
    for array, name in zip(_operands(called), _OPERANDS, strict=True):
        if array is None:
            continue
        said = f"{name} of {called.name}, shape {_shown(array.shape)}, strides {_shown(array.strides)}"
        yield Judged(said, tuple(_of_operand(array, said, target)))


def _attention(called: Called, target: Target) -> Iterator[Judged]:
    """Judge what attention reads, whose last axis has to be the dense one."""
    places = ((("query", "q"), "query"), (("key", "k"), "key"), (("value", "v"), "value"))
    for array, (_, name) in zip(_operands(called, *(names for names, _ in places)), places, strict=True):
        if array is None:
            continue
        said = f"{name} of {called.name}, shape {_shown(array.shape)}, strides {_shown(array.strides)}"
        found = tuple(_certain(array, (), target, said)) if array.rank <= 5 else ()
        yield Judged(said, found)


def _of_operand(array: Array, said: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the rows of an operand break, along whichever of its last two axes is the dense one."""
    turned = array
    if array.strides[-1] != 1 and array.strides[-2] == 1:
        order = [*range(array.rank - 2), array.rank - 1, array.rank - 2]
        turned = replace(
            array, shape=tuple(array.shape[at] for at in order), strides=tuple(array.strides[at] for at in order)
        )
    found = list(_certain(turned, (), target, said))
    if any(d.code == "TMA024" for d in found):
        yield _finding("TMA024", "neither of the last two axes has stride 1", CONTIGUOUS, said)
    yield from (d for d in found if d.code != "TMA024" and turned is array)
    for diagnostic in found if turned is not array else ():
        yield replace(diagnostic, message=f"{diagnostic.message}, of the operand by columns")


# Tiles


def _copied(called: Called, target: Target) -> Iterator[Judged]:
    """Judge TileLang's copy between global and shared memory, which becomes a box as large as the tile."""
    tile = next((one for one in called.arguments if _is_tile(one)), None)
    others = [one for one in called.arguments if isinstance(one, Array)]
    sizes = None if tile is None else _list(_argument(tile, 0, "shape"))
    kind = None if tile is None else _kind(_argument(tile, 1, "dtype"))
    if sizes and sizes[-1] is not None and kind is not None and kind.bits % 8 == 0:
        size, said = sizes[-1] * kind.bytes, f"{called.name} of a tile of shape {_shown(sizes)}, {kind}"
        if size % GRANULE_BYTES:
            message = "the tile's rows have {bytes} bytes, no multiple of 16"
            help = "take a tile whose rows are a multiple of 16 bytes, or copy it by threads"
            yield Judged(said, (_finding("TMA008", message, help, said, bytes=size),))
    if kind is not None and target.tma is not None and driver_value("dtype", kind.map_type) >= target.tma.map_types:
        said = f"{called.name} of a tile of {kind}"
        message = "{target} has no tensor map of {kind}"
        help = "pack the elements into bytes, and copy these"
        yield Judged(said, (_finding("TMA010", message, help, said, target=target, kind=kind),))
    for array in others:
        said = f"{called.name} of a tensor of shape {_shown(array.shape)}, strides {_shown(array.strides)}"
        yield Judged(said, tuple(_certain(array, (), target, said)) if array.rank <= 5 else ())


def _mapped(called: Called, target: Target) -> Iterator[Judged]:
    """Judge the tensor that CuTe makes a tensor map of."""
    array = tensor_of(_argument(called, 1, "gmem_tensor"))
    if array is not None:
        yield of_map(array, called.name, target)


def of_map(array: Array, by: str, target: Target) -> Judged:
    """Judge a tensor, slowest axis first, that a call makes a tensor map of."""
    said = f"{by} of a tensor of shape {_shown(array.shape)}, strides {_shown(array.strides)}, slowest first"
    return Judged(said, tuple(_certain(array, (), target, said)) if array.rank <= 5 else ())


def _is_tile(one: Any) -> bool:
    return isinstance(one, Called) and one.name.endswith("alloc_shared")


def _kind(value: Any) -> DType | None:
    if isinstance(value, DType):
        return value
    try:
        return as_dtype(value) if isinstance(value, str) else None
    except InvalidInput:
        return None


def _transformed(called: Called, target: Target) -> Iterator[Judged]:
    """Judge Mosaic's transforms of a buffer: whole tiles, whose rows are as long as the swizzle's span."""
    given = called.keywords.get("transforms")
    transforms = [one for one in given if isinstance(one, Called)] if isinstance(given, list | tuple) else []
    tiling = next((_list(one.arguments[0]) for one in transforms if _ends(one, "Til") and one.arguments), None)
    swizzle = next((one.arguments[0] for one in transforms if _ends(one, "Swizzle") and one.arguments), None)
    sizes = _list(_argument(called, 0, "shape", "block_shape"))
    kind = next((one for one in (_argument(called, 1, "dtype"),) if isinstance(one, DType)), None)
    said = f"{called.name} of shape {_shown(sizes or ())} with tiles of {_shown(tiling or ())}"
    if tiling and sizes:
        yield Judged(said, ())
    if tiling and sizes and len(sizes) >= len(tiling):
        pairs = zip(sizes[len(sizes) - len(tiling) :], tiling, strict=True)
        ragged = [(size, tile) for size, tile in pairs if size is not None and tile and size % tile]
        for size, tile in ragged[:1]:
            message = "the buffer's extent {size} is no multiple of its tile's {tile}"
            help = "take tiles that divide the buffer, such as 8 rows of the swizzle's bytes"
            yield Judged(said, (_finding("WGMMA004", message, help, said, size=size, tile=tile),))
    if tiling and tiling[-1] and kind is not None and isinstance(swizzle, int) and swizzle in (32, 64, 128):
        row = tiling[-1] * kind.bits // 8
        if row != swizzle:
            message = "the tile's rows have {row} bytes, and the swizzle's span is {swizzle}"
            help = "take tiles whose rows are as long as the swizzle's span: its bytes over those of an element"
            yield Judged(said, (_finding("WGMMA004", message, help, said, row=row, swizzle=swizzle),))


def _ends(called: Called, beginning: str) -> bool:
    return called.name.rpartition(".")[2].startswith(beginning)


def _staged(called: Called) -> Iterator[Judged]:
    """Judge the stages of a pipeline, whose buffers lie one after the other in shared memory."""
    stages = called.keywords.get("num_stages")
    if not isinstance(stages, int) or stages < 2:
        return
    for one in (*called.arguments, *called.keywords.values()):
        described = _described(one) if isinstance(one, Called) else None
        if described is None or described.array.dtype is None or None in described.block or not described.block:
            continue
        size = prod(extent or 0 for extent in described.block) * DTYPES[described.array.dtype].bits // 8
        if size % BUFFER_BYTES:
            said = f"{stages} stages of a block of shape {_shown(described.block)}, {described.array.dtype}"
            message = "buffers of {size} bytes that lie one after the other begin at no multiple of 128 bytes"
            help = "take blocks of a multiple of 128 bytes, or one stage"
            finding = _finding("COPY004", message, help, said, size=size)
            yield Judged(said, (replace(finding, level="warning"),))


def _moved(called: Called) -> Iterator[Judged]:
    """Judge a copy by a descriptor: where it begins, and the buffer that it fills."""
    of = next((one for one in called.arguments if isinstance(one, Called) and _described(one) is not None), None)
    if of is None or not re.search(r"(?:load|store|async_copy\w*)$", called.name):
        return
    described = _described(of)
    assert described is not None, "it was asked before"
    at = next((_list(one) for one in called.arguments if isinstance(one, list | tuple)), None)
    kind = described.array.dtype
    if at and at[-1] is not None and kind is not None and at[-1] * DTYPES[kind].bits % (8 * GRANULE_BYTES):
        said = f"{called.name.rpartition('.')[2]} at {_shown(at)}, {kind}"
        message = "the innermost coordinate {at} is {bytes} bytes, no multiple of 16"
        help = "begin each box at a multiple of 16 bytes along the innermost axis"
        size = at[-1] * DTYPES[kind].bits // 8
        yield Judged(said, (_finding("COPY001", message, help, said, at=at[-1], bytes=size),))
    buffer = next((one for one in called.arguments if _is_buffer(one)), None)
    if buffer is not None and isinstance(described.layout, Called):
        given = _argument(buffer, 2, "layout")
        if isinstance(given, Called) and given != described.layout:
            said = f"{called.name} into a buffer of {given.name.rpartition('.')[2]}"
            message = "the buffer has another layout than the descriptor that fills it"
            yield Judged(said, (_finding("TOOL006", message, "allocate it with the descriptor's layout", said),))


def _is_buffer(one: Any) -> bool:
    # A barrier is allocated like one, as 64-bit integers.
    kind = _kind(_argument(one, 0)) if isinstance(one, Called) and one.name.endswith("allocate_shared_memory") else None
    return kind is not None and kind.name != "i64"


_TORCH = r"(?:^|^torch\.(?:\w+\.)*|^F\.|aten\.)"
_SCALED = re.compile(_TORCH + r"_?scaled_mm(?:\.default)?$|(?:^|[._])cutlass_scaled_mm(?:_\w+)?$")
_Judge = Callable[[Called, Target], Iterator[Judged]]
# Which calls are judged how, and whether only where something failed.
_CALLS: tuple[tuple[re.Pattern[str], _Judge, bool], ...] = (
    (_SCALED, _scaled, False),
    (re.compile(_TORCH + r"(?:_?scaled|_)?_?grouped_mm(?:\.default)?$"), _grouped, False),
    (re.compile(r"(?:^|\.)(?:mm|addmm|bmm|matmul|baddbmm)$"), _grouped, True),
    (re.compile(r"scaled_dot_product_attention$|flash_attn\w*$"), _attention, True),
    (re.compile(r"(?:^|\.)T\.copy$|tma_copy$"), _copied, True),
    (re.compile(r"(?:^|\.)make_tiled_tma_atom(?:_[AB])?$"), _mapped, False),
    (re.compile(r"(?:BlockSpec|GPUSpec|SMEM|GPUBlockSpec)$"), _transformed, False),
)
