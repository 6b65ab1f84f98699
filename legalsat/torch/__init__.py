"""Products of torch tensors by planned kernels: `legalsat.torch.matmul(a, b)`, and the operator `legalsat::matmul`.

    import legalsat.torch
    c = legalsat.torch.matmul(a, b)            # a (..., K), b (K, N), any strides: x @ w.t() is matmul(x, w.t())
    c = legalsat.torch.bmm(a, b)               # a (B, M, K), b (B, K, N); matmul takes batches of any rank
    c = legalsat.torch.grouped_mm(a, b, offs)  # a (T, K), b (E, K, N), groups of rows end at offs, i32 on the GPU
    print(legalsat.torch.way(a, b))            # which kernel that is, or why torch's is used
    with legalsat.torch.record() as shapes:    # what a model computes, for a sweep
        model(x)

A kernel is made when a class of operands is first seen (seconds; then it is on disk): extents, strides, element type,
the 16 bytes within which each address lies, the GPU. The first backend makes it whose compiler is there. Autograd,
autocast, torch.compile and CUDA graphs work as with torch.matmul. Where there is no kernel, torch.matmul computes it;
`way` says why, and so does the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad

from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.options import Scaling
from legalsat.runtime.cache import Cache
from legalsat.runtime.choice import MOST_SETS, ROTATED_BYTES, Timed, candidates, keep, measured
from legalsat.runtime.planned import target_of
from legalsat.runtime.ways import Asked, Way, Ways
from legalsat.targets import Target
from legalsat.tensor import Tensor
from legalsat.torch.record import Recording, record

__all__ = [
    "Recording",
    "Timed",
    "Way",
    "bmm",
    "compile_behind",
    "forget",
    "grouped_mm",
    "matmul",
    "product_of",
    "record",
    "scaled_grouped_mm",
    "scaled_mm",
    "tune",
    "wait",
    "way",
]
GRANULE = 16  # bytes; to multiples of more, no plan cares where an operand lies
SCHEMA = "(Tensor a, Tensor b, bool constant_b) -> Tensor"
SCALED_SCHEMA = (
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, *, ScalarType out_dtype, bool constant_b) -> Tensor"
)
_HALF = (torch.bfloat16, torch.float16)
_EIGHT = (torch.float8_e4m3fn, torch.float8_e5m2)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


_ways = Ways()


def matmul(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False) -> torch.Tensor:
    """Return the product a b.

    Args:
        a: shape (..., M, K), strides of any kind.
        b: shape (K, N) or (..., K, N), strides of any kind, as a weight's transposed view. Axes in front of the last
            two are a batch, and are broadcast as torch does it.
        constant_b: whether b is a weight: where its layout is illegal it is then laid out anew once, and again after a
            change in place (not through `.data`, which torch does not count), and that copy is kept as long as b lives.

    Returns:
        A new tensor of shape (..., M, N): of a's type, or bfloat16 for operands of 8 bits. fp32 goes by tf32, and only
        where torch allows it, as by torch.set_float32_matmul_precision("high").

    Operands of other ranks, empty ones, sparse ones, those on the CPU and those without a plan go to torch.matmul; see
    `way`. So does everything in torch.func's transforms and in forward-mode differentiation.
    """
    if not torch.compiler.is_compiling():
        if _undisturbed(a, b):
            found = _ways.found.get(_class_of(a, b, constant_b))
            if found is not None and found.kernel is not None:
                product: torch.Tensor = found.kernel.run(torch, (a, b))
                return product
        if _transformed():
            return _by_torch(a, b)
    if torch.is_autocast_enabled("cuda") and a.is_cuda and b.is_cuda:
        kind = torch.get_autocast_dtype("cuda")
        a, b = (x.to(kind) if x.dtype in (torch.float32, *_HALF) else x for x in (a, b))
    if b.dim() < 2 or a.dim() < 2 or a.dtype != b.dtype or not a.layout == b.layout == torch.strided:
        return _by_torch(a, b)
    return _by_ours(a, b, constant_b)


def _by_ours(a: torch.Tensor, b: torch.Tensor, constant_b: bool) -> torch.Tensor:
    """Return the product of matrices of one type, with any axes in front."""
    ours = torch.ops.legalsat.matmul
    product: torch.Tensor
    if b.dim() > 2:
        try:
            batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except RuntimeError:
            return _by_torch(a, b)  # which says what does not fit
        product = ours(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]), constant_b)
    elif a.dim() > 2:
        product = ours(a.flatten(0, -2), b, constant_b).unflatten(0, a.shape[:-1])
    else:
        product = ours(a, b, constant_b)
    return product


def bmm(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False) -> torch.Tensor:
    """Return the products a[i] b[i], as torch.bmm does.

    Args:
        a: shape (B, M, K), strides of any kind.
        b: shape (B, K, N), strides of any kind.
        constant_b: as of `matmul`.

    Raises:
        InvalidInput: a tensor has another rank, or the batches differ.
    """
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0]:
        raise InvalidInput(f"operands have shapes {tuple(a.shape)} and {tuple(b.shape)}; give (B, M, K) and (B, K, N)")
    return matmul(a, b, constant_b=constant_b)


def way(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False) -> Way:
    """Return how `matmul` computes a product of matrices, or a batch; makes its kernel if that was not done yet.

    After `compile_behind` the kernel is being made, and the way is what serves meanwhile.
    """
    a, b = a.resolve_neg(), b.resolve_neg()  # as they reach the operator
    return _remembered(_class_of(a, b, constant_b), lambda: _asked(a, b, constant_b), a, b)


def _remembered(key: tuple[Any, ...], ask: Callable[[], Way | Asked], a: torch.Tensor, b: torch.Tensor) -> Way:
    """Return the way of a class of operands, asked for when it is first seen."""
    return _ways.of(key, ask, f"{tuple(a.shape)} x {tuple(b.shape)}")


def compile_behind(on: bool = True) -> None:
    """Let calls not wait for compilers from now on: kernels of classes that are new are made in threads behind.

    Meanwhile a kernel of the product serves whose image is there, of a pack or compiled for another product; until one
    is found, and where there is none, torch does. So results of one class may come of up to three kernels, whose sums
    of fp32 are rounded alike but in another order. A CUDA graph keeps the kernels that served when it was captured.

    Args:
        on: whether; calls wait again where it is False.
    """
    _ways.compile_behind(on)


def wait(seconds: float | None = None) -> bool:
    """Wait until all kernels are there that are made behind; return whether they are.

    Args:
        seconds: to wait at most; as long as it takes when left out.
    """
    return _ways.wait(seconds)


def tune(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False) -> list[Timed]:
    """Time the most promising kernels of a product on its GPU; `matmul` takes the winner from then on, on disk too.

    They run as in a model: back to back, in CUDA graphs, on copies of the operands that L2 does not hold, in turns.
    The kernel that is predicted to be the fastest, which runs where nobody tunes, stays the winner unless another one
    takes 0.99 of its time or less.

    Args:
        a: shape (..., M, K).
        b: shape (..., K, N), with the axes in front that a has.
        constant_b: as of `matmul`.

    Returns:
        At most 16 kernels with their times in microseconds, the winner first, then those that were timed more often.

    Raises:
        LegalSatError: the operands suit no kernel, or none can be built.
    """
    if reason := _unsuitable(a, b):
        raise LegalSatError(f"nothing can be timed: {reason}")
    product, target, cache = product_of(a, b, constant_b=constant_b), _target(a), Cache.default()
    with torch.cuda.device(a.device):
        found = measured(candidates(product, target), _sets_of(a, b), torch, cache)
    keep(product, target, cache, found)
    _ways.drop(_class_of(a, b, constant_b))
    return found


def _sets_of(a: torch.Tensor, b: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Return operands as a kernel takes them, each set with a result, as many sets as L2 does not hold.

    Copies lie as the operands do: in their strides, at their place within 16 bytes.
    """
    shape, kind = (*a.shape[:-1], b.shape[-1]), _result_type(a.dtype)
    size = sum(one.numel() * one.element_size() for one in (a, b)) + math.prod(shape) * kind.itemsize
    count = min(MOST_SETS, 1 + ROTATED_BYTES // size)
    pairs = [(a, b), *((_copy_of(a), _copy_of(b)) for _ in range(count - 1))]
    return [(one, other.mT, torch.empty(shape, dtype=kind, device=a.device)) for one, other in pairs]


def _copy_of(one: torch.Tensor) -> torch.Tensor:
    late = one.data_ptr() % GRANULE // one.element_size()
    last = sum((n - 1) * step for n, step in zip(one.shape, one.stride(), strict=True))
    memory = torch.empty(late + last + 1, dtype=one.dtype, device=one.device)
    memory[late:].copy_(one.as_strided((last + 1,), (1,)))  # what lies between rows too, since some may lie in others
    return memory.as_strided(one.shape, one.stride(), late)


def forget() -> None:
    """Forget all kernels in memory, and what they made of weights, which no CUDA graph may use any more."""
    _ways.clear()


def _undisturbed(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a kernel may run without torch's dispatcher: matrices on a GPU, as many of both, and nobody looks on.

    Those who look on are autograd, autocast, subclasses, modes and transforms.
    """
    if type(a) not in _PLAIN or type(b) not in _PLAIN or not a.is_cuda or a.dim() < 2 or a.shape[:-2] != b.shape[:-2]:
        return False
    if not a.layout == b.layout == torch.strided:  # others have no strides
        return False
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return False
    return not (_watched() or a.is_neg() or b.is_neg())


def _watched() -> bool:
    """Whether a mode, a transform or autocast wants to see every operator."""
    hidden = torch._C
    return bool(
        hidden._len_torch_dispatch_stack()
        or hidden._len_torch_function_stack()
        or _transformed()
        or torch.is_autocast_enabled("cuda")
    )


def _transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work, for which the operator has no rules."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def _class_of(a: torch.Tensor, b: torch.Tensor, constant_b: bool) -> tuple[Any, ...]:
    """Return what a plan depends on."""
    return (
        a.shape,
        a.stride(),
        a.dtype,
        a.data_ptr() % GRANULE,
        b.shape,
        b.stride(),
        b.dtype,
        b.data_ptr() % GRANULE,
        a.get_device(),
        b.get_device(),
        constant_b,
        a.dtype is torch.float32 and _tf32_allowed(),
    )


def _tf32_allowed() -> bool:
    """Whether torch lets products of fp32 go by tf32; until 2.9 it said so in another place."""
    said = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    return bool(torch.get_float32_matmul_precision() != "highest" if said is None else said == "tf32")


def _asked(
    a: torch.Tensor,
    b: torch.Tensor,
    constant_b: bool,
    reason: str = "",
    fallback: str = "torch.matmul",
    **more: Any,
) -> Way | Asked:
    """Return the product that a kernel is wanted for, `more` being arguments of its `Gemm`; torch's way if none is."""
    reason = _unsuitable(a, b) or reason
    if reason:
        return Way(None, reason, fallback)
    try:
        return Asked(product_of(a, b, constant_b=constant_b, **more), _target(a), a.get_device(), fallback)
    except LegalSatError as error:
        return Way(None, str(error), fallback)


def _target(one: torch.Tensor) -> Target:
    index = one.get_device()
    return target_of(torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index))


def _unsuitable(a: torch.Tensor, b: torch.Tensor) -> str:
    """Return why two operands are not planned for at all, "" if they may be."""
    return next(_objections(a, b), "")


def _objections(a: torch.Tensor, b: torch.Tensor) -> Iterator[str]:
    """Yield what speaks against planning; what comes later takes it that nothing came before."""
    if a.dim() < 2 or a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2]:
        yield f"operands have shapes {tuple(a.shape)} and {tuple(b.shape)}; give matrices, or batches that agree"
    if not a.is_cuda or a.device != b.device:
        yield f"operands are on {a.device} and {b.device}; move both to one GPU"
    if torch.version.hip:
        yield "torch is built for ROCm, and kernels run on NVIDIA GPUs alone"
    if a.dtype != b.dtype or a.dtype not in (torch.float32, *_HALF, *_EIGHT):
        yield f"operands are of {a.dtype} and {b.dtype}; cast both to bfloat16, float16 or float8"
    if a.dtype is torch.float32 and not _tf32_allowed():
        yield 'fp32 would go by tf32; allow that with torch.set_float32_matmul_precision("high")'
    if a.shape[-1] != b.shape[-2]:
        yield f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows; give as many"
    if not a.numel() or not b.numel():
        yield f"operands have shapes {tuple(a.shape)} and {tuple(b.shape)}, which leave nothing to multiply"
    for name, one in (("a", a), ("b", b)):
        if any(n > 1 and s == 0 for n, s in zip(one.shape[-2:], one.stride()[-2:], strict=True)):
            yield f"{name} repeats elements; copy it, with contiguous()"


def product_of(a: torch.Tensor, b: torch.Tensor, *, constant_b: bool = False, **more: Any) -> Gemm:
    """Return the product of two matrices as what is planned, b (K, N) here being (N, K) there; `more` is of `Gemm`.

    Axes in front of the two are a batch.
    """
    element, b = as_dtype(a.dtype), b.mT
    *batch, m, k = a.shape
    first = Tensor(a.shape, element, a.stride(), GRANULE, a.data_ptr() % GRANULE)
    second = Tensor(b.shape, element, b.stride(), GRANULE, b.data_ptr() % GRANULE)
    return Gemm(m, b.shape[-2], k, element, a=first, b=second, constant_b=constant_b, batch=tuple(batch), **more)


def _result_type(kind: torch.dtype) -> torch.dtype:
    return torch.bfloat16 if kind in _EIGHT else kind


def _compute(a: torch.Tensor, b: torch.Tensor, constant_b: bool) -> torch.Tensor:
    found = way(a, b, constant_b=constant_b)
    if found.kernel is None:
        return _by_torch(a, b)
    product: torch.Tensor = found.kernel.run(torch, (a, b))
    return product


def _by_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return torch.matmul's product, which has no other type than our kernels' where operands have 8 bits."""
    if a.dtype == b.dtype and a.dtype in _EIGHT:
        a, b = (x.to(_result_type(x.dtype)) for x in (a, b))
    return torch.matmul(a, b)


def _shape(a: torch.Tensor, b: torch.Tensor, constant_b: bool) -> torch.Tensor:
    alike = a.dim() >= 2 and a.shape[:-2] == b.shape[:-2]
    torch._check(alike, lambda: "legalsat::matmul takes matrices, or batches of one shape")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows")
    torch._check(a.dtype == b.dtype, lambda: f"a is of {a.dtype} and b of {b.dtype}")
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=_result_type(a.dtype))


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, _ = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    gradient = gradient.contiguous()  # that of a sum repeats one element
    a, b = (x.to(gradient.dtype) for x in ctx.saved_tensors)  # operands of 8 bits have wider products
    ours = torch.ops.legalsat.matmul
    needs_a, needs_b, _ = ctx.needs_input_grad
    return ours(gradient, b.mT, False) if needs_a else None, ours(a.mT, gradient, False) if needs_b else None, None


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    constant_b: bool = False,
) -> torch.Tensor:
    """Return a b times scale_a scale_b, as torch._scaled_mm does with use_fast_accum=True.

    Args:
        a: shape (M, K), of float8_e4m3fn or float8_e5m2, strides of any kind.
        b: shape (K, N), of a's type, strides of any kind, as a weight's transposed view.
        scale_a: one element of float32 that belongs to a as a whole, on its GPU, or one for each row, side by side.
        scale_b: the same for b, and its columns.
        out_dtype: bfloat16, float16 or float32.
        constant_b: as of `matmul`.

    Returns:
        A new tensor of shape (M, N).

    What has no kernel goes to torch._scaled_mm, and the log says why. There are no gradients.
    """
    run = torch.ops.legalsat.scaled_mm
    if not torch.compiler.is_compiling() and _undisturbed(a, b):
        plain = all(type(one) in _PLAIN and not one.is_neg() for one in (scale_a, scale_b))
        run = _compute_scaled if plain else run
    found: torch.Tensor = run(a, b, scale_a, scale_b, out_dtype=out_dtype, constant_b=constant_b)
    return found


def _asked_scaled(
    a: torch.Tensor, b: torch.Tensor, scales: tuple[torch.Tensor, ...], out_dtype: torch.dtype, constant_b: bool
) -> Way | Asked:
    reason, counts = "", tuple(one.numel() for one in scales)
    scaled: Scaling = "tensor" if counts == (1, 1) else "rows"
    known = scaled == "tensor" or counts == (a.shape[0], b.shape[1])
    if not known or any(one.dtype != torch.float32 or not one.is_contiguous() for one in scales):
        reason = f"scales are {counts} elements; give one of float32 for each operand, or for each row and column"
    elif any(one.device != a.device for one in scales):
        reason = f"scales are on {scales[0].device} and {scales[1].device}; move both to {a.device}"
    return _asked(a, b, constant_b, reason, "torch._scaled_mm", out_dtype=out_dtype, scaled=scaled)


def _compute_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: torch.dtype,
    constant_b: bool,
) -> torch.Tensor:
    scales = scale_a, scale_b
    kinds = ((one.dtype, one.numel(), one.is_contiguous(), one.get_device()) for one in scales)
    key = (*_class_of(a, b, constant_b), out_dtype, *kinds)
    found = _remembered(key, lambda: _asked_scaled(a, b, scales, out_dtype, constant_b), a, b)
    product: torch.Tensor
    if found.kernel is not None:
        product = found.kernel.run(torch, (a, b, *scales))
        return product
    try:
        product = torch._scaled_mm(a, b, *scales, out_dtype=out_dtype, use_fast_accum=True)
    except RuntimeError as error:
        raise LegalSatError(
            f"torch._scaled_mm refuses these operands, and no kernel is there: {found.reason}; cute alone scales"
        ) from error
    return product


def _scaled_shape(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: torch.dtype,
    constant_b: bool,
) -> torch.Tensor:
    return _shape(a, b, constant_b).to(out_dtype)


torch.library.define("legalsat::scaled_mm", SCALED_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
torch.library.impl("legalsat::scaled_mm", "default", _compute_scaled)
torch.library.register_fake("legalsat::scaled_mm", _scaled_shape)

torch.library.define("legalsat::matmul", SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
torch.library.impl("legalsat::matmul", "default", _compute)  # on any device
torch.library.register_fake("legalsat::matmul", _shape)
torch.library.register_autograd("legalsat::matmul", _gradients, setup_context=_keep_operands)

from legalsat.torch.grouped import grouped_mm, scaled_grouped_mm  # noqa: E402 - it needs what is above
