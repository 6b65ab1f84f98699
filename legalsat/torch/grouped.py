"""Products of groups of rows of torch tensors: `legalsat.torch.grouped_mm(a, b, offs)`, `legalsat::grouped_mm`."""

from __future__ import annotations

from typing import Any

import torch

from legalsat import torch as ours
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators.grouped import GroupedGemm
from legalsat.runtime.planned import kernel_for
from legalsat.tensor import Tensor
from legalsat.torch import GRANULE, Way

SCHEMA = "(Tensor a, Tensor b, Tensor offs, bool constant_b) -> Tensor"


def grouped_mm(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, *, constant_b: bool = False) -> torch.Tensor:
    """Return a[r] b[g] for every row r, where g is the group of the row, as torch's grouped_mm does.

    Args:
        a: shape (T, K): rows, those of a group together. bfloat16 or float16, strides of any kind.
        b: shape (E, K, N): a matrix for each group, of a's type, strides of any kind, as transposed views of weights.
        offs: shape (E,), int32, on a's GPU: behind which row each group ends, in order; the first one begins at row 0.
            A group may be empty. The numbers are read on the GPU, so a CUDA graph may be replayed with others.
        constant_b: whether b is a weight, as of `matmul`.

    Returns:
        A new tensor of shape (T, N), of a's type. Rows behind the last end hold anything.

    Ends beyond T count as T, and an end in front of the one before as that one. What has no kernel is computed by
    torch, group by group where its own grouped product refuses it, and the log says why. Gradients flow to a and b.

    Raises:
        InvalidInput: shapes or types do not belong together.
    """
    if a.dim() != 2 or b.dim() != 3 or a.shape[1] != b.shape[1] or offs.shape != b.shape[:1]:
        said = f"operands have shapes {tuple(a.shape)}, {tuple(b.shape)} and {tuple(offs.shape)}"
        raise InvalidInput(f"{said}; give (T, K), (E, K, N) and (E,)")
    if offs.dtype != torch.int32 or a.dtype != b.dtype:
        raise InvalidInput(f"operands are of {a.dtype}, {b.dtype} and {offs.dtype}; give one type, and int32 ends")
    found: torch.Tensor = torch.ops.legalsat.grouped_mm(a, b, offs, constant_b)
    return found


def grouped_way(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, *, constant_b: bool = False) -> Way:
    """Return how `grouped_mm` computes a product; makes its kernel if that was not done yet."""
    key = ("grouped", *ours._class_of(a, b, constant_b), offs.stride(), offs.data_ptr() % 4)
    return ours._remembered(key, lambda: _planned(a, b, offs, constant_b), a, b)


def grouped_of(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False) -> GroupedGemm:
    """Return the operator of operands of torch, b (E, K, N) here being (E, N, K) there."""
    element, b = as_dtype(a.dtype), b.mT
    first = Tensor(a.shape, element, a.stride(), GRANULE, a.data_ptr() % GRANULE)
    second = Tensor(b.shape, element, b.stride(), GRANULE, b.data_ptr() % GRANULE)
    groups, n, k = b.shape
    return GroupedGemm(a.shape[0], n, k, element, groups=groups, a=first, b=second, constant_b=constant_b)


def _planned(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool) -> Way:
    fallback = "torch, group by group or by its grouped product"
    reason = ours._unsuitable(a, b[0]) if a.numel() and b.numel() else "there is nothing to multiply"
    if not reason and (offs.device != a.device or offs.stride() != (1,)):
        reason = f"ends are on {offs.device} in strides {offs.stride()}; give them side by side on {a.device}"
    if reason:
        return Way(None, reason, fallback)
    try:
        operator = grouped_of(a, b, constant_b=constant_b)
        return Way(*kernel_for(operator, ours._target(a), a.get_device()), fallback)
    except LegalSatError as error:
        return Way(None, str(error), fallback)


def _compute(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool) -> torch.Tensor:
    found = grouped_way(a, b, offs, constant_b=constant_b)
    if found.kernel is None:
        return _by_torch(a, b, offs)
    product: torch.Tensor = found.kernel.run(torch, (a, b, offs))
    return product


def _by_torch(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Return the product, one group after the other, which any operands allow."""
    product, row = a.new_zeros((a.shape[0], b.shape[2])), 0
    for matrix, end in zip(b, offs.tolist(), strict=True):
        last = max(row, min(end, a.shape[0]))
        product[row:last] = a[row:last] @ matrix
        row = last
    return product


def _shape(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, constant_b: bool) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[2]))


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, offs, _ = inputs
    ctx.save_for_backward(a, b, offs)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
    a, b, offs = ctx.saved_tensors
    gradient = gradient.contiguous()  # that of a sum repeats one element
    needs_a, needs_b, _, _ = ctx.needs_input_grad
    of_a = torch.ops.legalsat.grouped_mm(gradient, b.mT, offs, False) if needs_a else None
    if of_a is not None:  # rows of no group have no gradient
        rows = torch.arange(len(of_a), device=of_a.device)
        of_a = torch.where((rows < offs.max())[:, None], of_a, torch.zeros_like(of_a))
    return of_a, _weights(a, gradient, offs) if needs_b else None, None, None


def _weights(a: torch.Tensor, gradient: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Return the gradient of every group's matrix: products along the rows of a group."""
    found, row = a.new_zeros((len(offs), a.shape[1], gradient.shape[1])), 0
    for number, end in enumerate(offs.tolist()):
        last = max(row, min(end, a.shape[0]))
        if last > row:
            found[number] = ours.matmul(a[row:last].mT, gradient[row:last])
        row = last
    return found


torch.library.define("legalsat::grouped_mm", SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
torch.library.impl("legalsat::grouped_mm", "default", _compute)
torch.library.register_fake("legalsat::grouped_mm", _shape)
torch.library.register_autograd("legalsat::grouped_mm", _gradients, setup_context=_keep_operands)
