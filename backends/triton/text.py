"""Prints a `CopyKernel` as a standalone Python module: one Gluon kernel and a `run` that checks and launches it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legalsat.backends.triton.body import corner_function, kernel_function, kernel_name, plain_modes
from legalsat.backends.triton.kernel import CopyKernel, Operand, TensorMapShape
from legalsat.backends.triton.registers import Bit, RegisterLayout, exchanges_bytes, plain_layouts, staged_layout

IMPORTS = """\
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Names that Triton 3.9 changed: the new one where it exists, else the old one.
"""

RENAMED = {
    "tma_load": 'tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared\n',
    "tma_store": 'tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global\n',
    "cta_barrier": 'cta_barrier = getattr(gl, "barrier", None) or gl.thread_barrier\n',
    "reinterpret": """\
_buffer = gl.shared_memory_descriptor
reinterpret = getattr(_buffer, "reinterpret", None) or _buffer._reinterpret
""",
}

RUN_CHECKS = '''\
def _check(name, tensor, shape, stride, align):
    """Raise ValueError unless `tensor` is the memory that this kernel was written for."""
    if not tensor.is_cuda:
        raise ValueError(f"{name} is on {tensor.device}; move it to a CUDA device")
    if tensor.element_size() != ELEMENT_BYTES:
        raise ValueError(f"{name} has elements of {tensor.element_size()} bytes; this kernel moves {ELEMENT_BYTES}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; this kernel is for {shape}")
    if any(n > 1 and d != e for n, d, e in zip(shape, tensor.stride(), stride)):
        raise ValueError(f"{name} has strides {tuple(tensor.stride())}; this kernel is for {stride}")
    if extra := tensor.data_ptr() % align:
        raise ValueError(f"{name} starts {extra} bytes past a multiple of {align}; align it to {align} bytes")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"{name} is a lazy conjugate or negative; resolve it first")
'''


def emit(kernel: CopyKernel) -> str:
    """The source text of a module that needs only triton, and torch inside `run`.

    The text depends on nothing but `kernel`. The module's `run(source, target=None)` returns the target.
    """
    function = kernel_function(kernel)
    head = "\n".join((_docstring(kernel), _imports(function), _constants(kernel)))
    parts = (head, corner_function(kernel), function, RUN_CHECKS, _run(kernel))
    return "\n\n".join(part for part in parts if part)


def by(numbers: Sequence[int]) -> str:
    """Return numbers as a shape is said."""
    return " x ".join(map(str, numbers))


def mode_table(order: Sequence[int], *columns: Sequence[int]) -> list[str]:
    """Return lines that list modes in an order: extent, tile, source stride and target stride of each.

    Of a padding, also the words in front of the source's, and the source's.
    """
    titles = ("mode", "extent", "tile", "source stride", "target stride", "in front", "in source")
    rows: list[tuple[str, ...]] = [titles[: 1 + len(columns)]]
    rows += [(str(mode), *(str(column[mode]) for column in columns)) for mode in order]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["    " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]


def copied(source: Operand, target: Operand) -> str:
    """Return what a kernel does, as its docstring begins."""
    into = "" if source.bytes == target.bytes else f" into {by(target.shape)}"
    return f"Copies {by(source.shape)} elements, {source.bytes} bytes,{into}"


def around(fill: int | None) -> str:
    """Return the line of a docstring that says what is written around the source; nothing of None."""
    if fill is None:
        return ""
    return f"\n    Around the source's elements it writes {f'words of {fill:#x}' if fill else 'zeros'}."


def _docstring(kernel: CopyKernel) -> str:
    way = {
        "copy_tiles": "The copy engine stores each tile from the buffer it loaded it into; no register is touched.",
        "permute_tiles": "Each tile passes through registers into a second shared buffer, in the target's order.",
        "scatter_tiles": "Each tile passes through registers and is stored with plain instructions.",
    }[kernel_name(kernel)]
    launch = f"{kernel.programs} persistent CTAs" if kernel.programs else "one CTA per tile"
    columns = (kernel.extent, kernel.tile, kernel.source_stride, kernel.target_stride)
    margins = (kernel.before, kernel.source_extent) if kernel.pads else ()
    table = mode_table(kernel.source_order, *columns, *margins)
    lines = [
        f'"""{copied(kernel.source, kernel.target)} on Hopper\'s copy engine.',
        "",
        way,
        f"{kernel.launch.tiles} tiles of {kernel.tile_bytes} bytes, {launch} of {kernel.warps} warps, load buffers per "
        f"CTA: {kernel.program.stages}.",
        _map_line("Load", kernel.load_map, kernel.swizzle_source),
        _map_line("Store", kernel.store_map, kernel.swizzle_target),
        *kernel.notes,
        "",
        f"Modes in words of {kernel.word_bits} bits, slowest in the source first:",
        "",
        *table,
        '"""',
        "",
        "from __future__ import annotations",
    ]
    return "\n".join(lines) + "\n"


def _map_line(side: str, shape: TensorMapShape | None, swizzle: int) -> str:
    if shape is None:
        return f"{side}: no tensor map describes this side."
    return f"{side} map {by(shape.extent)} words, box {by(shape.box)}, swizzle {swizzle} bytes."


def _imports(function: str) -> str:
    return IMPORTS + "".join(line for name, line in RENAMED.items() if f"{name}(" in function)


def _layout_text(swizzle: int, bits: int, rank: int) -> str:
    return f"gl.NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={bits}, rank={rank})"


def _map_constants(prefix: str, shape: TensorMapShape, swizzle: int, bits: int) -> str:
    return (
        f"{prefix}_EXTENT = {list(shape.extent)}\n"
        f"{prefix}_STRIDE = {list(shape.stride)}\n"
        f"{prefix}_BLOCK = {list(shape.block)}\n"
        f"{prefix}_LAYOUT = {_layout_text(swizzle, bits, len(shape.block))}\n"
    )


def _constants(kernel: CopyKernel) -> str:
    text = (
        f"SOURCE_SHAPE, SOURCE_STRIDE = {kernel.source.shape}, {kernel.source.stride}\n"
        f"TARGET_SHAPE, TARGET_STRIDE = {kernel.target.shape}, {kernel.target.stride}\n"
        f"ELEMENT_BYTES = {kernel.source.element_bytes}\n\n"
        "# Tensor maps in words, slowest dimension first.\n"
        f'WORD = "i{kernel.word_bits}"\n'
    )
    text += _map_constants("LOAD", kernel.load_map, kernel.swizzle_source, kernel.word_bits)
    if kernel.store_map:
        text += _map_constants("STORE", kernel.store_map, kernel.swizzle_target, kernel.word_bits)
    text += f"\nWARPS = {kernel.warps}\nTILES = gl.constexpr({kernel.launch.tiles})\n"
    text += f"PROGRAMS = {kernel.programs or kernel.launch.tiles}\n"
    return text + _register_constants(kernel)


def _linear_layout(
    kernel: CopyKernel, name: str, layout: RegisterLayout, groups: Sequence[Sequence[int]], halved: int | None = None
) -> str:
    """The text of a register layout over a tile whose dimensions are `groups`; mode `halved` counts pairs."""

    def place(bit: Bit) -> list[int]:
        coordinate = [0] * len(groups)
        axis = next(i for i, group in enumerate(groups) if bit.mode in group)
        group = groups[axis]
        faster = group[group.index(bit.mode) + 1 :]
        step = 2**bit.power * math.prod(kernel.tile[m] for m in faster)
        coordinate[axis] = step // 2 if halved in group else step
        return coordinate

    registers, lanes, warps = layout.bases(place)
    shape = [math.prod(kernel.tile[m] // (2 if m == halved else 1) for m in group) for group in groups]
    return (
        f"{name} = gl.constexpr(\n"
        "    gl.DistributedLinearLayout(\n"
        f"        reg_bases={registers},\n"
        f"        lane_bases={lanes},\n"
        f"        warp_bases={warps},\n"
        "        block_bases=[],\n"
        f"        shape={shape},\n"
        "    )\n)\n"
    )


def _register_constants(kernel: CopyKernel) -> str:
    if kernel.direct:
        return ""
    if kernel.target_groups is None:
        load, store = plain_layouts(kernel)
        dims = [(m,) for m in plain_modes(kernel)]
        return (
            "\n# Which word of a tile each thread reads from shared memory, and which it writes to the target.\n"
            + _linear_layout(kernel, "LOAD_REGISTERS", load, kernel.source_groups)
            + _linear_layout(kernel, "STORE_REGISTERS", store, dims)
        )
    if exchanges_bytes(kernel):
        return (
            "\n# Which pair of words of a tile each thread holds, and the pairs as both shared buffers hold them.\n"
            + _linear_layout(kernel, "REGISTERS", staged_layout(kernel), kernel.source_groups, kernel.source_order[-1])
            + _pair_constants(kernel)
        )
    return "\n# Which word of a tile each thread holds.\n" + _linear_layout(
        kernel, "REGISTERS", staged_layout(kernel), kernel.source_groups
    )


def _pair_constants(kernel: CopyKernel) -> str:
    assert kernel.store_map is not None
    text = ""
    for name, shape, swizzle in (
        ("LOAD", kernel.load_map, kernel.swizzle_source),
        ("STORE", kernel.store_map, kernel.swizzle_target),
    ):
        block = [*shape.block[:-1], shape.block[-1] // 2]
        text += f"{name}_PAIRS = gl.constexpr({block})\n"
        text += f"{name}_PAIR_LAYOUT = gl.constexpr({_layout_text(swizzle, 16, len(block))})\n"
    return text


def _run(kernel: CopyKernel) -> str:
    word = f"torch.int{kernel.word_bits}"
    store = (
        "TensorDescriptor(target_words, STORE_EXTENT, STORE_STRIDE, STORE_BLOCK, STORE_LAYOUT)"
        if kernel.store_map
        else "target_words"
    )
    return f'''\
def run(source, target=None):
    """Copy `source` into `target`, a new tensor if none is given, on the current stream; return the target.

    The tensors must not overlap. A ValueError says what does not fit this kernel.{around(0 if kernel.pads else None)}
    """
    import torch

    _check("source", source, SOURCE_SHAPE, SOURCE_STRIDE, 16)
    if target is None:
        target = torch.empty_strided(TARGET_SHAPE, TARGET_STRIDE, dtype=source.dtype, device=source.device)
    _check("target", target, TARGET_SHAPE, TARGET_STRIDE, 16)
    if target.device != source.device:
        raise ValueError(f"source is on {{source.device}}, target on {{target.device}}; use one device")
    if torch.cuda.get_device_capability(source.device) < (9, 0):
        raise ValueError(f"{{source.device}} has no tensor copy engine; use compute capability 9.0 or later")
    # Kernels see the first word's address and type; shapes and strides come from the constants above.
    source_words = source.as_strided((1,), (1,)).view({word})
    target_words = target.as_strided((1,), (1,)).view({word})
    load = TensorDescriptor(source_words, LOAD_EXTENT, LOAD_STRIDE, LOAD_BLOCK, LOAD_LAYOUT)
    store = {store}
    with torch.cuda.device(source.device):
        {kernel_name(kernel)}[(PROGRAMS,)](load, store, num_warps=WARPS)
    return target
'''
