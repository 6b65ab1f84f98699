"""Prints the functions of an emitted module that run on the GPU: where a tile lies, and the kernel's loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import indent

from legalsat.backends.triton.kernel import INT32_MAX, CopyKernel
from legalsat.backends.triton.registers import exchanges_bytes


def tile_grid(kernel: CopyKernel) -> list[int]:
    """Tiles along every mode, in joint order, where those along the target's innermost mode fill whole bands."""
    grid = list(kernel.tiles)
    banded = kernel.target_order[-1]
    grid[banded] = -(-grid[banded] // _band(kernel)) * _band(kernel)
    return grid


def _band(kernel: CopyKernel) -> int:
    return min(kernel.band, kernel.tiles[kernel.target_order[-1]])


def _first(kernel: CopyKernel, mode: int) -> str:
    """The expression of the tile's first index in `mode`."""
    return f"first{mode}" if kernel.tiles[mode] > 1 else "0"


def corner_function(kernel: CopyKernel) -> str:
    """The function from a tile's number to its first index in every mode that has more than one tile."""
    grid, band, banded = tile_grid(kernel), _band(kernel), kernel.target_order[-1]
    moving = [m for m in range(len(grid)) if kernel.tiles[m] > 1]
    lines = []
    if band > 1:
        lines += [f"in_band = tile % {band}", f"tile = tile // {band}"]
        grid[banded] //= band
    counted = [m for m in reversed(kernel.source_order) if grid[m] > 1]
    for mode in counted:
        if mode == counted[-1]:
            lines.append(f"index{mode} = tile")
        else:
            lines += [f"index{mode} = tile % {grid[mode]}", f"tile = tile // {grid[mode]}"]
    for mode in moving:
        index = f"index{mode}" if mode in counted else "0"
        if band > 1 and mode == banded:
            index = f"({index} * {band} + in_band)" if mode in counted else "in_band"
        lines.append(f"first{mode} = {index} * {kernel.tile[mode]}")
    if not moving:
        return ""
    note = f"; {band} tiles of mode {banded} come in a row" if band > 1 else ""
    names = ", ".join(f"first{m}" for m in moving)
    return (
        '@gluon.jit\ndef corner(tile):\n    """First index of a tile in the modes '
        f'{", ".join(map(str, moving))}{note}."""\n{indent(chr(10).join(lines), "    ")}\n    return {names}\n'
    )


def _place(kernel: CopyKernel, tile: str, indentation: str) -> str:
    """The line that calls `corner`, if any mode moves."""
    names = [f"first{m}" for m in range(len(kernel.tiles)) if kernel.tiles[m] > 1]
    return f"{indentation}{', '.join(names)} = corner({tile})\n" if names else ""


def _coordinate(kernel: CopyKernel, groups: Sequence[Sequence[int]], before: Sequence[int] = ()) -> str:
    """The tile's first index in every dimension of a tensor map, which has `before` fewer words in front."""
    parts = []
    for group in groups:
        scale = math.prod(kernel.extent[m] for m in group[1:])
        first = _first(kernel, group[0])
        part = first if scale == 1 or first == "0" else f"{first} * {scale}"
        front = before[group[0]] if before else 0
        parts.append((f"-{front}" if first == "0" else f"{part} - {front}") if front else part)
    return f"[{', '.join(parts)}]"


def _load(kernel: CopyKernel, tile: str, slot: str, indentation: str, predicate: str = "") -> str:
    """Arm a barrier and start the load of one tile."""
    condition = f", pred={predicate}" if predicate else ""
    barrier, buffer = (f"full.index({slot})", f"buffers.index({slot})") if slot else ("full", "buffer")
    text = _place(kernel, tile, "")
    text += f"mbarrier.expect({barrier}, TILE_BYTES{condition})\n"
    place = _coordinate(kernel, kernel.source_groups, kernel.before)
    text += f"tma_load(source, {place}, {barrier}, {buffer}{condition})\n"
    return indent(text, indentation)


SINGLE_HEAD = """\
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    buffer = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    mbarrier.init(full, count=1)
    fence_async_shared()
"""

RING_HEAD = """\
    program = gl.program_id(0)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    buffers = gl.allocate_shared_memory(source.dtype, [STAGES] + source.block_shape, source.layout)
    for slot in gl.static_range(STAGES):
        mbarrier.init(full.index(slot), count=1)
    fence_async_shared()
"""

RING_STEP = """\
        slot += 1
        if slot == STAGES:
            slot = 0
            phase = phase ^ 1
"""


def kernel_name(kernel: CopyKernel) -> str:
    """Name of the kernel function: it says which of the three ways the tiles go."""
    if kernel.direct:
        return "copy_tiles"
    return "permute_tiles" if kernel.target_groups else "scatter_tiles"


def kernel_function(kernel: CopyKernel) -> str:
    """The text of the kernel function."""
    if kernel.direct:
        return _direct_kernel(kernel)
    return _staged_kernel(kernel) if kernel.target_groups else _plain_kernel(kernel)


def _signature(kernel: CopyKernel) -> str:
    return f"@gluon.jit\ndef {kernel_name(kernel)}(source, target):\n"


def _direct_kernel(kernel: CopyKernel) -> str:
    assert kernel.target_groups is not None
    store = f"tma_store(target, {_coordinate(kernel, kernel.target_groups)}, "
    if not kernel.programs:
        return (
            _signature(kernel)
            + SINGLE_HEAD
            + _load(kernel, "gl.program_id(0)", "", "    ")
            + "    mbarrier.wait(full, 0)\n"
            + f"    {store}buffer)\n"
            + "    tma.store_wait(0)\n"
        )
    behind = kernel.stages // 2
    return (
        _signature(kernel)
        + RING_HEAD
        + f"    # {behind} stores stay in flight, so {kernel.stages - behind} loads run ahead.\n"
        + f"    for stage in gl.static_range(STAGES - {behind}):\n"
        + "        tile = program + stage * PROGRAMS\n"
        + _load(kernel, "tile", "stage", "        ", "tile < TILES")
        + f"    slot = 0\n    phase = 0\n    refill = {(kernel.stages - behind) % kernel.stages}\n"
        + "    for tile in range(program, TILES, PROGRAMS):\n"
        + "        mbarrier.wait(full.index(slot), phase)\n"
        + _place(kernel, "tile", "        ")
        + f"        {store}buffers.index(slot))\n"
        + f"        # The store issued {behind} tiles ago has read its buffer, which takes the next load.\n"
        + f"        tma.store_wait({behind})\n"
        + f"        ahead = tile + (STAGES - {behind}) * PROGRAMS\n"
        + _load(kernel, "ahead", "refill", "        ", "ahead < TILES")
        + "        refill += 1\n        if refill == STAGES:\n            refill = 0\n"
        + RING_STEP
        + "    tma.store_wait(0)\n"
    )


def _reordered(kernel: CopyKernel) -> str:
    """Lines that bring the words of one tile from the source's order into the target's, in registers."""
    assert kernel.store_map is not None
    source, target = kernel.source_order, kernel.target_order
    if exchanges_bytes(kernel):
        return _exchanged(kernel)
    lines = []
    joint = [kernel.tile[m] for m in source]
    if joint != list(kernel.load_map.block):
        lines.append(f"words = words.reshape({joint})")
    if source != target:
        lines.append(f"words = words.permute({[source.index(m) for m in target]})")
    if [kernel.tile[m] for m in target] != list(kernel.store_map.block):
        lines.append(f"words = words.reshape({list(kernel.store_map.block)})")
    return "".join(line + "\n" for line in lines)


def _exchanged(kernel: CopyKernel) -> str:
    """The same for pairs of bytes: neighbours along the source's innermost mode become such along the target's."""
    source, target = kernel.source_order, kernel.target_order
    inner, outer = source[-1], target[-1]
    axis = source.index(outer)
    joint = [kernel.tile[m] for m in source[:-1]] + [kernel.tile[inner] // 2]
    split = [*joint[:axis], joint[axis] // 2, 2, *joint[axis + 1 :]]
    to_end = [i for i in range(len(split)) if i != axis + 1] + [axis + 1]
    order: list[int] = []
    for mode in target:
        order += [source.index(mode)] + ([len(source)] if mode == inner else [])
    assert kernel.store_map is not None
    block = [*kernel.store_map.block[:-1], kernel.store_map.block[-1] // 2]
    return (
        f"# Pairs along mode {inner}, two of them neighbours along mode {outer}, become two pairs along mode {outer}.\n"
        f"even, odd = words.reshape({split}).permute({to_end}).split()\n"
        "low = (even & 0x00FF) | (odd << 8)\n"
        "high = ((even >> 8) & 0x00FF) | (odd & -0x0100)\n"
        f"words = gl.join(low, high).permute({order}).reshape({block})\n"
    )


def _staged_kernel(kernel: CopyKernel) -> str:
    assert kernel.target_groups is not None
    pairs = exchanges_bytes(kernel)
    store = f"tma_store(target, {_coordinate(kernel, kernel.target_groups)}, staging)\n"
    if not kernel.programs:
        view = "reinterpret(buffer, gl.int16, LOAD_PAIRS, LOAD_PAIR_LAYOUT)" if pairs else "buffer"
        text = f"words = {view}.load(REGISTERS)\n" + _reordered(kernel)
        text += "# All threads have read the buffer, which now takes the tile in the target's order.\n"
        text += "cta_barrier()\n"
        text += "staging = reinterpret(buffer, target.dtype, target.block_shape, target.layout)\n"
        text += _staging_store(pairs)
        return (
            _signature(kernel)
            + SINGLE_HEAD
            + _load(kernel, "gl.program_id(0)", "", "    ")
            + "    mbarrier.wait(full, 0)\n"
            + indent(text + store + "tma.store_wait(0)\n", "    ")
        )
    view = "buffers.index(slot)"
    if pairs:
        view = f"reinterpret({view}, gl.int16, LOAD_PAIRS, LOAD_PAIR_LAYOUT)"
    double = kernel.staging == 2
    text = "mbarrier.wait(full.index(slot), phase)\n"
    text += f"words = {view}.load(REGISTERS)\n" + _reordered(kernel)
    text += f"tma.store_wait({kernel.staging - 1})\n"
    text += "# The copy engine has read the staging buffer, and all threads know it.\n"
    text += "cta_barrier()\n"
    if double:
        text += "staging = stagings.index(turn)\n"
    text += _staging_store(pairs)
    text += _place(kernel, "tile", "") + store
    text += "# The barrier above also proves that all threads have read this slot, so it takes the next load.\n"
    text += "ahead = tile + STAGES * PROGRAMS\n"
    text += _load(kernel, "ahead", "slot", "", "ahead < TILES")
    text += "turn = turn ^ 1\n" if double else ""
    shape = "[2] + target.block_shape" if double else "target.block_shape"
    return (
        _signature(kernel)
        + RING_HEAD
        + f"    staging{'s' if double else ''} = gl.allocate_shared_memory(target.dtype, {shape}, target.layout)\n"
        + _ring_start(kernel)
        + ("    turn = 0\n" if double else "")
        + "    for tile in range(program, TILES, PROGRAMS):\n"
        + indent(text, "        ")
        + RING_STEP
        + "    tma.store_wait(0)\n"
    )


def _ring_start(kernel: CopyKernel) -> str:
    return (
        "    for slot in gl.static_range(STAGES):\n"
        "        tile = program + slot * PROGRAMS\n"
        + _load(kernel, "tile", "slot", "        ", "tile < TILES")
        + "    slot = 0\n    phase = 0\n"
    )


def _staging_store(pairs: bool) -> str:
    view = "reinterpret(staging, gl.int16, STORE_PAIRS, STORE_PAIR_LAYOUT)" if pairs else "staging"
    return (
        f"{view}.store(words)\n"
        "# Threads wrote the buffer, the copy engine reads it: first every thread's fence, then a CTA barrier.\n"
        "fence_async_shared()\n"
        "cta_barrier()\n"
    )


def plain_modes(kernel: CopyKernel) -> list[int]:
    """The modes along which a tile has more than one word, slowest in the target first."""
    return [m for m in kernel.target_order if kernel.tile[m] > 1]


def _plain_kernel(kernel: CopyKernel) -> str:
    modes = plain_modes(kernel)
    source = kernel.source_order
    joint = [kernel.tile[m] for m in source]
    word = "words = {view}.load(LOAD_REGISTERS)\n"
    if joint != list(kernel.load_map.block):
        word += f"words = words.reshape({joint})\n"
    if source != kernel.target_order:
        word += f"words = words.permute({[source.index(m) for m in kernel.target_order]})\n"
    if len(modes) != len(source):
        word += f"words = words.reshape({[kernel.tile[m] for m in modes]})\n"
    word += "words = gl.convert_layout(words, STORE_REGISTERS)\n"
    store = _plain_store(kernel, modes)
    if not kernel.programs:
        return (
            _signature(kernel)
            + _plain_offsets(kernel, modes)
            + SINGLE_HEAD
            + _load(kernel, "gl.program_id(0)", "", "    ")
            + "    mbarrier.wait(full, 0)\n"
            + indent(word.format(view="buffer") + store, "    ")
        )
    text = "mbarrier.wait(full.index(slot), phase)\n" + word.format(view="buffers.index(slot)")
    text += _place(kernel, "tile", "") + store
    text += "# All threads have read this slot before it takes the next load.\n"
    text += "cta_barrier()\n"
    text += "ahead = tile + STAGES * PROGRAMS\n"
    text += _load(kernel, "ahead", "slot", "", "ahead < TILES")
    return (
        _signature(kernel)
        + _plain_offsets(kernel, modes)
        + RING_HEAD
        + _ring_start(kernel)
        + "    for tile in range(program, TILES, PROGRAMS):\n"
        + indent(text, "        ")
        + RING_STEP
    )


def _plain_offsets(kernel: CopyKernel, modes: Sequence[int]) -> str:
    """Lines that number a tile's words along each mode and give their offsets from the tile's first word."""
    text = ""
    for axis, mode in enumerate(modes):
        layout = "STORE_REGISTERS"
        for other in reversed(range(len(modes))):
            if other != axis:
                layout = f"gl.SliceLayout({other}, {layout})"
        index = ", ".join(":" if other == axis else "None" for other in range(len(modes)))
        spread = f"[{index}]" if len(modes) > 1 else ""
        text += f"    word{mode} = gl.arange(0, {kernel.tile[mode]}, layout={layout}){spread}\n"
    wide = ".to(gl.int64)" if sum((kernel.tile[m] - 1) * kernel.target_stride[m] for m in modes) > INT32_MAX else ""
    terms = [
        f"word{m}{wide} * {kernel.target_stride[m]}" if kernel.target_stride[m] != 1 else f"word{m}" for m in modes
    ]
    return text + f"    offset = {' + '.join(terms)}\n"


def _plain_store(kernel: CopyKernel, modes: Sequence[int]) -> str:
    """Lines that store one tile's words, those outside the tensor masked off."""
    far = sum((n - 1) * d for n, d in zip(kernel.extent, kernel.target_stride, strict=True)) > INT32_MAX
    wide = ".to(gl.int64)" if far else ""
    moving = [m for m in range(len(kernel.tiles)) if kernel.tiles[m] > 1]
    terms = [f"first{m}{wide} * {kernel.target_stride[m]}" for m in moving]
    base = f"target + ({' + '.join(terms)})" if terms else "target"
    masks = []
    for m in modes:
        if kernel.extent[m] % kernel.tile[m]:
            first = f" - {_first(kernel, m)}" if kernel.tiles[m] > 1 else ""
            masks.append(f"(word{m} < {kernel.extent[m]}{first})")
    # A band that overhangs the grid starts tiles beyond the tensor.
    banded = kernel.target_order[-1]
    if tile_grid(kernel)[banded] != kernel.tiles[banded] and not kernel.extent[banded] % kernel.tile[banded]:
        masks.append(f"(first{banded} < {kernel.extent[banded]})")
    mask = f", mask={' & '.join(masks)}" if masks else ""
    return f"gl.store({base} + offset, words{mask})\n"
