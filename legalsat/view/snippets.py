"""Repairs as source text to paste: an allocation with given strides in torch, the same layout in Triton and CuTe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise

from legalsat.explanation import Snippet
from legalsat.operators import Copy, Move, Pad, Transpose
from legalsat.tensor import Tensor, plain

MAX_RANK = 5  # of a tensor descriptor
TORCH_ELEMENT_BITS = 8  # torch has no smaller elements: packed ones come as bytes


def torch_allocation(tensor: Tensor, like: str = "x") -> str:
    """Return torch's expression for new memory with the strides of `tensor`, its element type and device as `like`'s.

    Rows are allocated with all of their padding where strides are multiples of each other, so that what is written
    into the padding of the last row hits no other tensor.
    """
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    # Slowest first; of axes with one stride the longest is the outer one, the others having but one element.
    order = sorted(range(tensor.rank), key=lambda a: (-strides[a], -shape[a], a))
    held = [shape[order[0]]] if order else []
    for outer, inner in pairwise(order):
        if not strides[inner] or strides[outer] % strides[inner] or strides[outer] // strides[inner] < shape[inner]:
            held = []
            break
        held.append(strides[outer] // strides[inner])
    if order and (not held or strides[order[-1]] != 1):
        return f"torch.empty_strided({shape}, {strides}, dtype={like}.dtype, device={like}.device)"
    text = f"{like}.new_empty({', '.join(map(str, held)) if order else '()'})"
    cuts = ["" if room == shape[a] else str(shape[a]) for room, a in zip(held, order, strict=True)]
    if any(cuts):
        while not cuts[-1]:
            cuts.pop()
        text += f"[{', '.join(':' + cut for cut in cuts)}]"
    back = [order.index(axis) for axis in range(tensor.rank)]
    if back == [1, 0]:
        return f"{text}.t()"
    return text if back == sorted(back) else f"{text}.permute{tuple(back)}"


def torch_copy(tensor: Tensor, name: str, like: str = "x") -> str:
    """Return torch's statements that copy `like` to memory laid out as `tensor`, called `name`."""
    allocation = torch_allocation(tensor, like)
    strides = "" if "strides" in allocation or "strided" in allocation else f"  # strides {plain(tensor.strides)}"
    return f"{name} = {allocation}{strides}\n{name}.copy_({like})"


def in_torch(tensor: Tensor) -> bool:
    """Whether torch can copy to such a tensor: elements of whole bytes, no two in the same memory by a stride of 0."""
    repeats = any(n > 1 and not s for n, s in zip(plain(tensor.shape), plain(tensor.strides), strict=True))
    return tensor.dtype.bits >= TORCH_ELEMENT_BITS and not repeats


def triton_descriptor(tensor: Tensor, tile: Sequence[int], name: str = "x") -> str | None:
    """Return Triton's statement for a descriptor of a tensor, axes slowest first; None where it takes none such.

    Args:
        tensor: what it describes.
        tile: elements along each axis of the tensor; blocks are the next powers of two.
        name: of the pointer, without "_ptr".
    """
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    order = sorted(range(tensor.rank), key=lambda a: (-strides[a], -shape[a], a))
    if not 1 <= tensor.rank <= MAX_RANK or strides[order[-1]] != 1 or tensor.dtype.bits < TORCH_ELEMENT_BITS:
        return None
    columns = ([shape[a], strides[a], 1 << (tile[a] - 1).bit_length()] for a in order)
    extents, steps, block = (list(column) for column in zip(*columns, strict=True))
    return (
        f"tl.make_tensor_descriptor(\n    {name}_ptr,\n    shape={extents},\n    strides={steps},\n"
        f"    block_shape={block},\n)"
    )


def cute_tensor(tensor: Tensor, name: str = "x") -> str:
    """Return CuTe's tensor of such a layout, axes in the tensor's order; a stride of 1 is known to the compiler."""
    strides = ", ".join("Int<1>{}" if s == 1 else str(s) for s in plain(tensor.strides))
    shape = ", ".join(map(str, plain(tensor.shape)))
    return (
        f"Tensor {name} = make_tensor(\n    make_gmem_ptr({name}_ptr),\n    make_shape({shape}),\n"
        f"    make_stride({strides}));"
    )


def layout_snippets(tensor: Tensor, name: str, tile: Sequence[int] | None) -> tuple[Snippet, ...]:
    """Return how to lay x out as `tensor`, called `name`: in torch, as a descriptor of Triton's, as a tensor of CuTe's.

    Args:
        tensor: the layout.
        name: of the result.
        tile: elements of a tile along each axis; without one Triton's descriptor has no blocks, and is left out.
    """
    found = [Snippet("torch", torch_copy(tensor, name))] if in_torch(tensor) else []
    described = None if tile is None or len(tile) != tensor.rank else triton_descriptor(tensor, tile, name)
    if described is not None:
        found.append(Snippet("triton", f"{name} = {described}"))
    if tensor.rank and tensor.dtype.bits >= TORCH_ELEMENT_BITS:
        found.append(Snippet("cute", cute_tensor(tensor, name)))
    return tuple(found)


def view_snippets(laid: Tensor, viewed: Tensor, name: str | None) -> tuple[Snippet, ...]:
    """Return how to see x with other axes or strides, in torch.

    Args:
        laid: x, or what it is copied to first.
        viewed: what is seen of it.
        name: of the copy; None where x itself is viewed.
    """
    if viewed.dtype.bits < TORCH_ELEMENT_BITS or (name is not None and not in_torch(laid)):
        return ()
    lines = [] if name is None else [torch_copy(laid, name)]
    lines.append(f"y = {name or 'x'}.as_strided({plain(viewed.shape)}, {plain(viewed.strides)})")
    return (Snippet("torch", "\n".join(lines)),)


def relayout_snippets(source: Tensor, after: Tensor, target: str) -> tuple[Snippet, ...]:
    """Return how to copy x to the layout `after` by a kernel of ours, before each use."""
    copy = f"ls.Copy({tensor_text(source)}, {tensor_text(after)})"
    lines = (
        "import legalsat as ls",
        "",
        f'lay_out = ls.synthesize({copy}, "{target}").compile()',
        "y = lay_out(x)  # before each use",
    )
    return (Snippet("legalsat", "\n".join(lines)),)


def tile_snippets(operator: Move, target: str) -> tuple[Snippet, ...]:
    """Return how to ask for an operator with its tile."""
    tile, source = operator.axis_tile, operator.source
    described = None if tile is None or source.dims else triton_descriptor(source, tile)
    found = (Snippet("triton", f"x = {described}"),) if described is not None else ()
    return (*found, Snippet("legalsat", plan_text(operator, target)))


def plan_text(operator: Move, target: str) -> str:
    """Return the statements that plan an operator, whose source is called x."""
    made, options = made_text(operator), ""
    if made == "x":
        options = "" if operator.tile is None else f", tile={operator.tile}"
        options += "" if operator.consumer is None else f', consumer="{operator.consumer}"'
    end = f"  # {operator}" if made == "operator" else ""
    return f'import legalsat as ls\n\nplan = ls.synthesize({made}, "{target}"{options}){end}'


@singledispatch
def made_text(operator: Move) -> str:
    """Return the expression that makes an operator on x; of one that has no words here, its name there."""
    return "operator"


@made_text.register
def _(operator: Copy) -> str:
    return "x"


@made_text.register
def _(operator: Transpose) -> str:
    tile = "" if operator.tile is None else f", tile={operator.tile}"
    return f"ls.Transpose(x, {operator.order}{tile})" if _is_dense(operator.target) else "operator"


@made_text.register
def _(operator: Pad) -> str:
    return f"ls.Pad(x, {operator.padding}, {operator.value})" if _is_dense(operator.target) else "operator"


def _is_dense(target: Tensor) -> bool:
    """Whether it is what an operator writes to where no target is named."""
    return target == Tensor(target.shape, target.dtype)


def tensor_text(tensor: Tensor) -> str:
    """Return the Python text of a tensor: `eval` of it gives an equal one."""
    dense = tensor == Tensor(tensor.shape, tensor.dtype, None, tensor.align, tensor.offset)
    words = [str(plain(tensor.shape)), f'"{tensor.dtype}"']
    words += [] if dense else [str(plain(tensor.strides))]
    usual = Tensor(tensor.shape, tensor.dtype)
    words += [f"align={tensor.align}"] if tensor.align != usual.align else []
    words += [f"offset={tensor.offset}"] if tensor.offset else []
    return f"ls.Tensor({', '.join(words)})"


def slice_snippets(axis: int, count: int, extent: int) -> tuple[Snippet, ...]:
    """Return how to take x apart along an axis, a part of `extent` elements at a time; 1 drops the axis."""
    part = f"x.select({axis}, i)" if extent == 1 else f"x.narrow({axis}, i, min({extent}, x.shape[{axis}] - i))"
    step = f"range({count})" if extent == 1 else f"range(0, x.shape[{axis}], {extent})"
    return (Snippet("torch", f"for i in {step}:\n    part = {part}  # a tensor map of its own"),)


def product_snippets(a: Tensor | None, b: Tensor | None) -> tuple[Snippet, ...]:
    """Return how to lay operands of a product out in torch; None for one that stays. B is (N, K), as a weight is."""
    lines, names = [], []
    for name, tensor in (("a", a), ("b", b)):
        names.append(name if tensor is None else f"{name}_laid_out")
        lines += [] if tensor is None else torch_copy(tensor, names[-1], name).splitlines()
    text = "\n".join([*lines, f"c = {names[0]} @ {names[1]}.t()"])
    return (Snippet("torch", text),) if all(one is None or in_torch(one) for one in (a, b)) else ()


def matmul_snippets(*, constant_b: bool, scaled: bool) -> tuple[Snippet, ...]:
    """Return the call of ours that mends operands by itself; b is (N, K), as a weight is."""
    call = "scaled_mm(a, b.t(), scale_a, scale_b" if scaled else "matmul(a, b.t()"
    constant = ", constant_b=True" if constant_b else ""
    return (Snippet("legalsat", f"import legalsat.torch\n\nc = legalsat.torch.{call}{constant})"),)
