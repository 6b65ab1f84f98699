"""Rows of what answers at once: layouts, hardware, pictures, nouns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np

import legalsat as ls
from legalsat import targets
from legalsat.dtypes import DTYPES
from legalsat.operators.access import Access
from legalsat.tensor import plain
from legalsat.units import tcgen05, tensor_memory, tensor_memory_layouts

from . import judges
from .draw import STRANGE_PATHS, Draw, hostile, text
from .nouns import (
    GPUS,
    SWIZZLES,
    access_op,
    addresses,
    any_layout,
    array,
    attention,
    composed,
    descriptor,
    dim,
    dtype,
    extent,
    gemm,
    grouped,
    instruction,
    kind,
    layout,
    linear,
    map_and_start,
    movement,
    multiply,
    of,
    of_pool,
    one,
    operand,
    pool,
    powers,
    program,
    registers,
    several,
    some,
    swizzle,
    tensor,
    tensor_copy,
    tensor_map,
    tile,
    tiler,
    value,
)
from .table import Row, of_noun
from .texts import blob

GPU = one(*GPUS)
SMALL = 1 << 14  # elements


def layouts() -> Iterator[Row]:
    """Yield rows of CuTe's layouts."""
    shape = one(4, (4, 8), ((2, 2), 3), "(4,8):(8,1)", "((8,16),64):((64,512),1)", (1,), [4, 8])
    yield Row("Layout", ls.Layout, (shape,), judge=judges_text, weight=2)
    yield Row("Layout", ls.Layout, (one((4, 8)), one((8, 1), (1, 4), [0, 1], (-1, 4))), judge=judges_text)
    yield Row("Layout", _text_layout, (layout, one(*range(10**6))), changed=False)
    yield Row("Layout.from_json", ls.Layout.from_json, (lambda r: layout(r).to_json(),))
    yield Row("Layout.__call__", ls.Layout.__call__, (layout, of(0, 99)))
    yield Row("Layout.__call__", ls.Layout.__call__, (layout, one((0, 1), np.arange(8), ((0, 1), 2))))
    yield Row("Layout.__getitem__", ls.Layout.__getitem__, (layout, one(0, 1, -1, (0, 1))))
    yield Row("Layout.coordinate", ls.Layout.coordinate, (layout, of(0, 40)))
    yield from of_noun("Layout", ls.Layout, layout)
    for name in ("append", "max_common_layout", "max_common_vector"):
        yield Row(name, getattr(ls, name), (layout, layout))
    for name in ("coalesce", "flatten"):
        yield Row(name, getattr(ls, name), (layout,), judge=judges.same_function)
    yield Row("coalesce", ls.coalesce, (layout, one(1, (1, 1), (1, (1, 1)))))
    yield Row("filter", ls.filter, (layout,), {"profile": one(1, (1, 1))})
    for name in ("cosize", "depth", "rank"):
        yield Row(name, getattr(ls, name), (any_layout,))
    yield Row("size", ls.size, (any_layout,), judge=judges.counts)
    yield Row("size", ls.size, (one(4, (4, 8), ((2, 2), 3)),))
    for name in ("filter_zeros", "nullspace"):
        yield Row(name, getattr(ls, name), (layout,))
    yield Row("make_layout", ls.make_layout, (), together=some(layout, 0, 3))
    yield Row("group", ls.group, (layout, of(0, 2), of(0, 3)), judge=judges.same_function)
    yield Row("composition", ls.composition, (layout, layout), judge=judges.composed, weight=2)
    yield Row("composition", ls.composition, (one(ls.Layout(64), ls.Layout((8, 8))), tiler))
    yield Row("composition", ls.composition, (swizzle, any_layout))
    yield Row("complement", ls.complement, (powers,), {"cotarget": one(64, 512, (8, 8))}, judge=judges.complemented)
    yield Row("complement", ls.complement, (any_layout, one(24, 64, (4, 8))))
    yield Row("right_inverse", ls.right_inverse, (any_layout,), judge=judges.right_inverse)
    yield Row("left_inverse", ls.left_inverse, (powers,), judge=judges.left_inverse)
    yield Row("left_inverse", ls.left_inverse, (any_layout,))
    for name in ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide"):
        yield Row(name, getattr(ls, name), (layout, tiler), judge=judges.divided)
    for name in ("logical_product", "zipped_product", "tiled_product", "flat_product"):
        yield Row(name, getattr(ls, name), (powers, layout), judge=judges.multiplied)
    for name in ("blocked_product", "raked_product"):
        yield Row(name, getattr(ls, name), (powers, powers), judge=judges.multiplied)
    yield Row("tile_to_shape", ls.tile_to_shape, (powers, one((16, 16), (8, 8, 8), 64, (100, 7)), one((0, 1), None)))


def swizzles() -> Iterator[Row]:
    """Yield rows of swizzles, swizzled layouts and linear ones."""
    yield Row("Swizzle", ls.Swizzle, (of(0, 4), of(0, 8), of(-5, 5)))
    yield Row("Swizzle.__call__", ls.Swizzle.__call__, (swizzle, of(0, 9999)), judge=judges.permutes)
    yield Row("Swizzle.__call__", ls.Swizzle.__call__, (swizzle, one(np.arange(8), -1, layout, ls.Layout((8, 8)))))
    yield Row("Swizzle.from_masks", ls.Swizzle.from_masks, (one(0b111 << 7, 0, 3 << 4), one(0b111 << 4, 0, 3)))
    yield Row("Swizzle.recast", ls.Swizzle.recast, (swizzle, one(8, 16, 32, 1), one(8, 16, 4, 128)))
    yield Row("Swizzle.tma", ls.Swizzle.tma, (one(*SWIZZLES, "128B_ATOM_32B"),))
    yield from of_noun("Swizzle", ls.Swizzle, swizzle)
    yield Row("ComposedLayout", ls.ComposedLayout, (swizzle, of(0, 64), any_layout))
    yield Row("ComposedLayout.__call__", ls.ComposedLayout.__call__, (composed, of(0, 40)))
    yield Row("ComposedLayout.__getitem__", ls.ComposedLayout.__getitem__, (composed, one(0, 1, (0, 1))))
    yield Row("ComposedLayout.coordinate", ls.ComposedLayout.coordinate, (composed, of(0, 40)))
    yield Row("ComposedLayout.from_json", ls.ComposedLayout.from_json, (lambda r: composed(r).to_json(),))
    yield from of_noun("ComposedLayout", ls.ComposedLayout, composed)
    bases = one({"a": [(1,), (2,)]}, {"a": [(1, 0)], "b": [(0, 1)]}, {}, {"a": []}, {"x": [(3,), (1,)], "y": [(4,)]})
    yield Row("LinearLayout", ls.LinearLayout, (bases, one({"o": 8}, ["o"], {"o": 4, "p": 2}, ("o", "p"))))
    yield Row("LinearLayout.__call__", _called, (linear, one({"register": 1}, {"lane": 0}, {"index": 3}, {})))
    yield Row("LinearLayout.compose", ls.LinearLayout.compose, (linear, linear))
    yield Row(
        "LinearLayout.compose", ls.LinearLayout.compose, (linear, one(ls.LinearLayout.identity(64, "offset", "x")))
    )
    yield Row("LinearLayout.from_layout", ls.LinearLayout.from_layout, (powers,), {"out_dim": one("o", "x")})
    yield Row(
        "LinearLayout.from_layout", ls.LinearLayout.from_layout, (any_layout,), {"in_dims": one(("a", "b"), ("i",))}
    )
    for name in ("identity", "zeros"):
        make = getattr(ls.LinearLayout, name)
        yield Row(f"LinearLayout.{name}", make, (one(1, 2, 8, 64), one("a", "b"), one("c", "a")))
    yield Row("LinearLayout.inverse", ls.LinearLayout.inverse, (linear,), judge=judges.inverted)
    yield from of_noun("LinearLayout", ls.LinearLayout, linear)


def judges_text(given: Any, options: Any, result: Any) -> None:
    """Judge a layout by its texts."""
    judges.written_and_read(given, options, result)


def _text_layout(given: ls.Layout, seed: int) -> Any:
    return ls.Layout(text(str(given), Random(seed)))


def _called(given: ls.LinearLayout, coordinates: Any) -> Any:
    if not isinstance(coordinates, dict) or not all(isinstance(name, str) for name in coordinates):
        raise ls.InvalidInput("coordinates go by name, as Python passes them")
    return given(**coordinates)


def maps() -> Iterator[Row]:
    """Yield rows of tensor maps, their images and their pictures."""
    yield Row(
        "TensorMap",
        ls.TensorMap,
        (one("bf16", "u8", "f32", 6, 9), one((64, 64), (100,)), one((128,), ()), one((64, 8), (16,))),
        {"swizzle": one(*SWIZZLES, 3), "interleave": one("none", "16B", 1), "address": one(0, 16, 2**40)}
        | {"element_stride": one((1, 1), (2, 1)), "mode": one("tiled", "im2col"), "oob_fill": one("zero", "nan", 1)}
        | {"channels": one(8, 64), "pixels": one(8, 64), "l2_promotion": one("none", "128B", 2)}
        | {"lower_corner": one((), (0,)), "upper_corner": one((), (-1,)), "map_offset": one(0, 64)},
    )
    yield from of_noun("TensorMap", ls.TensorMap, tensor_map)
    for name in ("tx_bytes", "smem_bytes"):
        yield Row(name, getattr(ls, name), (tensor_map,))
    yield Row("encode_blob", ls.encode_blob, (tensor_map,), judge=judges.of_bytes)
    yield Row("decode", ls.decode, (_blob,), {"hardware_only": one(True, False)}, family="readers", weight=8)
    base = {"base": one(0, 128, 1024)}
    yield Row("smem_image", ls.smem_image, (), {"base": one(0, 1024)}, map_and_start, judge=judges.image)
    more = base | {"offsets": one((), (0,), (1, 1)), "shared_bytes": one(None, 4096, 100)}
    yield Row("smem_image", ls.smem_image, (), more, map_and_start)
    yield Row("store_footprint", ls.store_footprint, (), base, map_and_start)
    reads = {"op": access_op, "column": of(0, 3), "target": GPU}
    yield Row("column_read", ls.column_read, (tensor_map,), reads | base, weight=0.5)
    yield Row("draw_box", ls.draw_box, (), {}, map_and_start, judge=judges.picture, weight=0.2)
    yield Row("draw_pixels", ls.draw_pixels, (), {}, map_and_start, judge=judges.picture, weight=0.2)
    yield Row("draw_rows", ls.draw_rows, (tensor_map,), {"rows": of(1, 9), "dimension": of(0, 2)}, weight=0.2)
    yield Row("draw_shared", ls.draw_shared, (), reads | base | {"lines": of(1, 9)}, map_and_start, weight=0.2)
    sides = {"rows": of(1, 16), "columns": of(1, 16)}
    yield Row("draw_layout", ls.draw_layout, (any_layout,), sides | {"element_bits": one(8, 16, 32)}, weight=0.2)
    yield Row("draw_owners", ls.draw_owners, (one(*(ls.Layout(s) for s in ((32, 4), (8, 8)))),), sides, weight=0.2)
    yield Row("draw_owners", ls.draw_owners, (linear, one((8, 8), (16,))), sides, weight=0.2)


def units() -> Iterator[Row]:
    """Yield rows of copies, descriptors, banks and tensor memory."""
    yield Row("TensorCopy", ls.TensorCopy, (tensor_map,), _COPY)
    yield from of_noun("TensorCopy", ls.TensorCopy, lambda r: ls.TensorCopy(tensor_map(r)))
    bulk = {"bytes": one(16, 100, 4096), "global_address": one(0, 16, 8), "shared_address": one(0, 16, 8)}
    yield Row("BulkCopy", ls.BulkCopy, (), bulk | {"stores": one(True, False), "reduces": one("add", None)})
    for draw in (tensor_map, tensor_copy, descriptor, instruction, multiply):
        yield Row("violations", ls.violations, (draw, GPU), judge=judges.diagnostics)
    yield Row("violations", ls.violations, (descriptor, GPU), {"operand": of_pool("operand"), "dtype": dtype})
    yield Row(
        "MatrixDescriptor", ls.MatrixDescriptor, (one("wgmma", "tcgen05"), *(one(0, 16, 1024),) * 2, one(*SWIZZLES))
    )
    yield Row("MatrixDescriptor.from_word", ls.MatrixDescriptor.from_word, (one("wgmma", "tcgen05"), of(0, 2**64 - 1)))
    block = {"block": one(0, 64, 128), "element_bits": one(0, 8, 16)}
    yield Row("MatrixDescriptor.ignored", ls.MatrixDescriptor.ignored, (descriptor, one("K", "MN")), block)
    reads_like = ls.MatrixDescriptor.reads_like
    yield Row("MatrixDescriptor.reads_like", reads_like, (descriptor, descriptor, one("K", "MN")), block)
    yield from of_noun("MatrixDescriptor", ls.MatrixDescriptor, descriptor)
    yield Row(
        "tile_layout",
        ls.tile_layout,
        (one(8, 64, 100), one(16, 64, 100), one(4, 8, 16), one(*SWIZZLES), one("K", "MN")),
    )
    yield Row("matrix_operand", _operand, (), {}, operand)
    yield Row(
        "MatrixOperand.word", ls.MatrixOperand.word, (of_pool("operand"), of(0, 3), of(0, 3)), {"start": one(0, 1024)}
    )
    yield from of_noun("MatrixOperand", ls.MatrixOperand, of_pool("operand"))
    yield Row("read_addresses", ls.read_addresses, (descriptor, one("K", "MN"), one(8, 64), one(16, 32), one(8, 16)))
    yield Row("bank_wavefronts", ls.bank_wavefronts, (access_op, addresses, GPU), judge=judges.wavefronts, weight=2)
    shared = one(
        ls.Layout((32, 8), (8, 1)), ls.Layout((8, 32)), ls.ComposedLayout(ls.Swizzle(3, 4, 3), 0, ls.Layout(256))
    )
    wavefront = {"swizzle": one(*SWIZZLES, ls.Swizzle(3, 4, 3)), "base": one(0, 1024)}
    yield Row("layout_wavefronts", _layout_wavefronts, (access_op, registers, shared, GPU, one(8, 16, 32)), wavefront)
    bits = {"m": one(64, 128), "n": one(8, 64, 256), "d": one("fp32", "fp16"), "a_major": one("K", "MN")}
    yield Row(
        "InstructionDescriptor", _instruction, (one("f16", "i8", "tf32"), one("bf16", "u8"), one("bf16", "u8")), bits
    )
    yield Row(
        "InstructionDescriptor.from_word", ls.InstructionDescriptor.from_word, (one(*tcgen05.KINDS), of(0, 2**32 - 1))
    )
    yield from of_noun("InstructionDescriptor", ls.InstructionDescriptor, instruction)
    yield Row("WgmmaMultiply", ls.WgmmaMultiply, (one(64), of(1, 256), one(8, 16, 32), dtype, dtype, dtype))
    yield Row("Wgmma", ls.Wgmma, (one(8, 64, 256), dtype), {"sums": one("fp32", "fp16"), "b": dtype})
    yield Row(
        "Wgmma.immediates", ls.Wgmma.immediates, (_wgmma,), {"a_major": one("K", "MN"), "from_registers": one(True)}
    )
    yield from of_noun("Wgmma", ls.Wgmma, _wgmma)
    yield Row("tensor_memory_violations", ls.tensor_memory_violations, (program, one("b200", "b200", "h200")), weight=2)
    types = one(("bf16", "bf16", "fp32"), ("e4m3", "e4m3", "fp32"))
    placed = {"cta_group": one(1, 2), "accumulators": one(1, 2), "a_stages": one(0, 1), "scale_stages": one(1, 2)}
    tiles = one((128, 128, 64), (64, 8, 16), (256, 256, 64))
    yield Row("tensor_memory_placement", ls.tensor_memory_placement, (types, tiles, one("b200", "sm_100a")), placed)
    yield from _modules()


def _modules() -> Iterator[Row]:
    """Yield rows of the public functions of the modules that are public as a whole."""
    where: dict[str, Any] = {"ws": one(True, False), "sparse": one(True, False)}
    of_m = (one(32, 64, 128, 256), one(8, 64, 256), one(1, 2))
    entries: dict[Any, tuple[tuple[str, tuple[Draw, ...], dict[str, Draw]], ...]] = {
        tcgen05: (
            ("operand_type", (dtype,), {}),
            ("kind_of", (dtype, dtype), {"scales": one(None, tcgen05.Scales("e8m0", 32))}),
            ("legal_m", (kind, one(1, 2)), where | {"wide": one(True)}),
            ("legal_n", (kind, one(1, 2)), where),
            ("legal_transposed_n", (one(1, 2),), {}),
            ("scale_ids", (one(1, 2, 4),), {}),
            ("scale_steps", (kind, one(tcgen05.Scales("e8m0", 32), tcgen05.Scales("e4m3", 16)), one(1, 2, 4)), {}),
            ("Scales", (one("e8m0", "e4m3"), one(16, 32)), {}),
        ),
        tensor_memory_layouts: (
            ("datapath", (one(32, 64, 128, 256), one(1, 2)), where),
            ("columns_of_sums", of_m, where),
            ("sums_layout", of_m, where),
            ("operand_columns", (one(8, 16, 64), one(4, 8, 16)), {"sparse": one(True)}),
            ("repetitions", (one("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"),), {}),
            ("transfer_layout", (one("32x32b", "16x64b", "16x256b"), one(1, 2, 8, 64)), {"split": one(0, 16)}),
            ("scale_layout", (one(32, 128, 256), one(1, 2, 4)), {"along_k": one(True, False)}),
            ("scale_columns", (one(32, 128, 256), one(1, 2, 4)), {}),
            ("scale_memory_layout", (one(32, 128, 256), one(1, 2, 4)), {}),
        ),
        tensor_memory: (
            ("Allocate", (one("a", "b"), one(32, 48, 512)), {"cta_group": one(1, 2), "cta": one(0, 1)}),
            ("Free", (one("a", "b"),), {"columns": one(32, 64, None)}),
            ("Region", (one("a"), of(0, 511), of(1, 512)), {"lane": one(0, 16, 64)}),
            ("Relinquish", (), {"cta_group": one(1, 2), "converged": one(True, False)}),
            ("Commit", (), {"cta_group": one(1, 2), "threads": one(1, 32)}),
            ("Meet", (), {"cta": one(0, 1)}),
            ("Exit", (), {"cta": one(0, 1)}),
            ("CopyIn", (one("128x256b", "32x128b"), one("", "warpx4"), one("a"), of(0, 511)), {"lane": one(0, 32)}),
            ("Transfer", (one("ld", "st"), one("a"), one("32x32b"), one(1, 2, 8), of(0, 3), one(0, 16), of(0, 99)), {}),
            ("Multiply", (instruction, one(tensor_memory.Region("a", 0, 64))), {"cta_group": one(1, 2)}),
            ("Program", (some(one(tensor_memory.Exit(), tensor_memory.Commit()), 0, 3),), {"cluster": one(1, 2)}),
        ),
    }
    for module, rows in entries.items():
        for name, arguments, options in rows:
            said = f"{module.__name__.rpartition('.')[2]}.{name}"
            yield Row(said, getattr(module, name), arguments, options)
    yield from of_noun("tcgen05.Kind", tcgen05.Kind, kind)
    yield from of_noun("tcgen05.Scales", tcgen05.Scales, one(tcgen05.Scales("e8m0", 32)))
    shaped = one(*(tensor_memory_layouts.datapath(m, 1) for m in (64, 128)))
    yield from of_noun("tensor_memory_layouts.Datapath", tensor_memory_layouts.Datapath, shaped)
    transfer = tensor_memory_layouts.Transfer
    yield Row("tensor_memory_layouts.Transfer", transfer, (one(32), one(1, 2), one(1, 4), one(64, 128)), changed=False)


_COPY = {
    "stores": one(True, False),
    "reduces": one(None, "add", "min"),
    "coordinate": one(None, (0, 0), (8, 0), (-1, 3)),
    "shared_address": one(None, 0, 1024, 16),
    "shared_bytes": one(None, 1024, 100),
    "transaction_bytes": one(None, 1024),
    "copies": of(1, 3),
    "tensor": tensor,
    "map_pitch": one(None, 128, 100),
    "read_as": one(None, *SWIZZLES),
    "by_address": one(True, False),
}


def _wgmma(r: Random) -> ls.Wgmma:
    return ls.Wgmma(r.choice((8, 64, 256)), r.choice(("bf16", "e4m3")))


def _operand(layout: Any, swizzle: Any, bits: Any, major: Any, block: Any, **more: Any) -> Any:
    return ls.matrix_operand(layout, swizzle, bits, unit="wgmma", major=major, block=block, **more)


def _layout_wavefronts(op: Any, held: Any, shared: Any, gpu: Any, bits: Any, **more: Any) -> Any:
    return ls.layout_wavefronts(op, held, shared, gpu, element_bits=bits, **more)


def _instruction(kind: Any, a: Any, b: Any, m: Any = 128, n: Any = 64, **more: Any) -> Any:
    return ls.InstructionDescriptor(kind, a, b, m, n, **more)


def _blob(r: Random) -> Any:
    """Draw a map's bytes, whole or changed, as bytes or as the texts that debuggers print."""
    found = blob(r)
    how = r.randrange(6)
    if how < 3:
        return found
    if how == 3:
        return found.hex() if r.random() < 0.5 else text(found.hex(), r)
    if how == 4:
        words = " ".join(f"0x{int.from_bytes(found[i : i + 8], 'little'):016x}" for i in range(0, len(found), 8))
        return words if r.random() < 0.5 else text(words, r)
    return r.choice((bytearray, memoryview, list, lambda b: np.frombuffer(b, "u1"), lambda b: hostile(r)))(found)


def nouns() -> Iterator[Row]:
    """Yield rows of tensors, operators, dims, types, targets, errors and results."""
    yield Row("Tensor", ls.Tensor, (one((64, 64), (4096, 4095), (8,), [1, 2, 3]), dtype), _TENSOR, weight=2)
    yield Row("Tensor.from_array", ls.Tensor.from_array, (array,), weight=2)
    yield Row("Tensor.transposed", ls.Tensor.transposed, (tensor, one((1, 0), (0, 1, 2), (0,), (2, 0, 1))))
    yield Row("TensorMap.bind", ls.TensorMap.bind, (tensor_map, one({"M": 64}, {}, {"K": 8, "N": 1})))
    yield Row("Tensor.bind", ls.Tensor.bind, (tensor, one({"M": 64}, {}, {"K": 8, "N": 1})))
    yield from of_noun("Tensor", ls.Tensor, tensor)
    yield Row("Dim", ls.Dim, (one("M", "K tiles", "n"),), {"multiple_of": of(1, 16), "min": of(1, 9), "max": of(9, 99)})
    yield Row("Dim.check", ls.Dim.check, (dim, of(1, 600)))
    yield from of_noun("Dim", ls.Dim, dim)
    yield Row("Copy", ls.Copy, (tensor,), _ASKED)
    yield Row("Copy", ls.Copy, (tensor, tensor))
    yield Row("Transpose", ls.Transpose, (tensor,), {"order": one((1, 0), (0, 2, 1), None), "tile": tile})
    yield Row("Pad", ls.Pad, (tensor, one(0, 1, ((0, 1), (0, 0)), [(1, 2)])), {"value": one(0, 1, -1.5)})
    image = ls.Tensor((2, 14, 14, 64), "bf16")
    yield Row("Im2col", ls.Im2col, (one(image), one((3, 3), (1, 1), 3)), _WINDOWS)
    for name, kind_ in (("Copy", ls.Copy), ("Transpose", ls.Transpose), ("Pad", ls.Pad), ("Im2col", ls.Im2col)):
        made = _operator(kind_)
        yield Row(f"{name}.bind", kind_.bind, (made, one({}, {"M": 4}, {"K": 8})))
        yield Row(f"{name}.travels", kind_.travels, (made, GPU))
        yield Row(f"{name}.margins", kind_.margins, (made, one(Access(8, ()))))
        yield Row(f"{name}.fronted", kind_.fronted, (made, of(0, 1), of(0, 9)))
        yield Row(f"{name}.meaning", kind_.meaning, together=partial(_operands, made))
        yield from of_noun(name, kind_, _operator(kind_))
    majors = {"out_dtype": dtype, "constant_b": one(True, False), "scaled": one(True, False), "a": tensor}
    yield from _products(majors)
    for name, many, drawn in (("Gemm", ls.Gemm, gemm), ("Attention", ls.Attention, attention)):
        yield Row(f"{name}.travels", many.travels, (drawn, GPU))
        yield Row(f"{name}.meaning", many.meaning, together=partial(_operands, drawn))
    yield Row("Gemm.bind", ls.Gemm.bind, (gemm, one({}, {"M": 4}, {"K": 8})))
    yield Row("Gemm.operands", ls.Gemm.operands, (gemm, one((128, 128, 64), (64, 8, 16)), one(("wgmma.a", "wgmma.b"))))
    yield from of_noun("Gemm", ls.Gemm, gemm)
    heads = {"kv_heads": of(1, 4), "v_head": of(1, 64), "layout": one("bshd", "bhsd"), "causal": one(True), "q": tensor}
    yield Row("Attention", ls.Attention, (*(of(1, 9),) * 5, one("bf16", "e4m3")), heads)
    yield Row("Attention.operands", ls.Attention.operands, (attention, lambda r: targets.target(r.choice(GPUS))))
    yield from of_noun("Attention", ls.Attention, attention)
    yield Row("Value", ls.Value, (one("x", "y1"), tensor), {"constant": one(True, False)})
    yield Row("Value.product", ls.Value.product, (value, value), {"dtype": dtype})
    yield Row("Value.pad", ls.Value.pad, (value, one(((0, 0), (1, 2)), ((1, 0), (0, 0)))))
    yield Row("Value.concat", ls.Value.concat, (value, value), {"axis": of(0, 1)})
    yield from of_noun("Value", ls.Value, value)
    yield Row("Program", lambda one_, other: ls.Program(a=one_, b=other), (value, value))
    yield Row("Program.but", ls.Program.but, (several,))
    yield Row("Program.constant", ls.Program.constant, (several, of(0, 2)))
    yield Row("Program.words", ls.Program.words, (several, of(0, 2)))
    yield Row("Program.called", ls.Program.called, (several, of(0, 2)))
    yield Row("Program.meaning", ls.Program.meaning, together=_of_program)
    yield Row("Program.travels", ls.Program.travels, (several, GPU))
    yield from of_noun("Program", ls.Program, several)
    yield from of_noun("DType", ls.DType, lambda r: DTYPES[r.choice(list(DTYPES))])
    yield from of_noun("Target", ls.Target, lambda r: targets.target(r.choice(GPUS)))
    yield from _results()


def _products(more: dict[str, Draw]) -> Iterator[Row]:
    """Yield rows of products of every kind."""
    yield Row("Gemm", ls.Gemm, (extent, extent, extent, dtype), {**more, "batch": one((), 2, (2, 3))})
    yield Row("GroupedGemm", _grouped, (extent, extent, extent, dtype, one(1, 5, 64)), {"a": tensor, "b": tensor})
    for method in ("travels", "operands", "bind", "meaning"):
        given = {"travels": (GPU,), "operands": (one((128, 128, 64)), one(("wgmma.a", "wgmma.b"))), "bind": (one({}),)}
        if method == "meaning":
            yield Row("GroupedGemm.meaning", ls.GroupedGemm.meaning, together=partial(_operands, grouped))
        else:
            yield Row(f"GroupedGemm.{method}", getattr(ls.GroupedGemm, method), (grouped, *given[method]))
    yield from of_noun("GroupedGemm", ls.GroupedGemm, grouped)


def _grouped(m: Any, n: Any, k: Any, kind: Any, groups: Any, **more: Any) -> ls.GroupedGemm:
    return ls.GroupedGemm(m, n, k, kind, groups=groups, **more)


def _of_program(r: Random) -> tuple[Any, ...]:
    program = several(r)
    return program, *(np.ones(plain(one_.tensor.shape)) for one_ in program.inputs)


def _results() -> Iterator[Row]:
    """Yield rows of what functions return, and of errors."""
    pooled: dict[str, tuple[type, str, str | None]] = {
        "Plan": (ls.Plan, "plan", None),
        "MovementPlan": (ls.MovementPlan, "plan", None),
        "GemmPlan": (ls.GemmPlan, "gemm plan", None),
        "ProgramPlan": (ls.ProgramPlan, "program plan", None),
        "LegalRegion": (ls.LegalRegion, "region", None),
        "GroupRegion": (ls.GroupRegion, "group region", None),
        "GroupProof": (ls.GroupProof, "group proof", None),
        "Specialisation": (ls.Specialisation, "region", "family"),
        "Explanation": (ls.Explanation, "explanation", None),
        "Diagnostic": (ls.Diagnostic, "explanation", "diagnostics"),
        "Repair": (ls.Repair, "explanation", "repairs"),
        "Obligation": (ls.Obligation, "explanation", "obligations"),
        "Pipeline": (ls.Pipeline, "pipeline", None),
        "PipelineCheck": (ls.PipelineCheck, "check", None),
        "BankRepair": (ls.BankRepair, "banks", None),
        "Proof": (ls.Proof, "proof", None),
        "Sweep": (ls.Sweep, "sweep", None),
        "NoLegalLayout": (ls.NoLegalLayout, "error", None),
    }
    slow = {
        "Plan",
        "MovementPlan",
        "GemmPlan",
        "ProgramPlan",
        "Explanation",
        "LegalRegion",
        "GroupRegion",
        "Sweep",
        "Pipeline",
        "PipelineCheck",
        "BankRepair",
    }
    for name, (kind_, source, part) in pooled.items():
        weight = 0.05 if name in slow else 0.5

        def draw(r: Random, source: str = source, part: str | None = part) -> Any:
            if part is None:
                return of_pool(source)(r)
            return r.choice([found for whole in pool(source) for found in getattr(whole, part)])

        but = ("compile", "prove", "table", "add_note", "with_traceback")
        yield from (row for row in of_noun(name, kind_, draw, but=but, weight=weight) if row.name)
    yield Row(
        "Snippet shown",
        lambda one_: [str(s) for repair in one_.repairs for s in repair.snippets],
        (of_pool("explanation"),),
        changed=False,
        weight=0.05,
    )
    yield Row("ColumnRead shown", lambda tm: repr(ls.column_read(tm)), (tensor_map,), changed=False, weight=0.2)
    yield Row(
        "LayoutWavefronts",
        lambda given: ls.layout_wavefronts("ld.b32", given, ls.Layout(256), "h200", element_bits=32).conflicts,
        (one(ls.Layout((32, 1))),),
        changed=False,
        weight=0.2,
    )
    yield Row(
        "LegalRegion.holds",
        lambda region, values: region.holds(**values),
        (of_pool("region"), _values),
        changed=False,
        weight=0.5,
    )
    yield Row(
        "GroupRegion.holds",
        lambda region, begin, end: region.holds(begin=begin, end=end),
        (of_pool("group region"), one(0, 7, -1, "x", None, 2**70), one(0, 900, 1.5)),
        changed=False,
        weight=0.5,
    )
    yield Row("Drawing shown", _texts_of, (layout,), changed=False, weight=0.1)
    path = one(*STRANGE_PATHS[:-1], "drawn.svg")
    yield Row("Drawing.save", _drawn, (layout, path), changed=False, weight=0.1)
    for name in (
        "MissingExtra",
        "InvalidInput",
        "NoSuchLayout",
        "NotAffine",
        "UnknownPhases",
        "InvalidPlan",
        "LegalSatError",
        "NoSuchDescriptor",
        "SearchGaveUp",
        "SolverGaveUp",
        "UnknownTarget",
    ):
        yield Row(name, _raised, (one(getattr(ls, name)), one("x", "", "a b")), changed=False, weight=0.1)


def _texts_of(given: ls.Layout) -> None:
    drawn = ls.draw_layout(given)
    assert isinstance(drawn, ls.Drawing)
    assert drawn._repr_svg_().startswith("<svg")


def _drawn(given: ls.Layout, path: Any) -> None:
    ls.draw_layout(given).save(path)


def _values(r: Random) -> dict[str, Any]:
    return {name: r.choice((1, 8, 64, 100, 0, -1, 2**40, hostile(r))) for name in r.sample(("M", "K", "N"), 2)}


def _raised(kind_: type[Exception], said: str) -> None:
    try:
        raise kind_(said)
    except ls.LegalSatError as error:
        assert str(error) == said


def _operands(made: Draw, r: Random) -> list[Any]:
    """Draw an operator and arrays of its operands; where these are large or have dims, one number."""
    operator = made(r)
    *reads, result = operator.tensors.values()
    known = all(isinstance(n, int) for tensor in (*reads, result) for n in tensor.shape)
    if not known or max(tensor.size for tensor in (*reads, result)) > SMALL:
        return [operator, np.ones(())]
    return [operator, *(np.ones(tensor.shape, r.choice(("f4", "u1", "i8"))) for tensor in reads)]


def _operator(kind_: type) -> Any:
    def draw(r: Random) -> Any:
        while True:
            found = movement(r)
            if isinstance(found, kind_):
                return found

    return draw


_INTO = one("shared", "global")
_ASKED = {"tile": tile, "consumer": one("threads", "wgmma.b"), "passes": of(1, 3), "into": _INTO}
_ASKED |= {"axes": one(("m", "k"), ("b", "m", "k"), ())}
_WINDOWS = {"stride": one(1, 2, (1, 2)), "padding": one(0, 1, (1, 1)), "dilation": one(1, 2), "tile": tile}
_WINDOWS |= {"into": _INTO, "axes": one(("n", "h", "w", "c"), ())}
_TENSOR = {
    "strides": one(None, (64, 1), (4096, 1), (1, 64), (0, 1), (8,)),
    "align": one(256, 16, 1),
    "offset": one(0, 16, 2),
}

ROWS: tuple[Row, ...] = (*layouts(), *swizzles(), *maps(), *units(), *nouns())
