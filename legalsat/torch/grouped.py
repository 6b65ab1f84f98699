"""Products of groups of torch tensors, of rows or along k: `legalsat.torch.grouped_mm`, `legalsat::grouped_mm`."""

from __future__ import annotations

from typing import Any

import torch

from legalsat import torch as ours
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators.grouped import GroupedGemm, require_ends
from legalsat.options import Scaling
from legalsat.runtime.ways import Asked
from legalsat.tensor import Tensor
from legalsat.torch import GRANULE, Way

SCHEMA = "(Tensor a, Tensor b, Tensor offs, bool constant_b) -> Tensor"
SCALED_SCHEMA = (
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor offs, *, ScalarType out_dtype, bool constant_b) "
    "-> Tensor"
)


def grouped_mm(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None = None, *, constant_b: bool = False
) -> torch.Tensor:
    """Return products of groups, as torch's grouped_mm does; the ranks of a and b say of what.

    | a         | b         | groups of    | result    |                                     |
    |-----------|-----------|--------------|-----------|-------------------------------------|
    | (T, K)    | (E, K, N) | rows of a    | (T, N)    | a[r] b[g], g the group of row r     |
    | (M, T)    | (T, N)    | T            | (E, M, N) | a[:, g] b[g], as weights' gradients |
    | (E, M, K) | (K, T)    | columns of b | (M, T)    | a[g] b[:, c], g the group of c      |
    | (E, M, K) | (E, K, N) | none         | (E, M, N) | a[i] b[i], without offs             |

    Args:
        a: bfloat16 or float16, with strides of any kind.
        b: of a's type, with strides of any kind, as transposed views of weights.
        offs: shape (E,), int32: behind which of T each group ends, in order; the first one begins at 0. A group may be
            empty. On a's GPU the numbers are read there, so a CUDA graph may be replayed with others; on the host they
            are checked, and copied.
        constant_b: whether the operand of three axes is a weight, as b of `matmul`.

    Returns:
        A new tensor of a's type. Rows and columns behind the last end hold anything; products of no T are 0.

    On the GPU ends beyond T count as T, and an end in front of the one before as that one. What has no kernel is
    computed group by group, which waits for the host, and the log says why. Gradients flow to a and b.

    Raises:
        InvalidInput: shapes or types do not belong together, or ends on the host decrease or lie beyond T.
    """
    ranks = (a.dim(), b.dim())
    if ranks == (3, 3) and offs is None:
        return ours.bmm(a, b, constant_b=constant_b)
    said = f"operands have shapes {tuple(a.shape)}, {tuple(b.shape)} and {None if offs is None else tuple(offs.shape)}"
    if offs is None or ranks not in {(2, 3), (2, 2), (3, 2)} or offs.dim() != 1:
        raise InvalidInput(f"{said}; give (T, K), (E, K, N) and (E,), or what else the documentation lists")
    experts = {(2, 3): b, (3, 2): a}.get(ranks)
    if a.shape[-1] != b.shape[-2] or (experts is not None and len(experts) != len(offs)):
        raise InvalidInput(f"{said}; columns of a are as many as rows of b, and ends as many as matrices")
    if offs.dtype != torch.int32 or a.dtype != b.dtype:
        raise InvalidInput(f"operands are of {a.dtype}, {b.dtype} and {offs.dtype}; give one type, and int32 ends")
    if ranks == (3, 2):
        a, b = b.mT, a.mT
    found: torch.Tensor = torch.ops.legalsat.grouped_mm(a, b, offs, constant_b)
    return found.mT if ranks == (3, 2) else found


def scaled_grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    offs: torch.Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    constant_b: bool = False,
) -> torch.Tensor:
    """Return a[r] b[g] times the scales of r and of g, for every row r of group g, as torch's _scaled_grouped_mm does.

    Args:
        a: shape (T, K), of float8_e4m3fn or float8_e5m2, strides of any kind: rows, those of a group together.
        b: shape (E, K, N), of a's type, strides of any kind, as transposed views of weights.
        scale_a: float32, on a's GPU: of shape (T,) a scale for each row, (E,) for each group's rows, () for all.
        scale_b: float32: of shape (E, N) a scale for each column of each matrix, (E,) for each matrix, () for all; of
            the same kind as scale_a.
        offs: as of `grouped_mm`.
        out_dtype: bfloat16, float16 or float32.
        constant_b: whether b is a weight, as of `matmul`.

    Returns:
        A new tensor of shape (T, N). Rows behind the last end hold anything.

    What has no kernel is computed group by group, and the log says why. There are no gradients.

    Raises:
        InvalidInput: shapes or types do not belong together.
    """
    said = ", ".join(str(tuple(one.shape)) for one in (a, b, scale_a, scale_b, offs))
    if (a.dim(), b.dim()) != (2, 3) or a.shape[1] != b.shape[1] or offs.shape != b.shape[:1]:
        raise InvalidInput(f"operands have shapes {said}; give (T, K), (E, K, N), scales, and (E,)")
    if _scaling_of(a, b, scale_a, scale_b) is None:
        raise InvalidInput(f"operands have shapes {said}; give scales (T,) and (E, N), or (E,) and (E,), or () and ()")
    kinds = {scale_a.dtype, scale_b.dtype}
    if offs.dtype != torch.int32 or a.dtype != b.dtype or a.dtype not in ours._EIGHT or kinds != {torch.float32}:
        raise InvalidInput(f"operands are of {a.dtype}, {b.dtype} and {offs.dtype}; give float8, float32 and int32")
    run = torch.ops.legalsat.scaled_grouped_mm
    found: torch.Tensor = run(a, b, scale_a, scale_b, offs, out_dtype=out_dtype, constant_b=constant_b)
    return found


def _scaling_of(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> Scaling | None:
    """Return what scales belong to; None where their shapes do not say so."""
    shapes = tuple(scale_a.shape), tuple(scale_b.shape)
    rows, (groups, columns) = a.shape[0], (b.shape[0], b.shape[2])
    if scale_a.numel() == scale_b.numel() == 1 and max(scale_a.dim(), scale_b.dim()) < 2:
        return "tensor"
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Scaling] = {
        ((rows,), (groups, columns)): "rows",
        ((groups,), (groups,)): "groups",
    }
    return known.get(shapes)


def grouped_way(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, *, constant_b: bool = False) -> Way:
    """Return how `grouped_mm` computes products of operands of two axes, or of two and three; makes their kernel."""
    key = ("grouped", *ours._class_of(a, b, constant_b), offs.stride(), offs.data_ptr() % 4)
    return ours._remembered(key, lambda: _asked(a, b, offs, constant_b), a, b)


def grouped_of(
    a: torch.Tensor, b: torch.Tensor, groups: int, *, constant_b: bool = False, **options: Any
) -> GroupedGemm:
    """Return the operator of operands of torch, b (E, K, N) or (K, N) here being (E, N, K) or (N, K) there."""
    element, b = as_dtype(a.dtype), b.mT
    first = Tensor(a.shape, element, a.stride(), GRANULE, a.data_ptr() % GRANULE)
    second = Tensor(b.shape, element, b.stride(), GRANULE, b.data_ptr() % GRANULE)
    n, k = b.shape[-2:]
    more: dict[str, Any] = {"along": "m" if b.dim() == 3 else "k", "constant_b": constant_b and b.dim() == 3, **options}
    return GroupedGemm(a.shape[0], n, k, element, groups=groups, a=first, b=second, **more)


def _asked(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool, **options: Any) -> Way | Asked:
    fallback = "torch, group by group"
    reason = (
        ours._unsuitable(a, b[0] if b.dim() == 3 else b) if a.numel() and b.numel() else "there is nothing to multiply"
    )
    if not reason and (offs.device != a.device or offs.stride() != (1,)):
        reason = f"ends are on {offs.device} in strides {offs.stride()}; give them side by side on {a.device}"
    if reason:
        return Way(None, reason, fallback)
    try:
        operator = grouped_of(a, b, len(offs), constant_b=constant_b, **options)
        return Asked(operator, ours._target(a), a.get_device(), fallback)
    except LegalSatError as error:
        return Way(None, str(error), fallback)


def _at_hand(offs: torch.Tensor, a: torch.Tensor, extent: int) -> torch.Tensor:
    """Return the ends where operands are, checked where the host knows them."""
    if offs.device.type == "cpu":
        require_ends(offs.tolist(), extent)
    return offs.to(a.device)


def _compute(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool) -> torch.Tensor:
    offs = _at_hand(offs, a, a.shape[0 if b.dim() == 3 else 1])
    found = grouped_way(a, b, offs, constant_b=constant_b)
    if found.kernel is None:
        return _by_torch(a, b, offs)
    product: torch.Tensor = found.kernel.run(torch, (a, b, offs))
    return product


def _by_torch(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Return the product, one group after the other, which any operands allow."""
    product, begin = a.new_zeros(_shape_of(a, b, offs)), 0
    for group, end in enumerate(offs.tolist()):
        last = max(begin, min(end, a.shape[0] if b.dim() == 3 else a.shape[1]))
        if b.dim() == 3:
            product[begin:last] = a[begin:last] @ b[group]
        else:
            product[group] = ours.matmul(a[:, begin:last], b[begin:last])
        begin = last
    return product


def _compute_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    offs: torch.Tensor,
    *,
    out_dtype: torch.dtype,
    constant_b: bool,
) -> torch.Tensor:
    offs = _at_hand(offs, a, a.shape[0])
    scales = tuple(one.contiguous() for one in (scale_a, scale_b))
    scaling = _scaling_of(a, b, *scales)
    near = all(one.get_device() == a.get_device() for one in scales)
    key = (
        "scaled groups",
        *ours._class_of(a, b, constant_b),
        offs.stride(),
        offs.data_ptr() % 4,
        scaling,
        out_dtype,
        near,
    )
    options = {"scaled": scaling, "out_dtype": as_dtype(out_dtype)}
    found = ours._remembered(key, lambda: _asked(a, b, offs, constant_b, **options), a, b)
    product: torch.Tensor
    if found.kernel is not None and near:
        product = found.kernel.run(torch, (a, b, *scales, offs))
        return product
    product, begin = a.new_zeros((a.shape[0], b.shape[2]), dtype=out_dtype), 0
    of_a, of_b = (one.expand(len(offs)) if one.numel() == 1 else one for one in scales)
    for group, end in enumerate(offs.tolist()):
        own = slice(begin, max(begin, min(end, a.shape[0])))
        scale = of_a[own, None] * of_b[group] if scaling == "rows" else of_a[group] * of_b[group]
        product[own] = ((a[own].float() @ b[group].float()) * scale).to(out_dtype)
        begin = own.stop
    return product


def _scaled_shape(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    offs: torch.Tensor,
    *,
    out_dtype: torch.dtype,
    constant_b: bool,
) -> torch.Tensor:
    return a.new_empty(_shape_of(a, b, offs), dtype=out_dtype)


def _shape_of(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> tuple[int, ...]:
    return (a.shape[0], b.shape[2]) if b.dim() == 3 else (len(offs), a.shape[0], b.shape[1])


def _shape(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool) -> torch.Tensor:
    return a.new_empty(_shape_of(a, b, offs))


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, offs, _ = inputs
    ctx.save_for_backward(a, b, offs)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
    a, b, offs = ctx.saved_tensors
    gradient = gradient.contiguous()  # that of a sum repeats one element
    product = torch.ops.legalsat.grouped_mm
    needs_a, needs_b, _, _ = ctx.needs_input_grad
    of_a = of_b = None
    if b.dim() == 3:
        of_a = _of_groups(product(gradient, b.mT, offs, False), offs) if needs_a else None
        of_b = product(a.mT, gradient, offs, False) if needs_b else None
    else:
        of_a = _of_groups(product(b, gradient.mT, offs, False), offs).mT if needs_a else None
        of_b = _of_groups(product(a.mT, gradient, offs, False), offs) if needs_b else None
    return of_a, of_b, None, None


def _of_groups(found: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Return rows of groups, and zeros in rows of none."""
    rows = torch.arange(len(found), device=found.device)
    return torch.where((rows < offs.max())[:, None], found, torch.zeros_like(found))


torch.library.define("legalsat::grouped_mm", SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
torch.library.impl("legalsat::grouped_mm", "default", _compute)
torch.library.register_fake("legalsat::grouped_mm", _shape)
torch.library.register_autograd("legalsat::grouped_mm", _gradients, setup_context=_keep_operands)
torch.library.define("legalsat::scaled_grouped_mm", SCALED_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
torch.library.impl("legalsat::scaled_grouped_mm", "default", _compute_scaled)
torch.library.register_fake("legalsat::scaled_grouped_mm", _scaled_shape)
